//! What a name server can answer, through the daemon against a real one: where bytes went, what the row says, and how often
//! it was tried.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hickory_server::proto::op::ResponseCode;
use hickory_server::proto::rr::RecordType;
use tokio::net::{TcpListener, UdpSocket};

use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::dns::{Answer, Dns, addresses, ips};
use crate::support::eventually::eventually;
use crate::support::receiver::Answer as Reply;
use crate::support::runtime::servers;
use crate::support::seal::Draft;
use crate::support::world::World;

/// On loopback, and not in `egress.allow`.
const PRIVATE: &str = "127.0.0.66";

/// Listens where nothing may be sent, and counts who comes.
struct Trap(Arc<AtomicUsize>);

impl Trap {
    async fn at(address: SocketAddr) -> Trap {
        let count = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&count);
        let listening = servers().spawn(async move {
            let listener = TcpListener::bind(address).await.expect("the address is ours");
            servers().spawn(async move {
                while listener.accept().await.is_ok() {
                    counting.fetch_add(1, Ordering::SeqCst);
                }
            });
        });
        listening.await.expect("binding does not panic");
        Trap(count)
    }

    fn assert_untouched(&self) {
        assert_eq!(self.0.load(Ordering::SeqCst), 0, "something connected to an address that was never passed");
    }
}

async fn trapped(world: &World) -> Trap {
    Trap::at(SocketAddr::new(PRIVATE.parse().expect("an address"), world.receiver.address.port())).await
}

fn config(world: &World, dns: SocketAddr) -> Config {
    world
        .config()
        .set("egress.allow", vec!["127.0.0.1/32"])
        .set("egress.dns_servers", vec![dns.to_string()])
        .set("retry.base", "10m")
        .set("retry.slow_base", "10m")
}

/// Each under a certificate that the receiver has.
fn host(name: &str) -> String {
    format!("{name}.hooks.example.com")
}

/// State and code of a row that was tried once.
async fn judged(world: &World, name: &str, id: &str, state: &str, code: Option<&str>) {
    eventually(&format!("{name} is {state} for {code:?}"), async || match world.database.row(id).await {
        row if row.state == state && row.last_error.as_deref() == code => {
            assert_eq!(row.attempt_count, 1, "{name}: {row}");
            Ok(())
        }
        row => Err(row),
    })
    .await;
}

