//! The vectors of the real writer, and what they leave open: keys, bounds, bindings, and plaintexts nobody should seal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::Value;

use super::error::{EnvelopeFault, JsonFault, RowFault, UrlFault};
use super::open::{MAX_BODY, MAX_SEALED};
use super::registration::{SealedRegistration, open_registration};
use super::seal::NONCE_LEN;
use super::*;

mod aes_gcm;
mod composed;
mod draft;
mod registration;

const HMAC_ON: OpenRules = OpenRules { legacy_hmac: true };
const NONCE: [u8; NONCE_LEN] = *b"twelve bytes";

fn vectors(kind: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("../../tests/vectors/envelope.json")).unwrap();
    let all = file["vectors"].as_array().unwrap();
    all.iter().filter(|vector| vector["kind"] == kind).cloned().collect()
}

fn hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn ring_of(keys: &[[u8; 32]]) -> Keyring {
    Keyring::new(keys.iter().map(|key| EnvelopeKey::parse(key).unwrap()).collect()).unwrap()
}

fn key(byte: u8) -> EnvelopeKey {
    EnvelopeKey::parse(&[byte; 32]).unwrap()
}

fn row_of(vector: &Value) -> Row {
    let column = |name: &str| vector["row"][name].as_str().unwrap().to_owned();
    Row {
        account_id: column("account_id"),
        task_id: column("task_id"),
        task_type: column("task_type"),
        terminal_status: column("terminal_status"),
        url: column("url"),
        operation_id: column("operation_id"),
        idempotency_key: column("idempotency_key"),
        signing_scope_id: vector["row"]["signing_scope_id"].as_str().map(str::to_owned),
        encrypted_body: hex(&vector["ciphertext_hex"]),
        envelope_nonce: hex(&vector["nonce_hex"]),
        attempt_count: 1,
        composed: None,
    }
}

fn open_vector(vector: &Value) -> Result<Envelope, OpenError> {
    let ring = ring_of(&[hex(&vector["key_hex"]).try_into().unwrap()]);
    let rules = OpenRules { legacy_hmac: vector["config"]["legacy_hmac_fallback"].as_bool().unwrap() };
    open(&mut row_of(vector), &ring, rules)
}

fn malformed<T>(fault: EnvelopeFault) -> Result<T, OpenError> {
    Err(OpenError::Malformed(fault))
}

/// What we refuse although the reference delivers it: wire contract, section 14, A1.
const STRICTER: [&str; 3] = ["body-utf16", "body-nan-literal", "legacy-version-true"];

/// What the signer refuses, as the reference does, after the envelope opened.
const REFUSED_BY_THE_SIGNER: [&str; 4] =
    ["scope-empty-string", "scope-non-printable", "scope-256-bytes", "unscoped-row-in-resolver-mode"];

#[test]
fn every_vector_has_the_references_associated_data() {
    for vector in vectors("delivery") {
        assert_eq!(
            Aad::delivery(&Binding::from(&row_of(&vector))).as_bytes(),
            hex(&vector["aad_hex"]),
            "{}",
            vector["name"]
        );
    }
    for vector in vectors("registration") {
        let column = |name: &str| vector["row"][name].as_str().unwrap();
        let aad = Aad::registration(column("account_id"), column("task_id"), column("task_type"));
        assert_eq!(aad.as_bytes(), hex(&vector["aad_hex"]), "{}", vector["name"]);
    }
}

