//! Signing scopes from the table: several replicas, rotation while they run, a table that cannot be read, rows that somebody
//! changed, and the command that writes it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::jwks::{ALL, published, publishing};
use crate::support::certs::Authority;
use crate::support::cluster::TABLE;
use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::eventually::{eventually, ticks};
use crate::support::keys::SigningKey;
use crate::support::listener::Listener;
use crate::support::metrics::{ATTEMPTS, STATEMENTS};
use crate::support::receiver::{Received, Receiver};
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::tool::{Done, outboxd};
use crate::support::verify::assert_signed;
use crate::support::world::World;

const EX_DATAERR: i32 = 65;
const EX_NOINPUT: i32 = 66;
const EX_CONFIG: i32 = 78;
/// What the README promises of a change.
const VISIBLE_WITHIN: Duration = Duration::from_secs(5);

/// Retries come soon, so that what heals is seen to.
fn by_table(world: &World) -> Config {
    world
        .unsigned_config()
        .set("signing.scopes_table", true)
        .set("retry.base", "100ms")
        .set("retry.cap", "300ms")
        .set("retry.slow_base", "100ms")
        .set("retry.slow_cap", "300ms")
}

async fn scope(config: &Config, arguments: &[&str]) -> Done {
    scope_with(config, arguments, "").await
}

async fn scope_with(config: &Config, arguments: &[&str], input: impl Into<Vec<u8>>) -> Done {
    let arguments: Vec<&str> = ["scope"].iter().chain(arguments).copied().collect();
    outboxd(config, &arguments, input).await
}

async fn done(config: &Config, arguments: &[&str]) -> Done {
    let done = scope(config, arguments).await;
    assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
    done
}

/// Writes a key of a scope; what else is named comes after.
async fn put(config: &Config, scope: &str, key: &SigningKey, more: &[&str]) {
    let file = text(&config.file(&format!("{}.pem", key.kid), key.pem()));
    let arguments = [&["put", scope, "--key", &file, "--key-id", &key.kid], more].concat();
    let done = done(config, &arguments).await;
    let published: Value = serde_json::from_str(&done.stdout).expect("the public JWK");
    assert_eq!(published, key.public_jwk());
}

async fn insert(world: &World, scope: &str) -> String {
    insert_to(world, &world.receiver, scope).await
}

async fn insert_to(world: &World, receiver: &Receiver, scope: &str) -> String {
    let draft = Draft::to(receiver.url("/hooks")).scope(scope);
    let id = draft.task_id.clone();
    world.database.insert(&world.seal(vec![draft])).await;
    id
}

async fn is(world: &World, id: &str, state: &str, code: Option<&str>) {
    eventually(&format!("{id} is {state} for {code:?}"), async || match world.database.row(id).await {
        row if row.state == state && row.last_error.as_deref() == code => Ok(()),
        row => Err(row),
    })
    .await;
}

/// What was received of a task.
fn of<'a>(received: &'a [Received], id: &str) -> &'a Received {
    received.iter().find(|request| request.json()["task_id"] == id).expect("it was delivered")
}

/// When it was signed, to the second: a busy machine may send it later.
fn created(request: &Received) -> SystemTime {
    let input = request.header("signature-input").expect("it is signed");
    let (_, created) = input.split_once(";created=").expect("it says when");
    let digits: String = created.chars().take_while(char::is_ascii_digit).collect();
    UNIX_EPOCH + Duration::from_secs(digits.parse().expect("a number of seconds"))
}

async fn delivered(daemon: &Daemon) -> f64 {
    daemon.metrics().await.total(ATTEMPTS, &[("code", "delivered")])
}

