//! `outboxd seal` and `outboxd open`: against the daemon, against the real SDK, and against sealing in other languages.

use std::path::PathBuf;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::interop::{WHSEC, buyer};
use crate::support::cluster::TABLE;
use crate::support::config::{Config, text};
use crate::support::host::Host;
use crate::support::keys::hex;
use crate::support::peer::Peer;
use crate::support::seal::{Draft, EnvelopeKey, Sealed};
use crate::support::tool::{Done, outboxd, run};
use crate::support::world::World;

const EX_DATAERR: Option<i32> = Some(65);
const EX_NOINPUT: Option<i32> = Some(66);

/// Each stands for a kind of secret, and is long enough never to occur by chance.
const TOKEN: &str = "canary-token-5d1f0c5e";
const BODY: &str = "canary-body-93ab11d0";
const PATH: &str = "canary-path-77e0a1b2";
const BEARER: &str = "canary-bearer-c0ffee12";

/// A configuration with an envelope key and nothing else, as a host would have it.
fn key_only(key: &EnvelopeKey) -> Config {
    let config = Config::empty();
    let file = config.file("envelope.key", key.hex());
    config.set("envelope.key_files", vec![text(&file)])
}

pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"))).collect()
}

async fn seal(config: &Config, items: &[Value]) -> Vec<Value> {
    let input: String = items.iter().map(|item| format!("{item}\n")).collect();
    let done = outboxd(config, &["seal"], input).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let answers = lines(&done.stdout);
    assert_eq!(answers.len(), items.len());
    answers
}

pub fn registration(url: &str) -> Value {
    json!({
        "kind": "registration", "account_id": "acc_1", "task_id": "task_00000000000000aa",
        "task_type": "create_media_buy", "url": url, "operation_id": "op_1", "token": TOKEN,
    })
}

/// The item that asks for what the oracle would seal.
fn delivery(draft: &Draft) -> Value {
    json!({
        "kind": "delivery", "account_id": draft.account_id, "task_id": draft.task_id, "task_type": draft.task_type,
        "terminal_status": draft.terminal_status, "url": draft.url, "operation_id": draft.operation_id,
        "idempotency_key": draft.idempotency_key, "signing_scope_id": draft.signing_scope_id,
        "authentication": draft.authentication.as_ref().map(|(scheme, credentials)| {
            json!({"scheme": scheme, "credentials": credentials})
        }),
        "body_base64": STANDARD.encode(draft.body()),
    })
}

fn bytes(answer: &Value, name: &str) -> Vec<u8> {
    STANDARD.decode(answer[format!("{name}_base64")].as_str().expect("base64")).expect("it is base64")
}

fn stored(draft: Draft, answer: &Value) -> Sealed {
    Sealed { draft, encrypted_body: bytes(answer, "ciphertext"), envelope_nonce: bytes(answer, "nonce") }
}

/// One row's description, and how the command ended.
async fn told(config: &Config, arguments: &[&str], input: &str) -> (Value, Done) {
    let done = outboxd(config, &[&["open"], arguments].concat(), input).await;
    let mut rows = lines(&done.stdout);
    assert_eq!(rows.len(), 1, "{done:?}");
    (rows.remove(0), done)
}

#[tokio::test]
async fn what_the_command_seals_the_daemon_delivers_as_it_was_given() {
    let world = World::new().await;
    let config = world.config().set("envelope.legacy_hmac", true);
    let to = |authentication: Option<(&str, &str)>| {
        let mut draft = Draft::to(world.receiver.url("/hooks"));
        draft.account_id = "he said \"hi\" \\ / é 😀 \u{7f}\u{2028}\u{1}".into();
        draft.result = json!({"name": "Zoë 😀"});
        draft.authentication = authentication.map(|(scheme, credentials)| (scheme.into(), credentials.into()));
        draft
    };
    let drafts = vec![
        to(None),
        to(Some(("Bearer", BEARER))),
        to(Some(("HMAC-SHA256", "hmac \"secret\" é"))),
        to(Some(("Standard-Webhooks", WHSEC))),
    ];
    let items: Vec<Value> = drafts.iter().map(delivery).collect();
    let answers = seal(&config, &items).await;
    let rows: Vec<Sealed> = drafts.iter().cloned().zip(&answers).map(|(draft, answer)| stored(draft, answer)).collect();
    world.database.insert(&rows).await;
    let daemon = crate::support::daemon::Daemon::start(&config).await;
    let received = world.receiver.wait_for(drafts.len()).await;
    world.all_are("delivered").await;
    for draft in &drafts {
        assert!(received.iter().any(|request| request.body == draft.body()), "{} did not arrive", draft.task_id);
    }
    drop(daemon);
}

