//! Rows that can never be delivered cost the others nothing.

use nix::sys::signal::Signal;

use crate::support::config::text;
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::seal::{Draft, EnvelopeKey, Sealed};
use crate::support::world::World;

/// Ten rows, each poisoned in its own way, with the code that says so.
fn poisoned(world: &World) -> Vec<(Sealed, &'static str)> {
    let key = &world.key;
    let draft = || Draft::to(world.receiver.url("/poison"));
    let changed = |change: &dyn Fn(&mut Sealed)| {
        let mut row = draft().seal(key);
        change(&mut row);
        row
    };
    let nested = {
        let draft = draft();
        let body = String::from_utf8(draft.body()).expect("bodies are text");
        let deep = format!("{},\"deep\":{}{}}}", &body[..body.len() - 1], "[".repeat(2_000), "]".repeat(2_000));
        draft.seal_plaintext(key, deep.as_bytes())
    };
    let of_another_task = {
        let (draft, other) = (draft(), draft());
        draft.seal_plaintext(key, &other.body())
    };
    vec![
        (changed(&|row| *row.encrypted_body.last_mut().expect("there is a tag") ^= 1), "envelope_unopenable"),
        (draft().seal(&EnvelopeKey::new()), "envelope_unopenable"),
        (changed(&|row| row.draft.url = world.receiver.url("/elsewhere")), "envelope_unopenable"),
        (changed(&|row| row.envelope_nonce.truncate(11)), "row_malformed"),
        (draft().seal_plaintext(key, b"not JSON"), "envelope_malformed"),
        (nested, "envelope_malformed"),
        (of_another_task, "envelope_mismatch"),
        (draft().authentication("HMAC-SHA256", "a secret of the buyer").seal(key), "hmac_disabled"),
        (Draft::to("http://127.0.0.1/clear").seal(key), "url_refused"),
        (Draft::to("https://169.254.169.254/latest").seal(key), "literal_forbidden"),
    ]
}

#[tokio::test]
async fn ten_poisoned_rows_among_a_thousand_are_quarantined_and_the_rest_delivered() {
    let world = World::new().await;
    // The table would refuse the short nonce.
    let constraint: String = world
        .database
        .value(
            "SELECT conname::text FROM pg_constraint WHERE conrelid = 'adcp_task_webhook_outbox'::regclass \
             AND pg_get_constraintdef(oid) LIKE '%octet_length(envelope_nonce)%'",
            &[],
        )
        .await;
    let drop = format!("ALTER TABLE adcp_task_webhook_outbox DROP CONSTRAINT {constraint}");
    world.database.execute(&drop, &[]).await;
    let (poison, codes): (Vec<Sealed>, Vec<&str>) = poisoned(&world).into_iter().unzip();
    let ids: Vec<String> = poison.iter().map(|row| row.draft.task_id.clone()).collect();
    let mut rows = world.seal(Draft::many(&world.receiver.url("/hooks"), 990));
    for (nth, row) in poison.into_iter().enumerate() {
        rows.insert(nth * 97, row);
    }
    world.database.insert(&rows).await;
    let _daemon = Daemon::start(&world.config().set("envelope.unopenable_grace", "0s")).await;
    eventually("nothing is left to do", async || {
        let (delivered, invalid) = (world.database.count("delivered").await, world.database.count("invalid").await);
        if delivered + invalid == 1_000 { Ok(()) } else { Err(format!("{delivered} and {invalid}")) }
    })
    .await;
    for (id, code) in ids.iter().zip(codes) {
        let row = world.database.row(id).await;
        assert_eq!((row.state.as_str(), row.last_error.as_deref()), ("invalid", Some(code)), "{row}");
        assert_eq!(row.lease_token, None);
    }
    let tally = world.receiver.tally();
    assert_eq!((tally.len(), tally.values().max()), (990, Some(&1)));
}

/// Receivers tell repeats by the key in the body; a row that says another one would be two messages, or half of one.
#[tokio::test]
async fn p8_a_body_under_another_key_than_its_rows_never_leaves() {
    let world = World::new().await;
    let (draft, other) = (Draft::to(world.receiver.url("/hooks")), Draft::to(""));
    let body = String::from_utf8(draft.body()).expect("bodies are text");
    let body = body.replace(&draft.idempotency_key, &other.idempotency_key);
    let row = draft.seal_plaintext(&world.key, body.as_bytes());
    let id = row.draft.task_id.clone();
    world.database.insert(&[row]).await;
    world.insert("/hooks", 1).await;
    let _daemon = Daemon::start(&world.config()).await;
    eventually("both are done with", async || match world.database.count("pending").await {
        0 if world.database.count("in_flight").await == 0 => Ok(()),
        left => Err(left),
    })
    .await;
    let row = world.database.row(&id).await;
    assert_eq!((row.state.as_str(), row.last_error.as_deref()), ("invalid", Some("envelope_mismatch")), "{row}");
    assert_eq!(world.receiver.received().len(), 1);
}

/// F3: a missing key never invalidates a row.
#[tokio::test]
async fn p17_a_row_that_no_held_key_opens_is_kept_and_delivered_once_the_key_is_there() {
    let world = World::new().await;
    let missing = EnvelopeKey::new();
    let row = Draft::to(world.receiver.url("/hooks")).seal(&missing);
    let id = row.draft.task_id.clone();
    world.database.insert(&[row]).await;
    let config = world.config().set("retry.slow_base", "200ms");
    let daemon = Daemon::start(&config).await;
    eventually("the row is put off", async || match world.database.row(&id).await {
        row if row.state == "pending" && row.last_error.as_deref() == Some("envelope_unopenable") => Ok(()),
        row => Err(row),
    })
    .await;
    // The key is added to the ring and the daemon told.
    let ring: Vec<String> =
        [&world.key, &missing].iter().map(|key| text(&config.file(&key.hex()[..8], key.hex()))).collect();
    config.clone().set("envelope.key_files", ring).write();
    daemon.signal(Signal::SIGHUP);
    world.all_are("delivered").await;
    world.assert_signed(&world.receiver.received()[0]);
}