type Case = (&'static str, Box<dyn Fn(RecordType, usize) -> Answer + Send + Sync>, &'static str, Option<&'static str>);

/// One row for each name; none of them may reach the trap, and only those that end delivered may reach the receiver.
async fn every_name_is_judged(cases: Vec<Case>, more: &[(&'static str, Answer)]) -> Dns {
    let world = World::new().await;
    let (trap, dns) = (trapped(&world).await, Dns::start().await);
    for (name, answer) in more {
        let answer = answer.clone();
        dns.script(name, move |_, _| answer.clone());
    }
    let mut rows = Vec::new();
    for (name, script, state, code) in cases {
        dns.script(&host(name), script);
        let draft = Draft::to(world.receiver.url_by_name(&host(name), &format!("/{name}")));
        rows.push((name, draft.task_id.clone(), state, code));
        world.database.insert(&world.seal(vec![draft])).await;
    }
    let daemon = Daemon::start(&config(&world, dns.address).set("egress.attempt_timeout", "15s")).await;
    for (name, id, state, code) in &rows {
        judged(&world, name, id, state, *code).await;
    }
    trap.assert_untouched();
    let mut reached: Vec<String> = world.receiver.received().into_iter().map(|request| request.target).collect();
    let mut expected: Vec<String> =
        rows.iter().filter(|row| row.2 == "delivered").map(|row| format!("/{}", row.0)).collect();
    reached.sort();
    expected.sort();
    assert_eq!(reached, expected);
    assert_eq!(daemon.get("/readyz").await.expect("it answers").0, 200, "one bad name is no outage");
    // Nothing but the names themselves, what they are aliases of, and the root was ever asked for: no search domain.
    let known: Vec<String> = rows.iter().map(|row| host(row.0)).chain(more.iter().map(|m| m.0.to_string())).collect();
    for question in dns.questions() {
        let chained = question.name.ends_with(".chain.example.net");
        assert!(question.name.is_empty() || chained || known.contains(&question.name), "asked for {question:?}");
    }
    dns
}

fn fixed(answer: Answer) -> Box<dyn Fn(RecordType, usize) -> Answer + Send + Sync> {
    Box::new(move |_, _| answer.clone())
}

#[tokio::test]
async fn forbidden_addresses_are_never_connected_to_however_they_are_told() {
    let refused = Some("address_forbidden");
    let alias = |name: &str, to: &[&str]| Answer::Aliases(vec![name.to_string()], ips(to));
    every_name_is_judged(
        vec![
            ("plain", fixed(addresses(&["127.0.0.1"])), "delivered", None),
            ("mixed", fixed(addresses(&["127.0.0.1", PRIVATE])), "pending", refused),
            ("mixed-last", fixed(addresses(&["127.0.0.1", "127.0.0.1", "127.0.0.1", PRIVATE])), "pending", refused),
            ("private-first", fixed(addresses(&[PRIVATE, "127.0.0.1"])), "pending", refused),
            ("private-aaaa", fixed(addresses(&["127.0.0.1", "fd00::1"])), "pending", refused),
            ("loopback-aaaa", fixed(addresses(&["127.0.0.1", "::1"])), "pending", refused),
            ("mapped-aaaa", fixed(addresses(&["127.0.0.1", "::ffff:127.0.0.66"])), "pending", refused),
            ("nat64-aaaa", fixed(addresses(&["127.0.0.1", "64:ff9b::7f00:42"])), "pending", refused),
            ("metadata", fixed(addresses(&["169.254.169.254"])), "pending", refused),
            ("cname", fixed(alias("inside.example.net", &[PRIVATE])), "pending", refused),
            ("cname-split", fixed(alias("inside.example.net", &[])), "pending", refused),
            ("cname-public", fixed(alias("outside.example.net", &[])), "delivered", None),
            ("tcp-private", fixed(Answer::OverTcpOnly(ips(&["127.0.0.1", PRIVATE]))), "pending", refused),
        ],
        &[("inside.example.net", addresses(&[PRIVATE])), ("outside.example.net", addresses(&["127.0.0.1"]))],
    )
    .await;
}

#[tokio::test]
async fn each_way_of_having_no_address_has_its_code_and_none_quarantines() {
    let many: Vec<String> = (0..40).map(|last| format!("127.0.1.{last}")).collect();
    let many: Vec<&str> = std::iter::once("127.0.0.1").chain(many.iter().map(String::as_str)).take(40).collect();
    let dns = every_name_is_judged(
        vec![
            ("nxdomain", fixed(Answer::Code(ResponseCode::NXDomain)), "pending", Some("dns_not_found")),
            ("nodata", fixed(Answer::Code(ResponseCode::NoError)), "pending", Some("dns_no_address")),
            ("servfail", fixed(Answer::Code(ResponseCode::ServFail)), "pending", Some("dns_failed")),
            ("refused", fixed(Answer::Code(ResponseCode::Refused)), "pending", Some("dns_failed")),
            ("notimp", fixed(Answer::Code(ResponseCode::NotImp)), "pending", Some("dns_failed")),
            ("silent", fixed(Answer::Silence), "pending", Some("dns_timeout")),
            ("forty", fixed(addresses(&many)), "pending", Some("dns_too_many_addresses")),
            ("forty-tcp", fixed(Answer::OverTcpOnly(ips(&many))), "pending", Some("dns_too_many_addresses")),
            ("truncated", fixed(Answer::OverTcpOnly(ips(&["127.0.0.1"]))), "delivered", None),
            (
                "foreign",
                fixed(Answer::Foreign("other.example.net", ips(&["127.0.0.1"]))),
                "pending",
                Some("dns_no_address"),
            ),
            ("loop", fixed(Answer::Aliases(vec![host("loop")], vec![])), "pending", Some("dns_no_address")),
            (
                "endless",
                fixed(Answer::Aliases(vec!["1.chain.example.net".into()], vec![])),
                "pending",
                Some("dns_no_address"),
            ),
            // A family that fails hides nothing that was seen, and decides nothing.
            (
                "half-failed",
                Box::new(|kind, _| match kind {
                    RecordType::A => addresses(&["127.0.0.1"]),
                    _ => Answer::Code(ResponseCode::ServFail),
                }),
                "delivered",
                None,
            ),
            (
                "half-denied",
                Box::new(|kind, _| match kind {
                    RecordType::A => Answer::Code(ResponseCode::NXDomain),
                    _ => Answer::Code(ResponseCode::ServFail),
                }),
                "pending",
                Some("dns_failed"),
            ),
        ],
        &[
            ("1.chain.example.net", Answer::Aliases(vec!["2.chain.example.net".into()], vec![])),
            ("2.chain.example.net", Answer::Aliases(vec!["3.chain.example.net".into()], vec![])),
            ("3.chain.example.net", Answer::Aliases(vec!["4.chain.example.net".into()], vec![])),
            ("4.chain.example.net", Answer::Aliases(vec!["5.chain.example.net".into()], vec![])),
            ("5.chain.example.net", Answer::Aliases(vec!["6.chain.example.net".into()], vec![])),
            ("6.chain.example.net", Answer::Aliases(vec!["7.chain.example.net".into()], vec![])),
            ("7.chain.example.net", Answer::Aliases(vec!["8.chain.example.net".into()], vec![])),
            ("8.chain.example.net", Answer::Aliases(vec!["9.chain.example.net".into()], vec![])),
            ("9.chain.example.net", addresses(&["127.0.0.1"])),
        ],
    )
    .await;
    let questions = dns.questions();
    assert!(questions.iter().any(|question| question.name == host("truncated") && question.tcp));
    // A chain is followed for eight questions and no further, and a loop is a chain.
    assert_eq!(dns.asked("9.chain.example.net", RecordType::A), 0);
    assert!((1..=8).contains(&dns.asked(&host("loop"), RecordType::A)), "{}", dns.asked(&host("loop"), RecordType::A));
}

/// The answer that was judged is the one that is connected to, and the next attempt asks again.
#[tokio::test]
async fn a_rebound_name_is_judged_afresh_by_every_attempt() {
    let world = World::new().await;
    let (trap, dns) = (trapped(&world).await, Dns::start().await);
    let rebinding = |_: RecordType, before: usize| addresses(if before == 0 { &["127.0.0.1"] } else { &[PRIVATE] });
    dns.script(&host("rebinding"), rebinding);
    world.receiver.answer(|_, _| Reply::status(503));
    let draft = Draft::to(world.receiver.url_by_name(&host("rebinding"), "/hooks"));
    world.database.insert(&world.seal(vec![draft.clone()])).await;
    let _daemon = Daemon::start(&config(&world, dns.address).set("retry.base", "50ms")).await;
    eventually("the second attempt is refused", async || match world.database.row(&draft.task_id).await {
        row if row.attempt_count == 2 && row.last_error.as_deref() == Some("address_forbidden") => Ok(()),
        row => Err(row),
    })
    .await;
    let row = world.database.row(&draft.task_id).await;
    assert_eq!((row.state.as_str(), row.last_http_status), ("pending", None), "{row}");
    assert_eq!(world.receiver.received().len(), 1);
    trap.assert_untouched();
    // Asked once by each attempt and no more, so that nothing could be rebound between the look and the leap.
    assert_eq!(dns.asked(&host("rebinding"), RecordType::A), 2);
    assert_eq!(dns.asked(&host("rebinding"), RecordType::AAAA), 2);
}

/// A kept connection goes to an address that the name had; it is used only while the name still has it.
#[tokio::test]
async fn a_kept_connection_is_not_a_way_around_the_name_servers() {
    let world = World::new().await;
    let (trap, dns) = (trapped(&world).await, Dns::start().await);
    dns.script(&host("moving"), |_, before| addresses(if before == 0 { &["127.0.0.1"] } else { &[PRIVATE] }));
    let to = || Draft::to(world.receiver.url_by_name(&host("moving"), "/hooks"));
    let daemon = Daemon::start(&config(&world, dns.address)).await;
    let (first, second) = (to(), to());
    world.database.insert(&world.seal(vec![first.clone()])).await;
    judged(&world, "first", &first.task_id, "delivered", None).await;
    assert_eq!(daemon.metrics().await.total("outboxd_connections_idle", &[]), 1.0);
    world.database.insert(&world.seal(vec![second.clone()])).await;
    judged(&world, "second", &second.task_id, "pending", Some("address_forbidden")).await;
    assert_eq!(world.receiver.received().len(), 1);
    trap.assert_untouched();
}

/// Names that this machine's own files would resolve are asked of the name servers and of nobody else.
#[tokio::test]
async fn the_hosts_file_and_the_search_list_are_never_read() {
    let world = World::new().await;
    let dns = Dns::start().await;
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let mut names: Vec<String> = hosts
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.split_whitespace().skip(1))
        .filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c.is_ascii_digit()))
        // The resolver library knows by itself that this is loopback; the URL rules refuse it before that.
        .filter(|name| *name != "localhost")
        .map(str::to_string)
        .collect();
    names.push("intranet".to_string());
    names.sort();
    names.dedup();
    let drafts: Vec<Draft> = names.iter().map(|name| Draft::to(world.receiver.url_by_name(name, "/hooks"))).collect();
    world.database.insert(&world.seal(drafts.clone())).await;
    let config =
        config(&world, dns.address).set("egress.allow", vec!["127.0.0.0/8"]).set("egress.allow_hosts", names.clone());
    let _daemon = Daemon::start(&config).await;
    for (name, draft) in names.iter().zip(drafts) {
        judged(&world, name, &draft.task_id, "pending", Some("dns_not_found")).await;
    }
    assert_eq!(world.receiver.connections(), 0);
    for question in dns.questions() {
        assert!(names.contains(&question.name), "asked for {question:?}");
    }
}

