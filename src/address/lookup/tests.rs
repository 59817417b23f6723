use std::net::Ipv4Addr;

use super::*;
use crate::address::name_server::{Answer, NameServer};

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[tokio::test]
async fn both_families_are_asked_and_take_turns() {
    let server = NameServer::with_addresses(&["192.0.2.1", "192.0.2.2", "2001:db8::1"]).await;
    let found = server.resolver().addresses("a.example.com").await.unwrap();
    assert_eq!(server.questions(), 2);
    let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = found.iter().partition(|address| address.is_ipv4());
    assert_eq!((v4.len(), v6.len()), (2, 1));
    assert!(found[0].is_ipv4() && found[1].is_ipv6());
}

#[tokio::test]
async fn the_name_is_asked_as_it_stands() {
    let server = NameServer::start(|name, _, _| match name {
        "a.example.com" => Answer::Addresses(60, ips(&["192.0.2.1"])),
        _ => Answer::Code(ResponseCode::Refused),
    })
    .await;
    assert_eq!(server.resolver().addresses("a.example.com").await, Ok(ips(&["192.0.2.1"])));
}

#[tokio::test]
async fn an_alias_leads_to_its_addresses() {
    let server = NameServer::start(|_, _, _| Answer::Alias("b.example.net.", ips(&["192.0.2.7"]))).await;
    assert_eq!(server.resolver().addresses("a.example.com").await, Ok(ips(&["192.0.2.7"])));
}

