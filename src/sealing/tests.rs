//! Every item that is sealed is opened by the rooms that deliver it; every one that is refused is refused by its own code,
//! and no refusal or description holds a value.

use serde_json::{Value, json};

use super::describe::{Description, Stored};
use super::sealer::{Outcome, ScopeRule, Sealer};
use crate::address::{Policy, UrlRules};
use crate::envelope::{EnvelopeKey, Keyring, OpenRules, Row, open};

struct Desk {
    keyring: Keyring,
    url_rules: UrlRules,
    policy: Policy,
    hmac: bool,
    scopes: ScopeRule,
}

impl Desk {
    fn new(keys: &[u8]) -> Desk {
        let keys = keys.iter().map(|byte| EnvelopeKey::parse(&[*byte; 32]).unwrap()).collect();
        Desk {
            keyring: Keyring::new(keys).unwrap(),
            url_rules: UrlRules::default(),
            policy: Policy::new(vec![], vec![]),
            hmac: true,
            scopes: ScopeRule::May,
        }
    }

    fn sealer(&self) -> Sealer<'_> {
        Sealer {
            keyring: &self.keyring,
            rules: OpenRules { legacy_hmac: self.hmac },
            url_rules: &self.url_rules,
            policy: &self.policy,
            scopes: self.scopes,
        }
    }

    fn seal(&self, items: &Value) -> Outcome {
        self.sealer().seal_batch(items.to_string().as_bytes()).unwrap()
    }

    /// The one item's answer, or its code and sentence.
    fn seal_one(&self, item: &Value) -> Result<Value, (&'static str, String)> {
        let outcome = self.seal(item);
        match outcome.faults.first() {
            None => Ok(serde_json::from_str(&outcome.answers).unwrap()),
            Some((0, fault)) => Err((fault.code(), fault.to_string())),
            Some(_) => panic!("there is one item"),
        }
    }

    fn describe(&self, row: &Value) -> Value {
        let stored = Stored::read_batch(row.to_string().as_bytes()).unwrap().remove(0).unwrap();
        let told: Description = self.sealer().describe(stored, true);
        serde_json::from_str(&told.to_json(false)).unwrap()
    }
}

fn registration() -> Value {
    json!({
        "kind": "registration", "account_id": "acc \"ü\" 😀", "task_id": "task_1", "task_type": "create_media_buy",
        "url": "https://buyer.example.com/hush-path?hush-query", "operation_id": "op_1",
        "token": "hush-token-0123456789",
    })
}

fn delivery() -> Value {
    let body = json!({
        "idempotency_key": "whk_0123456789abcdef", "operation_id": "op_1", "task_id": "task_1",
        "task_type": "create_media_buy", "status": "completed", "token": "hush-token-0123456789",
    });
    json!({
        "kind": "delivery", "account_id": "acc", "task_id": "task_1", "task_type": "create_media_buy",
        "terminal_status": "completed", "url": "https://buyer.example.com/hush-path", "operation_id": "op_1",
        "idempotency_key": "whk_0123456789abcdef", "body": body.to_string(),
    })
}

fn with(base: Value, changes: Value) -> Value {
    let mut item = base;
    for (name, value) in changes.as_object().unwrap() {
        item[name] = value.clone();
    }
    item
}

fn without(base: Value, name: &str) -> Value {
    let mut item = base;
    item.as_object_mut().unwrap().remove(name);
    item
}

/// As the outbox would hold it.
fn row_of(item: &Value, answer: &Value) -> Row {
    let text = |name: &str| item[name].as_str().unwrap().to_owned();
    let bytes = |name: &str| super::bytes::from_either(answer[name].as_str().unwrap()).unwrap();
    assert_eq!(bytes("ciphertext"), bytes("ciphertext_base64"));
    Row {
        account_id: text("account_id"),
        task_id: text("task_id"),
        task_type: text("task_type"),
        terminal_status: text("terminal_status"),
        url: text("url"),
        operation_id: text("operation_id"),
        idempotency_key: text("idempotency_key"),
        signing_scope_id: item["signing_scope_id"].as_str().map(str::to_owned),
        encrypted_body: bytes("ciphertext"),
        envelope_nonce: bytes("nonce"),
        attempt_count: 1,
        composed: None,
    }
}