/// A name server that speaks by hand: its answer to each question is made from the question's own bytes.
async fn raw_name_server(answer: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let binding = servers().spawn(async move {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = socket.local_addr().expect("it is bound");
        servers().spawn(async move {
            let mut question = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut question).await {
                for datagram in answer(&question[..length]) {
                    socket.send_to(&datagram, from).await.expect("loopback takes a datagram");
                }
            }
        });
        address
    });
    binding.await.expect("binding does not panic")
}

/// The labels of the question, and where its section ends.
fn question_of(datagram: &[u8]) -> (String, usize) {
    let (mut at, mut name) = (12, Vec::new());
    while datagram[at] != 0 {
        let length = usize::from(datagram[at]);
        name.push(String::from_utf8_lossy(&datagram[at + 1..at + 1 + length]).into_owned());
        at += 1 + length;
    }
    (name.join("."), at + 5)
}

/// A well-formed answer with one address record of class IN, or with another class.
fn one_address(question: &[u8], address: [u8; 4], class: u8) -> Vec<u8> {
    let (_, end) = question_of(question);
    if question[end - 3] != 1 {
        return none(question, 0);
    }
    let mut reply = header(question, 0, 1);
    reply.extend_from_slice(&question[12..end]);
    reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, class, 0, 0, 0, 0, 0, 4]);
    reply.extend_from_slice(&address);
    reply
}