#[tokio::test]
async fn both_replicas_sign_by_the_table_and_see_a_rotation_within_five_seconds() {
    let world = World::new().await;
    let config = by_table(&world);
    let (first, second) = (SigningKey::ed25519("alpha-1"), SigningKey::p256("alpha-2"));
    put(&config, "tenant:alpha/1", &first, &["--algorithms", "ed25519,ecdsa-p256-sha256"]).await;
    let replicas = [Daemon::start(&config).await, Daemon::start(&config).await];
    // Each has used the key that is to be replaced.
    let mut ticks = ticks(Duration::from_millis(50));
    while delivered(&replicas[0]).await == 0.0 || delivered(&replicas[1]).await == 0.0 {
        ticks.tick().await;
        insert(&world, "tenant:alpha/1").await;
    }
    world.all_are("delivered").await;
    for request in world.receiver.received() {
        assert_signed(&request, &first);
    }

    put(&config, "tenant:alpha/1", &second, &["--not-before", "2020-01-01T00:00:00Z"]).await;
    let (rotated, rotated_at) = (Instant::now(), SystemTime::now());
    let mut both = [f64::INFINITY; 2];
    let late = |request: &&Received| created(request) > rotated_at + VISIBLE_WITHIN;
    loop {
        ticks.tick().await;
        insert(&world, "tenant:alpha/1").await;
        // One second more, since signatures name whole seconds.
        if rotated.elapsed() < VISIBLE_WITHIN + Duration::from_secs(1) {
            continue;
        }
        for (nth, replica) in replicas.iter().enumerate() {
            both[nth] = both[nth].min(delivered(replica).await);
        }
        // Until both have delivered since.
        let since = [delivered(&replicas[0]).await - both[0], delivered(&replicas[1]).await - both[1]];
        if since.iter().all(|count| *count > 0.0) {
            break;
        }
    }
    world.all_are("delivered").await;
    let received = world.receiver.received();
    let after: Vec<&Received> = received.iter().filter(late).collect();
    assert!(!after.is_empty());
    for request in after {
        assert_signed(request, &second);
    }
    // What was sent in between was signed by the one or the other.
    for request in &received {
        let by_second = request.header("signature-input").is_some_and(|input| input.contains("alpha-2"));
        assert_signed(request, if by_second { &second } else { &first });
    }
}

#[tokio::test]
async fn many_scopes_are_read_together() {
    let world = World::new().await;
    let config = by_table(&world).set("delivery.slots", 100).set("delivery.per_destination_start", 64);
    let key = SigningKey::ed25519("shared-1");
    let file = text(&config.file("shared.pem", key.pem()));
    for nth in 0..3 {
        done(&config, &["put", &format!("scope-{nth}"), "--key", &file, "--key-id", "shared-1"]).await;
    }
    let drafts = (0..100).map(|nth| Draft::to(world.receiver.url("/hooks")).scope(&format!("scope-{nth}")));
    world.database.insert(&world.seal(drafts.collect())).await;
    let (began, daemon) = (Instant::now(), Daemon::start(&config).await);
    world.receiver.wait_for(3).await;
    let unknown = async || daemon.metrics().await.total(ATTEMPTS, &[("code", "scope_unknown")]);
    eventually("all were looked for", async || match unknown().await {
        97.0.. => Ok(()),
        fewer => Err(fewer),
    })
    .await;
    let statements = daemon.metrics().await.total(STATEMENTS, &[("statement", "scopes/read_scopes")]);
    // Attempts do not begin all at once, and what was read grows old: but far fewer than there are scopes.
    let most = 20.0 + began.elapsed().as_secs_f64() / 3.0;
    assert!(statements <= most, "{statements} statements for a hundred scopes");
    // A scope that comes later is found by those that wait for it.
    done(&config, &["put", "scope-99", "--key", &file, "--key-id", "shared-1"]).await;
    assert_signed(&world.receiver.wait_for(4).await[3], &key);
}