#[tokio::test]
async fn each_kind_of_no_is_told_apart() {
    for (answer, expected) in [
        (Answer::Code(ResponseCode::NXDomain), LookupError::NameNotFound),
        (Answer::Code(ResponseCode::NoError), LookupError::NoAddress),
        (Answer::Code(ResponseCode::ServFail), LookupError::Refused),
        (Answer::Code(ResponseCode::Refused), LookupError::Refused),
        (Answer::Silence, LookupError::Timeout),
    ] {
        let scripted = answer.clone();
        let server = NameServer::start(move |_, _, _| scripted.clone()).await;
        let found = server.hasty_resolver().addresses("a.example.com").await;
        assert_eq!(found, Err(expected), "{answer:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_not_a_missing_name() {
    // The port was free a moment ago; nothing listens on it.
    let free = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let limits = ResolverLimits { total: Duration::from_millis(500), ..ResolverLimits::default() };
    let resolver = Resolver::with_limits(&[free], limits).unwrap();
    let found = resolver.addresses("a.example.com").await.unwrap_err();
    assert!(matches!(found, LookupError::Unreachable | LookupError::Timeout), "{found:?}");
}

#[tokio::test]
async fn a_family_that_fails_does_not_hide_the_other() {
    let server = NameServer::start(|_, family, _| match family {
        RecordType::A => Answer::Addresses(60, ips(&["192.0.2.1"])),
        _ => Answer::Code(ResponseCode::ServFail),
    })
    .await;
    assert_eq!(server.resolver().addresses("a.example.com").await, Ok(ips(&["192.0.2.1"])));
}

#[tokio::test]
async fn a_family_that_is_never_answered_does_not_hide_the_other() {
    let server = NameServer::start(|_, family, _| match family {
        RecordType::A => Answer::Addresses(60, ips(&["192.0.2.1"])),
        _ => Answer::Silence,
    })
    .await;
    assert_eq!(server.hasty_resolver().addresses("a.example.com").await, Ok(ips(&["192.0.2.1"])));
}

#[tokio::test]
async fn a_family_that_fails_leaves_open_whether_the_name_exists() {
    let server = NameServer::start(|_, family, _| match family {
        RecordType::A => Answer::Code(ResponseCode::NXDomain),
        _ => Answer::Code(ResponseCode::ServFail),
    })
    .await;
    assert_eq!(server.resolver().addresses("a.example.com").await, Err(LookupError::Refused));
}

#[tokio::test]
async fn forty_addresses_are_too_many_to_judge() {
    let many: Vec<IpAddr> = (1..=40).map(|last| IpAddr::V4(Ipv4Addr::new(8, 8, 8, last))).collect();
    let server = NameServer::start(move |_, _, _| Answer::Addresses(60, many.clone())).await;
    assert_eq!(server.resolver().addresses("a.example.com").await, Err(LookupError::TooManyAddresses));
}

#[tokio::test]
async fn thirty_two_addresses_are_not_too_many() {
    let many: Vec<IpAddr> = (1..=32).map(|last| IpAddr::V4(Ipv4Addr::new(8, 8, 8, last))).collect();
    let server = NameServer::start(move |_, _, _| Answer::Addresses(60, many.clone())).await;
    assert_eq!(server.resolver().addresses("a.example.com").await.map(|found| found.len()), Ok(32));
}

#[tokio::test]
async fn an_answer_of_ttl_zero_is_not_remembered() {
    let server = NameServer::start(|_, _, _| Answer::Addresses(0, ips(&["192.0.2.1"]))).await;
    let resolver = server.resolver();
    resolver.addresses("a.example.com").await.unwrap();
    let asked = server.questions();
    resolver.addresses("a.example.com").await.unwrap();
    assert!(server.questions() > asked);
}

#[tokio::test]
async fn an_answer_with_a_ttl_is_remembered_for_a_while() {
    let server = NameServer::with_addresses(&["192.0.2.1", "2001:db8::1"]).await;
    let resolver = server.resolver();
    resolver.addresses("a.example.com").await.unwrap();
    resolver.addresses("a.example.com").await.unwrap();
    assert_eq!(server.questions(), 2);
}

#[tokio::test]
async fn the_hosts_file_is_never_read() {
    let server = NameServer::start(|_, _, _| Answer::Code(ResponseCode::NXDomain)).await;
    let hostname = nix::sys::utsname::uname().map(|names| names.nodename().to_owned());
    let own = hostname.ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "ip6-localhost".to_owned());
    for name in [own.as_str(), "ip6-localhost"] {
        assert_eq!(server.resolver().addresses(name).await, Err(LookupError::NameNotFound), "{name}");
    }
}

#[test]
fn a_resolver_needs_a_server() {
    assert!(matches!(Resolver::with_servers(&[]), Err(ResolverError::NoServer)));
}

#[tokio::test]
async fn what_is_remembered_is_no_sign_of_life() {
    let server = NameServer::with_addresses(&["192.0.2.1", "2001:db8::1"]).await;
    let resolver = server.resolver();
    resolver.addresses("a.example.com").await.unwrap();
    let answered = resolver.answered();
    assert_eq!(answered, 2);
    resolver.addresses("a.example.com").await.unwrap();
    assert_eq!(resolver.answered(), answered);
}

#[tokio::test]
async fn a_no_is_an_answer_and_an_error_is_none() {
    for (code, answers) in [
        (ResponseCode::NXDomain, 2),
        (ResponseCode::NoError, 2),
        (ResponseCode::ServFail, 0),
        (ResponseCode::Refused, 0),
    ] {
        let server = NameServer::start(move |_, _, _| Answer::Code(code)).await;
        let resolver = server.resolver();
        resolver.addresses("a.example.com").await.unwrap_err();
        assert_eq!(resolver.answered(), answers, "{code}");
        assert_eq!(resolver.is_alive(Duration::from_secs(5)).await, answers > 0, "{code}");
    }
}

#[tokio::test]
async fn a_server_is_alive_that_knows_the_root_or_the_name_that_was_found_last() {
    let server = NameServer::start(|name, _, _| match name {
        "inner.example.com" => Answer::Addresses(0, ips(&["192.0.2.1"])),
        _ => Answer::Code(ResponseCode::Refused),
    })
    .await;
    let resolver = server.resolver();
    assert!(!resolver.is_alive(Duration::from_secs(5)).await);
    resolver.addresses("inner.example.com").await.unwrap();
    assert!(resolver.is_alive(Duration::from_secs(5)).await);
    let silent = NameServer::start(|_, _, _| Answer::Silence).await;
    assert!(!silent.hasty_resolver().is_alive(Duration::from_millis(200)).await);
}

#[tokio::test]
async fn a_family_that_failed_is_asked_again() {
    let server = NameServer::start(|_, family, _| match family {
        RecordType::A => Answer::Addresses(60, ips(&["192.0.2.1"])),
        _ => Answer::Code(ResponseCode::ServFail),
    })
    .await;
    let resolver = server.resolver();
    resolver.addresses("a.example.com").await.unwrap();
    let asked = server.questions();
    resolver.addresses("a.example.com").await.unwrap();
    assert!(server.questions() > asked, "a private address may have been added meanwhile");
}

#[tokio::test]
async fn a_server_that_could_not_tell_is_not_the_last_word() {
    let broken = NameServer::start(|_, _, _| Answer::Code(ResponseCode::ServFail)).await;
    let whole = NameServer::with_addresses(&["192.0.2.1"]).await;
    for servers in [[broken.address, whole.address], [whole.address, broken.address]] {
        for name in 0..10 {
            let resolver = Resolver::with_servers(&servers).unwrap();
            assert_eq!(resolver.addresses(&format!("n{name}.example.com")).await, Ok(ips(&["192.0.2.1"])));
        }
    }
}

#[test]
fn a_shortage_of_this_machine_is_not_the_name_servers_fault() {
    let error = |code: Errno| NetError::from(std::io::Error::from_raw_os_error(code as i32));
    assert_eq!(reason(&error(Errno::EMFILE)), LookupError::Shortage);
    assert_eq!(reason(&error(Errno::ENETUNREACH)), LookupError::Unreachable);
}
