//! Several signing keys with windows, and encrypted ones: which signs when, and what is said when none may.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::interop::{seller, signing};
use crate::support::certs::Authority;
use crate::support::config::{Config, text};
use crate::support::daemon::{Daemon, Ended};
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::keys::SigningKey;
use crate::support::metrics::ATTEMPTS;
use crate::support::peer::Peer;
use crate::support::signing::{lasting, seconds, with_keys};
use crate::support::verify::assert_signed;
use crate::support::world::World;

async fn check(config: &Config) -> Ended {
    Daemon::command(config, &["check"]).wait_exit(PATIENCE).await
}

#[tokio::test]
async fn the_next_key_signs_from_its_first_moment_on_without_a_word_to_the_daemon() {
    let world = World::new().await;
    let (old, new) = (SigningKey::ed25519("old"), SigningKey::p256("new"));
    // Until then the daemon is to start and to deliver once, on a busy machine too.
    let turn = seconds(12);
    let keys = [lasting(&old).until(turn + Duration::from_secs(3600)), lasting(&new).from(turn)];
    let daemon = Daemon::start(&with_keys(world.config(), &keys)).await;
    let mut sent = 0;
    let signers = eventually("the new key signs", async || {
        world.insert("/hooks", 1).await;
        sent += 1;
        let received = world.receiver.wait_for(sent).await;
        let signers: Vec<bool> = received.iter().map(|request| is_signed_by(request, &new)).collect();
        if signers.last() == Some(&true) { Ok(signers) } else { Err("still the old one") }
    })
    .await;
    assert!(signers.is_sorted() && !signers[0], "{signers:?}");
    for (request, by_new) in world.receiver.received().iter().zip(signers) {
        let signed = assert_signed(request, if by_new { &new } else { &old });
        let turned = turn.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed();
        assert!(if by_new { signed.created >= turned } else { signed.created <= turned }, "{signed:?} {turned}");
    }
    let rows = world.all_are("delivered").await;
    assert!(rows.iter().all(|row| row.attempt_count == 1), "{rows:?}");
    assert_eq!(daemon.metrics().await.total(ATTEMPTS, &[]), rows.len() as f64);
}

fn is_signed_by(request: &crate::support::receiver::Received, key: &SigningKey) -> bool {
    request.header("signature-input").is_some_and(|input| input.contains(&format!("keyid=\"{}\"", key.kid)))
}

#[tokio::test]
async fn without_a_key_in_its_window_rows_wait_readiness_warns_and_nothing_is_lost() {
    let world = World::new().await;
    let key = SigningKey::ed25519("late");
    let config = world.config().set("retry.base", "100ms").set("retry.cap", "1s");
    let daemon = Daemon::start(&with_keys(config.clone(), &[lasting(&key).from(seconds(3600))])).await;
    world.insert("/hooks", 1).await;
    eventually("the row waits", async || match world.database.rows().await.remove(0) {
        row if row.last_error.as_deref() == Some("signing_unavailable") => Ok(()),
        row => Err(row),
    })
    .await;
    let (status, page) = daemon.get("/readyz").await.unwrap();
    assert!(status == 200 && page.contains("warning") && page.contains("no signing key"), "{page}");
    assert_eq!(world.receiver.received().len(), 0);
    with_keys(config, &[lasting(&key)]).write();
    let rows = world.all_are("delivered").await;
    assert!(rows[0].attempt_count > 1);
    assert_signed(&world.receiver.received()[0], &key);
}