#[tokio::test]
async fn what_was_read_serves_while_the_table_cannot_be_read_and_nothing_else_does() {
    let world = World::new().await;
    let config = by_table(&world).set("signing.default_scope", "alpha");
    let (alpha, beta) = (SigningKey::ed25519("alpha-1"), SigningKey::ed25519("beta-1"));
    put(&config, "alpha", &alpha, &[]).await;
    put(&config, "beta", &beta, &[]).await;
    let daemon = Daemon::start(&config).await;
    insert(&world, "alpha").await;
    world.all_are("delivered").await;

    let (here, away) = (format!("{TABLE}_scopes"), "elsewhere");
    world.database.execute(&format!("ALTER TABLE {here} RENAME TO {away}"), &[]).await;
    let default = Draft::to(world.receiver.url("/default"));
    world.database.insert(&world.seal(vec![default])).await;
    let held = insert(&world, "alpha").await;
    let lacking = insert(&world, "beta").await;
    is(&world, &held, "delivered", None).await;
    is(&world, &lacking, "pending", Some("signing_unavailable")).await;
    daemon.line(0, &["signing scopes cannot be read"]).await;
    assert!(daemon.get("/readyz").await.is_ok_and(|(status, _)| status == 200), "the others go on");
    // A reload takes over what was read.
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, &["reloaded"]).await;
    let after = insert(&world, "alpha").await;
    is(&world, &after, "delivered", None).await;

    world.database.execute(&format!("ALTER TABLE {away} RENAME TO {here}"), &[]).await;
    is(&world, &lacking, "delivered", None).await;
    daemon.line(0, &["signing scopes can be read again"]).await;
    let received = world.receiver.received();
    assert_eq!(received.len(), 5);
    for request in &received {
        let of_beta = request.json()["task_id"] == lacking;
        assert_signed(request, if of_beta { &beta } else { &alpha });
    }
}

#[tokio::test]
async fn a_table_that_is_locked_holds_up_no_row_whose_key_was_read() {
    let world = World::new().await;
    let config = by_table(&world);
    put(&config, "alpha", &SigningKey::ed25519("alpha-1"), &[]).await;
    let daemon = Daemon::start(&config).await;
    insert(&world, "alpha").await;
    world.all_are("delivered").await;
    let other = Listener::connect(&world.database.url).await;
    let lock = format!("BEGIN; LOCK TABLE {TABLE}_scopes IN ACCESS EXCLUSIVE MODE");
    other.client.batch_execute(&lock).await.expect("nobody else locks it");
    daemon.line(0, &["the clocks agree"]).await;
    let read = async || daemon.metrics().await.total(STATEMENTS, &[("statement", "scopes/read_scopes")]);
    let before = read().await;
    let mut rows = Vec::new();
    // Until somebody has asked in vain: what was read had grown old by then.
    while read().await == before {
        rows.push(insert(&world, "alpha").await);
        let row = rows.last().expect("one was pushed");
        is(&world, row, "delivered", None).await;
    }
    for row in &rows {
        assert_eq!(world.database.row(row).await.attempt_count, 1, "an attempt was spent on waiting");
    }
    other.client.batch_execute("ROLLBACK").await.expect("it unlocks");
    daemon.line(0, &["signing scopes cannot be read"]).await;
}

