//! Hostile URLs through the daemon: not one connection leaves it, as the kernel counts in a network namespace of the
//! daemon's own, or, where there is none to be had, as the daemon's own account of its connections says.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use crate::support::cluster::OutboxRow;
use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::dns::Dns;
use crate::support::eventually::eventually;
use crate::support::metrics::DIALS;
use crate::support::namespace::{Namespace, Sink};
use crate::support::seal::Draft;
use crate::support::tool::outboxd;
use crate::support::world::World;

const LISTED: &str = include_str!("../vectors/ssrf-urls.txt");

/// Of the list, what names a public address outright: nothing is wrong with these.
const PUBLIC: [&str; 2] = ["1.1.1.1", "142.42.1.1"];

fn is_public(url: &str) -> bool {
    PUBLIC.iter().any(|address| url.starts_with(&format!("https://{address}")))
}

/// Spellings of one IPv4 address that some parser or resolver somewhere reads as that address.
fn spellings(inner: Ipv4Addr) -> Vec<String> {
    let ([a, b, c, d], bits) = (inner.octets(), inner.to_bits());
    let (high, low) = (bits >> 16, bits & 0xffff);
    let wide =
        |text: &str| text.chars().map(|c| char::from_u32(u32::from(c) + 0xfee0).unwrap_or(c)).collect::<String>();
    vec![
        inner.to_string(),
        format!("{inner}."),
        bits.to_string(),
        format!("{bits:#x}"),
        format!("0{bits:o}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("{a:#x}.{}", bits & 0xff_ffff),
        format!("{a}.{b}.{low}"),
        format!("{a:03}.{b:03}.{c:03}.{d:03}"),
        wide(&inner.to_string()),
        inner.to_string().replace('.', "\u{3002}"),
        inner.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect(),
        format!("[::ffff:{inner}]"),
        format!("[::{inner}]"),
        format!("[::ffff:0:{inner}]"),
        format!("[64:ff9b::{inner}]"),
        format!("[64:ff9b:1::{inner}]"),
        format!("[2002:{high:x}:{low:x}::1]"),
        format!("[2001:0:{high:x}:{low:x}::1]"),
        format!("[2001::{:x}:{:x}]", !high & 0xffff, !low & 0xffff),
        format!("[2606:4700::5efe:{inner}]"),
        format!("[2606:4700::200:5efe:{inner}]"),
        format!("good.example@{inner}"),
        format!("{inner}\\@good.example"),
        format!("{inner}.nip.example.com"),
    ]
}

/// The public list, and beside it every spelling of addresses that matter most, made here: more than 470 in all.
fn hostile() -> Vec<String> {
    let listed = LISTED.lines().filter(|line| !line.starts_with('#') && !is_public(line)).map(str::to_string);
    let inner = [
        [127, 0, 0, 1],
        [169, 254, 169, 254],
        [10, 0, 0, 1],
        [172, 16, 0, 1],
        [192, 168, 0, 1],
        [100, 100, 100, 200],
        [168, 63, 129, 16],
        [192, 0, 0, 192],
        [0, 0, 0, 0],
    ];
    let made = inner.into_iter().flat_map(|octets| spellings(octets.into())).map(|host| format!("https://{host}/x"));
    let all: BTreeSet<String> = listed.chain(made).collect();
    all.into_iter().collect()
}

const PRIVATE: [&str; 7] =
    ["10.0.0.1", "169.254.169.254", "127.0.0.1", "192.168.0.1", "::1", "fd00:ec2::254", "::ffff:10.0.0.1"];
const MIXED: [&str; 4] = ["93.184.216.34", "2606:4700::1111", "93.184.216.35", "10.0.0.1"];

fn config(world: &World, dns: &Dns) -> Config {
    world.config().unset("egress.allow").set("egress.dns_servers", vec![dns.address.to_string()])
}

async fn deliver_to(world: &World, urls: &[String]) {
    let drafts = urls.iter().map(Draft::to).collect();
    world.database.insert(&world.seal(drafts)).await;
}

/// Waits until each row was tried once, and says what became of them.
async fn tried(world: &World) -> Vec<OutboxRow> {
    eventually("every row was tried", async || {
        let rows = world.database.rows().await;
        match rows.iter().find(|row| row.last_error.is_none() || row.lease_token.is_some()) {
            Some(row) => Err(row.to_string()),
            None => Ok(rows),
        }
    })
    .await
}

fn codes(rows: &[OutboxRow]) -> BTreeSet<String> {
    rows.iter().filter_map(|row| row.last_error.clone()).collect()
}

fn are_refusals(rows: &[OutboxRow], expected: usize) {
    assert_eq!(rows.len(), expected);
    let seen = codes(rows);
    let known = ["address_forbidden", "literal_forbidden", "url_refused"].map(str::to_string);
    assert_eq!(seen, BTreeSet::from(known));
}

/// How the connections are counted.
enum Counter {
    Kernel(Namespace, Sink),
    Daemon,
}

impl Counter {
    /// The better of the two that this machine can do.
    fn best() -> Counter {
        match Namespace::new() {
            Ok(namespace) => {
                eprintln!("counting at the socket layer, in a network namespace");
                let sink = namespace.sink(443);
                Counter::Kernel(namespace, sink)
            }
            Err(why) => {
                eprintln!("counting by the daemon's own account: {why}");
                Counter::Daemon
            }
        }
    }

    async fn dns(&self) -> Dns {
        match self {
            Counter::Kernel(namespace, _) => {
                let socket = namespace.run(|| std::net::UdpSocket::bind("127.0.0.1:0").expect("the namespace is new"));
                Dns::on(socket).await
            }
            Counter::Daemon => Dns::start().await,
        }
    }

    fn spawn(&self, config: Config) -> Daemon {
        match self {
            Counter::Kernel(namespace, _) => Daemon::spawn_inside(namespace, &config.set("admin.listen", "")),
            Counter::Daemon => Daemon::spawn(&config),
        }
    }

    async fn connects(&self, daemon: &Daemon) -> u64 {
        match self {
            Counter::Kernel(namespace, _) => namespace.connects(),
            // A whole number, far below where a float would blur it.
            Counter::Daemon => daemon.metrics().await.total(DIALS, &[]) as u64,
        }
    }
}

async fn no_connection_leaves(counter: Counter) {
    let (world, dns) = (World::new().await, counter.dns().await);
    dns.set("allowed.example.com", &["127.9.9.9"]);
    let hostile = hostile();
    assert!(hostile.len() >= 470, "{}", hostile.len());
    // The control leads to an address that only this test's configuration opens.
    let config = config(&world, &dns).set("egress.allow", vec!["127.9.9.9/32"]);
    let daemon = counter.spawn(config);
    dns.set_all(&PRIVATE);
    deliver_to(&world, &hostile).await;
    are_refusals(&tried(&world).await, hostile.len());
    assert_eq!(counter.connects(&daemon).await, 0);
    // The same again, with public answers before the private one.
    dns.set_all(&MIXED);
    deliver_to(&world, &hostile).await;
    are_refusals(&tried(&world).await, 2 * hostile.len());
    assert_eq!(counter.connects(&daemon).await, 0, "{}", daemon.text());
    // Were the count deaf, all this would prove nothing.
    deliver_to(&world, &["https://allowed.example.com/".to_string()]).await;
    tried(&world).await;
    let counted = counter.connects(&daemon).await;
    assert!(counted >= 1, "an allowed connection is not counted");
    let Counter::Kernel(_, sink) = &counter else { return };
    let control: IpAddr = [127, 9, 9, 9].into();
    assert_eq!(sink.destinations(), BTreeSet::from([control]));
    // What names a public address outright is reached, and nothing else with it.
    let public: Vec<String> = LISTED.lines().filter(|line| is_public(line)).map(str::to_string).collect();
    assert_eq!(public.len(), 3);
    dns.set("six.example.com", &["2606:4700::1111"]);
    deliver_to(&world, &public).await;
    deliver_to(&world, &["https://six.example.com/".to_string()]).await;
    tried(&world).await;
    assert!(counter.connects(&daemon).await > counted + 2);
    let reached =
        ["127.9.9.9", "1.1.1.1", "142.42.1.1", "2606:4700::1111"].map(|text| text.parse().expect("an address"));
    assert_eq!(sink.destinations(), BTreeSet::from(reached));
}

#[tokio::test]
async fn p15_hostile_urls_open_no_connection() {
    no_connection_leaves(Counter::best()).await;
}

#[tokio::test]
async fn hostile_urls_open_no_connection_by_the_daemons_own_account() {
    no_connection_leaves(Counter::Daemon).await;
}

/// Every address that this machine has is refused, whatever is allowed around it. Loopback has a class of its own.
#[tokio::test]
async fn the_addresses_of_this_machine_are_refused_unless_they_are_allowed_one_by_one() {
    let wide = Config::empty().set("egress.allow", vec!["0.0.0.0/0", "::/0"]);
    for interface in nix::ifaddrs::getifaddrs().expect("Linux tells them") {
        let Some(address) = interface.address else { continue };
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        let Some(address) = v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()))) else { continue };
        if address.is_loopback() {
            continue;
        }
        let url = match address {
            IpAddr::V4(v4) => format!("https://{v4}/"),
            IpAddr::V6(v6) => format!("https://[{v6}]/"),
        };
        let done = outboxd(&wide, &["check-url", &url], "").await;
        assert_eq!(done.code, Some(65), "{address}: {done:?}");
        assert!(done.stdout.contains("this machine's own address"), "{address}: {done:?}");
    }
}