#[tokio::test]
async fn check_tells_of_each_key_what_it_does() {
    let world = World::new().await;
    let keys = ["older", "now", "next", "past"].map(SigningKey::ed25519);
    let listed = [
        lasting(&keys[0]),
        lasting(&keys[1]).from(seconds(-100)).until(seconds(86_400)),
        lasting(&keys[2]).from(seconds(3600)),
        lasting(&keys[3]).from(seconds(-300)).until(seconds(-200)),
    ];
    let ended = check(&with_keys(world.config(), &listed)).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    let line = |kid: &str| ended.output.lines().find(|line| line.contains(&format!("\"{kid}\""))).unwrap_or_default();
    for (kid, words) in
        [("older", "stands by"), ("now", "signs now until"), ("next", "signs from"), ("past", "signs no more since")]
    {
        assert!(line(kid).contains(words) && line(kid).starts_with("ok    signing"), "{kid}: {}", ended.output);
    }
    assert!(line("past").contains("published until"), "{}", ended.output);

    let ended = check(&with_keys(world.config(), &[lasting(&keys[0]).until(seconds(86_400))])).await;
    assert!(ended.output.contains("warn  signing") && ended.output.contains("on no key may sign"), "{}", ended.output);
    let ended = check(&with_keys(world.config(), &[lasting(&keys[0]).until(seconds(-1))])).await;
    assert!(ended.output.contains("no key may sign now"), "{}", ended.output);
    assert_eq!(ended.code, Some(0), "rows wait; that is no reason not to start: {}", ended.output);
}

#[tokio::test]
async fn keys_that_cannot_stand_beside_each_other_are_refused_at_the_start() {
    let world = World::new().await;
    let (one, other) = (SigningKey::ed25519("one"), SigningKey::p256("other"));
    let same = SigningKey::ed25519("one");
    let refused = async |keys: &[crate::support::signing::Listed<'_>], words: &[&str]| {
        let ended = Daemon::spawn(&with_keys(world.config(), keys)).wait_exit(PATIENCE).await;
        assert_eq!(ended.code, Some(78), "{}", ended.output);
        assert!(words.iter().all(|word| ended.output.contains(word)), "{words:?}: {}", ended.output);
    };
    refused(&[lasting(&one), lasting(&other)], &["signing.keys", "keys 1 and 2", "not_before"]).await;
    refused(&[lasting(&one), lasting(&same).from(seconds(9))], &["signing.keys", "keys 1 and 2", "one key id"]).await;
    refused(&[lasting(&one).from(seconds(9)).until(seconds(8))], &["signing.keys", "key 1 is over"]).await;
}

#[tokio::test]
async fn a_scope_whose_key_id_gets_another_key_waits_and_says_why() {
    let world = World::new().await;
    let (first, other) = (SigningKey::ed25519("alpha-1"), SigningKey::ed25519("alpha-1"));
    let config = crate::deliver::scoped(world.unsigned_config()).set("retry.base", "100ms").set("retry.cap", "1s");
    crate::deliver::add_scope(&config, "alpha", &first);
    let daemon = Daemon::start(&config).await;
    let insert = async || {
        let draft = crate::support::seal::Draft::to(world.receiver.url("/hooks")).scope("alpha");
        world.database.insert(&world.seal(vec![draft])).await;
    };
    insert().await;
    assert_signed(&world.receiver.wait_for(1).await[0], &first);
    let from = daemon.lines().len();
    crate::deliver::add_scope(&config, "alpha", &other);
    insert().await;
    daemon.line(from, &["alpha", "stands for another key than before", "new key id"]).await;
    eventually("the row waits", async || match world.database.rows().await.remove(1) {
        row if row.last_error.as_deref() == Some("signing_unavailable") => Ok(()),
        row => Err(row),
    })
    .await;
    let mut renamed = other.clone();
    renamed.kid = "alpha-2".into();
    crate::deliver::add_scope(&config, "alpha", &renamed);
    assert_signed(&world.receiver.wait_for(2).await[1], &renamed);
    world.all_are("delivered").await;
}

#[tokio::test]
async fn the_end_of_signing_is_a_metric_and_a_word_in_the_log() {
    const EXPIRY: &str = "outboxd_earliest_expiry_timestamp_seconds";
    let world = World::new().await;
    let keys = ["one", "two"].map(SigningKey::ed25519);
    let end = seconds(86_400);
    let listed = [lasting(&keys[0]).until(seconds(3600)), lasting(&keys[1]).from(seconds(60)).until(end)];
    let daemon = Daemon::start(&with_keys(world.config(), &listed)).await;
    let told = daemon.metrics().await.total(EXPIRY, &[("kind", "signing_key")]);
    let end = end.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((told - end).abs() <= 1.0, "{told} {end}");
    daemon.line(0, &["expires soon", "signing.keys"]).await;
}

const PASSPHRASE: &str = "correct horse battery staple";