#[tokio::test]
async fn what_somebody_changed_in_the_table_signs_nothing_until_it_is_mended() {
    let world = World::new().await;
    let config = by_table(&world);
    let keys: Vec<SigningKey> = (0..7).map(|nth| SigningKey::ed25519(&format!("key-{nth}"))).collect();
    let scopes = ["tampered", "nonce", "swapped", "renamed", "algorithm", "for:ever", "good"];
    for (scope, key) in scopes.into_iter().zip(&keys) {
        put(&config, scope, key, &[]).await;
    }
    let held = format!("{TABLE}_scope_keys");
    // Before anybody reads: a copy of it all, to be put back.
    world.database.execute(&format!("CREATE TABLE before AS SELECT * FROM {held}"), &[]).await;
    let flipped = "set_byte(sealed, 40, get_byte(sealed, 40) # 1)";
    for change in [
        format!("UPDATE {held} SET sealed = {flipped} WHERE scope = 'tampered'"),
        format!("UPDATE {held} SET nonce = set_byte(nonce, 0, get_byte(nonce, 0) # 1) WHERE scope = 'nonce'"),
        format!(
            "UPDATE {held} AS k SET (key_id, sealed, nonce) = (SELECT key_id, sealed, nonce FROM before \
             WHERE scope = 'good') WHERE scope = 'swapped'"
        ),
        format!("UPDATE {held} SET key_id = 'another' WHERE scope = 'renamed'"),
        format!("UPDATE {TABLE}_scopes SET algorithms = '{{ecdsa-p256-sha256}}' WHERE scope = 'algorithm'"),
        format!("UPDATE {held} SET not_before = 'infinity' WHERE scope = 'for:ever'"),
    ] {
        assert_eq!(world.database.execute(&change, &[]).await, 1, "{change}");
    }
    let daemon = Daemon::start(&config).await;
    let mut rows = Vec::new();
    for scope in scopes {
        rows.push(insert(&world, scope).await);
    }
    is(&world, &rows[6], "delivered", None).await;
    for (row, scope) in rows.iter().zip(scopes).take(6) {
        let code = if scope == "algorithm" { "signing_key_refused" } else { "signing_unavailable" };
        is(&world, row, "pending", Some(code)).await;
    }
    assert_eq!(world.receiver.received().len(), 1);
    daemon.line(0, &["a signing scope cannot be used", "swapped", "no held key opens"]).await;
    for key in &keys {
        let private = key.private_jwk()["d"].as_str().expect("it is private").to_owned();
        assert!(!daemon.text().contains(&private) && !daemon.text().contains(&key.pem()[40..70]), "a key in the log");
    }

    world.database.execute(&format!("TRUNCATE {held}"), &[]).await;
    world.database.execute(&format!("INSERT INTO {held} SELECT * FROM before"), &[]).await;
    let algorithms = format!("UPDATE {TABLE}_scopes SET algorithms = '{{ed25519}}'");
    world.database.execute(&algorithms, &[]).await;
    world.all_are("delivered").await;
    let received = world.receiver.received();
    for (row, key) in rows.iter().zip(&keys) {
        assert_signed(of(&received, row), key);
    }
}

#[tokio::test]
async fn a_retired_key_signs_no_more_and_a_decommissioned_scopes_rows_are_quarantined() {
    let world = World::new().await;
    let config = by_table(&world);
    let (first, second) = (SigningKey::ed25519("alpha-1"), SigningKey::ed25519("alpha-2"));
    put(&config, "alpha", &first, &[]).await;
    let daemon = Daemon::start(&config).await;
    insert(&world, "alpha").await;
    world.all_are("delivered").await;

    let retired = done(&config, &["retire", "alpha", "alpha-1"]).await;
    assert!(retired.stderr.contains("No other key"), "{retired:?}");
    let row = eventually("rows wait", async || {
        let row = insert(&world, "alpha").await;
        is_settled(&world, &row).await;
        match world.database.row(&row).await {
            waiting if waiting.state == "pending" => Ok(row),
            other => Err(other),
        }
    })
    .await;
    is(&world, &row, "pending", Some("signing_unavailable")).await;
    put(&config, "alpha", &second, &["--not-before", "2020-01-01T00:00:00Z"]).await;
    is(&world, &row, "delivered", None).await;
    assert_signed(of(&world.receiver.received(), &row), &second);

    let stolen = done(&config, &["retire", "alpha", "alpha-1", "--stolen"]).await;
    assert!(stolen.stderr.is_empty(), "another signs: {stolen:?}");
    assert!(!done(&config, &["list"]).await.stdout.contains("alpha-1"));
    let gone = done(&config, &["decommission", "alpha"]).await;
    assert!(gone.stdout.contains("1 private key(s) deleted"), "{gone:?}");
    eventually("rows are quarantined", async || {
        let row = insert(&world, "alpha").await;
        is_settled(&world, &row).await;
        match world.database.row(&row).await {
            row if row.state == "invalid" && row.last_error.as_deref() == Some("scope_decommissioned") => Ok(()),
            row => Err(row),
        }
    })
    .await;
    let left: i64 = world.database.value(&format!("SELECT count(*) FROM {TABLE}_scope_keys"), &[]).await;
    assert_eq!(left, 0);
    let again = scope(&config, &["put", "alpha", "--algorithms", "ed25519"]).await;
    assert!(again.code == Some(EX_DATAERR) && again.stderr.contains("decommissioned"), "{again:?}");
    drop(daemon);
}