#[test]
fn every_delivered_vector_opens_to_the_references_bytes() {
    let mut opened = 0;
    for vector in vectors("delivery") {
        let name = vector["name"].as_str().unwrap();
        if vector["expect"] != "ok" || STRICTER.contains(&name) {
            continue;
        }
        let envelope = open_vector(&vector).unwrap_or_else(|error| panic!("{name}: {error}"));
        let body = STANDARD.decode(vector["delivered_body_b64"].as_str().unwrap()).unwrap();
        assert_eq!(envelope.body, body, "{name}");
        let (scheme, secret) = match &envelope.authentication {
            None => ("rfc9421", None),
            Some(Authentication::Bearer(secret)) => ("bearer", Some(secret)),
            Some(Authentication::HmacSha256(secret)) => ("hmac-sha256", Some(secret)),
            Some(Authentication::StandardWebhooks(_)) => unreachable!("the reference has no such scheme"),
        };
        assert_eq!(vector["auth"], scheme, "{name}");
        if let Some(secret) = secret {
            let plaintext = STANDARD.decode(vector["plaintext_b64"].as_str().unwrap()).unwrap();
            let plaintext: Value = serde_json::from_slice(&plaintext).unwrap();
            let credentials = plaintext["authentication"]["credentials"].as_str().unwrap();
            assert_eq!(secret.expose(), credentials.as_bytes(), "{name}");
        }
        opened += 1;
    }
    assert_eq!(opened, 18, "the file holds 21 delivered vectors, 3 of which we are stricter about");
}

#[test]
fn bodies_that_only_a_lenient_reader_takes_are_refused() {
    let syntax = || malformed(EnvelopeFault::Json(JsonFault::Syntax));
    let expected = [syntax(), syntax(), malformed(EnvelopeFault::Version)];
    for (name, expected) in STRICTER.into_iter().zip(expected) {
        let vector = vectors("delivery").into_iter().find(|vector| vector["name"] == name).unwrap();
        assert_eq!(vector["expect"], "ok", "{name}: the reference delivers it");
        assert_eq!(open_vector(&vector).map(drop), expected, "{name}");
    }
}

#[test]
fn scopes_that_the_signer_refuses_open_with_the_scope_intact() {
    for name in REFUSED_BY_THE_SIGNER {
        let vector = vectors("delivery").into_iter().find(|vector| vector["name"] == name).unwrap();
        assert_eq!((&vector["expect"], &vector["stage"]), (&"invalid".into(), &"deliver".into()), "{name}");
        let envelope = open_vector(&vector).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(envelope.authentication.is_none(), "{name}");
    }
}

#[test]
fn every_refused_vector_is_refused_for_its_own_reason() {
    use EnvelopeFault::*;
    let member = |member| malformed(Member { member });
    for vector in vectors("delivery") {
        let name = vector["name"].as_str().unwrap();
        if vector["expect"] == "ok" || REFUSED_BY_THE_SIGNER.contains(&name) {
            continue;
        }
        let expected = match name {
            "truncated-to-15-bytes" => malformed(NoTag { bytes: 15 }),
            "wrong-key" | "wrong-nonce" => Err(OpenError::Unopenable),
            _ if name.starts_with("tampered-") => Err(OpenError::Unopenable),
            "body-mismatch-task_id" => Err(OpenError::Mismatch { member: "task_id" }),
            "body-mismatch-task_type" | "body-missing-task_type" => Err(OpenError::Mismatch { member: "task_type" }),
            "body-mismatch-status" | "body-missing-status" => Err(OpenError::Mismatch { member: "status" }),
            "body-mismatch-operation_id" | "body-missing-operation_id" | "body-operation-id-case" => {
                Err(OpenError::Mismatch { member: "operation_id" })
            }
            "body-mismatch-idempotency_key" => Err(OpenError::Mismatch { member: "idempotency_key" }),
            "legacy-inner-body-mismatch" => Err(OpenError::Mismatch { member: "operation_id" }),
            "body-json-array" => malformed(NotAnObject),
            "tag-only-empty-plaintext" | "body-not-json" | "body-invalid-utf8" => malformed(Json(JsonFault::Syntax)),
            "legacy-version-string" | "legacy-version-null" => malformed(Version),
            "rfc-body-carrying-version-member" | "legacy-no-authentication" => member("authentication"),
            "legacy-scheme-not-string" => member("scheme"),
            "legacy-body-not-string" => member("body"),
            "legacy-empty-credentials" => malformed(NoCredentials),
            "legacy-unknown-scheme-basic" | "legacy-scheme-lowercase-bearer" => malformed(Scheme),
            "legacy-hmac-fallback-disabled" => Err(OpenError::HmacDisabled),
            "legacy-credentials-newline" => Err(OpenError::CredentialsUnsendable),
            _ if name.starts_with("legacy-body-base64") => malformed(Base64),
            "legacy-with-scope" => malformed(ScopeWithAuthentication),
            "empty-idempotency-key" => Err(OpenError::Row(RowFault::NoIdempotencyKey)),
            _ => panic!("{name}: no expectation"),
        };
        assert_eq!(open_vector(&vector).map(drop), expected, "{name}");
    }
}