fn vector(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/vectors/keys/{name}.pem", env!("CARGO_MANIFEST_DIR"))).expect("it is a vector")
}

fn encrypted(world: &World, name: &str, passphrase: Option<&str>) -> Config {
    let config = world.config();
    let key = config.file("encrypted.pem", vector(name));
    let config = config.set("signing.key_file", text(&key)).set("signing.key_id", "kept").unset("signing.algorithms");
    match passphrase {
        Some(passphrase) => {
            let file = config.file("passphrase", passphrase);
            config.set("signing.passphrase_file", text(&file))
        }
        None => config,
    }
}

#[tokio::test]
async fn an_encrypted_key_signs_once_its_passphrase_is_named() {
    for (name, plain) in [("ed25519-pbkdf2", "ed25519"), ("p256-scrypt", "p256-pkcs8")] {
        let world = World::new().await;
        let daemon = Daemon::start(&encrypted(&world, name, Some(&format!("{PASSPHRASE}\n")))).await;
        world.insert("/hooks", 1).await;
        let received = world.receiver.wait_for(1).await;
        assert_signed(&received[0], &of_openssl(plain));
        assert!(!daemon.text().contains(PASSPHRASE));
    }
}

/// The public half as OpenSSL tells it.
fn of_openssl(plain: &str) -> SigningKey {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/keys/{plain}.pem"));
    let told = Command::new("openssl").args(["pkey", "-in"]).arg(path).args(["-pubout", "-outform", "DER"]).output();
    let der = told.expect("openssl runs").stdout;
    let (mut key, length) = match plain.starts_with("ed25519") {
        true => (SigningKey::ed25519("kept"), 32),
        false => (SigningKey::p256("kept"), 65),
    };
    key.public = der[der.len() - length..].to_vec();
    key
}

#[tokio::test]
async fn a_key_that_cannot_be_opened_is_one_clear_line() {
    let world = World::new().await;
    for (name, passphrase, words) in [
        ("ed25519-pbkdf2", Some("wrong"), "the passphrase does not open"),
        ("ed25519-scrypt", Some(""), "the passphrase does not open"),
        ("ed25519-scrypt", None, "no file with its passphrase is named (passphrase_file)"),
        ("p256-sec1-encrypted", Some(PASSPHRASE), "openssl pkcs8 -topk8"),
        ("p256-sec1-encrypted", None, "Proc-Type"),
        ("ed25519-pbes1", Some(PASSPHRASE), "PBES2"),
        ("ed25519-pbkdf2-absurd", Some(PASSPHRASE), "more work than"),
        ("ed25519", Some(PASSPHRASE), "not encrypted"),
    ] {
        let ended = check(&encrypted(&world, name, passphrase)).await;
        assert_eq!(ended.code, Some(78), "{}", ended.output);
        let lines: Vec<&str> = ended.output.lines().filter(|line| line.contains("signing")).collect();
        let [line] = lines[..] else { panic!("{name}: {}", ended.output) };
        assert!(line.starts_with("FAIL  signing") && line.contains(words), "{name}: {line}");
        assert!(line.contains("encrypted.pem") && !ended.output.contains(PASSPHRASE), "{line}");
    }
    let config = encrypted(&world, "ed25519-pbkdf2", Some(PASSPHRASE));
    config.file_with_mode("passphrase", PASSPHRASE, 0o644);
    let ended = check(&config).await;
    assert!(ended.output.contains("signing.passphrase_file") && ended.output.contains("chmod"), "{}", ended.output);
}

const README: &str = include_str!("../../README.md");

/// The README's section, with its paths and moments put where the test can have them.
struct Runbook {
    text: String,
}

impl Runbook {
    fn section(name: &str, directory: &str) -> Runbook {
        let (_, rest) = README.split_once(&format!("\n### {name}\n")).expect("the README has the section");
        let text = rest.split("\n### ").next().expect("it has text");
        let moment = |hours: i64| humantime::format_rfc3339_seconds(seconds(hours * 3600)).to_string();
        let text = text.replace("/run/secrets", directory);
        let text = text.replace("2027-06-01T12:00:00Z", &moment(1)).replace("2027-06-01T13:00:00Z", &moment(2));
        Runbook { text }
    }

