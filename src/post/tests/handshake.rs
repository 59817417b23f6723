//! Everything up to the first byte of a request.

use std::sync::Mutex;

use tokio::net::TcpSocket;

use super::*;
use crate::post::connect::{dial, is_local};
use crate::post::tls::TlsError;

const NOTHING: Sent = Sent::Nothing;

async fn fault_of(client: &Client, receiver: &Receiver, deadline: Instant) -> Failure {
    failed(&post(client, receiver, false, deadline).await)
}

#[tokio::test]
async fn a_certificate_that_proves_nothing_is_a_certificate_fault() {
    let authority = Authority::new();
    let client = authority.client();
    let wrong_name = Receiver::start(authority.server("other.example.com"), |_| async {}).await;
    let (chain, key) = authority.leaf(NAME, 2002);
    let expired = server_builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let expired = Receiver::start(expired, |_| async {}).await;
    let untrusted = Receiver::start(Authority::new().server(NAME), |_| async {}).await;
    for receiver in [&wrong_name, &expired, &untrusted] {
        let failure = fault_of(&client, receiver, patient()).await;
        assert_eq!(failure, Failure { fault: Fault::TlsCertificate, sent: NOTHING });
    }
    assert_eq!(client.gauges().opened, 0);
}

#[tokio::test]
async fn a_handshake_that_breaks_is_a_tls_fault() {
    let authority = Authority::new();
    let client = authority.client();
    let plain = Receiver::start_plain("127.0.0.1", |mut tcp| async move {
        let _ = tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let mut rest = [0; 1024];
        while let Ok(1..) = tcp.read(&mut rest).await {}
    })
    .await;
    let closing = Receiver::start_plain("127.0.0.1", |_| async {}).await;
    let resetting = Receiver::start_plain("127.0.0.1", |mut tcp| async move {
        let _ = tcp.read_u8().await;
        tcp.set_zero_linger().unwrap();
    })
    .await;
    let mut only_h2 = authority.server(NAME);
    only_h2.alpn_protocols = vec![b"h2".to_vec()];
    let only_h2 = Receiver::start(only_h2, |_| async {}).await;
    for receiver in [&plain, &closing, &resetting, &only_h2] {
        let failure = fault_of(&client, receiver, patient()).await;
        assert_eq!(failure, Failure { fault: Fault::Tls, sent: NOTHING });
    }
}

#[tokio::test]
async fn a_handshake_that_stalls_ends_at_the_deadline() {
    let silent = Receiver::start_plain("127.0.0.1", |tcp| async move {
        let _open = tcp;
        std::future::pending::<()>().await;
    })
    .await;
    let failure = fault_of(&Authority::new().client(), &silent, soon()).await;
    assert_eq!(failure, Failure { fault: Fault::TlsTimeout, sent: NOTHING });
}

#[tokio::test]
async fn a_refused_connection_is_a_connect_fault() {
    let refusing = Receiver::start_plain("127.0.0.9", |_| async {}).await;
    let failure = fault_of(&Authority::new().client(), &refusing, patient()).await;
    assert_eq!(failure, Failure { fault: Fault::Connect, sent: NOTHING });
}

/// A listener whose queue is full: Linux leaves further connections unanswered.
async fn unanswering(host: &str, port: u16) -> (SocketAddr, TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(SocketAddr::new(host.parse().unwrap(), port)).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        queued.push(stream.unwrap());
    }
    (address, listener, queued)
}

#[tokio::test]
async fn a_connection_that_is_not_answered_ends_at_the_deadline() {
    let (address, _listener, _queued) = unanswering("127.0.0.1", 0).await;
    let destination = destination(NAME, address.port());
    let pinned = pinned_to(&destination, &["127.0.0.1"]).await;
    let client = Authority::new().client();
    let posted = client.post(&pinned, None, request_of(&destination, Bytes::new()), false, soon()).await;
    assert_eq!(failed(&posted), Failure { fault: Fault::ConnectTimeout, sent: NOTHING });
}

#[tokio::test]
async fn an_address_that_refuses_gives_way_to_the_next() {
    let authority = Authority::new();
    let receiver = only_on("127.0.0.1", &authority).await;
    let destination = destination(NAME, receiver.address.port());
    let pinned = pinned_to(&destination, &["127.0.0.2", "127.0.0.3", "127.0.0.1"]).await;
    let posted = authority.client().post(&pinned, None, request_of(&destination, Bytes::new()), false, patient()).await;
    assert_eq!(replied(&posted).status, 200);
}

#[tokio::test]
async fn an_address_that_does_not_answer_is_not_waited_for() {
    let authority = Authority::new();
    let receiver = only_on("127.0.0.1", &authority).await;
    let (_, _listener, _queued) = unanswering("127.0.0.2", receiver.address.port()).await;
    let destination = destination(NAME, receiver.address.port());
    let pinned = pinned_to(&destination, &["127.0.0.2", "127.0.0.1"]).await;
    let posted = authority.client().post(&pinned, None, request_of(&destination, Bytes::new()), false, patient()).await;
    assert_eq!(replied(&posted).status, 200);
}

