//! Name servers that answer nothing are nobody's fault but theirs: claiming stops, no row pays for it, and it ends by itself.

use hickory_server::proto::op::ResponseCode;

use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::dns::{Answer, Dns, addresses};
use crate::support::eventually::eventually;
use crate::support::metrics::ATTEMPTS;
use crate::support::seal::Draft;
use crate::support::world::World;

const CLAIMED: &str = "outboxd_claimed_rows_total";
const DOWN: &str = "outboxd_resolver_down";

fn config(world: &World, dns: &Dns) -> Config {
    world
        .config()
        .set("egress.dns_servers", vec![dns.address.to_string()])
        .set("retry.base", "10m")
        .set("retry.slow_base", "10m")
}

/// Rows for this many names, each a receiver of its own to the daemon.
async fn insert(world: &World, rows: usize, names: usize) -> Vec<Draft> {
    let host = |n: usize| format!("n{}.hooks.example.com", n % names);
    let drafts: Vec<Draft> = (0..rows).map(|n| Draft::to(world.receiver.url_by_name(&host(n), "/hooks"))).collect();
    world.database.insert(&world.seal(drafts.clone())).await;
    drafts
}

async fn is_red(daemon: &Daemon) {
    eventually("readyz names the resolver", async || match daemon.get("/readyz").await {
        Ok((503, text)) if text.contains("resolver: the name servers answer nothing") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!(daemon.metrics().await.total(DOWN, &[]), 1.0);
}

async fn given_back(daemon: &Daemon) -> f64 {
    daemon.metrics().await.total(ATTEMPTS, &[("code", "resolver_down")])
}

/// What came before an outage is delivered with one more attempt, what came during it with one.
async fn an_outage_costs_no_row_an_attempt(break_it: impl AsyncFn(&Dns), mend_it: impl AsyncFn(&Dns)) {
    let world = World::new().await;
    let dns = Dns::start().await;
    dns.script("*", |_, _| addresses(&["127.0.0.1"]));
    let daemon = Daemon::start(&config(&world, &dns)).await;
    insert(&world, 40, 30).await;
    world.all_are("delivered").await;
    // In the middle of its work.
    insert(&world, 300, 30).await;
    world.receiver.wait_for(60).await;
    break_it(&dns).await;
    let tried_before = insert(&world, 100, 30).await;
    let ids: Vec<String> = tried_before.iter().map(|draft| draft.task_id.clone()).collect();
    let three = "UPDATE adcp_task_webhook_outbox SET attempt_count = attempt_count + 3, first_attempt_at = now(), \
                 retry_until = now() + interval '1 day', last_error = 'http_server_error' WHERE task_id = ANY($1)";
    assert_eq!(world.database.execute(three, &[&ids]).await, 100);

    is_red(&daemon).await;
    // A claim that was under way when it turned red may still add to the wave, but not for long.
    daemon.line(0, &["not claiming"]).await;
    let (claimed, wave) = eventually("what was claimed is given back", async || {
        let metrics = daemon.metrics().await;
        let (claimed, ended) = (metrics.total(CLAIMED, &[]), metrics.total(ATTEMPTS, &[]));
        let wave = metrics.total(ATTEMPTS, &[("code", "resolver_down")]);
        if claimed == ended && wave > 0.0 { Ok((claimed, wave)) } else { Err(metrics.text) }
    })
    .await;
    // The next row to be given back is the trial, ten seconds later; not one other was claimed meanwhile.
    eventually("a trial row came back", async || match given_back(&daemon).await {
        now if now > wave => Ok(()),
        now => Err(now),
    })
    .await;
    let metrics = daemon.metrics().await;
    assert_eq!((metrics.total(CLAIMED, &[]), given_back(&daemon).await), (claimed + 1.0, wave + 1.0));
    let rows = world.database.rows().await;
    for row in rows.iter().filter(|row| row.state != "delivered") {
        let (tries, error) = if ids.contains(&row.task_id) { (3, Some("http_server_error")) } else { (0, None) };
        assert_eq!((row.attempt_count, row.last_error.as_deref(), row.attempted), (tries, error, tries > 0), "{row}");
    }

    mend_it(&dns).await;
    daemon.ready().await;
    let rows = world.all_are("delivered").await;
    for row in rows {
        assert_eq!(row.attempt_count, if ids.contains(&row.task_id) { 4 } else { 1 }, "{row}");
    }
    let metrics = daemon.metrics().await;
    for code in ["dns_timeout", "dns_failed", "local_resources", "internal"] {
        assert_eq!(metrics.total(ATTEMPTS, &[("code", code)]), 0.0, "{}", metrics.text);
    }
    assert_eq!(metrics.total(DOWN, &[]), 0.0);
    let said = |text: &str| daemon.text().matches(text).count();
    assert_eq!((said("claiming stops until they do"), said("the name servers answer again")), (1, 1));
    assert!(world.receiver.tally().values().all(|times| *times == 1));
}

#[tokio::test]
async fn a_name_server_that_is_dead_for_a_while_costs_no_row_an_attempt() {
    an_outage_costs_no_row_an_attempt(async |dns| dns.kill(), async |dns| dns.restart().await).await;
}

#[tokio::test]
async fn a_name_server_without_upstream_costs_no_row_an_attempt() {
    let fail = async |dns: &Dns| {
        dns.script("*", |_, _| Answer::Code(ResponseCode::ServFail));
    };
    let mend = async |dns: &Dns| {
        dns.script("*", |_, _| addresses(&["127.0.0.1"]));
    };
    an_outage_costs_no_row_an_attempt(fail, mend).await;
}

/// The server never answers for the root, and at first for nothing; only a trial row can find out that it does now.
#[tokio::test]
async fn a_server_that_knows_no_root_does_not_lock_us_out() {
    let world = World::new().await;
    let dns = Dns::start().await;
    dns.script("", |_, _| Answer::Code(ResponseCode::Refused));
    dns.script("*", |_, _| Answer::Code(ResponseCode::Refused));
    // A destination that is parked would keep its last rows waiting for longer than this test does.
    let daemon = Daemon::start(&config(&world, &dns).set("delivery.park_after", 0)).await;
    // The first names never get an answer; the row that does comes last, and with it everything else.
    insert(&world, 30, 3).await;
    is_red(&daemon).await;
    dns.script("n3.hooks.example.com", |_, _| addresses(&["127.0.0.1"]));
    insert(&world, 4, 4).await;
    daemon.ready().await;
    eventually("the row whose name is known is delivered", async || match world.database.count("delivered").await {
        1 => Ok(()),
        other => Err(other),
    })
    .await;
    // From now on that name shows that the server lives, so that the others' failures are their own.
    eventually("the other names are blamed", async || {
        let rows = world.database.rows().await;
        let blamed = rows.iter().filter(|row| row.last_error.as_deref() == Some("dns_failed")).count();
        if blamed == 33 { Ok(()) } else { Err(format!("{blamed} of {rows:?}")) }
    })
    .await;
    assert_eq!(daemon.get("/readyz").await.expect("it answers").0, 200);
}

#[tokio::test]
async fn one_name_that_is_never_answered_pays_for_itself_alone() {
    let world = World::new().await;
    let dns = Dns::start().await;
    dns.script("*", |_, _| addresses(&["127.0.0.1"]));
    dns.script("n0.hooks.example.com", |_, _| Answer::Silence);
    // One after another, attempts that hear nothing for five seconds each would take nearly as long as this waits.
    let daemon = Daemon::start(&config(&world, &dns).set("delivery.slots", 20)).await;
    insert(&world, 20, 2).await;
    eventually("each name has its verdict", async || {
        let rows = world.database.rows().await;
        let timed_out = rows.iter().filter(|row| row.last_error.as_deref() == Some("dns_timeout")).count();
        let delivered = rows.iter().filter(|row| row.state == "delivered").count();
        if (timed_out, delivered) == (10, 10) { Ok(()) } else { Err(format!("{timed_out} and {delivered}")) }
    })
    .await;
    assert!(world.database.rows().await.iter().all(|row| row.attempt_count == 1));
    assert_eq!(given_back(&daemon).await, 0.0);
    assert_eq!(daemon.get("/readyz").await.expect("it answers").0, 200);
}

/// A reload with other servers ends an outage of the old ones.
#[tokio::test]
async fn an_outage_ends_with_a_reload_that_names_other_servers() {
    let world = World::new().await;
    let (dead, alive) = (Dns::start().await, Dns::start().await);
    dead.kill();
    alive.script("*", |_, _| addresses(&["127.0.0.1"]));
    let config = config(&world, &dead);
    let daemon = Daemon::start(&config).await;
    insert(&world, 5, 5).await;
    is_red(&daemon).await;
    config.set("egress.dns_servers", vec![alive.address.to_string()]).write();
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    let rows = world.all_are("delivered").await;
    assert!(rows.iter().all(|row| row.attempt_count == 1), "{rows:?}");
    daemon.ready().await;
}