    fn blocks(&self, language: &str) -> Vec<String> {
        let fence = format!("```{language}\n");
        let blocks = self.text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next());
        blocks.map(|block| block.lines().map(|line| line.trim_start().to_owned() + "\n").collect()).collect()
    }
}

#[tokio::test]
async fn the_runbook_for_the_signing_key_is_what_works() {
    let world = World::new().await;
    let config = world.unsigned_config();
    let directory = text(&config.path("secrets"));
    std::fs::create_dir(&directory).unwrap();
    let runbook = Runbook::section("Rotating the signing key", &directory);
    let old = SigningKey::ed25519("seller-2026-12");
    config.file("secrets/seller-2026-12.pem", old.pem());
    config.file("secrets/passphrase", PASSPHRASE);
    let [listing] = &runbook.blocks("toml")[..] else { panic!("one configuration") };
    let listing = listing.replace("127.0.0.1:9466", "127.0.0.1:0");
    let mut published = None;
    let mut daemon = None;
    for command in runbook.blocks("sh") {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["outboxd", "check"] => {
                let ended = check(&config.clone().extra(&listing)).await;
                assert_eq!(ended.code, Some(0), "{}", ended.output);
                for told in
                    ["\"seller-2026-12\" signs now until", "\"seller-2027-06\" signs from", "2 key(s) to be published"]
                {
                    assert!(ended.output.contains(told), "{told}: {}", ended.output);
                }
                daemon = Some(Daemon::start(&config.clone().extra(&listing)).await);
            }
            ["outboxd", ..] => {
                let made = crate::support::tool::outboxd(&Config::empty(), &words[1..], "").await;
                assert_eq!(made.code, Some(0), "{made:?}");
                assert!(made.stderr.contains("[[signing.keys]]") && made.stderr.contains("not_before"), "{made:?}");
                published = Some(serde_json::from_str::<Value>(&made.stdout).expect("its JWK"));
            }
            ["curl", url] => {
                let address = crate::jwks::listener(daemon.as_ref().expect("it runs by now")).expect("it listens");
                let url = url.replace("127.0.0.1:9466", &address.to_string());
                let told = Command::new("curl").args(["-sf", &url]).output().expect("curl is there");
                let set: Value = serde_json::from_slice(&told.stdout).expect("a key set");
                assert_eq!(set["keys"], json!([old.public_jwk(), published]));
            }
            [program, ref arguments @ ..] => {
                let told = Command::new(program).args(arguments).output().expect("it is there");
                assert!(told.status.success(), "{told:?}");
                std::fs::set_permissions(format!("{directory}/encrypted.pem"), PermissionsExt::from_mode(0o600))
                    .unwrap();
                // It is the same key for whoever has the passphrase.
                let encrypted = listing.replace(
                    "seller-2027-06.pem\"",
                    &format!("encrypted.pem\"\npassphrase_file = \"{directory}/passphrase\""),
                );
                let ended = check(&config.clone().extra(&encrypted)).await;
                assert_eq!(ended.code, Some(0), "{}", ended.output);
            }
            [] => panic!("an empty command"),
        }
    }
    assert!(published.is_some() && daemon.is_some());
    world.insert("/hooks", 1).await;
    assert_signed(&world.receiver.wait_for(1).await[0], &old);
}

#[tokio::test]
async fn the_runbooks_scope_file_is_one() {
    let world = World::new().await;
    let runbook = Runbook::section("Rotating the signing key", "");
    let [scope] = &runbook.blocks("json")[..] else { panic!("one scope file") };
    let config = crate::deliver::scoped(world.unsigned_config());
    config.file(&crate::deliver::scope_file("tenant:alpha/1"), scope);
    let keys = ["alpha-1", "alpha-2"].map(SigningKey::ed25519);
    keys.iter().for_each(|key| drop(config.file(&format!("scopes/{}.pem", key.kid), key.pem())));
    let _daemon = Daemon::start(&config).await;
    let draft = crate::support::seal::Draft::to(world.receiver.url("/hooks")).scope("tenant:alpha/1");
    world.database.insert(&world.seal(vec![draft])).await;
    assert_signed(&world.receiver.wait_for(1).await[0], &keys[0]);
    let ended = check(&config).await;
    assert!(ended.code == Some(0) && ended.output.contains("1 scope(s) with 2 key(s)"), "{}", ended.output);
}