/// Until its first attempt came to something.
async fn is_settled(world: &World, id: &str) {
    eventually("it was tried", async || match world.database.row(id).await {
        row if row.state != "in_flight" && row.attempted => Ok(()),
        row => Err(row),
    })
    .await;
}

#[tokio::test]
async fn a_scopes_client_certificate_comes_from_the_table_too() {
    let world = World::new().await;
    let config = by_table(&world);
    let clients = Authority::new("clients");
    let receiver = Receiver::demanding(&clients).await;
    let key = SigningKey::ed25519("alpha-1");
    put(&config, "alpha", &key, &[]).await;
    let _daemon = Daemon::start(&config).await;
    let row = insert_to(&world, &receiver, "alpha").await;
    is(&world, &row, "pending", Some("tls_client_auth")).await;

    let leaf = clients.client_leaf("alpha", (2090, 1, 1));
    // Both in one file, as many tools write them, and a stranger's key in front.
    let both = format!("{}{}", leaf.key_pem, leaf.certificate_pem);
    let both = text(&config.file("both.pem", both));
    done(&config, &["put", "alpha", "--client-cert", &both, "--client-key", &both]).await;
    is(&world, &row, "delivered", None).await;
    assert_eq!(receiver.received()[0].client.as_deref(), Some(leaf.der()));
    let listed = done(&config, &["list"]).await.stdout;
    assert!(listed.contains("client certificate until 2090-01-01"), "{listed}");

    let other = text(&config.file("other.key", clients.client_leaf("beta", (2090, 1, 1)).key_pem));
    let refused = scope(&config, &["put", "alpha", "--client-cert", &both, "--client-key", &other]).await;
    assert!(refused.code == Some(EX_DATAERR) && refused.stderr.contains("does not belong"), "{refused:?}");
    done(&config, &["put", "alpha", "--no-client-cert"]).await;
    let waiting = eventually("it is shown no more", async || {
        let row = insert_to(&world, &receiver, "alpha").await;
        is_settled(&world, &row).await;
        match world.database.row(&row).await {
            waiting if waiting.state == "pending" => Ok(row),
            other => Err(other),
        }
    })
    .await;
    is(&world, &waiting, "pending", Some("tls_client_auth")).await;
}