#[tokio::test]
async fn an_address_that_this_machine_takes_on_is_refused_from_the_reload_on() {
    const PUBLIC: &str = "93.184.216.34";
    let counter = Counter::best();
    // Elsewhere the test above shows what can be shown without giving this machine another address.
    let Counter::Kernel(namespace, _) = &counter else { return };
    let (world, dns) = (World::new().await, counter.dns().await);
    dns.set_all(&[PUBLIC]);
    // Each row is tried once while this test lasts.
    let config = config(&world, &dns).set("retry.base", "15m").set("retry.cap", "15m");
    let daemon = counter.spawn(config.clone());
    let one_more = async |expected: u64, code: Option<&str>| {
        deliver_to(&world, &["https://buyer.example.com/".to_string()]).await;
        let rows = tried(&world).await;
        assert_eq!(namespace.connects(), expected, "{:?}", codes(&rows));
        assert!(code.is_none_or(|code| codes(&rows).contains(code)), "{:?}", codes(&rows));
    };
    one_more(1, None).await;
    namespace.take_on(PUBLIC);
    let reload = async |config: &Config| {
        config.clone().set("admin.listen", "").write();
        let from = daemon.lines().len();
        daemon.signal(nix::sys::signal::Signal::SIGHUP);
        daemon.line(from, &["reloaded"]).await;
    };
    reload(&config).await;
    one_more(1, Some("address_forbidden")).await;
    reload(&config.clone().set("egress.allow", vec![format!("{PUBLIC}/32")])).await;
    one_more(2, None).await;
}
