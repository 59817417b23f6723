//! Peers that cannot, or do not, shake hands as they should. Nothing of a request reaches any of them.

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, date_time_ymd};
use rustls::ServerConfig;

use super::{Case, delivered, play, retried};
use crate::support::abuse::Nature::{Absent, Full, Tcp, Tls};
use crate::support::abuse::Step::{Close, Deaf, Drip, Flood, Rekey, Request, Reset, Say, SayRaw, Wait};
use crate::support::abuse::{Nature, Step};
use crate::support::certs::{Authority, Leaf};

const HERE: &str = "127.0.0.1";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

macro_rules! vector {
    ($name:literal) => {
        include_str!(concat!("../../vectors/tls/", $name, ".pem"))
    };
}

fn answering(leaf: Leaf) -> Nature {
    Tls(leaf.server_config(), vec![Request, Say(OK.to_vec())])
}

fn odd(change: impl Fn(&mut CertificateParams)) -> Nature {
    answering(Authority::shared().odd_leaf(&[HERE], change))
}

/// The good leaf with another setting.
fn set(change: impl Fn(&mut ServerConfig)) -> ServerConfig {
    let mut config = ServerConfig::clone(&Authority::shared().leaf(&[HERE]).server_config());
    change(&mut config);
    config
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("a record is short").to_be_bytes();
    [&[kind, 3, 3], &length[..], content].concat()
}

fn alert(description: u8) -> Vec<u8> {
    record(21, &[2, description])
}

/// Of a server that speaks this version and chose this suite, whatever it was offered.
fn server_hello(version: [u8; 2], suite: [u8; 2]) -> Vec<u8> {
    let hello = [&version[..], &[7; 32], &[0], &suite, &[0, 0, 0]].concat();
    let length = u8::try_from(hello.len()).expect("it is short");
    record(22, &[&[2, 0, 0, length], &hello[..]].concat())
}

/// What follows the client's first flight; a byte is read first, so that no reset comes before it was sent.
fn after_hello(steps: Vec<Step>) -> Nature {
    Tcp(std::iter::once(Step::Byte).chain(steps).collect())
}

fn certificates() -> Vec<Case> {
    let authority = Authority::shared();
    let proof = |name, nature| Case::new(name, nature, retried("tls_certificate"));
    let between = authority.intermediate("between");
    let weak = |pem| answering(Leaf::from_pem(pem, vector!("leaf.key")));
    vec![
        Case::new("good", answering(authority.leaf(&[HERE])), delivered(200)).reused(),
        Case::new("whole-chain", answering(between.leaf(&[HERE]).after(&between)), delivered(200)).reused(),
        Case::new("control-of-weak", weak(vector!("good")), delivered(200)).reused(),
        proof("incomplete-chain", answering(between.leaf(&[HERE]))),
        proof("expired", odd(|params| params.not_after = date_time_ymd(2002, 1, 1))),
        proof("not-yet-valid", odd(|params| params.not_before = date_time_ymd(3000, 1, 1))),
        proof("wrong-host", answering(authority.leaf(&["127.0.0.2", "buyer.example.com"]))),
        proof("no-san", answering(authority.leaf(&[]))),
        proof(
            "common-name-alone",
            answering(
                authority.odd_leaf(&[], |params| params.distinguished_name.push(rcgen::DnType::CommonName, HERE)),
            ),
        ),
        proof(
            "name-that-looks-like-the-address",
            odd(|params| {
                let name = HERE.try_into().expect("it is ASCII");
                params.subject_alt_names = vec![rcgen::SanType::DnsName(name)];
            }),
        ),
        proof("self-signed", answering(Leaf::of_nobody(&[HERE]))),
        proof("unknown-root", answering(Authority::new("stranger").leaf(&[HERE]))),
        proof("same-name-other-root", answering(Authority::new("outboxd test authority").leaf(&[HERE]))),
        proof("for-clients-only", odd(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth])),
        proof(
            "an-authority-itself",
            odd(|params| {
                params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            }),
        ),
        proof("sha1", weak(vector!("sha1"))),
        proof("rsa-1024", weak(vector!("rsa1024"))),
    ]
}

