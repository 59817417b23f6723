//! Bad peers, by the table: each ends an attempt inside its deadline, under one code, for one verdict, with a bounded memory,
//! and on a connection that is used again only where it is written so.

mod http;
mod tls;

use std::collections::HashMap;
use std::time::Duration;

use crate::support::abuse::{Abuser, Nature};
use crate::support::certs::Authority;
use crate::support::cluster::OutboxRow;
use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, ticks, within};
use crate::support::receiver::Receiver;
use crate::support::seal::Draft;
use crate::support::world::World;

/// State, `last_http_status` and `last_error` of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome(&'static str, Option<i32>, Option<&'static str>);

pub const fn delivered(status: i32) -> Outcome {
    Outcome("delivered", Some(status), None)
}

pub const fn retried(code: &'static str) -> Outcome {
    Outcome("pending", None, Some(code))
}

pub const fn refused(status: i32, code: &'static str) -> Outcome {
    Outcome("pending", Some(status), Some(code))
}

pub const fn quarantined(status: i32, code: &'static str) -> Outcome {
    Outcome("invalid", Some(status), Some(code))
}

/// One line of the table. Two rows are posted to each peer, one after the other.
pub struct Case {
    pub name: &'static str,
    pub nature: Nature,
    pub first: Outcome,
    /// Where it is not the same.
    pub second: Outcome,
    /// Whether the second goes over the first's connection.
    pub reused: bool,
    /// Of the body, beside what every body has.
    pub padding: usize,
}

impl Case {
    pub fn new(name: &'static str, nature: Nature, outcome: Outcome) -> Case {
        Case { name, nature, first: outcome, second: outcome, reused: false, padding: 0 }
    }

    pub fn reused(mut self) -> Case {
        self.reused = true;
        self
    }

    pub fn then(mut self, outcome: Outcome) -> Case {
        self.second = outcome;
        self
    }

    pub fn padded(mut self, bytes: usize) -> Case {
        self.padding = bytes;
        self
    }
}

const ATTEMPT: Duration = Duration::from_secs(5);
/// How much later than its deadline an attempt may be told of on a machine that has other things to do.
const SLACK: Duration = Duration::from_secs(2);

struct Played {
    case: Case,
    peer: Abuser,
    drafts: Vec<Draft>,
}

impl Played {
    fn draft(&self, turn: usize) -> Draft {
        let mut draft = Draft::to(self.peer.url(&format!("/{}/{turn}", self.case.name)));
        draft.result = serde_json::json!({"padding": "x".repeat(self.case.padding)});
        draft
    }
}

fn is_judged(row: &OutboxRow) -> bool {
    row.state != "in_flight" && row.attempt_count > 0 && (row.state != "pending" || row.waiting)
}

pub fn config(world: &World, extra_anchors: &[&str]) -> Config {
    let config = world.config();
    let mut anchors = vec![text(&config.file_with_mode("ca.pem", Authority::shared().pem(), 0o644))];
    for (nth, pem) in extra_anchors.iter().enumerate() {
        anchors.push(text(&config.file_with_mode(&format!("more-{nth}.pem"), pem, 0o644)));
    }
    // Each peer is waited for as long as an attempt may take, all of them at once.
    config
        .set("delivery.slots", 256)
        .set("egress.trust_anchors", anchors)
        .set("egress.attempt_timeout", format!("{}s", ATTEMPT.as_secs()))
        .set("retry.base", "10m")
        .set("retry.slow_base", "10m")
}