/// How long the SDK's receiver keeps a key set here; 1800 s by itself.
const KEPT: f64 = 2.0;

/// kid1 signs; kid2 is published, then signs; kid1 ends and is taken away. Deliveries go on all the while, to the SDK's own
/// receiver, which fetches our listener's key set and is never asked to look twice.
#[tokio::test]
async fn a_key_takes_anothers_place_under_deliveries_that_the_sdk_verifies() {
    let world = World::new().await;
    let (kid1, kid2) = (SigningKey::ed25519("kid1"), SigningKey::p256("kid2"));
    let config = crate::jwks::publishing(world.config()).set("retry.base", "100ms");
    let daemon = Daemon::start(&with_keys(config.clone(), &[lasting(&kid1)])).await;
    let jwks = crate::jwks::listener(&daemon).expect("it listens");
    let buyer = Peer::receiver().await;
    let leaf = Authority::shared().receiver_leaf();
    let listen = json!({
        "certificate": text(&config.file("peer-leaf.pem", &leaf.certificate_pem)),
        "private_key": text(&config.file("peer-leaf.key", &leaf.key_pem)),
        "jwks_url": format!("http://{jwks}{}", crate::jwks::ALL),
        "jwks_max_age": KEPT,
    });
    let url = format!("https://127.0.0.1:{}/hooks", buyer.call("listen", listen).await);
    let seller = seller(&world, &config, json!({"signing": signing(&kid1)})).await;
    let mut sent = 0;
    let mut deliver = async || {
        let tasks = vec![json!({"url": url, "operation_id": "op_1"}); 3];
        seller.call("emit", json!({"tasks": tasks})).await;
        sent += tasks.len();
        let records = buyer.call("wait", json!({"count": sent})).await;
        let records = records.as_array().expect("a list").clone();
        for record in &records {
            assert_eq!(
                (&record["status"], &record["reason"]),
                (&json!(200), &Value::Null),
                "{record}\n{}",
                daemon.text()
            );
        }
        records.last().expect("there is one")["sender"].as_str().map(str::to_owned)
    };
    assert_eq!(deliver().await.as_deref(), Some("kid1"));

    // Published, by a daemon that notices its configuration; it signs no sooner than sets without it have been dropped.
    let turn = seconds(20);
    let keys = [lasting(&kid1).until(turn + Duration::from_secs(2)), lasting(&kid2).from(turn)];
    with_keys(config.clone(), &keys).write();
    eventually("both keys are published", async || match crate::jwks::kids(&daemon).await {
        kids if kids == ["kid1", "kid2"] => Ok(()),
        kids => Err(format!("{kids:?}")),
    })
    .await;
    assert!(turn.duration_since(std::time::SystemTime::now()).is_ok_and(|left| left.as_secs_f64() > KEPT), "too slow");
    assert_eq!(deliver().await.as_deref(), Some("kid1"), "it does not sign yet");
    while deliver().await.as_deref() == Some("kid1") {}
    let over = turn + Duration::from_secs(4);
    while std::time::SystemTime::now() < over {
        assert_eq!(deliver().await.as_deref(), Some("kid2"));
    }
    assert_eq!(crate::jwks::kids(&daemon).await, ["kid1", "kid2"], "kid1 is over and stays for those who ask");

    with_keys(config, &[lasting(&kid2).from(turn)]).write();
    eventually("one key is published", async || match crate::jwks::kids(&daemon).await {
        kids if kids == ["kid2"] => Ok(()),
        kids => Err(format!("{kids:?}")),
    })
    .await;
    assert_eq!(deliver().await.as_deref(), Some("kid2"));

    let rows = world.all_are("delivered").await;
    assert!(rows.len() == sent && rows.iter().all(|row| row.attempt_count == 1), "{rows:?}");
    let metrics = daemon.metrics().await;
    assert_eq!(metrics.total(ATTEMPTS, &[("code", "delivered")]), sent as f64, "{}", metrics.text);
    assert_eq!(metrics.total(ATTEMPTS, &[]), sent as f64, "{}", metrics.text);
}
