//! `outboxd verify`: what the daemon sends passes, each fault has its code and step, captures of every kind are read, and
//! nothing hostile gets through to the terminal or takes its time.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::keys::SigningKey;
use crate::support::receiver::Received;
use crate::support::seal::Draft;
use crate::support::tool::{Done, outboxd};
use crate::support::world::World;

const EX_USAGE: Option<i32> = Some(64);
const EX_DATAERR: Option<i32> = Some(65);
const EX_NOINPUT: Option<i32> = Some(66);
const HMAC_SECRET: &str = "hmac-secret-0123456789abcdef01234567";
const WHSEC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

async fn verify(config: &Config, arguments: &[&str], request: impl Into<Vec<u8>>) -> Done {
    outboxd(config, &[&["verify"], arguments].concat(), request).await
}

/// The report as JSON.
async fn report(config: &Config, arguments: &[&str], request: impl Into<Vec<u8>>) -> (Value, Option<i32>) {
    let done = verify(config, &[&["--json", "--explain"], arguments].concat(), request).await;
    (serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}")), done.code)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// One request of each scheme as the daemon sends it, and a directory with what they are judged by.
async fn sent() -> (World, Config, Vec<Received>) {
    let world = World::new().await;
    let url = world.receiver.url("/hooks/adcp?tenant=7");
    let drafts = vec![
        Draft::to(&url),
        Draft::to(&url).authentication("HMAC-SHA256", HMAC_SECRET),
        Draft::to(&url).authentication("Standard-Webhooks", WHSEC),
    ];
    let order: Vec<String> = drafts.iter().map(|draft| draft.idempotency_key.clone()).collect();
    world.database.insert(&world.seal(drafts)).await;
    let daemon = Daemon::start(&world.config().set("envelope.legacy_hmac", true)).await;
    world.all_are("delivered").await;
    daemon.kill().await;
    let mut received = world.receiver.received();
    received.sort_by_key(|request| order.iter().position(|key| *key == request.idempotency_key()));
    let files = Config::empty();
    files.file_with_mode("jwks.json", json!({"keys": [world.signer.public_jwk()]}).to_string(), 0o644);
    files.file_with_mode("jwk.json", world.signer.public_jwk().to_string(), 0o644);
    files.file("hmac", format!("{}\n{HMAC_SECRET}\n", "another secret"));
    files.file("whsec", WHSEC);
    (world, files, received)
}

#[tokio::test]
async fn what_the_daemon_sends_passes_in_every_form_of_capture() {
    let (_world, files, received) = sent().await;
    let path = |name: &str| text(&files.path(name));
    let body = files.file("body", &received[0].body);
    let head: String = received[0].headers.iter().map(|(name, value)| format!("> {name}: {value}\n")).collect();
    let target = &received[0].target;
    let printed = format!(
        "* Trying 127.0.0.1...\n> POST {target} HTTP/1.1\n{head}> \n}} [9 bytes data]\n< HTTP/1.1 200 OK\n< \n"
    );
    let host = received[0].header("host").expect("HTTP/1.1 has it").to_string();
    let options: Vec<String> = received[0]
        .headers
        .iter()
        .filter(|(name, _)| !["host", "content-length", "accept-encoding"].contains(&name.to_lowercase().as_str()))
        .map(|(name, value)| format!("-H {}", quoted(&format!("{name}: {value}"))))
        .collect();
    let command =
        |data: String| format!("curl -sS -X POST 'https://{host}{target}' \\\n  {} {data}\n", options.join(" \\\n  "));
    let inline = String::from_utf8(received[0].body.clone()).expect("the body is text");
    let (jwks, jwk) = (path("jwks.json"), path("jwk.json"));
    let stored = files.file("request.http", received[0].raw());
    for (arguments, request) in [
        (vec!["--jwks", &jwks], received[0].raw()),
        (vec!["-", "--jwks", &jwk], received[0].raw()),
        (vec![stored.to_str().expect("UTF-8"), "--jwks", &jwks], Vec::new()),
        (vec!["--jwks", &jwks, "--body", body.to_str().expect("UTF-8")], printed.clone().into_bytes()),
        (vec!["--jwks", &jwks], command(format!("--data-binary {}", quoted(&inline))).into_bytes()),
        (vec!["--jwks", &jwks], command(format!("--data-binary '@{}'", body.display())).into_bytes()),
        (vec!["--secret-file", &path("hmac")], received[1].raw()),
        (vec!["--secret-file", &path("whsec")], received[2].raw()),
    ] {
        let done = verify(&files, &arguments, request).await;
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{arguments:?} {done:?}");
        assert!(done.stdout.ends_with("pass\n") && !done.stdout.contains("FAIL"), "{done:?}");
        for secret in [HMAC_SECRET, &WHSEC[6..]] {
            assert!(!done.stdout.contains(secret), "{done:?}");
        }
    }
    let done = verify(&files, &["--jwks", &jwks], printed).await;
    assert_eq!(done.code, EX_USAGE, "{done:?}");
    assert!(done.stderr.contains("--body"), "{}", done.stderr);
}

#[tokio::test]
async fn an_old_capture_is_judged_as_of_when_it_came_in_and_behind_a_proxy_as_it_was_aimed() {
    let world = World::new().await;
    world.insert("/hooks", 1).await;
    let daemon = Daemon::start(&world.config()).await;
    let request = world.receiver.wait_for(1).await.remove(0);
    daemon.kill().await;
    let files = Config::empty();
    let jwks =
        text(&files.file_with_mode("jwks.json", json!({"keys": [world.signer.public_jwk()]}).to_string(), 0o644));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970").as_secs();
    let (judged, code) = report(&files, &["--jwks", &jwks, "--at", &(now + 3600).to_string()], request.raw()).await;
    assert_eq!(
        (code, &judged["code"], &judged["step"]),
        (EX_DATAERR, &json!("webhook_signature_window_invalid"), &json!("5"))
    );
    assert!(judged["remedy"].as_str().expect("text").contains("--at"), "{judged}");
    let (judged, code) = report(&files, &["--jwks", &jwks], request.raw()).await;
    assert_eq!((code, &judged["verdict"]), (Some(0), &json!("pass")));
    let base = judged["explain"]["base"].as_str().expect("text");
    let lines: Vec<&str> = base.split('\n').collect();
    assert_eq!((lines[0], lines.len()), ("\"@method\": POST", 6));
    assert_eq!(judged["explain"]["key"]["kid"], json!(world.signer.kid));
    assert_eq!(judged["explain"]["digest"]["received"], judged["explain"]["digest"]["computed"]);

    let mut proxied = request.clone();
    let origin = format!("https://{}", request.header("host").expect("HTTP/1.1 has it"));
    proxied
        .headers
        .iter_mut()
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .for_each(|(_, value)| *value = "inner:8080".into());
    let (judged, code) = report(&files, &["--jwks", &jwks], proxied.raw()).await;
    assert_eq!(
        (code, &judged["code"], &judged["step"]),
        (EX_DATAERR, &json!("webhook_signature_invalid"), &json!("10"))
    );
    assert!(judged["remedy"].as_str().expect("text").contains("--url"), "{judged}");
    let (judged, _) = report(&files, &["--jwks", &jwks, "--url", &origin], proxied.raw()).await;
    assert_eq!(judged["verdict"], "pass");
}

#[tokio::test]
async fn a_line_break_that_an_editor_added_is_found_out() {
    let world = World::new().await;
    world.insert("/hooks", 1).await;
    let daemon = Daemon::start(&world.config()).await;
    let mut request = world.receiver.wait_for(1).await.remove(0);
    daemon.kill().await;
    request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-length"));
    request.body.push(b'\n');
    let files = Config::empty();
    let jwks =
        text(&files.file_with_mode("jwks.json", json!({"keys": [world.signer.public_jwk()]}).to_string(), 0o644));
    let done = verify(&files, &["--jwks", &jwks, "--explain"], request.raw()).await;
    assert_eq!(done.code, EX_DATAERR, "{done:?}");
    assert!(done.stdout.contains("without its last line break"), "{}", done.stdout);
    assert!(done.stdout.contains("\"@method\": POST\u{240a}\n"), "{}", done.stdout);
    assert!(done.stderr.contains("webhook_signature_digest_mismatch (step 11)"), "{}", done.stderr);
}

/// The corpora of every version that the installed SDK ships.
fn shipped() -> Vec<PathBuf> {
    let python = std::env::var_os("OUTBOXD_TEST_PYTHON").map(PathBuf::from);
    let python = python.unwrap_or(Path::new(env!("CARGO_MANIFEST_DIR")).join("target/venv/bin/python"));
    let libraries = python.parent().and_then(Path::parent).expect("an interpreter is in bin").join("lib");
    let inside = |dir: &Path| {
        let entries = std::fs::read_dir(dir)
            .unwrap_or_else(|error| panic!("{}: {error}; run: sh tests/needs.sh test", dir.display()));
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it is listed").path()).collect();
        paths.sort();
        paths
    };
    let python = inside(&libraries).pop().expect("the environment has a Python");
    let versions = inside(&python.join("site-packages/adcp/_compliance")).into_iter();
    versions.map(|path| path.join("test-vectors/webhook-signing")).filter(|path| path.is_dir()).collect()
}

fn read(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Two vectors that no command can judge which sees one request: their state is in a receiver's store.
const STATEFUL: [&str; 2] = ["016-replayed-nonce.json", "018-rate-abuse.json"];

#[tokio::test]
async fn every_shipped_webhook_vector_earns_its_code_and_step_by_command() {
    let files = Config::empty();
    let mut judged = 0;
    for dir in shipped() {
        let keys = read(&dir.join("keys.json"));
        for kind in ["positive", "negative"] {
            let entries = std::fs::read_dir(dir.join(kind)).expect("it is there");
            for path in entries.map(|entry| entry.expect("it is listed").path()) {
                let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
                if STATEFUL.contains(&name.as_str()) {
                    continue;
                }
                judge_by_command(&files, &read(&path), &keys, &format!("{} {name}", dir.display())).await;
                judged += 1;
            }
        }
    }
    assert_eq!(judged, 27 * shipped().len());
}

async fn judge_by_command(files: &Config, vector: &Value, keys: &Value, name: &str) {
    let wanted = vector["jwks_ref"].as_array().expect("a list");
    let keys: Vec<Value> =
        keys["keys"].as_array().expect("a list").iter().filter(|key| wanted.contains(&key["kid"])).cloned().collect();
    let keys: Vec<Value> = keys
        .into_iter()
        .map(|key| {
            let instead = &vector["jwks_override"][key["kid"].as_str().expect("text")];
            if instead.is_object() { instead.clone() } else { key }
        })
        .collect();
    let jwks = text(&files.file_with_mode("jwks.json", json!({"keys": keys}).to_string(), 0o644));
    let state = &vector["test_harness_state"];
    let mut list = json!({"revoked_kids": state["revoked_kids"].as_array().cloned().unwrap_or_default()});
    if state["revocation_list_stale_seconds"].is_number() {
        list["next_update"] = "2026-01-01T00:00:00Z".into();
    }
    let list = text(&files.file_with_mode("revocation.json", list.to_string(), 0o644));
    let request = &vector["request"];
    let url = request["url"].as_str().expect("text");
    let (_, rest) = url.split_once("://").expect("an absolute URL");
    let (host, path) = rest.split_at(rest.find('/').expect("it has a path"));
    let mut raw = format!("{} {path} HTTP/1.1\r\nHost: {host}\r\n", request["method"].as_str().expect("text"));
    for (name, value) in request["headers"].as_object().expect("an object") {
        raw.push_str(&format!("{name}: {}\r\n", value.as_str().expect("text")));
    }
    raw.push_str(&format!("\r\n{}", request["body"].as_str().expect("text")));
    let at = vector["reference_now"].to_string();
    let (told, code) = report(files, &["--jwks", &jwks, "--revocation", &list, "--at", &at], raw).await;
    let expected = &vector["expected_outcome"];
    if expected["success"] == true {
        assert_eq!((code, &told["verdict"]), (Some(0), &json!("pass")), "{name}: {told}");
        if vector["expected_signature_base"].is_string() {
            assert_eq!(told["explain"]["base"], vector["expected_signature_base"], "{name}");
        }
        return;
    }
    assert_eq!((code, &told["code"]), (EX_DATAERR, &expected["error_code"]), "{name}: {told}");
    assert_eq!(told["step"], expected["failed_step"].to_string(), "{name}: {told}");
    // One check failed, the last that was made.
    let made: Vec<&str> = told["checks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|check| check["outcome"].as_str().expect("text"))
        .filter(|outcome| *outcome != "not_made")
        .collect();
    assert_eq!(made.iter().position(|outcome| *outcome == "fail"), Some(made.len() - 1), "{name}: {told}");
}

#[tokio::test]
async fn a_shared_secret_that_does_not_fit_is_told_by_the_check_that_fails() {
    let (_world, files, received) = sent().await;
    let (hmac, whsec) = (text(&files.path("hmac")), text(&files.path("whsec")));
    let other = text(&files.file("other", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"));
    let late = "2099-01-01T00:00:00Z";
    let mut stripped = received[2].clone();
    stripped.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("webhook-id"));
    let mut edited = received[1].clone();
    edited.body[1] = b' ';
    for (arguments, request, check, step) in [
        (vec!["--secret-file", &*other], &received[2], "signature", "5"),
        // The text after the prefix is no HMAC-SHA256 secret either.
        (vec!["--secret-file", &*whsec], &received[1], "signature", "5"),
        (vec!["--secret-file", &*hmac], &edited, "signature", "5"),
        (vec!["--secret-file", &*whsec, "--at", late], &received[2], "window", "4"),
        (vec!["--secret-file", &*whsec], &stripped, "headers", "1"),
        (vec!["--secret-file", &*hmac, "--scheme", "hmac-sha256"], &received[2], "headers", "1"),
    ] {
        let (told, code) = report(&files, &arguments, request.raw()).await;
        assert_eq!((code, &told["code"]), (EX_DATAERR, &json!("signature_legacy_failed")), "{told}");
        assert_eq!((&told["check"], &told["step"]), (&json!(check), &json!(step)), "{told}");
        assert!(!told.to_string().contains(&WHSEC[6..]) && !told.to_string().contains(HMAC_SECRET), "{told}");
    }
}

#[tokio::test]
async fn what_cannot_be_judged_ends_with_one_clear_error() {
    let files = Config::empty();
    let jwks = text(&files.file_with_mode("jwks.json", r#"{"keys": []}"#, 0o644));
    let open = text(&files.file_with_mode("open", HMAC_SECRET, 0o644));
    let whsec = text(&files.file("whsec", "hush"));
    let garbage = text(&files.file_with_mode("garbage.json", "{}", 0o644));
    let large = text(&files.file_with_mode("large.json", " ".repeat(300 << 10), 0o644));
    let directory = text(files.path("jwks.json").parent().expect("it is in one"));
    let signed = "POST / HTTP/1.1\nHost: b\nSignature: x\nSignature-Input: x\n\n{}";
    let standard = "POST / HTTP/1.1\nHost: b\nWebhook-Signature: v1,x\n\n{}";
    let huge = "x".repeat(12 << 20);
    for (arguments, request, code, words) in [
        (vec![], signed, EX_USAGE, "--jwks"),
        (vec![], standard, EX_USAGE, "--secret-file"),
        (vec!["--jwks", "/no/such"], signed, EX_NOINPUT, "the key set /no/such"),
        (vec!["/no/such", "--jwks", &*jwks], "", EX_NOINPUT, "the request /no/such"),
        (vec!["--secret-file", "/no/such"], standard, EX_NOINPUT, "the secret /no/such"),
        (vec!["--jwks", &*jwks, "--revocation", "/no/such"], signed, EX_NOINPUT, "the revocation list /no/such"),
        (vec!["--jwks", &*jwks, "--revocation", &*garbage], signed, EX_DATAERR, "revoked_kids"),
        (vec!["--jwks", &*garbage], signed, EX_DATAERR, "not a JSON Web Key Set"),
        (vec!["--jwks", &*large], signed, EX_DATAERR, "larger than"),
        (vec!["--jwks", &*directory], signed, EX_DATAERR, "not a regular file"),
        (vec!["--jwks", &*jwks, "--body", "/dev/zero"], signed, EX_DATAERR, "not a regular file"),
        (vec!["--secret-file", &*open], standard, EX_DATAERR, "chmod"),
        (vec!["--secret-file", &*whsec], standard, EX_DATAERR, "24 to 64 bytes"),
        (vec!["--jwks", &*jwks, "--at", "yesterday"], signed, EX_USAGE, "--at"),
        (vec!["--jwks", &*jwks, "--url", "b.example/hooks"], signed, EX_USAGE, "--url"),
        (vec!["--jwks", &*jwks], "", EX_DATAERR, "empty"),
        (vec!["--jwks", &*jwks], "\u{1b}[2J\u{1b}]0;hush\u{7}", EX_DATAERR, "line 1"),
        (vec!["--jwks", &*jwks], "HTTP/1.1 200 OK\n\n", EX_DATAERR, "a reply"),
        (vec!["--jwks", &*jwks], "curl $(hush) https://b", EX_DATAERR, "expand"),
        (vec!["--jwks", &*jwks], huge.as_str(), EX_DATAERR, "larger than"),
        (vec!["--jwks", &*jwks], "curl -d @/dev/zero https://b", EX_DATAERR, "not a regular file"),
    ] {
        let done = verify(&files, &arguments, request).await;
        assert_eq!((done.code, done.stdout.as_str()), (code, ""), "{arguments:?} {done:?}");
        assert!(done.stderr.contains(words) && !done.stderr.contains("hush"), "{arguments:?} {}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    }
}

#[tokio::test]
async fn nothing_of_a_hostile_request_writes_to_the_terminal_as_it_is() {
    let files = Config::empty();
    let key = SigningKey::ed25519("k");
    let mut jwk = key.public_jwk();
    jwk["kid"] = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}".into();
    jwk["d"] = STANDARD.encode("private").into();
    let jwks = text(&files.file_with_mode("jwks.json", json!({"keys": [jwk]}).to_string(), 0o644));
    let request = "POST /\u{9b}2J\u{202e}é HTTP/1.1\nHost: b.example\nContent-Type: application/json\n\
                   Signature-Input: sig1=(\"@method\" \"@target-uri\" \"@authority\" \"content-type\" \"content-digest\")\
                   ;created=1;expires=2;nonce=\"n\";keyid=\"k\";alg=\"ed25519\";tag=\"adcp/webhook-signing/v1\"\n\
                   Signature: sig1=:AA:\n\n{}";
    for at in ["1", "9999999999999999"] {
        let done = verify(&files, &["--jwks", &jwks, "--explain", "--at", at], request).await;
        assert_eq!(done.code, EX_DATAERR, "{done:?}");
        let plain = |c: char| c == '\n' || c == '\u{240a}' || c == '\u{2409}' || matches!(c, ' '..='~');
        assert!(done.stdout.chars().all(plain) && done.stderr.chars().all(plain), "{done:?}");
        assert!(!done.stdout.contains(&STANDARD.encode("private")), "{done:?}");
    }
}
