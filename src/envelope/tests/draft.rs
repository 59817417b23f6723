//! Sealing: the real writer's bytes where nonce and key are the same, and nothing that opening would refuse.

use zeroize::Zeroizing;

use super::*;
use crate::envelope::{Credentials, RegistrationDraft, seal_delivery, seal_registration};

fn pinned(vector: &Value) -> (Keyring, [u8; NONCE_LEN]) {
    (ring_of(&[hex(&vector["key_hex"]).try_into().unwrap()]), hex(&vector["nonce_hex"]).try_into().unwrap())
}

fn plaintext(vector: &Value) -> Vec<u8> {
    STANDARD.decode(vector["plaintext_b64"].as_str().unwrap()).unwrap()
}

fn credentials(plaintext: &Value) -> Option<Credentials<'_>> {
    let given = &plaintext["authentication"];
    Some(Credentials { scheme: given["scheme"].as_str()?, credentials: given["credentials"].as_str()? })
}

/// Its plaintext was given other members, another order and other spaces than the writer gives.
const OTHERWISE_SPELT: &str = "legacy-envelope-spaced-reordered-extra";

#[test]
fn a_delivery_is_sealed_to_the_bytes_of_the_reference() {
    let (mut same, mut otherwise) = (0, Vec::new());
    for vector in vectors("delivery") {
        let name = vector["name"].as_str().unwrap().to_owned();
        if vector["expect"] != "ok" || STRICTER.contains(&name.as_str()) {
            continue;
        }
        let (ring, nonce) = pinned(&vector);
        let body = STANDARD.decode(vector["delivered_body_b64"].as_str().unwrap()).unwrap();
        let legacy: Value = match vector["auth"].as_str() {
            Some("rfc9421") => Value::Null,
            _ => serde_json::from_slice(&plaintext(&vector)).unwrap(),
        };
        let mut row = row_of(&vector);
        (row.encrypted_body, row.envelope_nonce) = (Vec::new(), Vec::new());
        seal_delivery(&mut row, Zeroizing::new(body), credentials(&legacy), &ring, nonce, HMAC_ON)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        match row.encrypted_body == hex(&vector["ciphertext_hex"]) {
            true => same += 1,
            false => otherwise.push(name),
        }
    }
    assert_eq!((same, otherwise), (17, vec![OTHERWISE_SPELT.to_owned()]));
}

#[test]
fn a_body_of_exactly_10_mib_is_sealed_and_one_byte_more_is_not() {
    let vector = vectors("delivery").into_iter().find(|vector| vector["expect"] == "ok").unwrap();
    let body = STANDARD.decode(vector["delivered_body_b64"].as_str().unwrap()).unwrap();
    for (length, authentication) in [
        (MAX_BODY, None),
        (MAX_BODY, Some(Credentials { scheme: "Bearer", credentials: "b" })),
        (MAX_BODY + 1, None),
        (MAX_BODY + 1, Some(Credentials { scheme: "Bearer", credentials: "b" })),
    ] {
        let mut row = row_of(&vector);
        let padded = Zeroizing::new([body.as_slice(), &vec![b' '; length - body.len()]].concat());
        let sealed = seal_delivery(&mut row, padded, authentication, &ring_of(&[[1; 32]]), NONCE, HMAC_ON);
        match length {
            MAX_BODY => {
                sealed.unwrap();
                let envelope = open(&mut row, &ring_of(&[[1; 32]]), HMAC_ON).unwrap();
                assert_eq!(
                    (envelope.body.len(), envelope.authentication.is_some()),
                    (length, authentication.is_some())
                );
            }
            bytes => assert_eq!(sealed, Err(OpenError::BodyTooLarge { bytes })),
        }
    }
}

#[test]
fn a_registration_is_sealed_to_the_bytes_of_the_reference() {
    let (mut same, mut otherwise) = (0, Vec::new());
    for vector in vectors("registration") {
        if vector["expect"] != "ok" {
            continue;
        }
        let (ring, nonce) = pinned(&vector);
        let plaintext: Value = serde_json::from_slice(&plaintext(&vector)).unwrap();
        let column = |name: &str| vector["row"][name].as_str().unwrap();
        let draft = RegistrationDraft {
            url: plaintext["url"].as_str().unwrap(),
            operation_id: plaintext["operation_id"].as_str().unwrap(),
            token: plaintext["token"].as_str(),
            authentication: credentials(&plaintext),
            signing_scope_id: plaintext["signing_scope_id"].as_str(),
        };
        let columns = ["account_id", "task_id", "task_type"].map(column);
        let sealed = seal_registration(columns, &draft, &ring, nonce, HMAC_ON).unwrap();
        match sealed == hex(&vector["ciphertext_hex"]) {
            true => same += 1,
            false => otherwise.push(vector["name"].as_str().unwrap().to_owned()),
        }
    }
    assert_eq!((same, otherwise), (5, vec![]));
}