#[tokio::test]
async fn a_batch_with_a_fault_seals_nothing_unless_asked() {
    let config = key_only(&EnvelopeKey::new()).set("signing.key_file", "not-needed.pem");
    let good = registration("https://buyer.example.com/h");
    let mut scoped = good.clone();
    scoped["signing_scope_id"] = "a".into();
    let items = json!([good, registration("https://127.0.0.1/h"), good, scoped]).to_string();
    let done = outboxd(&config, &["seal"], items.clone()).await;
    assert_eq!((done.code, done.stdout.as_str()), (EX_DATAERR, ""));
    for named in ["item 1: literal_forbidden", "item 3: scope_unexpected"] {
        assert!(done.stderr.contains(named), "{}", done.stderr);
    }
    let done = outboxd(&config, &["seal", "--partial"], items).await;
    assert_eq!(done.code, EX_DATAERR);
    let answers: Value = serde_json::from_str(&done.stdout).expect("an array, as it was asked");
    let sealed: Vec<bool> = (0..4).map(|nth| answers[nth]["ciphertext"].is_string()).collect();
    assert_eq!(sealed, [true, false, true, false]);
    assert_eq!(answers[1]["error"]["code"], "literal_forbidden");
    for (input, words) in [("", "nothing"), ("{\"kind\": nonsense}", "line 1"), ("[1] [2]", "follows the array")] {
        let done = outboxd(&config, &["seal"], input).await;
        assert_eq!((done.code, done.stdout.as_str()), (EX_DATAERR, ""), "{input}");
        assert!(done.stderr.contains(words), "{}", done.stderr);
    }
}

#[tokio::test]
async fn a_stored_row_is_told_by_task_by_id_and_from_psql_alike() {
    let world = World::new().await;
    let config = world.config();
    let draft = world.insert("/hooks", 1).await.remove(0);
    let (by_task, done) = told(&config, &["--task", &draft.task_id], "").await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!((&by_task["opens"], &by_task["state"]), (&json!(true), &json!("pending")));
    let origin = world.receiver.url("").trim_start_matches("https://").to_string();
    assert_eq!((&by_task["destination"], &by_task["body"]), (&json!(origin), &Value::Null));
    let id = by_task["id"].to_string();
    let (by_id, _) = told(&config, &["--id", &id, "--body"], "").await;
    assert_eq!(by_id["body"].as_str().map(str::as_bytes), Some(draft.body().as_slice()));
    let row: String = world.database.value(&format!("SELECT row_to_json(o)::text FROM {TABLE} o"), &[]).await;
    let (piped, _) = told(&config, &[], &row).await;
    assert_eq!((&piped["key"], &piped["members"]), (&by_task["key"], &by_task["members"]));
    for arguments in [["open", "--id", "999999"], ["open", "--task", "task_absent"]] {
        let done = outboxd(&config, &arguments, "").await;
        assert_eq!((done.code, done.stdout.as_str()), (EX_NOINPUT, ""), "{done:?}");
    }
    world.database.execute(&format!("UPDATE {TABLE} SET operation_id = 'other'"), &[]).await;
    let (changed, done) = told(&config, &["--id", &id], "").await;
    assert_eq!((done.code, &changed["problems"][0]["code"]), (EX_DATAERR, &json!("envelope_unopenable")));
}