#[tokio::test]
async fn the_command_takes_keys_from_files_and_input_and_shows_none() {
    let world = World::new().await;
    let config = by_table(&world);
    let (ed25519, p256) = (SigningKey::ed25519("e-1"), SigningKey::p256("p-1"));
    let put = scope_with(&config, &["put", "alpha", "--key", "-"], ed25519.private_jwk().to_string()).await;
    assert_eq!(put.code, Some(0), "{put:?}");
    let listed = done(&config, &["list"]).await.stdout;
    assert!(listed.contains("alpha  ed25519\n") && listed.contains("signs now"), "{listed}");

    let readable = text(&config.file_with_mode("readable.pem", p256.pem(), 0o644));
    let pem = text(&config.file("p256.pem", p256.pem()));
    let broken = text(&config.file("broken.pem", "-----BEGIN PRIVATE KEY-----\n"));
    let jwk = text(&config.file("again.json", SigningKey::ed25519("e-1").private_jwk().to_string()));
    let both = ["--algorithms", "ed25519,ecdsa-p256-sha256"];
    for (arguments, code, told) in [
        (vec!["put", "alpha", "--key", &readable, "--key-id", "p-1"], EX_CONFIG, "chmod o-rwx"),
        (vec!["put", "alpha", "--key", &broken, "--key-id", "p-1"], EX_DATAERR, "PEM"),
        (vec!["put", "alpha", "--key", &pem], EX_DATAERR, "key id"),
        (vec!["put", "alpha", "--key", &pem, "--key-id", "p-1"], EX_DATAERR, "--algorithms"),
        ([&["put", "alpha", "--key", &pem, "--key-id", "p-1"], &both[..]].concat(), EX_DATAERR, "--not-before"),
        (vec!["put", "alpha", "--key", &jwk], EX_DATAERR, "another key"),
        (vec!["put", "beta"], EX_DATAERR, "not known yet"),
        (vec!["put", "b\ntab", "--algorithms", "ed25519"], EX_DATAERR, "is no scope"),
        (vec!["put", "beta", "--algorithms", "rsa"], EX_DATAERR, "--algorithms"),
        (vec!["retire", "alpha", "nobody"], EX_NOINPUT, "no key"),
        (vec!["retire", "alpha", "nobody", "--stolen"], EX_NOINPUT, "no key"),
        (vec!["list", "nobody"], EX_NOINPUT, "no scope"),
        (vec!["decommission", "nobody"], EX_NOINPUT, "--unknown"),
    ] {
        let refused = scope(&config, &arguments).await;
        assert!(refused.code == Some(code) && refused.stderr.contains(told), "{arguments:?}: {refused:?}");
    }

    let later = ["--not-before", "2090-01-01T00:00:00Z", "--not-after", "2090-06-01T00:00:00Z"];
    let arguments = [&["put", "alpha", "--key", &pem, "--key-id", "p-1"], &both[..], &later].concat();
    done(&config, &arguments).await;
    let listed = done(&config, &["list", "alpha", "--json"]).await.stdout;
    let listed: Value = serde_json::from_str(&listed).expect("a line of JSON");
    let keys = [&listed["keys"][0], &listed["keys"][1]].map(|key| (key["key_id"].clone(), key["standing"].clone()));
    assert_eq!(keys, [("e-1".into(), "signs now".into()), ("p-1".into(), "waits".into())]);
    assert_eq!(listed["keys"][1]["not_after"], "2090-06-01T00:00:00Z");
    // The window stays where it is not named.
    let file = ["put", "alpha", "--key", &pem, "--key-id", "p-1"];
    done(&config, &file).await;
    done(&config, &["decommission", "never:known", "--unknown"]).await;

    // Neither the database nor any output holds a private key.
    let dump = format!(
        "SELECT string_agg(s::text || coalesce(k::text, ''), '') FROM {TABLE}_scopes s \
                        LEFT JOIN {TABLE}_scope_keys k USING (scope)"
    );
    let dump: String = world.database.value(&dump, &[]).await;
    let listed = done(&config, &["list", "--json"]).await;
    assert!(listed.stdout.contains("2090-06-01T00:00:00Z"), "{listed:?}");
    for key in [&ed25519, &p256] {
        let private = key.private_jwk()["d"].as_str().expect("it is private").to_owned();
        for text in [&dump, &put.stdout, &put.stderr, &listed.stdout] {
            assert!(!text.contains(&private));
        }
        assert!(!dump.contains(&hex_of(&private)), "in no other spelling either");
    }
}

/// How Postgres would show the text's bytes.
fn hex_of(text: &str) -> String {
    crate::support::keys::hex(text.as_bytes())
}

