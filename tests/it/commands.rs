//! Every block of shell in README is run: here, line by line as it stands, by a shell against real databases; or by those that are
//! named below.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::json;

use crate::support::certs::Authority;
use crate::support::cluster::{Database, TABLE};
use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::receiver::Receiver;
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::tool::{self, Done};
use crate::support::world::World;

const README: &str = include_str!("../../README.md");

/// Sections whose blocks are run by others.
const ELSEWHERE: [(&str, &str); 7] = [
    ("Two commands", "the demo by demo.rs, the tests by whoever reads this"),
    ("Under systemd", "tests/systemd.sh, in a booted Debian"),
    ("Rotating the envelope key", "rotation.rs"),
    ("Rotating the signing key", "signing_keys.rs"),
    ("Signing scopes in the database", "scope_table.rs"),
    ("In a container", "tests/image.sh, and what compose does step by step in containers.rs"),
    ("On Kubernetes", "kubernetes.rs, against the schemas of the API server"),
];
const HERE: [&str; 6] = [
    "Quick start",
    "Destinations that fail",
    "Many rows at once",
    "Going past one Postgres",
    "Looking",
    "Why was it refused?",
];

/// Each block's section and its lines.
fn blocks() -> Vec<(&'static str, Vec<&'static str>)> {
    let (mut section, mut open, mut found) = ("", None::<Vec<&str>>, Vec::new());
    for line in README.lines() {
        match (&mut open, line.trim_start()) {
            (None, "```sh") => open = Some(Vec::new()),
            (None, _) if line.starts_with("##") => section = line.trim_start_matches('#').trim(),
            (None, _) => {}
            (Some(_), "```") => found.push((section, open.take().expect("it is open"))),
            (Some(lines), line) => lines.push(line.split_once(" #").map_or(line, |(command, _)| command).trim_end()),
        }
    }
    found
}

fn lines_of(section: &str) -> Vec<&'static str> {
    blocks().into_iter().filter(|(of, _)| *of == section).flat_map(|(_, lines)| lines).collect()
}

/// With `outboxd` on the path, in the configuration's directory.
async fn shell(config: &Config, script: &str) -> Done {
    let bin = config.path("bin");
    std::fs::create_dir_all(&bin).expect("our directory is ours");
    // Another line may have made it.
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_outboxd"), bin.join("outboxd"));
    let mut command = Command::new("sh");
    // The one that spawns it looks at no directory of the command's.
    command.args(["-eu", "-c", &format!("cd \"$0\"\n{script}"), &text(&config.path(""))]).env("NO_COLOR", "1");
    command.env("PATH", format!("{}:{}", text(&bin), std::env::var("PATH").expect("there is one")));
    command.envs(config.environment.iter().map(|(name, value)| (name, value)));
    tool::run(command, "").await
}

/// The line under this configuration; it must do what it is for.
async fn does(config: &Config, line: &str) -> Done {
    let config = config.clone().environment("OUTBOXD_CONFIG", &text(&config.write()));
    let done = shell(&config, line).await;
    assert_eq!(done.code, Some(0), "{line}: {done:?}");
    done
}

#[test]
fn every_block_is_run_by_somebody() {
    let sections: BTreeSet<&str> = blocks().iter().map(|(section, _)| *section).collect();
    let run: BTreeSet<&str> = HERE.into_iter().chain(ELSEWHERE.map(|(section, _)| section)).collect();
    assert_eq!(sections, run);
}

#[tokio::test]
async fn the_quick_start_ends_with_a_delivered_webhook() {
    let (database, receiver, here) = (Database::empty().await, Receiver::start().await, Config::empty());
    let example = README.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("there is one");
    here.file_with_mode("outboxd.toml", example.replace("/run/secrets", &text(&here.path(""))), 0o644);
    here.file("outboxd-db-password", "unused where everybody is trusted");
    let anchor = here.file_with_mode("ca.pem", Authority::shared().pem(), 0o644);
    let here = here
        .environment("OUTBOXD_DATABASE__URL", &database.url)
        .environment("OUTBOXD_ADMIN__LISTEN", "127.0.0.1:0")
        .environment("OUTBOXD_EGRESS__ALLOW", "[\"127.0.0.0/8\"]")
        .environment("OUTBOXD_EGRESS__TRUST_ANCHORS", &format!("[{:?}]", text(&anchor)));
    let lines = lines_of("Quick start");
    let (build, lines) = lines.split_first().expect("it has lines");
    assert_eq!(*build, "cargo build --release");
    let (run, lines) = lines.split_last().expect("it has more");
    for line in lines {
        let done = shell(&here, line).await;
        assert_eq!(done.code, Some(0), "{line}: {done:?}");
    }
    let key = EnvelopeKey::of_file(&here.path("envelope.key"));
    database.insert(&[Draft::to(receiver.url("/hooks")).seal(&key)]).await;
    // It runs until it is told that the row is delivered, however long this machine takes over that.
    let script = format!(
        "timeout --preserve-status 90 {run} &\n\
         while kill -0 $! && [ ! -e delivered ]; do sleep 0.1; done\nkill -TERM $!\nwait $!"
    );
    let delivered = eventually("the row is delivered", async || match database.count("delivered").await {
        1 => Ok(()),
        other => Err(other),
    });
    let told = async {
        delivered.await;
        here.file("delivered", "");
    };
    let (ended, ()) = tokio::join!(shell(&here, &script), told);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(receiver.received().len(), 1, "{ended:?}");
}

