use super::*;
use crate::address::UrlRules;
use crate::address::name_server::{Answer, NameServer};
use crate::address::url::HostPattern;

fn destination(text: &str) -> Destination {
    Destination::parse(text, &UrlRules::default()).unwrap()
}

fn policy(allow: &[&str]) -> Policy {
    Policy::new(allow.iter().map(|net| net.parse().unwrap()).collect(), Vec::new())
}

/// Asks nobody: its only server is a port on which nothing listens.
fn no_resolver() -> Resolver {
    Resolver::with_servers(&["127.0.0.1:1".parse().unwrap()]).unwrap()
}

#[tokio::test]
async fn public_addresses_are_pinned_with_the_port_of_the_url() {
    let server = NameServer::with_addresses(&["8.8.8.8", "2606:4700::1111"]).await;
    let pinned = pin(&destination("https://a.example.com:8443/x"), &policy(&[]), &server.resolver()).await.unwrap();
    let expected: Vec<SocketAddr> = vec!["8.8.8.8:8443".parse().unwrap(), "[2606:4700::1111]:8443".parse().unwrap()];
    assert_eq!(pinned.addresses(), expected);
    assert_eq!(pinned.server_name(), &ServerName::try_from("a.example.com").unwrap());
}

#[tokio::test]
async fn at_most_four_addresses_are_pinned_and_none_twice() {
    let answers = ["8.8.8.1", "8.8.8.1", "8.8.8.2", "8.8.8.3", "8.8.8.4", "8.8.8.5", "::ffff:8.8.8.1"];
    let server = NameServer::with_addresses(&answers).await;
    let pinned = pin(&destination("https://a.example.com/"), &policy(&[]), &server.resolver()).await.unwrap();
    assert_eq!(pinned.addresses().len(), 4);
    assert!(pinned.addresses().iter().all(SocketAddr::is_ipv4));
}

#[tokio::test]
async fn one_private_answer_refuses_all() {
    for private in ["10.0.0.1", "::1", "fd00::1", "::ffff:169.254.169.254", "2002:7f00:1::"] {
        let server = NameServer::with_addresses(&["8.8.8.8", "8.8.4.4", private]).await;
        let refused = pin(&destination("https://a.example.com/"), &policy(&[]), &server.resolver()).await.unwrap_err();
        let addr: IpAddr = private.parse().unwrap();
        assert_eq!(refused, PinError::Forbidden { addr, class: policy(&[]).classify(addr) });
    }
}

#[tokio::test]
async fn a_private_answer_behind_the_ones_that_are_kept_is_seen() {
    let answers: Vec<String> = (1..=20).map(|last| format!("8.8.8.{last}")).chain(["10.0.0.1".to_owned()]).collect();
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    let server = NameServer::with_addresses(&answers).await;
    let refused = pin(&destination("https://a.example.com/"), &policy(&[]), &server.resolver()).await.unwrap_err();
    assert!(matches!(refused, PinError::Forbidden { .. }));
}

#[tokio::test]
async fn an_alias_to_a_private_address_is_refused() {
    let private = vec!["192.168.0.1".parse().unwrap()];
    let server = NameServer::start(move |_, _, _| Answer::Alias("inside.example.net.", private.clone())).await;
    let refused = pin(&destination("https://a.example.com/"), &policy(&[]), &server.resolver()).await.unwrap_err();
    assert!(matches!(refused, PinError::Forbidden { class: AddressClass::PrivateUse, .. }));
}

#[tokio::test]
async fn a_rebound_name_is_judged_anew() {
    let server = NameServer::start(|_, _, before| {
        let address = if before < 2 { "8.8.8.8" } else { "127.0.0.1" };
        Answer::Addresses(0, vec![address.parse().unwrap()])
    })
    .await;
    let (resolver, place) = (server.resolver(), destination("https://a.example.com/"));
    let first = pin(&place, &policy(&[]), &resolver).await.unwrap();
    assert_eq!(first.addresses(), ["8.8.8.8:443".parse().unwrap()]);
    let second = pin(&place, &policy(&[]), &resolver).await.unwrap_err();
    assert!(matches!(second, PinError::Forbidden { class: AddressClass::Loopback, .. }));
}

#[tokio::test]
async fn a_literal_is_judged_without_asking_anyone() {
    let resolver = no_resolver();
    let pinned = pin(&destination("https://1.1.1.1/"), &policy(&[]), &resolver).await.unwrap();
    assert_eq!(pinned.addresses(), ["1.1.1.1:443".parse().unwrap()]);
    let refused = pin(&destination("https://[::ffff:10.0.0.1]/"), &policy(&[]), &resolver).await.unwrap_err();
    assert!(matches!(refused, PinError::ForbiddenLiteral { class: AddressClass::PrivateUse, .. }));
    let opened =
        pin(&destination("https://[::ffff:10.0.0.1]:444/"), &policy(&["10.0.0.0/8"]), &resolver).await.unwrap();
    assert_eq!(opened.addresses(), ["10.0.0.1:444".parse().unwrap()]);
}

#[tokio::test]
async fn an_opened_name_still_needs_an_opened_address() {
    let pattern: HostPattern = "*.internal".parse().unwrap();
    let rules = UrlRules::new(vec![pattern], Vec::new());
    let place = Destination::parse("https://metadata.google.internal/", &rules).unwrap();
    let server = NameServer::with_addresses(&["169.254.169.254"]).await;
    let refused = pin(&place, &policy(&["0.0.0.0/0"]), &server.resolver()).await.unwrap_err();
    assert!(matches!(refused, PinError::Forbidden { class: AddressClass::Metadata, .. }));
}

#[tokio::test]
async fn failures_of_the_lookup_keep_their_kind() {
    use hickory_resolver::proto::op::ResponseCode;
    for (answer, expected) in [
        (Answer::Code(ResponseCode::NXDomain), PinError::NameNotFound),
        (Answer::Code(ResponseCode::NoError), PinError::NoAddress),
        (Answer::Code(ResponseCode::ServFail), PinError::Dns(LookupError::Refused)),
        (Answer::Silence, PinError::Timeout),
    ] {
        let server = NameServer::start(move |_, _, _| answer.clone()).await;
        let resolver = server.hasty_resolver();
        let failed = pin(&destination("https://a.example.com/"), &policy(&[]), &resolver).await.unwrap_err();
        assert_eq!(failed, expected);
    }
}

/// The hostile URLs of `tests/vectors/ssrf-urls.txt` (sources in its first line): with no name server to ask, only
/// literals can be pinned, and then only public ones.
#[tokio::test]
async fn no_hostile_url_pins_to_an_address_that_is_not_public() {
    let vectors = include_str!("../../../tests/vectors/ssrf-urls.txt");
    let server = NameServer::start(|_, _, _| Answer::Code(hickory_resolver::proto::op::ResponseCode::ServFail)).await;
    let resolver = server.resolver();
    let mut pinned_to = Vec::new();
    for text in vectors.lines().filter(|line| !line.starts_with("# ")) {
        let Ok(place) = Destination::parse(text, &UrlRules::default()) else { continue };
        let Ok(pinned) = pin(&place, &policy(&[]), &resolver).await else { continue };
        pinned_to.extend(pinned.addresses().iter().map(SocketAddr::ip));
    }
    pinned_to.sort();
    pinned_to.dedup();
    let public: Vec<IpAddr> = vec!["1.1.1.1".parse().unwrap(), "142.42.1.1".parse().unwrap()];
    assert_eq!(pinned_to, public);
}