#[tokio::test]
async fn another_envelope_key_opens_no_scope_and_says_so() {
    let world = World::new().await;
    let config = by_table(&world);
    put(&config, "alpha", &SigningKey::ed25519("alpha-1"), &[]).await;
    let stranger = EnvelopeKey::new();
    let file = text(&config.file("stranger.key", stranger.hex()));
    let elsewhere = config.clone().set("envelope.key_files", vec![file.clone()]);
    let listed = done(&elsewhere, &["list"]).await.stdout;
    assert!(listed.contains("sealed under a key that is not held here"), "{listed}");
    let checked = outboxd(&elsewhere, &["check"], "").await;
    assert!(checked.stdout.contains("alpha") && checked.stdout.contains("no held key opens"), "{checked:?}");
    // Both held: the older one opens, the newer one seals.
    let held = vec![file, text(&config.path("envelope.key"))];
    let both = config.clone().set("envelope.key_files", held);
    assert!(done(&both, &["list"]).await.stdout.contains("signs now"));
    let checked = outboxd(&both, &["check"], "").await;
    assert!(checked.code == Some(0) && checked.stdout.contains("1 scope(s)"), "{checked:?}");
}

#[tokio::test]
async fn the_table_is_one_of_several_sources_and_must_be_there() {
    let world = World::new().await;
    let config = by_table(&world);
    for (key, value) in [("signing.key_file", "/nowhere.pem"), ("signing.scopes_dir", "/nowhere")] {
        let ended = outboxd(&config.clone().set(key, value), &["run"], "").await;
        assert!(ended.code == Some(EX_CONFIG) && ended.stderr.contains("signing.scopes_table"), "{ended:?}");
    }
    world.database.execute(&format!("DROP TABLE {TABLE}_scope_keys"), &[]).await;
    for command in ["run", "check"] {
        let ended = outboxd(&config, &[command], "").await;
        let told = format!("{}{}", ended.stdout, ended.stderr);
        assert!(ended.code == Some(EX_CONFIG) && told.contains("outboxd migrate"), "{command}: {ended:?}");
    }
}

#[tokio::test]
async fn what_the_table_holds_moves_to_the_newest_envelope_key() {
    let world = World::new().await;
    let new = EnvelopeKey::new();
    let config = by_table(&world);
    let (alpha, odd) = (SigningKey::ed25519("alpha-1"), SigningKey::p256("\\ \"odd\" [1]"));
    put(&config, "alpha", &alpha, &[]).await;
    let jwk = odd.private_jwk().to_string();
    let written = scope_with(&config, &["put", "tenant:\"bêta\"/\\", "--key", "-"], jwk).await;
    assert_eq!(written.code, Some(0), "{written:?}");
    let leaf = Authority::new("clients").client_leaf("alpha", (2090, 1, 1));
    let certificate = text(&config.file("client.pem", &leaf.certificate_pem));
    let key = text(&config.file("client.key", &leaf.key_pem));
    done(&config, &["put", "alpha", "--client-cert", &certificate, "--client-key", &key]).await;

    let both = config.clone().envelope_keys(&[&new, &world.key]);
    let daemon = Daemon::start(&both).await;
    insert(&world, "alpha").await;
    world.all_are("delivered").await;
    let fingerprints: Value =
        serde_json::from_str(&outboxd(&both, &["keys", "--json"], "").await.stdout).expect("a JSON object");
    let old = fingerprints["keys"][1]["fingerprint"].as_str().expect("a fingerprint").to_owned();
    let drop = async || outboxd(&both, &["keys", "--may-drop", &old], "").await;
    let refused = drop().await;
    assert!(refused.code == Some(75) && refused.stdout.contains("signing_keys"), "{refused:?}");
    // A reload that would lose them is refused too.
    let from = daemon.lines().len();
    both.clone().envelope_keys(&[&new]).write();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, &["reload failed", &old]).await;
    both.write();

    let report = outboxd(&both, &["rekey", "--json"], "").await;
    assert_eq!(report.code, Some(0), "{report:?}");
    let report: Value = serde_json::from_str(&report.stdout).expect("a JSON object");
    let resealed = |place: &str| {
        let places = report["places"].as_array().expect("there are places");
        places.iter().find(|tally| tally["place"] == place).map(|tally| tally["resealed"].clone())
    };
    assert_eq!((resealed("signing_keys"), resealed("client_certificates")), (Some(2.into()), Some(1.into())));
    let only_new = config.clone().envelope_keys(&[&new]);
    let listed = done(&only_new, &["list"]).await.stdout;
    assert_eq!(listed.matches("signs now").count(), 2, "{listed}");
    assert!(listed.contains("client certificate until 2090-01-01"), "{listed}");
    let listed = done(&config, &["list"]).await.stdout;
    assert_eq!(listed.matches("not held here").count(), 3, "{listed}");
    let from = daemon.lines().len();
    only_new.write();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, &["reloaded"]).await;
    let draft = Draft::to(world.receiver.url("/hooks")).scope("alpha");
    let row = draft.task_id.clone();
    world.database.insert(&[draft.seal(&new)]).await;
    is(&world, &row, "delivered", None).await;
}

