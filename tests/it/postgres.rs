//! What becomes of a daemon when its Postgres restarts, crashes, fails over, fills up, loses a table or sits behind a pooler: it
//! says what is wrong, is back by itself within ten seconds of its database, and nothing is lost. A module per kind of fault.

mod busy;
mod crash;
mod disk;
mod failover;
mod limits;
mod majors;
mod migrating;
mod pooler;
mod schema;

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::cluster::{Database, insert_by, try_connect};
use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::eventually::{eventually, eventually_within, ticks, within};
use crate::support::history::{Commit, Enqueued, Fault, History, Moment, Receipt, Report, moment};
use crate::support::keys::SigningKey;
use crate::support::receiver::Receiver;
use crate::support::runtime::servers;
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::world::World;

/// From when Postgres is back, or from the promotion, until rows are delivered again.
const RECOVERY: Duration = Duration::from_secs(10);
/// For rows whose lease has to lapse first.
const SETTLING: Duration = Duration::from_secs(40);

/// A world whose every step is written down, and the faults that were made in it.
struct Scene {
    world: World,
    history: History,
}

/// Hosts that go on committing, one row at a time, wherever a primary takes it.
struct Feed {
    over: watch::Sender<bool>,
    hosts: JoinHandle<Vec<Enqueued>>,
}

impl Scene {
    async fn on(database: Database) -> Scene {
        History::record(&database).await;
        let receiver = Receiver::start().await;
        let (key, signer) = (EnvelopeKey::new(), SigningKey::ed25519("test-ed25519-1"));
        Scene { world: World { database, receiver, key, signer }, history: History::default() }
    }

    /// On the cluster that all tests share.
    async fn shared() -> Scene {
        Scene::on(Database::new().await).await
    }

    /// Leases that can be waited out, and all else as it comes.
    fn config(&self) -> Config {
        self.at(&self.world.database.url)
    }

    fn at(&self, url: &str) -> Config {
        self.world.hasty_config().set("database.url", format!("{url}&application_name=daemon"))
    }

    async fn insert(&mut self, rows: usize) {
        let drafts = self.world.insert("/hooks", rows).await;
        self.history.enqueued.extend(drafts.iter().map(|draft| Enqueued::of(draft, Commit::Known)));
    }

    /// The same, and waits until a receiver has each.
    async fn deliver(&mut self, rows: usize) {
        let before = self.world.receiver.received().len();
        self.insert(rows).await;
        self.world.receiver.wait_for(before + rows).await;
    }

    /// Fifty rows a second, until it is told to end.
    fn feed(&self, urls: Vec<String>) -> Feed {
        let (key, target) = (self.world.key.clone(), self.world.receiver.url("/hooks"));
        let (over, is_over) = watch::channel(false);
        let hosts = servers().spawn(async move {
            let (mut client, mut enqueued, mut nth) = (None, Vec::new(), 0);
            let mut ticks = ticks(Duration::from_millis(20));
            while !*is_over.borrow() {
                ticks.tick().await;
                if client.is_none() {
                    nth += 1;
                    client = try_connect(&urls[nth % urls.len()]).await.ok();
                }
                let Some(connected) = &client else { continue };
                let draft = Draft::to(&target);
                let sealed = [draft.clone().seal(&key)];
                let inserted = tokio::time::timeout(Duration::from_secs(1), insert_by(connected, &sealed)).await;
                let is_known = matches!(inserted, Ok(Ok(1)));
                enqueued.push(Enqueued::of(&draft, if is_known { Commit::Known } else { Commit::Unknown }));
                client = client.filter(|_| is_known);
            }
            enqueued
        });
        Feed { over, hosts }
    }

    async fn ended(&mut self, feed: Feed) {
        feed.over.send_replace(true);
        self.history.enqueued.extend(feed.hosts.await.expect("hosts do not panic"));
    }

    /// Waits until so many more rows of those that are fed have come to a receiver.
    async fn delivers(&self, rows: usize) {
        let before = self.world.receiver.received().len();
        self.world.receiver.wait_for(before + rows).await;
    }

    /// Waits until readiness is red for this reason, and says in full for which.
    async fn is_red(&self, daemon: &Daemon, reason: &str) -> String {
        eventually(&format!("readyz says {reason}"), async || match daemon.get("/readyz").await {
            Ok((503, page)) if page.contains(reason) => Ok(page.trim().to_string()),
            other => Err(format!("{other:?}\n{}", daemon.text())),
        })
        .await
    }

    /// It goes on saying so, as long as it is true, and not by turns.
    async fn stays_red(&self, daemon: &Daemon) {
        let (began, mut looks) = (Instant::now(), ticks(Duration::from_millis(100)));
        while began.elapsed() < Duration::from_secs(6) {
            looks.tick().await;
            let (status, page) = daemon.get("/readyz").await.expect("it answers");
            assert_eq!(status, 503, "{page}\n{}", daemon.text());
        }
    }

    /// Waits until the daemon, never restarted, is ready and delivers what is committed now.
    async fn recovers(&mut self, daemon: &Daemon, since: Instant) -> Duration {
        let drafts = self.world.insert("/hooks", 1).await;
        self.history.enqueued.extend(drafts.iter().map(|draft| Enqueued::of(draft, Commit::Known)));
        let (key, receiver) = (&drafts[0].idempotency_key, &self.world.receiver);
        eventually("it is ready and delivers", async || match daemon.get("/readyz").await {
            Ok((200, _)) if receiver.received().iter().any(|request| request.idempotency_key() == *key) => Ok(()),
            other => Err(format!("{other:?}\n{}", daemon.text())),
        })
        .await;
        let took = since.elapsed();
        assert!(took < RECOVERY, "it took {took:?}\n{}", daemon.text());
        assert!(daemon.is_running());
        took
    }

    /// For as long as it lasts: rows that were in flight meanwhile may be sent twice.
    fn broken(&mut self, what: &str, from: Moment) {
        self.history.faults.push(Fault::between(what, None, from, moment()));
    }

    /// Everything that was committed is delivered, and no promise was broken on the way.
    async fn judged(&mut self, fault: &str, readiness: &str, recovery: Duration) -> Report {
        self.all_end().await;
        self.history.receipts = self.world.receiver.received().iter().map(Receipt::of).collect();
        self.history.read(&self.world.database).await;
        let report = self.history.check();
        report.assert_settled();
        assert_eq!(report.lost.len(), 0, "{report}");
        println!(
            "survived: {fault} | {readiness} | {:.1} s | {} rows, {} lost, {} duplicates",
            recovery.as_secs_f64(),
            report.enqueued,
            report.lost.len(),
            report.duplicated()
        );
        report
    }

    async fn all_end(&self) {
        eventually_within(SETTLING, "every row is delivered", async || {
            let rows = within(RECOVERY, "the rows", self.world.database.rows()).await;
            match rows.iter().find(|row| row.state != "delivered") {
                Some(other) => Err(other.to_string()),
                None => Ok(()),
            }
        })
        .await;
    }
}