/// A well-formed answer without records.
fn none(question: &[u8], code: u8) -> Vec<u8> {
    let (_, end) = question_of(question);
    let mut reply = header(question, code, 0);
    reply.extend_from_slice(&question[12..end]);
    reply
}

fn header(question: &[u8], code: u8, answers: u8) -> Vec<u8> {
    vec![question[0], question[1], 0x81, 0x80 | code, 0, 1, 0, answers, 0, 0, 0, 0]
}

fn of_another_id(mut reply: Vec<u8>) -> Vec<u8> {
    reply[0] ^= 0x55;
    reply
}

#[tokio::test]
async fn forged_and_garbled_answers_lead_nowhere() {
    let world = World::new().await;
    let trap = trapped(&world).await;
    let bad = [127, 0, 0, 66];
    let good = [127, 0, 0, 1];
    let dns = raw_name_server(move |question| {
        let (name, end) = question_of(question);
        let answer = |address| one_address(question, address, 1);
        let forged = || of_another_id(answer(bad));
        match name.split('.').next().unwrap_or_default() {
            // A blind guess comes first, then the answer.
            "guessed" => vec![forged(), forged(), answer(good)],
            "only-guessed" => vec![forged()],
            "other-question" => {
                let mut reply = answer(bad);
                reply[13] ^= 1;
                vec![reply]
            }
            "class" => vec![one_address(question, bad, 3)],
            "garbage" => vec![[&question[..2], &[0xff; 60][..]].concat()],
            "cut" => {
                let mut reply = answer(bad);
                reply.truncate(end + 3);
                vec![reply]
            }
            "pointer-loop" => {
                let mut reply = answer(good);
                if reply.len() > end {
                    reply[end + 1] = end as u8;
                }
                vec![reply]
            }
            "short" => vec![vec![], vec![question[0]]],
            "echo" => vec![question.to_vec()],
            _ => vec![none(question, 0)],
        }
    })
    .await;
    let cases = [
        ("guessed", "delivered", None),
        ("only-guessed", "pending", Some("dns_timeout")),
        ("other-question", "pending", Some("dns_timeout")),
        ("class", "pending", Some("dns_failed")),
        ("garbage", "pending", Some("dns_failed")),
        ("cut", "pending", Some("dns_failed")),
        ("pointer-loop", "pending", Some("dns_failed")),
        ("short", "pending", Some("dns_timeout")),
        ("echo", "pending", Some("dns_failed")),
    ];
    let drafts: Vec<Draft> =
        cases.iter().map(|(name, ..)| Draft::to(world.receiver.url_by_name(&host(name), "/hooks"))).collect();
    world.database.insert(&world.seal(drafts.clone())).await;
    let daemon = Daemon::start(&config(&world, dns)).await;
    for ((name, state, code), draft) in cases.iter().zip(&drafts) {
        judged(&world, name, &draft.task_id, state, *code).await;
    }
    assert_eq!(world.receiver.received().len(), 1);
    assert!(!daemon.text().contains("hickory"), "a library spoke of what it was told: {}", daemon.text());
    trap.assert_untouched();
}