#[tokio::test]
async fn the_tables_keys_are_published_before_any_row_needs_them() {
    let world = World::new().await;
    let config = publishing(by_table(&world));
    let (alpha, beta, next) =
        (SigningKey::ed25519("alpha-1"), SigningKey::p256("beta-1"), SigningKey::ed25519("alpha-2"));
    put(&config, "tenant:alpha", &alpha, &[]).await;
    let daemon = Daemon::start(&config).await;
    assert_eq!(published(&daemon, ALL).await, ["alpha-1"]);
    put(&config, "beta", &beta, &[]).await;
    put(&config, "tenant:alpha", &next, &["--not-before", "2090-01-01T00:00:00Z"]).await;
    let are = async |path: &str, kids: &[&str]| {
        eventually(&format!("{path} has {kids:?}"), async || match published(&daemon, path).await {
            found if found == kids => Ok(()),
            found => Err(format!("{found:?}")),
        })
        .await;
    };
    are(ALL, &["alpha-1", "alpha-2", "beta-1"]).await;
    are("/scopes/tenant%3Aalpha/jwks.json", &["alpha-1", "alpha-2"]).await;
    // A retired key is published on, and what cannot be read takes nobody's keys down.
    done(&config, &["retire", "tenant:alpha", "alpha-1"]).await;
    let (here, away) = (format!("{TABLE}_scope_keys"), "elsewhere");
    world.database.execute(&format!("ALTER TABLE {here} RENAME TO {away}"), &[]).await;
    daemon.line(0, &["a key set is not published as it should be", "cannot be read"]).await;
    are(ALL, &["alpha-1", "alpha-2", "beta-1"]).await;
    world.database.execute(&format!("ALTER TABLE {away} RENAME TO {here}"), &[]).await;
    done(&config, &["decommission", "beta"]).await;
    are(ALL, &["alpha-1", "alpha-2"]).await;
}

#[tokio::test]
async fn what_the_table_holds_is_told_of_before_it_expires() {
    let world = World::new().await;
    let config = by_table(&world);
    put(&config, "alpha", &SigningKey::ed25519("alpha-1"), &["--not-after", "2090-06-01T00:00:00Z"]).await;
    let leaf = Authority::new("clients").client_leaf("alpha", (2020, 1, 1));
    let certificate = text(&config.file("client.pem", &leaf.certificate_pem));
    let key = text(&config.file("client.key", &leaf.key_pem));
    done(&config, &["put", "alpha", "--client-cert", &certificate, "--client-key", &key]).await;
    let daemon = Daemon::start(&config).await;
    daemon.line(0, &["has expired", "client certificate of scope", "alpha"]).await;
    let earliest =
        async |kind| daemon.metrics().await.total("outboxd_earliest_expiry_timestamp_seconds", &[("kind", kind)]);
    assert_eq!(earliest("client_certificate").await, 1_577_836_800.0);
    assert_eq!(earliest("signing_key").await, 3_799_958_400.0);
    let checked = outboxd(&config, &["check"], "").await;
    assert!(checked.stdout.contains("client certificate of scope \"alpha\": expired on 2020-01-01"), "{checked:?}");
}