/// The SDK's own outbox over the world's database.
async fn sdk(world: &World) -> Peer {
    let seller = Peer::seller().await;
    let signing =
        json!({"pem": world.signer.pem(), "kid": world.signer.kid, "algorithm": world.signer.algorithm.name()});
    let open = json!({"dsn": world.database.url, "key": world.key.hex(), "signing": signing, "legacy_hmac": true});
    seller.call("open", open).await;
    seller
}

#[tokio::test]
async fn the_sdk_opens_what_the_command_seals() {
    let world = World::new().await;
    let config = world.config().set("envelope.legacy_hmac", true);
    let seller = sdk(&world).await;
    let mut items = vec![registration("https://buyer.example.com/hooks?x=%C3%A9"); 3];
    items[1]["account_id"] = "he said \"hi\" \\ / é 😀 \u{1}".into();
    items[1]["authentication"] = json!({"scheme": "Bearer", "credentials": BEARER});
    items[2]["authentication"] = json!({"scheme": "HMAC-SHA256", "credentials": "secret é 😀"});
    items[2].as_object_mut().expect("an object").remove("token");
    for (item, answer) in items.iter().zip(seal(&config, &items).await) {
        let read = seller
            .call("open_registration", json!({
                "task": {"account_id": item["account_id"], "task_id": item["task_id"], "task_type": item["task_type"]},
                "sealed": answer["ciphertext_base64"], "nonce": answer["nonce_base64"],
            }))
            .await;
        let authentication = item["authentication"].as_object().map(|it| json!([it["scheme"], it["credentials"]]));
        assert_eq!(read, json!([item["url"], item["operation_id"], item["token"], authentication, null]));
    }
    let drafts = vec![
        Draft::to("https://buyer.example.com/hooks"),
        Draft::to("https://buyer.example.com/é").authentication("Bearer", BEARER),
        Draft::to("https://buyer.example.com/hooks").authentication("HMAC-SHA256", "secret é"),
    ];
    let answers = seal(&config, &drafts.iter().map(delivery).collect::<Vec<Value>>()).await;
    let rows: Vec<Sealed> = drafts.iter().cloned().zip(&answers).map(|(draft, answer)| stored(draft, answer)).collect();
    world.database.insert(&rows).await;
    for draft in &drafts {
        let body = seller.call("sealed_body", json!({"task_id": draft.task_id})).await;
        assert_eq!(body, STANDARD.encode(draft.body()));
    }
}

/// A task that a host issued in SQL with our registration is ended by the SDK, and its row is told as good.
#[tokio::test]
async fn the_sdk_ends_a_task_whose_registration_the_command_sealed() {
    let world = World::new().await;
    let config = world.config();
    let seller = sdk(&world).await;
    let item = registration(&world.receiver.url("/hooks"));
    let answer = seal(&config, std::slice::from_ref(&item)).await.remove(0);
    let task_id = item["task_id"].as_str().expect("text");
    world
        .database
        .execute(
            "INSERT INTO decisioning_tasks (task_id, account_id, task_type, webhook_registration, \
             webhook_registration_nonce, created_at, updated_at) \
             VALUES ($1, 'acc_1', 'create_media_buy', $2::text::bytea, $3::text::bytea, 0, 0)",
            &[&task_id, &answer["ciphertext"].as_str(), &answer["nonce"].as_str()],
        )
        .await;
    let (open, _) = told(&config, &["--task", task_id], "").await;
    assert_eq!(
        (&open["kind"], &open["state"], &open["has_token"]),
        (&json!("registration"), &json!("submitted"), &json!(true))
    );
    seller.call("complete", json!({"task_id": task_id})).await;
    let (ended, done) = told(&config, &["--task", task_id], "").await;
    assert_eq!((done.code, &ended["kind"], &ended["scheme"]), (Some(0), &json!("delivery"), &json!("rfc9421")));
    assert_eq!(open["destination"], ended["destination"]);
}