/// What does not fit into a datagram is asked for again over one connection, by all rows at once.
#[tokio::test]
async fn any_number_of_answers_may_need_tcp() {
    let world = World::new().await;
    let dns = Dns::start().await;
    dns.script("*", |_, _| Answer::OverTcpOnly(ips(&["127.0.0.1"])));
    let to = |n| Draft::to(world.receiver.url_by_name(&host(&format!("n{n}")), "/hooks"));
    world.database.insert(&world.seal((0..240).map(to).collect())).await;
    let _daemon = Daemon::start(&config(&world, dns.address)).await;
    let rows = world.all_are("delivered").await;
    assert!(rows.iter().all(|row| row.attempt_count == 1), "{rows:?}");
}

/// Of two name servers one may be broken in any way.
#[tokio::test]
async fn one_broken_name_server_of_two_breaks_nothing() {
    let world = World::new().await;
    let (broken, whole) = (Dns::start().await, Dns::start().await);
    whole.script("*", |_, _| addresses(&["127.0.0.1"]));
    let config = config(&world, broken.address)
        .set("egress.dns_servers", vec![broken.address.to_string(), whole.address.to_string()]);
    let _daemon = Daemon::start(&config).await;
    let ways: [(&str, Option<Answer>); 4] = [
        ("servfail", Some(Answer::Code(ResponseCode::ServFail))),
        ("refused", Some(Answer::Code(ResponseCode::Refused))),
        ("silent", Some(Answer::Silence)),
        ("dead", None),
    ];
    for (way, answer) in ways {
        match answer {
            Some(answer) => broken.script("*", move |_, _| answer.clone()),
            None => broken.kill(),
        }
        let drafts: Vec<Draft> =
            (0..20).map(|n| Draft::to(world.receiver.url_by_name(&host(&format!("{way}-{n}")), "/hooks"))).collect();
        world.database.insert(&world.seal(drafts)).await;
        let rows = world.all_are("delivered").await;
        assert!(rows.iter().all(|row| row.attempt_count == 1), "{way}: {rows:?}");
    }
}