/// One row for each of the commands, as its filter wants it.
async fn with_trouble() -> World {
    let world = World::new().await;
    let mut drafts: Vec<Draft> = ["https://buyer.example.com/h", "https://dead.example/h", "https://else.example/h"]
        .iter()
        .flat_map(|url| Draft::many(url, 3))
        .collect();
    drafts[0].idempotency_key = "whk_5f0c8a1e".into();
    drafts[6].account_id = "acc_7".into();
    world.database.insert(&world.seal(drafts.clone())).await;
    for (task, set) in [
        (&drafts[1].task_id, "available_at = now() + interval '1 hour'"),
        (&drafts[3].task_id, "created_at = now() - interval '3 days'"),
        (
            &drafts[7].task_id,
            "state = 'invalid', last_error = 'envelope_unopenable', first_attempt_at = now(), retry_until = now() + interval '1 day'",
        ),
    ] {
        world.database.execute(&format!("update {TABLE} set {set} where task_id = $1"), &[task]).await;
    }
    world
}

#[tokio::test]
async fn destinations_and_many_rows_are_steered() {
    let world = with_trouble().await;
    let config = world.config();
    does(&config, "outboxd destinations --park buyer.example.com --for 1h --reason 'so that there is one to release'")
        .await;
    for line in lines_of("Destinations that fail") {
        does(&config, line).await;
    }
    for line in lines_of("Many rows at once") {
        let done = does(&config, line).await;
        let changes = ["outboxd requeue", "outboxd cancel", "outboxd expire"].iter().any(|word| line.starts_with(word));
        assert!(!changes || !done.stdout.contains(" 0 rows"), "{line} found nothing: {done:?}");
    }
    let noted = format!("select string_agg(distinct action, ' ' order by action) from {TABLE}_audit");
    let noted: String = world.database.value(&noted, &[]).await;
    assert_eq!(noted, "cancel cap expire park release requeue");
}

#[tokio::test]
async fn an_outbox_is_looked_at() {
    let world = with_trouble().await;
    let config = world.config();
    for line in lines_of("Looking") {
        match line.starts_with("outboxd tail") {
            // It goes on for ever.
            true => does(&config, &format!("timeout 2 {line} || [ $? = 124 ]")).await,
            false => does(&config, line).await,
        };
    }
}

#[tokio::test]
async fn several_outboxes_are_migrated_checked_and_asked_for_keys() {
    let (world, eu, us) = (World::new().await, Database::empty().await, Database::empty().await);
    let entry = |name: &str, url: &str| format!("[[outboxes]]\nname = \"{name}\"\nurl = \"{url}\"\n");
    let config = world.config().unset("database.url").extra(&entry("eu", &eu.url)).extra(&entry("us", &us.url));
    for line in lines_of("Going past one Postgres") {
        let line = line.replace("FINGERPRINT", &world.key.fingerprint());
        match line.starts_with("outboxd keys") {
            // Where no daemon runs, nobody knows who needs it.
            true => {
                does(&config, &format!("{line} || [ $? = 75 ]")).await;
            }
            false => drop(does(&config, &line).await),
        }
    }
}

#[tokio::test]
async fn a_captured_request_is_judged() {
    let world = World::new().await;
    world.insert("/hooks", 1).await;
    let _daemon = Daemon::start(&world.config()).await;
    world.all_are("delivered").await;
    let request = world.receiver.received().remove(0);
    let config = Config::empty();
    config.file("request.http", request.raw());
    config.file_with_mode("jwks.json", json!({"keys": [world.signer.public_jwk()]}).to_string(), 0o644);
    let created =
        request.header("signature-input").and_then(|input| input.split("created=").nth(1)).expect("it is signed");
    let created: i64 = created.split(';').next().and_then(|seconds| seconds.parse().ok()).expect("Unix seconds");
    for line in lines_of("Why was it refused?") {
        let done = does(&config, &line.replace("2026-04-18T14:00:00Z", &at(created).await)).await;
        assert!(done.stdout.contains("pass"), "{done:?}");
    }
}

/// The moment as people write it.
async fn at(seconds: i64) -> String {
    let mut command = Command::new("date");
    command.args(["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%dT%H:%M:%SZ"]);
    tool::run(command, "").await.stdout.trim().into()
}
