//! Composed rows: bodies that the real writer made, byte for byte, and what is refused instead of being rendered.

use zeroize::Zeroizing;

use super::*;

const URL: &str = "https://buyer.example.com/hooks/adcp?tenant=7";

fn composed(result: &str) -> Composed {
    Composed { version: 1, result: Zeroizing::new(result.into()), composed_at_micros: 1_767_323_045_678_901 }
}

/// A row of a task with this registration, and what it is rendered from.
fn row(registration: &Value, composed: Composed) -> Row {
    let aad = Aad::registration("acc_1", "task_0123456789abcdef", "create_media_buy");
    Row {
        account_id: "acc_1".into(),
        task_id: "task_0123456789abcdef".into(),
        task_type: "create_media_buy".into(),
        terminal_status: "completed".into(),
        url: String::new(),
        operation_id: String::new(),
        idempotency_key: "whk_3f2b8c1e-9a44-4b0d-8f6e-5d7c9b1a2e30".into(),
        signing_scope_id: None,
        encrypted_body: seal(&aad, &key(1), NONCE, registration.to_string().into_bytes()),
        envelope_nonce: NONCE.to_vec(),
        attempt_count: 1,
        composed: Some(composed),
    }
}

fn registration() -> Value {
    serde_json::json!({"url": URL, "operation_id": "op_1", "token": null, "authentication": null,
                       "signing_scope_id": null})
}

fn open_one(mut row: Row) -> Result<(Envelope, Row), OpenError> {
    open(&mut row, &ring_of(&[[1; 32]]), HMAC_ON).map(|envelope| (envelope, row))
}

#[test]
fn every_body_is_the_reference_writers_byte_for_byte() {
    let vectors: Vec<Value> =
        serde_json::from_str(include_str!("../../../tests/vectors/composed/body_v1.json")).unwrap();
    assert!(vectors.len() > 40);
    for vector in vectors {
        let text = |name: &str| vector[name].as_str().unwrap();
        let mut registration = registration();
        registration["operation_id"] = vector["operation_id"].clone();
        registration["token"] = vector["token"].clone();
        let mut row = row(&registration, composed(text("result")));
        row.composed.as_mut().unwrap().composed_at_micros = vector["composed_at_micros"].as_i64().unwrap();
        row.task_id = text("task_id").into();
        row.task_type = text("task_type").into();
        row.terminal_status = text("status").into();
        row.idempotency_key = text("idempotency_key").into();
        let aad = Aad::registration("acc_1", &row.task_id, &row.task_type);
        row.encrypted_body = seal(&aad, &key(1), NONCE, registration.to_string().into_bytes());
        let (envelope, row) = open_one(row).unwrap();
        assert_eq!(std::str::from_utf8(&envelope.body).unwrap(), text("body"), "{}", text("name"));
        assert!(envelope.authentication.is_none());
        assert_eq!((row.url.as_str(), row.operation_id.as_str()), (URL, text("operation_id")));
    }
}

#[test]
fn the_hosts_spelling_of_the_result_is_sent_as_it_is() {
    let spelt = "{ \"z\" : 1.50e+3,\t\"a\":\"\\u00e9é\\/\",\n\"big\": 123456789012345678901234567890, \"n\": -0 }";
    let (envelope, _) = open_one(row(&registration(), composed(spelt))).unwrap();
    let body = String::from_utf8(envelope.body.to_vec()).unwrap();
    assert!(body.ends_with(&format!(", \"result\": {spelt}}}")), "{body}");
}

#[test]
fn the_registration_says_who_signs_and_who_authenticates() {
    let mut scoped = registration();
    scoped["signing_scope_id"] = "tenant:alpha/1".into();
    let (envelope, opened) = open_one(row(&scoped, composed("{}"))).unwrap();
    assert!(envelope.authentication.is_none());
    assert_eq!(opened.signing_scope_id.as_deref(), Some("tenant:alpha/1"));
    let mut legacy = registration();
    legacy["authentication"] = serde_json::json!({"scheme": "HMAC-SHA256", "credentials": "secret"});
    let (envelope, _) = open_one(row(&legacy, composed("{}"))).unwrap();
    assert!(matches!(envelope.authentication, Some(Authentication::HmacSha256(_))));
    let whsec = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    legacy["authentication"] = serde_json::json!({"scheme": "Standard-Webhooks", "credentials": whsec});
    let (envelope, _) = open_one(row(&legacy, composed("{}"))).unwrap();
    assert!(matches!(envelope.authentication, Some(Authentication::StandardWebhooks(_))));
    let mut dotted = row(&legacy, composed("{}"));
    dotted.idempotency_key = "whk.0".into();
    assert_eq!(open_one(dotted).map(drop), Err(OpenError::Row(RowFault::NoMessageId)));
}

#[test]
fn a_hint_that_differs_from_the_registration_is_refused() {
    let hinted = |url: &str, operation_id: &str, scope: Option<&str>| {
        let mut row = row(&registration(), composed("{}"));
        row.url = url.into();
        row.operation_id = operation_id.into();
        row.signing_scope_id = scope.map(str::to_owned);
        open_one(row).map(drop)
    };
    assert_eq!(hinted(URL, "op_1", None), Ok(()));
    assert_eq!(hinted("https://other.example/", "", None), Err(OpenError::Mismatch { member: "url" }));
    assert_eq!(hinted("", "op_2", None), Err(OpenError::Mismatch { member: "operation_id" }));
    assert_eq!(hinted("", "", Some("s")), Err(OpenError::Mismatch { member: "signing_scope_id" }));
}

#[test]
fn a_registration_of_another_task_or_under_another_key_is_not_opened() {
    let mut moved = row(&registration(), composed("{}"));
    moved.task_id = "task_fedcba9876543210".into();
    assert_eq!(open_one(moved).map(drop), Err(OpenError::Unopenable));
    let mut row = row(&registration(), composed("{}"));
    assert_eq!(open(&mut row, &ring_of(&[[2; 32]]), HMAC_ON).map(drop), Err(OpenError::Unopenable));
}

#[test]
fn what_a_receiver_would_refuse_is_not_rendered() {
    let nested = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let refused = |result: &str| open_one(row(&registration(), composed(result))).map(drop);
    assert_eq!(refused(&nested(99)), Ok(()));
    let json = |fault| Err(OpenError::Malformed(EnvelopeFault::Json(fault)));
    assert_eq!(refused(&nested(100)), json(JsonFault::TooDeep));
    assert_eq!(refused(r#"{"a":1,"\u0061":2}"#), json(JsonFault::DuplicateKey));
    assert_eq!(refused(r#"{}, "status": "failed""#), json(JsonFault::Syntax));
    assert_eq!(refused("[]"), Err(OpenError::Malformed(EnvelopeFault::NotAnObject)));
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_BODY));
    assert!(matches!(refused(&large), Err(OpenError::BodyTooLarge { .. })));
    let member = |name: &str, value: &str| {
        let mut registration = registration();
        registration[name] = value.into();
        open_one(row(&registration, composed("{}"))).map(drop)
    };
    let malformed = |member| Err(OpenError::Malformed(EnvelopeFault::Member { member }));
    assert_eq!(member("operation_id", ""), malformed("operation_id"));
    assert_eq!(member("token", "too short"), malformed("token"));
    assert_eq!(member("token", &"x".repeat(4097)), malformed("token"));
    let mut later = row(&registration(), composed("{}"));
    later.composed.as_mut().unwrap().version = 2;
    assert_eq!(open_one(later).map(drop), Err(OpenError::Row(RowFault::ComposedVersion { version: 2 })));
}
