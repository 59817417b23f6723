//! A sealed row under a fresh idempotency key: the key that its body names is replaced, every other byte stays, and the
//! whole is sealed again. That the row is past its horizon is for others to see to.

use std::mem;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use super::aad::{Aad, Binding};
use super::error::{EnvelopeFault, OpenError};
use super::key::Keyring;
use super::open::{MAX_BODY, OpenRules, Read, decrypt, read_plaintext};
use super::row::Row;
use super::seal::{NONCE_LEN, TAG_LEN, seal};

/// Where a body says its key.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    idempotency_key: &'a RawValue,
}

/// Where a legacy envelope holds its body.
#[derive(Deserialize)]
struct Wrapped<'a> {
    #[serde(borrow)]
    body: &'a RawValue,
}

/// Opens the row, puts `key` in the place of its idempotency key, and seals it under the envelope key that opened it: who
/// could open the row before can do so after. The nonce must be fresh. What opening refuses is refused here too.
pub(crate) fn renew(row: &mut Row, key: String, ring: &Keyring, nonce: [u8; NONCE_LEN]) -> Result<(), OpenError> {
    // Whether the daemon serves such rows is judged when it claims them.
    let rules = OpenRules { legacy_hmac: true };
    let (held, plaintext) = decrypt(row, ring)?;
    let mut renewed = match read_plaintext(&plaintext, row, rules)? {
        Read::Body(_) => rename(&plaintext, &key)?,
        Read::Legacy { body, .. } => {
            let body = Zeroizing::new(STANDARD.encode(&*rename(&body, &key)?));
            let wrapped: Wrapped<'_> = serde_json::from_slice(&plaintext).map_err(|_| fault("body"))?;
            replace(&plaintext, wrapped.body, &body)
        }
    };
    row.idempotency_key = key;
    read_plaintext(&renewed, row, rules)?;
    if renewed.len() > MAX_BODY.div_ceil(3) * 4 + (1 << 20) {
        return Err(OpenError::BodyTooLarge { bytes: renewed.len() });
    }
    let aad = Aad::delivery(&Binding::from(&*row));
    row.encrypted_body = seal(&aad, &ring.newest_first()[held], nonce, mem::take(&mut *renewed));
    row.envelope_nonce = nonce.to_vec();
    Ok(())
}

fn rename(body: &[u8], key: &str) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let named: Named<'_> = serde_json::from_slice(body).map_err(|_| fault("idempotency_key"))?;
    Ok(replace(body, named.idempotency_key, key))
}

fn fault(member: &'static str) -> OpenError {
    OpenError::Malformed(EnvelopeFault::Member { member })
}

/// The document with a string of plain characters in the place of one of its values.
fn replace(document: &[u8], value: &RawValue, text: &str) -> Zeroizing<Vec<u8>> {
    // What was borrowed from the document lies in it.
    let at = value.get().as_ptr() as usize - document.as_ptr() as usize;
    // With room for the tag: growing would leave a copy of the plaintext behind.
    let mut whole = Zeroizing::new(Vec::with_capacity(document.len() + text.len() + 2 + TAG_LEN));
    whole.extend_from_slice(&document[..at]);
    whole.push(b'"');
    whole.extend_from_slice(text.as_bytes());
    whole.push(b'"');
    whole.extend_from_slice(&document[at + value.get().len()..]);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Credentials, EnvelopeKey, open, seal_delivery};

    const FRESH: &str = "whk_00000000-0000-4000-8000-000000000000";

    fn ring(bytes: &[u8]) -> Keyring {
        Keyring::new(bytes.iter().map(|byte| EnvelopeKey::parse(&[*byte; 32]).unwrap()).collect()).unwrap()
    }

    fn row() -> Row {
        Row {
            account_id: "acc_1".into(),
            task_id: "task_1".into(),
            task_type: "create_media_buy".into(),
            terminal_status: "completed".into(),
            url: "https://buyer.example/hook".into(),
            operation_id: "op_1".into(),
            idempotency_key: "whk_original_key".into(),
            signing_scope_id: None,
            encrypted_body: Vec::new(),
            envelope_nonce: Vec::new(),
            attempt_count: 7,
            composed: None,
        }
    }

    /// With the key's text in other places, an escape in its name, odd spaces and an odd number.
    const BODY: &str = "{ \"x\" : \"whk_original_key\",\"idempotency\\u005fkey\"  :  \"whk_original_key\" ,\n\"operation_id\":\"op_1\",\
                        \"task_id\":\"task_1\",\"task_type\":\"create_media_buy\",\"status\":\"completed\",\
                        \"result\":{\"idempotency_key\":\"whk_original_key\",\"n\":1.50}}";

    fn sealed(authentication: Option<Credentials<'_>>, keys: &[u8]) -> Row {
        let mut row = row();
        let rules = OpenRules { legacy_hmac: true };
        let body = Zeroizing::new(BODY.as_bytes().to_vec());
        seal_delivery(&mut row, body, authentication, &ring(keys), [1; NONCE_LEN], rules).expect("it is sealed");
        row
    }

    #[test]
    fn the_key_alone_is_another_and_who_could_open_the_row_still_can() {
        let hmac = Credentials { scheme: "HMAC-SHA256", credentials: "0123456789abcdef0123456789abcdef" };
        for authentication in [None, Some(hmac)] {
            let mut row = sealed(authentication, &[1]);
            renew(&mut row, FRESH.into(), &ring(&[2, 1]), [9; NONCE_LEN]).expect("it opens");
            assert_eq!((row.idempotency_key.as_str(), row.envelope_nonce.as_slice()), (FRESH, &[9; NONCE_LEN][..]));
            let rules = OpenRules { legacy_hmac: true };
            let envelope = open(&mut row, &ring(&[1]), rules).expect("the key that opened it before opens it");
            let expected = BODY.replacen("  \"whk_original_key\"", &format!("  \"{FRESH}\""), 1);
            assert_eq!(envelope.body, expected.as_bytes());
            assert_eq!(envelope.authentication.is_some(), authentication.is_some());
        }
    }

    #[test]
    fn what_opening_refuses_is_not_renewed() {
        let mut row = sealed(None, &[1]);
        assert!(matches!(renew(&mut row, FRESH.into(), &ring(&[2]), [9; NONCE_LEN]), Err(OpenError::Unopenable)));
        let mut row = sealed(None, &[1]);
        row.operation_id = "op_2".into();
        assert!(renew(&mut row, FRESH.into(), &ring(&[1]), [9; NONCE_LEN]).is_err());
    }
}