/// A row whose sealed plaintext is `plaintext`, under the key made of `byte`.
fn sealed_row(plaintext: &[u8], byte: u8) -> Row {
    let mut row = Row {
        account_id: "acc".into(),
        task_id: "task".into(),
        task_type: "create_media_buy".into(),
        terminal_status: "completed".into(),
        url: "https://b.example/h".into(),
        operation_id: "op".into(),
        idempotency_key: "whk_1".into(),
        signing_scope_id: None,
        encrypted_body: Vec::new(),
        envelope_nonce: NONCE.to_vec(),
        attempt_count: 1,
        composed: None,
    };
    reseal(&mut row, plaintext, byte);
    row
}

fn reseal(row: &mut Row, plaintext: &[u8], byte: u8) {
    row.encrypted_body = seal(&Aad::delivery(&Binding::from(&*row)), &key(byte), NONCE, plaintext.to_vec());
}

const MEMBERS: &str = r#""task_id":"task","task_type":"create_media_buy","status":"completed","operation_id":"op","idempotency_key":"whk_1""#;

/// A body of [`sealed_row`]'s row with `more` as further members.
fn body(more: &str) -> Vec<u8> {
    format!("{{{MEMBERS}{more}}}").into_bytes()
}

fn legacy(body: &[u8], authentication: &str) -> Vec<u8> {
    let body = STANDARD.encode(body);
    format!(r#"{{"task_webhook_delivery_version":1,"body":"{body}","authentication":{authentication}}}"#).into_bytes()
}

fn open_plaintext(plaintext: &[u8]) -> Result<Envelope, OpenError> {
    open(&mut sealed_row(plaintext, 1), &ring_of(&[[1; 32]]), HMAC_ON)
}

#[test]
fn what_was_sealed_is_opened_with_and_without_a_scope() {
    for scope in [None, Some(""), Some("tenant:alpha/1")] {
        let mut row = sealed_row(b"", 1);
        row.signing_scope_id = scope.map(str::to_owned);
        reseal(&mut row, &body(""), 1);
        assert_eq!(open(&mut row, &ring_of(&[[1; 32]]), HMAC_ON).unwrap().body, body(""), "{scope:?}");
        assert!(row.encrypted_body.is_empty(), "the ciphertext is taken, not copied");
    }
}

#[test]
fn one_key_opens_the_envelope_where_it_lies() {
    let mut row = sealed_row(&body(""), 1);
    let place = row.encrypted_body.as_ptr();
    let envelope = open(&mut row, &ring_of(&[[1; 32]]), HMAC_ON).unwrap();
    assert_eq!(envelope.body.as_ptr(), place);
}

#[test]
fn any_held_key_opens_the_envelope() {
    let ring = ring_of(&[[1; 32], [2; 32], [3; 32]]);
    for byte in [1, 2, 3] {
        assert_eq!(open(&mut sealed_row(&body(""), byte), &ring, HMAC_ON).unwrap().body, body(""));
    }
}

#[test]
fn f3_a_key_that_is_not_held_makes_a_row_unopenable_and_never_malformed() {
    for held in [&[[1; 32]][..], &[[1; 32], [2; 32]]] {
        for plaintext in [&body("")[..], b"", b"not JSON", &legacy(&body(""), "{}")] {
            let refusal = open(&mut sealed_row(plaintext, 9), &ring_of(held), HMAC_ON).unwrap_err();
            assert_eq!(refusal, OpenError::Unopenable);
        }
    }
}

#[test]
fn two_columns_with_exchanged_values_do_not_open() {
    type Column = fn(&mut Row) -> &mut String;
    let columns: [Column; 7] = [
        |row| &mut row.account_id,
        |row| &mut row.task_id,
        |row| &mut row.task_type,
        |row| &mut row.terminal_status,
        |row| &mut row.url,
        |row| &mut row.operation_id,
        |row| &mut row.idempotency_key,
    ];
    for (index, one) in columns.iter().enumerate() {
        for other in &columns[index + 1..] {
            let mut row = sealed_row(&body(""), 1);
            let value = std::mem::take(one(&mut row));
            let value = std::mem::replace(other(&mut row), value);
            *one(&mut row) = value;
            assert_eq!(open(&mut row, &ring_of(&[[1; 32]]), HMAC_ON).unwrap_err(), OpenError::Unopenable);
        }
    }
}

#[test]
fn moving_characters_between_columns_or_into_a_scope_does_not_open() {
    let edits: [fn(&mut Row); 4] = [
        |row| (row.account_id, row.task_id) = ("acct".into(), "ask".into()),
        |row| (row.account_id, row.task_id) = (r#"acc","task"#.into(), String::new()),
        |row| row.signing_scope_id = Some(String::new()),
        |row| row.signing_scope_id = Some("whk_1".into()),
    ];
    for edit in edits {
        let mut row = sealed_row(&body(""), 1);
        edit(&mut row);
        assert_eq!(open(&mut row, &ring_of(&[[1; 32]]), HMAC_ON).unwrap_err(), OpenError::Unopenable);
    }
}

#[test]
fn a_body_of_exactly_10_mib_is_delivered_and_one_byte_more_is_not() {
    let frame = body(r#","result":"""#).len();
    let filled = |len: usize| body(&format!(r#","result":"{}""#, "x".repeat(len - frame)));
    assert_eq!(open_plaintext(&filled(MAX_BODY)).unwrap().body.len(), MAX_BODY);
    assert_eq!(open_plaintext(&filled(MAX_BODY + 1)).unwrap_err(), OpenError::BodyTooLarge { bytes: MAX_BODY + 1 });
    let bearer = r#"{"scheme":"Bearer","credentials":"t"}"#;
    assert_eq!(open_plaintext(&legacy(&filled(MAX_BODY), bearer)).unwrap().body.len(), MAX_BODY);
    assert_eq!(
        open_plaintext(&legacy(&filled(MAX_BODY + 1), bearer)).unwrap_err(),
        OpenError::BodyTooLarge { bytes: MAX_BODY + 1 }
    );
}

#[test]
fn f9_a_nonce_or_ciphertext_of_an_impossible_length_is_a_typed_refusal() {
    let ring = ring_of(&[[1; 32]]);
    for bytes in [0, 11, 13, 24] {
        let mut row = sealed_row(&body(""), 1);
        row.envelope_nonce = vec![0; bytes];
        let refusal = open(&mut row, &ring, HMAC_ON).unwrap_err();
        assert_eq!(refusal, OpenError::Row(RowFault::NonceLength { bytes }));
    }
    let mut row = sealed_row(&body(""), 1);
    row.encrypted_body = vec![0; MAX_SEALED + 1];
    assert_eq!(open(&mut row, &ring, HMAC_ON).unwrap_err(), OpenError::BodyTooLarge { bytes: MAX_SEALED + 1 });
    row.encrypted_body = Vec::new();
    assert_eq!(open(&mut row, &ring, HMAC_ON).map(drop), malformed(EnvelopeFault::NoTag { bytes: 0 }));
}

#[test]
fn f9_a_plaintext_that_no_receiver_could_read_is_a_typed_refusal() {
    let deep = |levels: usize| body(&format!(r#","result":{}{}"#, "[".repeat(levels), "]".repeat(levels)));
    let json = |fault| malformed(EnvelopeFault::Json(fault));
    let bom = [b"\xEF\xBB\xBF".as_slice(), &body("")].concat();
    let cases = [
        (deep(99), Ok(())),
        (deep(100), json(JsonFault::TooDeep)),
        (deep(100_000), json(JsonFault::TooDeep)),
        (bom, json(JsonFault::Syntax)),
        (body(r#","task_id":"task""#), json(JsonFault::DuplicateKey)),
        (body(r#","result":{"a":[{"k":1,"\u006b":2}]}"#), json(JsonFault::DuplicateKey)),
        (body(r#","result":1e999"#), json(JsonFault::Syntax)),
        (body(r#","result":"\ud800""#), json(JsonFault::Syntax)),
        (body(r#","result":12345678901234567890123"#), Ok(())),
        ([body("").as_slice(), b" x"].concat(), json(JsonFault::Syntax)),
        (body(r#","task_webhook_delivery_version":1.0"#), malformed(EnvelopeFault::Version)),
        (body(r#","task_webhook_delivery_version":true"#), malformed(EnvelopeFault::Version)),
        (b"null".to_vec(), malformed(EnvelopeFault::NotAnObject)),
        (b"{}".to_vec(), Err(OpenError::Mismatch { member: "task_id" })),
        (legacy(b"", r#"{"scheme":"Bearer","credentials":"t"}"#), json(JsonFault::Syntax)),
        (legacy(&deep(100), r#"{"scheme":"Bearer","credentials":"t"}"#), json(JsonFault::TooDeep)),
    ];
    for (plaintext, expected) in cases {
        let shown = String::from_utf8_lossy(&plaintext[..plaintext.len().min(200)]).into_owned();
        assert_eq!(open_plaintext(&plaintext).map(drop), expected, "{shown}");
    }
}

#[test]
fn credentials_that_a_header_cannot_carry_are_refused() {
    let open_with = |scheme: &str, credentials: &str| {
        let authentication = serde_json::json!({"scheme": scheme, "credentials": credentials}).to_string();
        open_plaintext(&legacy(&body(""), &authentication)).map(drop)
    };
    let unsendable = Err(OpenError::CredentialsUnsendable);
    for bad in ["a\rb", "a\nb", "a\0b"] {
        assert_eq!(open_with("Bearer", bad), unsendable, "{bad:?}");
        assert_eq!(open_with("HMAC-SHA256", bad), unsendable, "{bad:?}");
    }
    for bad in ["a\u{1}b", "a\u{7f}b", "schlüssel", " a", "a ", "a\t"] {
        assert_eq!(open_with("Bearer", bad), unsendable, "{bad:?}");
        assert_eq!(open_with("HMAC-SHA256", bad), Ok(()), "an HMAC key is never sent: {bad:?}");
    }
    for good in ["a b", "a\tb", "~!\"#", "=="] {
        assert_eq!(open_with("Bearer", good), Ok(()), "{good:?}");
    }
}

const WHSEC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn a_standard_webhooks_row_carries_the_decoded_key_whatever_is_switched_off() {
    let authentication = serde_json::json!({"scheme": "Standard-Webhooks", "credentials": WHSEC}).to_string();
    let mut row = sealed_row(&legacy(&body(""), &authentication), 1);
    let envelope = open(&mut row, &ring_of(&[[1; 32]]), OpenRules { legacy_hmac: false }).unwrap();
    let Some(Authentication::StandardWebhooks(key)) = envelope.authentication else { panic!("another scheme") };
    assert_eq!(key.expose(), STANDARD.decode(&WHSEC[6..]).unwrap());
    for credentials in ["", &WHSEC[6..], "whsec_", "whsec_c2hvcnQ=", "whsec_not base64 not base64 not base64"] {
        let authentication = serde_json::json!({"scheme": "Standard-Webhooks", "credentials": credentials}).to_string();
        let outcome = open_plaintext(&legacy(&body(""), &authentication)).map(drop);
        assert_eq!(outcome, Err(OpenError::Malformed(EnvelopeFault::StandardSecret)), "{credentials}");
    }
    let spelt = serde_json::json!({"scheme": "standard-webhooks", "credentials": WHSEC}).to_string();
    let outcome = open_plaintext(&legacy(&body(""), &spelt)).map(drop);
    assert_eq!(outcome, Err(OpenError::Malformed(EnvelopeFault::Scheme)));
}

#[test]
fn an_idempotency_key_that_cannot_be_a_message_id_is_refused_under_standard_webhooks_alone() {
    for (key, fits) in
        [("whk_0-9:a", true), ("whk.0", false), ("whk 0", false), ("whk_é", false), ("whk_\u{7f}", false)]
    {
        for (scheme, credentials) in [("Standard-Webhooks", WHSEC), ("Bearer", "t")] {
            let authentication = serde_json::json!({"scheme": scheme, "credentials": credentials}).to_string();
            let mut body: Value = serde_json::from_slice(&body("")).unwrap();
            body["idempotency_key"] = key.into();
            let mut row = sealed_row(b"", 1);
            row.idempotency_key = key.into();
            let aad = Aad::delivery(&Binding::from(&row));
            let plaintext = legacy(body.to_string().as_bytes(), &authentication);
            row.encrypted_body = seal(&aad, &EnvelopeKey::parse(&[1; 32]).unwrap(), NONCE, plaintext);
            let outcome = open(&mut row, &ring_of(&[[1; 32]]), HMAC_ON).map(drop);
            let refused = scheme == "Standard-Webhooks" && !fits;
            let expected = if refused { Err(OpenError::Row(RowFault::NoMessageId)) } else { Ok(()) };
            assert_eq!(outcome, expected, "{scheme} {key}");
        }
    }
}

#[test]
fn base64_with_unused_bits_set_is_taken_as_the_reference_takes_it() {
    // Two spare bits in the last character before one sign of padding.
    let mut body = body(" ");
    while body.len() % 3 != 2 {
        body.insert(1, b' ');
    }
    let encoded = STANDARD.encode(&body);
    let kept = encoded.trim_end_matches('=');
    let last = kept.chars().last().unwrap();
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let position = alphabet.find(last).unwrap();
    let loose = format!("{}{}=", &kept[..kept.len() - 1], &alphabet[position + 1..position + 2]);
    let plaintext = format!(
        r#"{{"task_webhook_delivery_version":1,"body":"{loose}","authentication":{{"scheme":"Bearer","credentials":"t"}}}}"#
    );
    assert_eq!(open_plaintext(plaintext.as_bytes()).unwrap().body, body);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn f9_no_plaintext_makes_opening_panic(plaintext in proptest::collection::vec(any::<u8>(), 0..200)) {
        // Random bytes never bind to the row, so whatever they are, they are refused with a type.
        prop_assert!(open_plaintext(&plaintext).is_err());
    }

    #[test]
    fn f9_no_stored_bytes_make_opening_panic(
        sealed in proptest::collection::vec(any::<u8>(), 0..80),
        nonce in proptest::collection::vec(any::<u8>(), 0..16),
    ) {
        let mut row = sealed_row(b"", 1);
        (row.encrypted_body, row.envelope_nonce) = (sealed, nonce);
        prop_assert!(open(&mut row, &ring_of(&[[1; 32], [2; 32]]), HMAC_ON).is_err());
    }
    #[test]
    fn f9_no_damage_to_a_sealed_plaintext_makes_opening_panic(
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
    ) {
        let mut plaintext = legacy(&body(""), r#"{"scheme":"Bearer","credentials":"a\u0041"}"#);
        let len = plaintext.len();
        plaintext[at.index(len)] = byte;
        plaintext.truncate(cut.map_or(len, |cut| cut.index(len)));
        // What still opens is the body of this row: the damage was to something else.
        if let Ok(envelope) = open_plaintext(&plaintext) {
            prop_assert_eq!(envelope.body, body(""));
        }
    }
}