#[test]
fn a_body_is_delivered_as_it_was_given_in_any_of_its_spellings() {
    let desk = Desk::new(&[1]);
    let spaced = delivery()["body"].as_str().unwrap().replace(',', " ,\t");
    let base64 = super::bytes::to_base64(spaced.as_bytes());
    let object = format!(r#"{},"body": {spaced} }}"#, without(delivery(), "body").to_string().trim_end_matches('}'));
    let items = [
        with(delivery(), json!({"body": spaced})).to_string(),
        with(without(delivery(), "body"), json!({"body_base64": base64})).to_string(),
        object,
    ];
    for item in items {
        let outcome = desk.sealer().seal_batch(item.as_bytes()).unwrap();
        assert_eq!(outcome.faults, [], "{item}");
        let mut row = row_of(&delivery(), &serde_json::from_str(&outcome.answers).unwrap());
        let envelope = open(&mut row, &desk.keyring, OpenRules { legacy_hmac: false }).unwrap();
        assert_eq!(envelope.body, spaced.as_bytes());
        assert!(envelope.authentication.is_none());
    }
}

#[test]
fn every_good_item_opens_and_is_described_without_its_secrets() {
    let desk = Desk::new(&[1, 2]);
    let bearer = json!({"authentication": {"scheme": "Bearer", "credentials": "hush-bearer"}});
    let hmac = json!({"authentication": {"scheme": "HMAC-SHA256", "credentials": "hush-hmac \"é\""}});
    let whsec = format!("whsec_{}", super::bytes::to_base64(b"hush, hush, hush, hush, hush"));
    let standard = json!({"authentication": {"scheme": "Standard-Webhooks", "credentials": whsec}});
    let scope = json!({"signing_scope_id": "tenant:ä/1"});
    for (changes, scheme) in [
        (json!({}), "rfc9421"),
        (bearer, "bearer"),
        (hmac, "hmac-sha256"),
        (standard, "standard-webhooks"),
        (scope.clone(), "rfc9421"),
    ] {
        for base in [registration(), delivery()] {
            let item = with(base, changes.clone());
            let answer = desk.seal_one(&item).unwrap();
            assert!(!answer.to_string().contains("hush"), "{answer}");
            let told = desk.describe(&with(item.clone(), answer.clone()));
            assert_eq!((&told["opens"], &told["scheme"], &told["key"]), (&json!(true), &json!(scheme), &answer["key"]));
            assert_eq!(told["destination"], "buyer.example.com:443");
            assert_eq!(told["operation_id"], "op_1");
            assert_eq!(told["signing_scope_id"], item["signing_scope_id"]);
            assert_eq!(told["problems"], Value::Null, "{told}");
            if item["kind"] == "delivery" {
                assert_eq!(told["body"], item["body"]);
                assert!(told["members"].as_object().unwrap().values().all(|found| found == "same"));
            } else {
                assert_eq!((&told["has_token"], &told["body"]), (&json!(true), &Value::Null));
            }
            let told = without(told, "body").to_string();
            assert!(!told.contains("hush") && !told.contains(&whsec[6..]), "{told}");
        }
    }
}

#[test]
fn the_newest_key_seals_and_older_ones_still_open() {
    let (old, both, other) = (Desk::new(&[1]), Desk::new(&[2, 1]), Desk::new(&[3]));
    let before = with(registration(), old.seal_one(&registration()).unwrap());
    let after = with(registration(), both.seal_one(&registration()).unwrap());
    assert_ne!(before["key"], after["key"]);
    let told = both.describe(&before);
    assert_eq!((&told["key"], &told["key_place"]), (&before["key"], &json!(2)));
    let told = other.describe(&after);
    assert_eq!((&told["opens"], &told["problems"][0]["code"]), (&json!(false), &json!("envelope_unopenable")));
    assert!(told["problems"][0]["hint"].as_str().unwrap().contains("another key"), "{told}");
}

#[test]
fn each_bad_item_is_refused_by_its_code_and_shows_no_value() {
    let mut desk = Desk::new(&[1]);
    desk.hmac = false;
    let auth =
        |scheme: &str, credentials: &str| json!({"authentication": {"scheme": scheme, "credentials": credentials}});
    let body = |text: &str| json!({ "body": text });
    let deep = format!("{}1{}", r#"{"a":"#.repeat(101), "}".repeat(101));
    let table = [
        (json!([1]), "item_malformed", "not a JSON object"),
        (json!(["hush"]), "item_malformed", "not a JSON object"),
        (with(delivery(), json!({"hush_key": 1})), "item_malformed", "hush_key"),
        (with(delivery(), json!({"hush 7f9": 1})), "item_malformed", "a member that no item"),
        (with(delivery(), json!({"kind": "hush"})), "item_malformed", "kind"),
        (without(delivery(), "kind"), "item_malformed", "kind is missing"),
        (without(delivery(), "url"), "item_malformed", "url is missing"),
        (without(delivery(), "body"), "item_malformed", "body is missing"),
        (with(delivery(), json!({"body": 7})), "item_malformed", "neither an object nor a string"),
        (with(delivery(), json!({"body_base64": "aHVzaA=="})), "item_malformed", "beside body"),
        (with(without(delivery(), "body"), json!({"body_base64": "hush!"})), "item_malformed", "base64"),
        (with(delivery(), json!({"task_id": ["hush"]})), "item_malformed", "task_id is not a string"),
        (with(delivery(), json!({"task_id": "hush\u{0}"})), "item_malformed", "NUL"),
        (with(delivery(), json!({"account_id": " "})), "item_malformed", "account_id is blank"),
        (with(delivery(), json!({"terminal_status": "hush"})), "item_malformed", "terminal_status"),
        (with(delivery(), json!({"authentication": "hush"})), "item_malformed", "authentication"),
        (with(delivery(), json!({"authentication": {"scheme": "Bearer"}})), "item_malformed", "credentials"),
        (with(registration(), json!({"task_id": "hush é"})), "item_malformed", "task_id"),
        (with(registration(), json!({"operation_id": ""})), "item_malformed", "operation_id"),
        (with(registration(), json!({"token": "hush"})), "item_malformed", "16 to 4096"),
        (with(registration(), json!({"body": "hush"})), "item_malformed", "no member body"),
        (with(registration(), json!({"url": "http://hush.example"})), "url_refused", "https"),
        (with(registration(), json!({"url": "https://hush:x@b.example"})), "url_refused", "user information"),
        (with(registration(), json!({"url": "https://localhost/hush"})), "url_refused", "special-use"),
        (with(delivery(), json!({"url": "https://10.0.0.7/hush"})), "literal_forbidden", "forbidden address"),
        (with(delivery(), json!({"signing_scope_id": ""})), "scope_malformed", "scope"),
        (with(delivery(), json!({"operation_id": "hush"})), "envelope_mismatch", "operation_id"),
        (with(delivery(), json!({"terminal_status": "failed"})), "envelope_mismatch", "status"),
        (with(delivery(), json!({"idempotency_key": ""})), "row_malformed", "idempotency key"),
        (with(delivery(), body("hush")), "envelope_malformed", "not strict JSON"),
        (with(delivery(), body("[\"hush\"]")), "envelope_malformed", "not a JSON object"),
        (with(delivery(), body(r#"{"hush":1,"hush":1}"#)), "envelope_malformed", "twice"),
        (with(delivery(), body(&deep)), "envelope_malformed", "too deep"),
        (with(delivery(), body(r#"{"task_webhook_delivery_version":1}"#)), "envelope_malformed", "marks a legacy"),
        (with(delivery(), auth("Basic", "hush")), "envelope_malformed", "none of Bearer"),
        (with(registration(), auth("Bearer", "")), "envelope_malformed", "credentials are empty"),
        (with(registration(), auth("Bearer", "hush\r\n")), "credentials_unsendable", "header"),
        (with(delivery(), auth("HMAC-SHA256", "hush")), "hmac_disabled", "switched off"),
        (with(delivery(), auth("Standard-Webhooks", "whsec_hush")), "envelope_malformed", "24 to 64 bytes"),
        (with(registration(), auth("Standard-Webhooks", "hush")), "envelope_malformed", "24 to 64 bytes"),
        (
            with(with(registration(), auth("Bearer", "hush")), json!({"signing_scope_id": "a"})),
            "envelope_malformed",
            "scope",
        ),
    ];
    for (item, code, words) in table {
        let item = item.as_array().map_or(item.clone(), |items| json!([items[0]]));
        let (found, sentence) = desk.seal_one(&item).expect_err(words);
        assert_eq!(found, code, "{item}: {sentence}");
        assert!(sentence.contains(words), "{item}: {sentence}");
        assert!(!sentence.replace("hush_key", "").contains("hush"), "{sentence}");
    }
}

#[test]
fn scopes_follow_the_way_in_which_rows_are_signed() {
    let mut desk = Desk::new(&[1]);
    let scoped = with(registration(), json!({"signing_scope_id": "a"}));
    let legacy = with(registration(), json!({"authentication": {"scheme": "Bearer", "credentials": "hush"}}));
    let code = |desk: &Desk, item: &Value| desk.seal_one(item).map_err(|(code, _)| code).err();
    desk.scopes = ScopeRule::Never;
    assert_eq!((code(&desk, &registration()), code(&desk, &scoped)), (None, Some("scope_unexpected")));
    desk.scopes = ScopeRule::Must;
    assert_eq!((code(&desk, &registration()), code(&desk, &scoped)), (Some("scope_required"), None));
    assert_eq!(code(&desk, &legacy), None);
}

#[test]
fn a_batch_keeps_its_order_and_names_each_fault_by_its_place() {
    let desk = Desk::new(&[1]);
    let bad = with(registration(), json!({"url": "ftp://hush"}));
    let outcome = desk.seal(&json!([registration(), bad, delivery(), bad]));
    assert_eq!(outcome.faults.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(outcome.sealed, ["registration", "delivery"]);
    let answers: Value = serde_json::from_str(&outcome.answers).unwrap();
    assert_eq!((&answers[0]["kind"], &answers[2]["kind"]), (&json!("registration"), &json!("delivery")));
    assert_eq!((&answers[1]["error"]["index"], &answers[3]["error"]["code"]), (&json!(1), &json!("url_refused")));
    assert!(!outcome.answers.contains("hush"));
}

#[test]
fn a_row_that_came_apart_from_its_envelope_is_told_how() {
    let desk = Desk::new(&[1]);
    let good = with(delivery(), desk.seal_one(&delivery()).unwrap());
    let hint = |row: &Value| desk.describe(row)["problems"][0]["hint"].as_str().unwrap_or_default().to_owned();
    assert!(hint(&with(good.clone(), json!({"terminal_status": "failed"}))).contains("terminal_status"));
    assert!(hint(&with(good.clone(), json!({"signing_scope_id": "x"}))).contains("null signing_scope_id"));
    assert!(hint(&with(good.clone(), json!({"ciphertext": "\\x00"}))).is_empty(), "it is too short for a tag");
    assert!(hint(&with(good.clone(), json!({"url": "https://other.example/"}))).contains("changed since"));
    let told = desk.describe(&with(good.clone(), json!({"nonce": "\\x00", "nonce_base64": null})));
    assert_eq!(told["problems"][0]["code"], "row_malformed");
    let told = desk.describe(&with(good, json!({"account_id": "hush"})));
    assert!(!told.to_string().contains("hush"), "{told}");
}

#[test]
fn a_composed_row_is_told_by_its_registration_and_its_hints_are_held_against_it() {
    let desk = Desk::new(&[1]);
    let sealed = desk.seal_one(&registration()).unwrap();
    let row = |changes: Value| {
        let row = json!({
            "terminal_status": "completed", "url": "", "operation_id": "", "idempotency_key": "whk_0123456789abcdef",
            "encrypted_body": sealed["ciphertext"], "envelope_nonce": sealed["nonce"], "kind": null,
        });
        with(with(registration(), row), changes)
    };
    let told = desk.describe(&row(json!({})));
    assert_eq!(
        (&told["kind"], &told["operation_id"], &told["problems"]),
        (&json!("composed"), &json!("op_1"), &Value::Null)
    );
    for wrong in [json!({"url": "https://x.example"}), json!({"operation_id": "x"}), json!({"signing_scope_id": "x"})] {
        assert_eq!(desk.describe(&row(wrong))["problems"][0]["code"], "envelope_mismatch");
    }
}
