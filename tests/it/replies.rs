//! Every kind of reply and of failing to reply, judged as wire.md section 14 says. One daemon, one row a case.

use std::collections::HashMap;

use serde_json::json;

use crate::support::certs::Authority;
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::receiver::{Answer, Gate, Receiver};
use crate::support::seal::Draft;
use crate::support::world::World;

/// The state that a row must come to, its `last_http_status` and its `last_error`.
type Outcome = (&'static str, Option<i32>, Option<&'static str>);

async fn judged(world: &World, id: &str, outcome: Outcome) {
    let (state, status, error) = outcome;
    eventually(&format!("{id} is {outcome:?}"), async || match world.database.row(id).await {
        row if row.state == state && row.last_http_status == status && row.last_error.as_deref() == error => {
            assert_eq!(row.attempt_count, 1, "{row}");
            assert!(row.waiting || state != "pending", "{row}");
            Ok(())
        }
        row => Err(row),
    })
    .await;
}

async fn every_answer_is_judged(policy: &str, cases: Vec<(&'static str, Answer, Outcome)>) {
    let world = World::new().await;
    let answers: HashMap<String, Answer> =
        cases.iter().map(|(target, answer, _)| (target.to_string(), answer.clone())).collect();
    world.receiver.answer(move |target, _| answers[target].clone());
    let drafts: Vec<Draft> = cases.iter().map(|(target, ..)| Draft::to(world.receiver.url(target))).collect();
    world.database.insert(&world.seal(drafts.clone())).await;
    let config =
        world.config().set("compat.policy", policy).set("retry.base", "10m").set("egress.attempt_timeout", "8s");
    let _daemon = Daemon::start(&config).await;
    for (draft, (_, _, outcome)) in drafts.iter().zip(cases) {
        judged(&world, &draft.task_id, outcome).await;
    }
}

/// F4: a 401 is tried again, and so is nearly every other refusal.
#[tokio::test]
async fn every_status_is_judged_as_the_table_says() {
    let reply = Answer::status;
    let challenge = r#"Signature error="webhook_signature_key_unknown""#;
    let moved = reply(301).header("Location", "/200");
    every_answer_is_judged(
        "default",
        vec![
            ("/200", reply(200), ("delivered", Some(200), None)),
            ("/204", reply(204), ("delivered", Some(204), None)),
            ("/299", reply(299), ("delivered", Some(299), None)),
            ("/301", moved, ("pending", Some(301), Some("http_redirect"))),
            ("/400", reply(400), ("pending", Some(400), Some("http_client_error"))),
            ("/401", reply(401), ("pending", Some(401), Some("http_unauthorized"))),
            (
                "/401c",
                reply(401).header("WWW-Authenticate", challenge),
                ("pending", Some(401), Some("http_unauthorized:webhook_signature_key_unknown")),
            ),
            (
                "/401x",
                reply(401).header("WWW-Authenticate", r#"Signature error="webhook_made_up""#),
                ("pending", Some(401), Some("http_unauthorized")),
            ),
            ("/404", reply(404), ("pending", Some(404), Some("http_client_error"))),
            ("/408", reply(408), ("pending", Some(408), Some("http_retryable"))),
            ("/409", reply(409), ("invalid", Some(409), Some("http_conflict"))),
            ("/410", reply(410), ("invalid", Some(410), Some("http_gone"))),
            ("/413", reply(413), ("invalid", Some(413), Some("http_too_large"))),
            ("/425", reply(425), ("pending", Some(425), Some("http_retryable"))),
            ("/451", reply(451), ("invalid", Some(451), Some("http_legal"))),
            ("/500", reply(500), ("pending", Some(500), Some("http_server_error"))),
            ("/503", reply(503), ("pending", Some(503), Some("http_server_error"))),
            ("/599", reply(599), ("pending", Some(599), Some("http_server_error"))),
        ],
    )
    .await;
}

#[tokio::test]
async fn under_the_policy_sdk_every_status_ends_as_the_reference_ends_it() {
    let reply = Answer::status;
    every_answer_is_judged(
        "sdk",
        vec![
            ("/200", reply(200), ("delivered", Some(200), None)),
            ("/301", reply(301), ("invalid", Some(301), Some("http_redirect"))),
            ("/400", reply(400), ("invalid", Some(400), Some("http_client_error"))),
            ("/401", reply(401), ("invalid", Some(401), Some("http_unauthorized"))),
            ("/404", reply(404), ("invalid", Some(404), Some("http_client_error"))),
            ("/408", reply(408), ("pending", Some(408), Some("http_retryable"))),
            ("/409", reply(409), ("invalid", Some(409), Some("http_conflict"))),
            ("/425", reply(425), ("pending", Some(425), Some("http_retryable"))),
            ("/429", reply(429), ("pending", Some(429), Some("http_throttled"))),
            ("/451", reply(451), ("invalid", Some(451), Some("http_legal"))),
            ("/500", reply(500), ("pending", Some(500), Some("http_server_error"))),
            ("/close", Answer::Close, ("pending", None, Some("disconnected"))),
        ],
    )
    .await;
}

#[tokio::test]
async fn every_way_of_not_replying_is_judged_and_ends_in_time() {
    let never = Gate::closed();
    every_answer_is_judged(
        "default",
        vec![
            ("/close", Answer::Close, ("pending", None, Some("disconnected"))),
            ("/garbage", Answer::Garbage(b"SSH-2.0-no\r\n\r\n".to_vec()), ("pending", None, Some("protocol_error"))),
            ("/endless-head", Answer::EndlessHead, ("pending", None, Some("protocol_error"))),
            // F10: one deadline over the whole attempt, not one for each read.
            ("/drip", Answer::Drip, ("pending", None, Some("reply_timeout"))),
            ("/hang", Answer::status(200).when(&never), ("pending", None, Some("reply_timeout"))),
            // A 2xx head counts once the whole request was sent, whatever its body does.
            ("/endless-200", Answer::EndlessBody(200), ("delivered", Some(200), None)),
            ("/endless-500", Answer::EndlessBody(500), ("pending", Some(500), Some("http_server_error"))),
        ],
    )
    .await;
}

/// F8: Retry-After is read.
#[tokio::test]
async fn retry_after_parks_the_destination_and_not_the_one_row() {
    let world = World::new().await;
    world.receiver.answer(|_, _| Answer::status(429).header("Retry-After", "3600"));
    world.insert("/first", 1).await;
    let _daemon = Daemon::start(&world.config()).await;
    let first = world.database.rows().await[0].task_id.clone();
    judged(&world, &first, ("pending", Some(429), Some("http_throttled"))).await;
    let sql = "SELECT count(*) FROM adcp_task_webhook_outbox \
               WHERE available_at > clock_timestamp() + interval '50 minutes'";
    assert_eq!(world.database.value::<i64>(sql, &[]).await, 1, "Retry-After did not lengthen the delay");
    // Later rows for other destinations overtake one for this destination, which waits without an attempt.
    let elsewhere = Receiver::start().await;
    let parked = world.insert("/second", 1).await;
    for overtaking in 1..=3 {
        let free = Draft::to(elsewhere.url("/free")).seal(&world.key);
        let id = free.draft.task_id.clone();
        world.database.insert(&[free]).await;
        elsewhere.wait_for(overtaking).await;
        judged(&world, &id, ("delivered", Some(200), None)).await;
    }
    let row = world.database.row(&parked[0].task_id).await;
    assert_eq!((row.state.as_str(), row.attempt_count), ("pending", 0), "{row}");
    assert_eq!(world.receiver.received().len(), 1);
}

/// Bigger than what the sockets between two processes hold, so that a part is surely unsent.
#[tokio::test]
async fn a_2xx_before_the_request_was_sent_is_not_a_delivery() {
    let world = World::new().await;
    world.receiver.answer(|_, _| Answer::Early(200));
    let mut draft = Draft::to(world.receiver.url("/early"));
    draft.result = json!({"padding": "x".repeat(9 * 1024 * 1024)});
    world.database.insert(&world.seal(vec![draft])).await;
    let _daemon = Daemon::start(&world.config().set("retry.base", "1m")).await;
    eventually("the row is given another chance", async || match world.database.rows().await.remove(0) {
        row if row.state == "pending" && row.attempt_count == 1 => Ok(()),
        row => Err(row),
    })
    .await;
    let row = world.database.rows().await.remove(0);
    // The reset that follows unread bytes may reach us before the reply does.
    assert!(matches!(row.last_error.as_deref(), Some("reply_before_request" | "disconnected")), "{row}");
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let world = World::new().await;
    let stranger = Receiver::with_leaf(Authority::new("stranger").receiver_leaf()).await;
    let draft = Draft::to(stranger.url("/hooks"));
    world.database.insert(&world.seal(vec![draft.clone()])).await;
    let _daemon = Daemon::start(&world.config().set("retry.base", "1m")).await;
    judged(&world, &draft.task_id, ("pending", None, Some("tls_certificate"))).await;
    assert_eq!(stranger.received().len(), 0);
}