#[tokio::test]
async fn a_failed_handshake_gives_way_to_the_next_address() {
    let authority = Authority::new();
    let receiver = only_on("127.0.0.1", &authority).await;
    let port = receiver.address.port();
    let broken = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
    let breaking = tokio::spawn(async move {
        loop {
            drop(broken.accept().await);
        }
    });
    let destination = destination(NAME, port);
    let pinned = pinned_to(&destination, &["127.0.0.2", "127.0.0.1"]).await;
    let posted = authority.client().post(&pinned, None, request_of(&destination, Bytes::new()), false, patient()).await;
    assert_eq!(replied(&posted).status, 200);
    breaking.abort();
}

async fn only_on(host: &str, authority: &Authority) -> Receiver {
    let acceptor = TlsAcceptor::from(Arc::new(authority.server(NAME)));
    Receiver::start_plain(host, move |tcp| {
        let shaken = acceptor.accept(tcp);
        async move {
            let Ok(mut stream) = shaken.await else { return };
            while read_request(&mut stream).await.is_some() {
                stream.write_all(OK).await.unwrap();
            }
        }
    })
    .await
}

/// What a server learns from a handshake: server name, protocol, kind.
type Learned = (Option<String>, Option<Vec<u8>>, Option<rustls::HandshakeKind>);

async fn learning(config: ServerConfig, learned: &Arc<Mutex<Vec<Learned>>>) -> Receiver {
    let learned = Arc::clone(learned);
    Receiver::start(config, move |mut stream| {
        let session = stream.get_ref().1;
        let name = session.server_name().map(str::to_owned);
        let protocol = session.alpn_protocol().map(<[u8]>::to_vec);
        learned.lock().unwrap().push((name, protocol, session.handshake_kind()));
        async move {
            while read_request(&mut stream).await.is_some() {
                stream.write_all(OK).await.unwrap();
            }
        }
    })
    .await
}

#[tokio::test]
async fn every_connection_verifies_anew_and_speaks_http_1_1() {
    let authority = Authority::new();
    let learned = Arc::new(Mutex::new(Vec::new()));
    let receiver = learning(authority.server(NAME), &learned).await;
    let client = authority.client();
    for _ in 0..3 {
        assert_eq!(replied(&post(&client, &receiver, true, patient()).await).status, 200);
    }
    let full = Some(rustls::HandshakeKind::Full);
    let expected: Learned = (Some(NAME.to_owned()), Some(b"http/1.1".to_vec()), full);
    assert_eq!(*learned.lock().unwrap(), vec![expected; 3]);
}

#[tokio::test]
async fn an_address_literal_is_verified_without_a_server_name() {
    let authority = Authority::new();
    let learned = Arc::new(Mutex::new(Vec::new()));
    let receiver = learning(authority.server("127.0.0.1"), &learned).await;
    let destination = destination("127.0.0.1", receiver.address.port());
    let pinned = pinned_to(&destination, &[]).await;
    let posted = authority.client().post(&pinned, None, request_of(&destination, Bytes::new()), false, patient()).await;
    assert_eq!(replied(&posted).status, 200);
    assert_eq!(learned.lock().unwrap()[0].0, None);
}

#[tokio::test]
async fn a_literal_needs_a_certificate_for_the_address() {
    let authority = Authority::new();
    let receiver = Receiver::start(authority.server(NAME), |_| async {}).await;
    let destination = destination("127.0.0.1", receiver.address.port());
    let pinned = pinned_to(&destination, &[]).await;
    let posted = authority.client().post(&pinned, None, request_of(&destination, Bytes::new()), false, patient()).await;
    assert_eq!(failed(&posted), Failure { fault: Fault::TlsCertificate, sent: NOTHING });
}

#[test]
fn shortages_of_this_machine_are_told_from_faults_of_the_way() {
    use nix::errno::Errno;
    for ours in [Errno::EMFILE, Errno::ENFILE, Errno::EADDRNOTAVAIL, Errno::ENOBUFS, Errno::ENOMEM, Errno::EPERM] {
        assert!(is_local(&std::io::Error::from_raw_os_error(ours as i32)), "{ours}");
    }
    for theirs in [Errno::ECONNREFUSED, Errno::ECONNRESET, Errno::ETIMEDOUT, Errno::ENETUNREACH, Errno::EHOSTUNREACH] {
        assert!(!is_local(&std::io::Error::from_raw_os_error(theirs as i32)), "{theirs}");
    }
    assert!(!is_local(&std::io::ErrorKind::PermissionDenied.into()));
}

#[test]
fn a_configuration_that_trusts_nobody_is_an_error() {
    assert!(matches!(tls_config(&[], false), Err(TlsError::NoAnchor)));
    let good = Authority::new().certificate;
    let bad = CertificateDer::from(b"not a certificate".to_vec());
    assert!(matches!(tls_config(&[good, bad], false), Err(TlsError::Anchor { index: 2, .. })));
}

/// A kernel may connect elsewhere than it was told: Linux takes the unspecified address for loopback. No policy passes
/// that one; it stands for whatever else may come between.
#[tokio::test]
async fn a_peer_that_is_not_the_pinned_address_is_left_before_a_byte_is_sent() {
    let receiver = Receiver::start_plain("127.0.0.1", |_| async {}).await;
    let port = receiver.address.port();
    assert_eq!(dial(SocketAddr::from(([0, 0, 0, 0], port))).await.unwrap_err(), Fault::PeerMismatch);
    assert!(dial(receiver.address).await.is_ok());
}
