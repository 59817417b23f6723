//! What must hold of every envelope and registration: what is sealed opens to the same, one changed bit opens nothing, and
//! what opens belongs to its row.

use std::sync::LazyLock;

use serde_json::Value;
use zeroize::Zeroizing;

use super::fields::{cut, spot};
use crate::envelope::{
    Aad, Authentication, Binding, Composed, Credentials, EnvelopeFault, EnvelopeKey, Keyring, NONCE_LEN, OpenError,
    OpenRules, Registration, RegistrationDraft, Row, SealedRegistration, inspect_delivery, inspect_registration, open,
    seal, seal_delivery, seal_registration, try_open,
};
use crate::secret::from_whsec;

/// Of the vectors, so that their ciphertexts open here as they stand.
const OLDER: [u8; 32] = *b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\
    \x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f";
const NONCE: [u8; NONCE_LEN] = [0xa5; NONCE_LEN];

static RING: LazyLock<Keyring> = LazyLock::new(|| {
    let keys = [[0x5a; 32], OLDER].map(|key| EnvelopeKey::parse(&key).expect("32 bytes are a key"));
    Keyring::new(keys.into()).expect("there are two")
});

/// What to do with an input: its first byte.
const AS_STORED: u8 = b'a';
const COMPOSED: u8 = b'c';
const DRAFT: u8 = b'd';
/// Upper case switches HMAC-SHA256 off.
fn rules(kind: u8) -> OpenRules {
    OpenRules { legacy_hmac: kind.is_ascii_lowercase() }
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

/// An empty scope and none are different things: the former is spelt by one NUL.
fn scope(field: &[u8]) -> Option<String> {
    Some(text(field).replace('\0', "")).filter(|_| !field.is_empty())
}

/// Fields: kind, account, task, type, status, URL, operation, idempotency key, scope, and by kind:
/// `a`: nonce, ciphertext; `p`: plaintext to be sealed; `d`: scheme, credentials, body; `c`: token, scheme, credentials,
/// result.
pub(super) fn delivery(data: &[u8]) {
    let [kind, account, task, task_type, status, url, operation, key, scope_field, rest] = cut(data);
    let [kind] = *kind else { return };
    let row = || Row {
        account_id: text(account),
        task_id: text(task),
        task_type: text(task_type),
        terminal_status: text(status),
        url: text(url),
        operation_id: text(operation),
        idempotency_key: text(key),
        signing_scope_id: scope(scope_field),
        encrypted_body: Vec::new(),
        envelope_nonce: NONCE.to_vec(),
        attempt_count: 1,
        composed: None,
    };
    match kind.to_ascii_lowercase() {
        AS_STORED => {
            let [nonce, ciphertext] = cut(rest);
            let stored = || Row { encrypted_body: ciphertext.to_vec(), envelope_nonce: nonce.to_vec(), ..row() };
            opened(&stored, rules(kind));
        }
        DRAFT => drafted(row(), rest, &row, rules(kind)),
        COMPOSED => composed(&row, rest, rules(kind)),
        _ => {
            let aad = Aad::delivery(&Binding::from(&row()));
            let sealed = seal(&aad, RING.newest(), NONCE, rest.to_vec());
            opened(&|| Row { encrypted_body: sealed.clone(), ..row() }, rules(kind));
            nothing_opens_it_once_changed(&|| Row { encrypted_body: sealed.clone(), ..row() }, data);
            // Under the same nonce as well, a row sealed again under the newest key is the row sealed under it at once.
            let older = seal(&aad, &RING.newest_first()[1], NONCE, rest.to_vec());
            let opened = try_open(older, &NONCE, &aad, &RING).expect("an older key of the ring opens");
            assert_eq!(opened.key, 1, "another key than the one that sealed");
            assert_eq!(opened.seal(&aad, RING.newest(), NONCE), sealed, "sealed again, it is something else");
        }
    }
}

/// Opens the row, and has a look into it; both must say the same.
fn opened(row: &dyn Fn() -> Row, rules: OpenRules) -> Option<(Vec<u8>, Option<Authentication>)> {
    let mut claimed = row();
    let outcome = open(&mut claimed, &RING, rules);
    let looked_at = inspect_delivery(row(), &RING, rules);
    match (&outcome, &looked_at) {
        (Ok(envelope), Ok(inspection)) => {
            assert_eq!(inspection.refusal, None);
            let body = inspection.body.as_ref().map(|body| body.as_slice());
            assert_eq!(body, Some(&*envelope.body), "the look shows another body");
        }
        (Err(OpenError::Row(_)), _) if row().idempotency_key.is_empty() => {}
        (Err(error), Ok(inspection)) => {
            // Size is judged by opening alone.
            assert!(inspection.refusal == Some(*error) || matches!(error, OpenError::BodyTooLarge { .. }), "{error}");
        }
        (Err(error), Err((same, _))) => assert_eq!(error, same),
        (Ok(_), Err((error, _))) => panic!("it opens, and looking says {error}"),
    }
    let envelope = outcome.ok()?;
    belongs(&envelope.body, &row());
    sendable(envelope.authentication.as_ref());
    Some((envelope.body.to_vec(), envelope.authentication))
}

fn belongs(body: &[u8], row: &Row) -> Value {
    let document: Value = serde_json::from_slice(body).expect("what opens is JSON");
    let bound = [
        ("task_id", &row.task_id),
        ("task_type", &row.task_type),
        ("status", &row.terminal_status),
        ("operation_id", &row.operation_id),
        ("idempotency_key", &row.idempotency_key),
    ];
    for (member, column) in bound {
        assert_eq!(document[member].as_str(), Some(column.as_str()), "{member} is another row's");
    }
    document
}

fn sendable(authentication: Option<&Authentication>) {
    if let Some(Authentication::Bearer(secret) | Authentication::HmacSha256(secret)) = authentication {
        assert!(!secret.expose().is_empty());
        assert!(!secret.expose().iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "it would split a header");
    }
}

/// Neither another bit anywhere in nonce, ciphertext and tag, nor another column.
fn nothing_opens_it_once_changed(row: &dyn Fn() -> Row, data: &[u8]) {
    let closed = |mut changed: Row, what: &str| {
        let outcome = open(&mut changed, &RING, OpenRules { legacy_hmac: true });
        let refused = matches!(outcome, Err(OpenError::Unopenable | OpenError::Malformed(EnvelopeFault::NoTag { .. })));
        assert!(refused, "{what} was changed: {:?}", outcome.map(drop));
    };
    if row().idempotency_key.is_empty() {
        return;
    }
    let mut changed = row();
    let at = spot(data, changed.encrypted_body.len());
    changed.encrypted_body[at] ^= 1 << (at % 8);
    closed(changed, "the ciphertext");
    let mut changed = row();
    changed.envelope_nonce[at % NONCE_LEN] ^= 0x80;
    closed(changed, "the nonce");
    let mut changed = row();
    changed.encrypted_body.pop();
    closed(changed, "the length");
    let mut changed = row();
    let columns = [
        &mut changed.account_id,
        &mut changed.task_id,
        &mut changed.task_type,
        &mut changed.terminal_status,
        &mut changed.url,
        &mut changed.operation_id,
        &mut changed.idempotency_key,
    ];
    let nth = at % columns.len();
    for (_, column) in columns.into_iter().enumerate().filter(|(column, _)| *column == nth) {
        column.push('\u{2028}');
    }
    closed(changed, "a column");
    let mut changed = row();
    changed.signing_scope_id = if changed.signing_scope_id.is_none() { Some(String::new()) } else { None };
    closed(changed, "the scope");
}

fn drafted(mut sealed: Row, rest: &[u8], row: &dyn Fn() -> Row, rules: OpenRules) {
    let [scheme, credentials, body] = cut(rest);
    let (scheme, credentials) = (text(scheme), text(credentials));
    let given = Credentials { scheme: &scheme, credentials: &credentials };
    let given = Some(given).filter(|_| !scheme.is_empty());
    let outcome = seal_delivery(&mut sealed, Zeroizing::new(body.to_vec()), given, &RING, NONCE, rules);
    if outcome.is_err() {
        return;
    }
    let stored = || Row { encrypted_body: sealed.encrypted_body.clone(), ..row() };
    let (back, authentication) = opened(&stored, rules).expect("what we seal, we open");
    assert_eq!(back, body, "another body comes back");
    same_authentication(&authentication, given);
    nothing_opens_it_once_changed(&stored, rest);
}

fn same_authentication(opened: &Option<Authentication>, given: Option<Credentials<'_>>) {
    let opened = opened.as_ref().map(|authentication| match authentication {
        Authentication::Bearer(secret) => ("Bearer", secret.expose().to_vec()),
        Authentication::HmacSha256(secret) => ("HMAC-SHA256", secret.expose().to_vec()),
        Authentication::StandardWebhooks(key) => ("Standard-Webhooks", key.expose().to_vec()),
    });
    let given = given.map(|given| match given.scheme {
        "Standard-Webhooks" => {
            let key = from_whsec(given.credentials.as_bytes()).expect("what is sealed can be decoded");
            (given.scheme, key.expose().to_vec())
        }
        scheme => (scheme, given.credentials.as_bytes().to_vec()),
    });
    assert_eq!(opened, given);
}

fn composed(row: &dyn Fn() -> Row, rest: &[u8], rules: OpenRules) {
    let [token, scheme, credentials, result] = cut(rest);
    let [token, scheme, credentials] = [token, scheme, credentials].map(text);
    let Ok(result) = std::str::from_utf8(result) else { return };
    let hints = row();
    let draft = RegistrationDraft {
        url: &hints.url,
        operation_id: &hints.operation_id,
        token: Some(token.as_str()).filter(|token| !token.is_empty()),
        authentication: Some(Credentials { scheme: &scheme, credentials: &credentials })
            .filter(|given| !given.scheme.is_empty()),
        signing_scope_id: hints.signing_scope_id.as_deref(),
    };
    let columns = [&hints.account_id, &hints.task_id, &hints.task_type].map(String::as_str);
    let Ok(sealed) = seal_registration(columns, &draft, &RING, NONCE, rules) else { return };
    // The time is as arbitrary as the rest, within the years that Postgres hands out.
    let micros = i64::try_from(spot(rest, 1 << 48)).unwrap_or_default();
    let stored = || {
        let result = Zeroizing::new(result.to_owned());
        Row {
            encrypted_body: sealed.clone(),
            composed: Some(Composed { version: 1, result, composed_at_micros: micros }),
            ..row()
        }
    };
    let mut claimed = stored();
    let Ok(envelope) = open(&mut claimed, &RING, rules) else { return };
    let document = belongs(&envelope.body, &hints);
    let spelt = std::str::from_utf8(&envelope.body).is_ok_and(|body| body.contains(result));
    assert!(spelt && document["result"].is_object(), "the result is not as the host spelt it");
    assert_eq!(document["token"].as_str(), draft.token);
    assert_eq!((&claimed.url, &claimed.operation_id), (&hints.url, &hints.operation_id));
    assert_eq!(claimed.signing_scope_id, hints.signing_scope_id);
    sendable(envelope.authentication.as_ref());
    same_authentication(&envelope.authentication, draft.authentication);
    let again = open(&mut stored(), &RING, rules).expect("what opened once opens again");
    assert_eq!(again.body, envelope.body, "two attempts would send two bodies");
}

/// Fields: kind, account, task, type, and by kind: `a`: nonce, ciphertext; `p`: plaintext to be sealed; `d`: URL,
/// operation, token, scheme, credentials, scope.
pub(super) fn registration(data: &[u8]) {
    let [kind, account, task, task_type, rest] = cut(data);
    let [kind] = *kind else { return };
    let columns = [account, task, task_type].map(text);
    let columns = [columns[0].as_str(), columns[1].as_str(), columns[2].as_str()];
    match kind.to_ascii_lowercase() {
        AS_STORED => {
            let [nonce, ciphertext] = cut(rest);
            look(columns, ciphertext.to_vec(), nonce, rules(kind)).ok().map(|(_, outcome)| outcome.map(|it| sane(&it)));
        }
        DRAFT => drafted_registration(columns, rest, rules(kind)),
        _ => {
            let sealed =
                seal(&Aad::registration(columns[0], columns[1], columns[2]), RING.newest(), NONCE, rest.to_vec());
            let (key, outcome) = look(columns, sealed.clone(), &NONCE, rules(kind)).expect("what we seal, we open");
            assert_eq!(key, 0, "the newest key seals");
            if let Ok(registration) = outcome {
                sane(&registration);
            }
            stays_closed(columns, &sealed, data);
        }
    }
}

type Looked = Result<(usize, Result<Registration, OpenError>), OpenError>;

fn look(columns: [&str; 3], ciphertext: Vec<u8>, nonce: &[u8], rules: OpenRules) -> Looked {
    let [account_id, task_id, task_type] = columns;
    let sealed = SealedRegistration { account_id, task_id, task_type, ciphertext, nonce };
    inspect_registration(sealed, &RING, rules).map(|registered| (registered.key, registered.outcome))
}

fn sane(registration: &Registration) {
    let url = ::url::Url::parse(&registration.url).expect("a registered URL is one");
    assert!(url.scheme() == "https" && url.host_str().is_some_and(|host| !host.is_empty()), "{url}");
    assert!(url.username().is_empty() && url.password().is_none(), "{url}");
    assert!(registration.authentication.is_none() || registration.signing_scope_id.is_none());
    sendable(registration.authentication.as_ref());
}

fn stays_closed(columns: [&str; 3], sealed: &[u8], data: &[u8]) {
    let closed = |columns: [&str; 3], sealed: Vec<u8>, nonce: &[u8], what: &str| {
        let outcome = look(columns, sealed, nonce, OpenRules { legacy_hmac: true });
        assert_eq!(outcome.map(drop), Err(OpenError::Unopenable), "{what} was changed and it opens");
    };
    let at = spot(data, sealed.len());
    let mut changed = sealed.to_vec();
    changed[at] ^= 1 << (at % 8);
    closed(columns, changed, &NONCE, "the ciphertext");
    let mut nonce = NONCE;
    nonce[at % NONCE_LEN] ^= 0x01;
    closed(columns, sealed.to_vec(), &nonce, "the nonce");
    let mut others = columns.map(str::to_owned);
    others[at % 3].push('x');
    closed([&others[0], &others[1], &others[2]], sealed.to_vec(), &NONCE, "a column");
}

fn drafted_registration(columns: [&str; 3], rest: &[u8], rules: OpenRules) {
    let [url, operation, token, scheme, credentials, scope_field] = cut(rest);
    let [url, operation, token, scheme, credentials] = [url, operation, token, scheme, credentials].map(text);
    let (token, scope) = (Some(token).filter(|token| !token.is_empty()), scope(scope_field));
    let draft = RegistrationDraft {
        url: &url,
        operation_id: &operation,
        token: token.as_deref(),
        authentication: Some(Credentials { scheme: &scheme, credentials: &credentials })
            .filter(|given| !given.scheme.is_empty()),
        signing_scope_id: scope.as_deref(),
    };
    let Ok(sealed) = seal_registration(columns, &draft, &RING, NONCE, rules) else { return };
    let (key, outcome) = look(columns, sealed.clone(), &NONCE, rules).expect("what we seal, we open");
    let registration = outcome.expect("nothing is sealed that the daemon would refuse");
    assert_eq!(key, 0, "the newest key seals");
    sane(&registration);
    assert_eq!((&registration.url, &registration.operation_id), (&url, &operation));
    assert_eq!(registration.token.as_ref().map(|token| token.expose()), token.as_ref().map(String::as_bytes));
    assert_eq!(registration.signing_scope_id, scope);
    same_authentication(&registration.authentication, draft.authentication);
    stays_closed(columns, &sealed, rest);
}