/// The registration is sealed by command, the task ends in SQL, and the SDK's verifier judges what the daemon composed.
#[tokio::test]
async fn a_standard_webhooks_registration_serves_a_task_that_ends_in_sql_and_not_one_that_the_sdk_ends() {
    let world = World::new().await;
    let config = world.config();
    let seller = sdk(&world).await;
    let host = Host::on(&world.database).await;
    let (buyer, origin) = buyer(&config, &[&world.signer]).await;
    let mut item = registration(&format!("{origin}/standard"));
    item["authentication"] = json!({"scheme": "Standard-Webhooks", "credentials": WHSEC});
    let answer = seal(&config, std::slice::from_ref(&item)).await.remove(0);
    let task_id = item["task_id"].as_str().expect("text");
    let issue = "SELECT outboxd.issue_task('acc_1', 'create_media_buy', NULL, $1::text::bytea, $2::text::bytea, $3)";
    let sealed = [&answer["ciphertext"], &answer["nonce"]].map(|text| text.as_str());
    world.database.execute(issue, &[&sealed[0], &sealed[1], &task_id]).await;
    let (open, done) = told(&config, &["--task", task_id], "").await;
    assert_eq!((done.code, &open["scheme"]), (Some(0), &json!("standard-webhooks")));
    let refusal = seller.call("cannot_complete", json!({"task_id": task_id})).await;
    assert!(refusal.as_str().expect("text").contains("unsupported task webhook authentication scheme"), "{refusal}");
    assert_eq!(host.complete(task_id, r#"{"media_buy_id": "mb_1"}"#).await, Ok(true));
    let _daemon = crate::support::daemon::Daemon::start(&config).await;
    let records = buyer.call("wait", json!({"count": 1})).await;
    assert_eq!((&records[0]["status"], &records[0]["target"]), (&json!(200), &json!("/standard")), "{records}");
    world.all_are("delivered").await;
}

#[tokio::test]
async fn what_the_sdk_seals_is_told_for_what_it_is() {
    let world = World::new().await;
    let config = world.config().set("envelope.legacy_hmac", true);
    let seller = sdk(&world).await;
    let kinds = [
        (Value::Null, "rfc9421"),
        (json!(["Bearer", BEARER]), "bearer"),
        (json!(["HMAC-SHA256", "secret é 😀"]), "hmac-sha256"),
    ];
    for (authentication, scheme) in kinds {
        let url = "https://buyer.example.com:8443/é?q";
        let task = json!({"url": url, "operation_id": "op:é", "token": TOKEN, "authentication": authentication});
        let open = seller.call("register", json!({"tasks": [task]})).await;
        let ended = seller.call("emit", json!({"tasks": [task]})).await;
        for (task_id, kind) in [(&open[0], "registration"), (&ended[0]["task_id"], "delivery")] {
            let (told, done) = told(&config, &["--task", task_id.as_str().expect("text"), "--body"], "").await;
            assert_eq!(done.code, Some(0), "{done:?}");
            let seen = (&told["kind"], &told["scheme"], &told["destination"], &told["operation_id"]);
            assert_eq!(seen, (&json!(kind), &json!(scheme), &json!("buyer.example.com:8443"), &json!("op:é")));
            if kind == "delivery" {
                assert_eq!(STANDARD.encode(told["body"].as_str().expect("text")), ended[0]["body"]);
            }
            assert!(!done.stdout.contains(BEARER), "{}", done.stdout);
        }
    }
}

#[tokio::test]
async fn the_examples_in_other_languages_seal_what_the_command_opens() {
    let key = EnvelopeKey::new();
    let config = key_only(&key);
    let file = text(&config.path("envelope.key"));
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("OUTBOXD_TEST_PYTHON").map_or(root.join("target/venv/bin/python"), PathBuf::from);
    let mut bodies = Vec::new();
    for (program, example) in
        [(python, "seal.py"), (PathBuf::from("node"), "seal.mjs"), (PathBuf::from("java"), "Seal.java")]
    {
        let mut command = Command::new(program);
        command.arg(root.join("sql/host/examples").join(example)).arg(&file);
        let printed = run(command, "").await;
        assert_eq!(printed.code, Some(0), "{example}: {}", printed.stderr);
        let done = outboxd(&config, &["open", "--body"], printed.stdout).await;
        assert_eq!(done.code, Some(0), "{example}: {done:?}");
        let rows = lines(&done.stdout);
        assert_eq!((&rows[0]["kind"], &rows[0]["has_token"]), (&json!("registration"), &json!(true)), "{example}");
        assert_eq!((&rows[1]["kind"], &rows[1]["destination"]), (&json!("delivery"), &json!("buyer.example.com:443")));
        bodies.push(rows[1]["body"].as_str().expect("text").to_string());
    }
    let parsed: Vec<Value> = bodies.iter().map(|body| serde_json::from_str(body).expect("JSON")).collect();
    assert_eq!(parsed[0]["result"]["name"], "Zoë 😀");
    assert!(parsed.iter().all(|body| *body == parsed[0]), "{bodies:?}");
}

#[tokio::test]
async fn no_secret_comes_out_of_either_command() {
    let world = World::new().await;
    let config = world.config();
    let mut draft = Draft::to(world.receiver.url(&format!("/{PATH}"))).authentication("Bearer", BEARER);
    draft.result = json!({"secret": BODY, "token": TOKEN});
    let mut registration = registration(&world.receiver.url(&format!("/{PATH}")));
    registration["authentication"] = json!({"scheme": "Bearer", "credentials": BEARER});
    let change = |item: &Value, name: &str, value: Value| {
        let mut item = item.clone();
        item[name] = value;
        item
    };
    let good = [delivery(&draft), registration.clone()];
    let mut inputs: Vec<String> = good.iter().map(Value::to_string).collect();
    for item in &good {
        for (name, value) in [
            ("kind", json!(BODY)),
            ("token", json!([TOKEN])),
            ("url", json!(format!("http://{PATH}.example/{PATH}"))),
            ("authentication", json!(BEARER)),
            ("authentication", json!({"scheme": BEARER, "credentials": BEARER})),
            ("authentication", json!({"scheme": "Bearer", "credentials": BEARER, TOKEN: 1})),
            ("body", json!(BODY)),
            ("operation_id", json!({TOKEN: BODY})),
            (BEARER, json!(1)),
        ] {
            inputs.push(change(item, name, value).to_string());
        }
        inputs.push(format!("{item}{{\"{TOKEN}\": {BODY}}}"));
        inputs.push(item.to_string().replace('}', ""));
    }
    let mut sealed = world.seal(vec![draft]).remove(0);
    let key = [world.key.hex(), STANDARD.encode(world.key.0)];
    let clean = |place: &str, text: &str| {
        for canary in [TOKEN, BODY, PATH, BEARER, &key[0], &key[1]] {
            assert!(!text.contains(canary), "{canary} is in {place}: {text}");
        }
    };
    for input in &inputs {
        for arguments in [["seal"].as_slice(), &["seal", "--partial"], &["open"]] {
            let done = outboxd(&config, arguments, input.as_str()).await;
            clean(&format!("{arguments:?} < {input}"), &format!("{}{}", done.stdout, done.stderr));
        }
    }
    for plaintext in [
        sealed.draft.plaintext(),
        format!(r#"{{"task_webhook_delivery_version":1,"authentication":"{BEARER}","body":7}}"#).into(),
        format!(r#"{{"task_webhook_delivery_version":2,"authentication":"{BEARER}","body":"{BEARER}"}}"#).into(),
        format!("{BEARER} {{").into(),
    ] {
        sealed = sealed.draft.seal_plaintext(&world.key, &plaintext);
        let row = json!({
            "encrypted_body": format!("\\x{}", hex(&sealed.encrypted_body)),
            "envelope_nonce": format!("\\x{}", hex(&sealed.envelope_nonce)),
        });
        let mut whole = delivery(&sealed.draft);
        whole.as_object_mut().expect("an object").extend(row.as_object().expect("an object").clone());
        for arguments in [["open"].as_slice(), &["open", "--body"]] {
            let done = outboxd(&config, arguments, whole.to_string()).await;
            let shown = format!("{}{}", done.stdout, done.stderr);
            assert!(!shown.contains(BEARER), "{shown}");
            if arguments.len() == 1 {
                clean("open", &shown);
            }
        }
    }
}