/// Plays the whole table at once with one daemon, which may grow by so many bytes over it.
pub async fn play(table: Vec<Case>, extra_anchors: &[&str], may_grow: u64) {
    let world = World::new().await;
    // What every daemon needs for its first rows is not the peers' doing.
    let well_behaved = Receiver::start().await;
    world.database.insert(&world.seal(Draft::many(&well_behaved.url("/warm"), 50))).await;
    let daemon = Daemon::start(&config(&world, extra_anchors)).await;
    world.all_are("delivered").await;
    let before = daemon.peak();

    let mut played = Vec::new();
    for case in table {
        played.push(Played { peer: Abuser::start(case.nature.clone()).await, case, drafts: Vec::new() });
    }
    // Those whose connections are kept first: that lasts for seconds only, and the others make the machine busy.
    played.sort_by_key(|one| !one.case.reused);
    let kept = played.partition_point(|one| one.case.reused);
    let (calm, busy) = played.split_at_mut(kept);
    within(PATIENCE, "every calm peer has its verdicts", post_twice(&world, calm)).await;
    within(PATIENCE, "every peer has its verdicts", post_twice(&world, busy)).await;

    let rows: HashMap<String, OutboxRow> =
        world.database.rows().await.into_iter().map(|row| (row.task_id.clone(), row)).collect();
    let mut wrong = Vec::new();
    for Played { case, peer, drafts } in &played {
        for (draft, expected) in drafts.iter().zip([case.first, case.second]) {
            let row = &rows[&draft.task_id];
            let found = (row.state.as_str(), row.last_http_status, row.last_error.as_deref(), row.attempt_count);
            if found != (expected.0, expected.1, expected.2, 1) {
                wrong.push(format!("{}: {found:?} and not {expected:?}", case.name));
            }
        }
        let connections = peer.connections();
        for head in connections.iter().flatten().map(|head| head.to_ascii_lowercase()) {
            let (line, headers) = head.split_once("\r\n").expect("a head has lines");
            // Nothing that a peer has said comes back to it.
            let echoes = ["\ncookie:", "\nauthorization:", "\nproxy-", "\nupgrade", "\nexpect:", "\nhttp2-settings:"];
            if !line.starts_with(&format!("post /{}/", case.name)) || echoes.iter().any(|echo| headers.contains(echo)) {
                wrong.push(format!("{}: {head}", case.name));
            }
        }
        let most = connections.iter().map(Vec::len).max().unwrap_or_default();
        if (most > 1) != case.reused {
            wrong.push(format!("{}: {most} requests on one of {} connections", case.name, connections.len()));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), daemon.text());
    let grown = daemon.peak() - before;
    eprintln!("{} peers: grown by {} KiB", played.len(), grown >> 10);
    assert!(grown <= may_grow, "grown by {grown} bytes");
    every_attempt_ended_in_time(&daemon);
}

/// The second row of a peer follows the first's verdict at once, so that a kept connection would still be there.
async fn post_twice(world: &World, played: &mut [Played]) {
    let mut looks = ticks(Duration::from_millis(50));
    loop {
        looks.tick().await;
        let rows: HashMap<String, OutboxRow> =
            world.database.rows().await.into_iter().map(|row| (row.task_id.clone(), row)).collect();
        let (mut due, mut left) = (Vec::new(), 0);
        for one in played.iter_mut() {
            let judged = one.drafts.last().is_none_or(|draft| is_judged(&rows[&draft.task_id]));
            if judged && one.drafts.len() < 2 {
                let draft = one.draft(one.drafts.len());
                one.drafts.push(draft.clone());
                due.push(draft);
            }
            left += usize::from(one.drafts.len() < 2 || !judged);
        }
        if left == 0 && due.is_empty() {
            return;
        }
        if !due.is_empty() {
            world.database.insert(&world.seal(due)).await;
        }
    }
}

fn every_attempt_ended_in_time(daemon: &Daemon) {
    let mut attempts = 0;
    for (_, line) in daemon.lines() {
        let Ok(line) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
        let Some(took) = line["ms"].as_u64() else { continue };
        assert!(Duration::from_millis(took) <= ATTEMPT + SLACK, "too long: {line}");
        attempts += 1;
    }
    assert!(attempts > 50, "{}", daemon.text());
}