fn versions_and_suites() -> Vec<Case> {
    let failed = |name, nature| Case::new(name, nature, retried("tls_failed"));
    let demanding = |versions: &[&'static rustls::SupportedProtocolVersion]| {
        Authority::shared().leaf(&[HERE]).demanding_config_of(&Authority::new("of clients"), versions)
    };
    let answers = || vec![Request, Say(OK.to_vec())];
    let asked = |name, config| Case::new(name, Tls(config, answers()), retried("tls_client_auth"));
    vec![
        failed("tls-1.0", after_hello(vec![Say(server_hello([3, 1], [0xc0, 0x13])), Wait])),
        failed("tls-1.1", after_hello(vec![Say(server_hello([3, 2], [0xc0, 0x13])), Wait])),
        failed("ssl-3", after_hello(vec![Say(server_hello([3, 0], [0, 0x0a])), Wait])),
        failed("suite-that-was-not-offered", after_hello(vec![Say(server_hello([3, 3], [0xc0, 0x13])), Wait])),
        failed("null-suite", after_hello(vec![Say(server_hello([3, 3], [0, 0])), Wait])),
        failed("alert-no-version", after_hello(vec![Say(alert(70)), Wait])),
        failed("alert-no-suite", after_hello(vec![Say(alert(40)), Wait])),
        failed("alert-unknown-name", after_hello(vec![Say(alert(112)), Wait])),
        failed("h2-alone", Tls(set(|config| config.alpn_protocols = vec![b"h2".to_vec()]).into(), answers())),
        asked("client-certificate-1.2", demanding(&[&rustls::version::TLS12])),
        asked("client-certificate-1.3", demanding(&[&rustls::version::TLS13])),
        Case::new(
            "tls-1.2",
            Tls(Authority::shared().leaf(&[HERE]).config_of(&[&rustls::version::TLS12]), answers()),
            delivered(200),
        )
        .reused(),
    ]
}

fn broken_handshakes() -> Vec<Case> {
    let failed = |name, nature| Case::new(name, nature, retried("tls_failed"));
    let late = |name, nature| Case::new(name, nature, retried("tls_timeout"));
    let endless_message = [&[11, 0xff, 0xff, 0xff][..], &[0; 8192]].concat();
    vec![
        Case::new("absent", Absent, retried("connect_failed")),
        Case::new("full", Full, retried("connect_timeout")),
        failed("plain-http", after_hello(vec![Say(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), Wait])),
        failed("garbage", after_hello(vec![Say(vec![0xff; 64]), Wait])),
        failed("closed", after_hello(vec![Close])),
        failed("reset", after_hello(vec![Reset])),
        failed("endless-message", after_hello(vec![Flood(record(22, &endless_message))])),
        failed("endless-cipher-changes", after_hello(vec![Flood(record(20, &[1]))])),
        failed("endless-empty-records", after_hello(vec![Flood(record(22, &[]))])),
        failed("endless-warnings", after_hello(vec![Flood(record(21, &[1, 0]))])),
        failed("data-before-the-handshake", after_hello(vec![Flood(record(23, &[0; 4096]))])),
        late("silent", Tcp(vec![Wait])),
        late("deaf", Tcp(vec![Deaf])),
        late("dripping", after_hello(vec![Drip(record(22, &[2, 0, 0x3f, 0xff, 3, 3]))])),
    ]
}

fn after_the_handshake() -> Vec<Case> {
    let good = || Authority::shared().leaf(&[HERE]).server_config();
    let after = |steps: Vec<Step>| Tls(good(), std::iter::once(Request).chain(steps).collect());
    vec![
        Case::new("garbage-record", after(vec![SayRaw(vec![0xff; 64]), Wait]), retried("tls_failed")),
        Case::new("forged-record", after(vec![SayRaw(record(23, &[7; 64])), Wait]), retried("tls_failed")),
        // The library has had enough after a few dozen.
        Case::new("endless-new-keys", after(vec![Rekey]), retried("tls_failed")),
    ]
}

#[tokio::test]
async fn bad_tls_peers_are_left_with_nothing() {
    let table = [certificates(), versions_and_suites(), broken_handshakes(), after_the_handshake()];
    play(table.into_iter().flatten().collect(), &[vector!("authorities")], 16 << 20).await;
}
