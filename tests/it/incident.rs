//! A night by script: a receiver that is down, then a row under a key that nobody holds, then a table that somebody has locked,
//! then a database that is gone, and at last no replica. Each is diagnosed by what whoever is woken has: the alerts of the real
//! Prometheus, `outboxd status` and `outboxd why`, in words that name the cause and what to do, which is then done.

use crate::support::cluster::{TABLE, connect};
use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::link::Link;
use crate::support::metrics::PARKED;
use crate::support::prometheus::Prometheus;
use crate::support::receiver::{Answer, Receiver};
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::tool::outboxd;
use crate::support::world::World;

struct Night {
    world: World,
    config: Config,
    link: Link,
    daemon: Daemon,
    prometheus: Prometheus,
}

impl Night {
    async fn begins() -> Night {
        let (world, link) = (World::new().await, Link::down());
        link.mend();
        let config = world.config().set("delivery.park_after", 2).set("database.statement_timeout", "1s");
        let daemon = Daemon::start(&config.clone().set("database.url", link.url(&world.database.name))).await;
        let prometheus = Prometheus::start(&[daemon.admin().await]).await;
        eventually("a scrape has our metrics", async || match prometheus.ask("outboxd_ready == 1").await {
            Ok(series) if series.len() == 1 => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        // Until the first scrape there was nobody.
        prometheus.is_silent("OutboxdAllReplicasGone").await;
        eventually("nothing fires", async || match prometheus.firing().await {
            firing if firing.is_empty() => Ok(()),
            firing => Err(format!("{firing:?}")),
        })
        .await;
        Night { world, config, link, daemon, prometheus }
    }

    /// Until the alert says all of these.
    async fn alert(&self, name: &str, words: &[&str]) {
        eventually(&format!("{name} says {words:?}"), async || {
            let firing = self.prometheus.firing().await;
            let says = |told: &str| words.iter().all(|word| told.contains(word));
            // Of several of the same name, each has a cause of its own.
            if firing.iter().any(|(one, told)| one == name && says(told)) { Ok(()) } else { Err(format!("{firing:?}")) }
        })
        .await;
    }

    /// Until the command's words, on either stream, hold all of these.
    async fn told(&self, command: &[&str], words: &[&str]) -> String {
        eventually(&format!("{command:?} tells {words:?}"), async || {
            let done = outboxd(&self.config, command, "").await;
            let told = done.stdout + &done.stderr;
            if words.iter().all(|word| told.contains(word)) { Ok(told) } else { Err(told) }
        })
        .await
    }

    async fn a_receiver_is_down(&self) {
        let dead = Receiver::start().await;
        dead.answer(|_, _| Answer::status(503));
        let drafts = Draft::many(&dead.url("/hooks"), 5);
        self.world.database.insert(&self.world.seal(drafts.clone())).await;
        self.alert("OutboxdDestinationParked", &["1 destinations fail"]).await;
        let fails = format!("destination {} fails since", dead.address);
        self.told(&["status"], &["TROUBLE", &fails, "unavailable", "see whether it is up"]).await;
        self.told(&["why", &drafts[0].idempotency_key], &["http_server_error", "503", "for the receiver to mend"])
            .await;
        // Nobody else waits for it, and the age by which one would be woken says so.
        self.world.insert("/hooks", 5).await;
        self.world.receiver.wait_for(5).await;
        eventually("the rows of the parked destination are no backlog", async || {
            let metrics = self.daemon.metrics().await;
            match ["outboxd_oldest_due_age_seconds", "outboxd_oldest_claimable_age_seconds"]
                .map(|name| metrics.total(name, &[]))
            {
                [due, 0.0] if due > 0.0 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        dead.answer(|_, _| Answer::status(200));
        self.prometheus.is_silent("OutboxdDestinationParked").await;
        eventually("nothing is parked any more", async || match self.daemon.metrics().await.total(PARKED, &[]) {
            0.0 => Ok(()),
            parked => Err(parked),
        })
        .await;
    }

    async fn a_key_is_missing(&self) {
        let draft = self.world.insert_under(&EnvelopeKey::new(), "/hooks", 1).await.remove(0);
        let alert = ["no held envelope key opens some rows", "envelope.key_files"];
        self.alert("OutboxdEnvelopeUnopenable", &alert).await;
        self.told(&["status"], &["TROUBLE", "envelope_unopenable", "for the operator to mend", "envelope key"]).await;
        let why = ["envelope_unopenable: No held key opens the envelope", "for the operator to mend"];
        self.told(&["why", &draft.task_id], &why).await;
        // As whoever has looked at it may.
        let because = ["--run", "--reason", "sealed by a test", "--actor", "dana"];
        let done = outboxd(&self.config, &[&["cancel", "--task", &draft.task_id], &because[..]].concat(), "").await;
        assert_eq!(done.code, Some(0), "{done:?}");
        self.told(&["why", &draft.task_id], &["cancel by dana", "sealed by a test", "cancelled"]).await;
        self.prometheus.is_silent("OutboxdEnvelopeUnopenable").await;
    }

    async fn the_table_is_locked(&self) {
        let holder = connect(&format!("{}&application_name=nightly_report", self.world.database.url)).await;
        holder.batch_execute(&format!("begin; lock table {TABLE}")).await.expect("nobody holds it");
        let drafts = Draft::many(&self.world.receiver.url("/late"), 3);
        let rows = self.world.seal(drafts.clone());
        let inserting = self.world.database.insert(&rows);
        let diagnosing = async {
            self.alert("OutboxdDatabaseFails", &["statements fail: timeout"]).await;
            let words =
                ["of user postgres (nightly_report, idle in transaction) holds a lock since", "wait for it: end it"];
            let told = self.told(&["status"], &words).await;
            self.told(&["why", &drafts[0].task_id], &words).await;
            // What it says is to be done, is done as it says it.
            let (_, statement) = told.split_once("end it: `").expect("it was told");
            let statement = statement.split('`').next().expect("it ends");
            // The usual connection has an insert that waits.
            connect(&self.world.database.url).await.batch_execute(statement).await.expect("a superuser may");
        };
        tokio::join!(inserting, diagnosing);
        self.prometheus.is_silent("OutboxdDatabaseFails").await;
        self.told(&["why", &drafts[0].task_id], &["delivered", "answered with 200"]).await;
    }

    async fn the_database_is_gone(&self) {
        self.link.cut();
        self.alert("OutboxdNotReady", &["database"]).await;
        self.alert("OutboxdDatabaseFails", &["statements fail: unavailable"]).await;
        let cut_off = self.config.clone().set("database.url", self.link.url(&self.world.database.name));
        let done = outboxd(&cut_off, &["status"], "").await;
        assert!(done.code == Some(69) && done.stderr.contains("the database is not available"), "{done:?}");
        self.link.mend();
        self.prometheus.is_silent("OutboxdNotReady").await;
        self.prometheus.is_silent("OutboxdDatabaseFails").await;
    }
}

#[tokio::test]
async fn an_incident_is_told_by_alerts_and_commands_that_name_its_cause_and_ends_with_it() {
    let night = Night::begins().await;
    night.a_receiver_is_down().await;
    night.a_key_is_missing().await;
    night.the_table_is_locked().await;
    night.the_database_is_gone().await;
    let Night { daemon, prometheus, .. } = night;
    daemon.kill().await;
    prometheus.fires("OutboxdReplicaDown").await;
    prometheus.fires("OutboxdAllReplicasGone").await;
}
