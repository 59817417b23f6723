//! When a connection is used again, and when it never is.

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;

fn limits(idle: Duration, age: Duration, max_idle: usize) -> PoolLimits {
    PoolLimits { idle, age, max_idle }
}

const LONG: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_millis(50);

/// Answers every request and says when a client has closed.
async fn noting_closes(authority: &Authority) -> (Receiver, UnboundedReceiver<()>) {
    let (seen, sees) = unbounded_channel();
    let receiver = Receiver::start(authority.server(NAME), move |mut stream| {
        let seen = seen.clone();
        async move {
            while read_request(&mut stream).await.is_some() {
                stream.write_all(OK).await.unwrap();
            }
            let _ = seen.send(());
        }
    })
    .await;
    (receiver, sees)
}

#[tokio::test]
async fn deliveries_to_one_origin_share_a_connection() {
    let authority = Authority::new();
    let receiver = Receiver::saying(&authority, OK).await;
    let client = authority.client();
    for turn in 0..5 {
        let posted = post(&client, &receiver, false, patient()).await;
        assert_eq!((replied(&posted).status, posted.reused), (200, turn > 0));
        assert!(replied(&posted).request_sent);
    }
    assert_eq!(receiver.accepted(), 1);
    assert_eq!(client.gauges(), PoolGauges { idle: 1, opened: 1, reused: 4 });
}

#[tokio::test]
async fn bodies_of_every_framing_leave_the_connection_good() {
    let authority = Authority::new();
    for reply in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
    ] {
        let receiver = Receiver::saying(&authority, reply).await;
        let client = authority.client();
        post(&client, &receiver, false, patient()).await;
        assert!(post(&client, &receiver, false, patient()).await.reused, "{reply}");
    }
}

#[tokio::test]
async fn an_attempt_after_a_failure_never_reuses() {
    let authority = Authority::new();
    let receiver = Receiver::saying(&authority, OK).await;
    let client = authority.client();
    post(&client, &receiver, false, patient()).await;
    let posted = post(&client, &receiver, true, patient()).await;
    assert_eq!((posted.reused, receiver.accepted()), (false, 2));
}

#[tokio::test]
async fn a_connection_whose_peer_is_done_with_it_is_not_reused() {
    let authority = Authority::new();
    for reply in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n",
    ] {
        let receiver = Receiver::saying(&authority, reply).await;
        let client = authority.client();
        let posted = post(&client, &receiver, false, soon()).await;
        assert_eq!((replied(&posted).status, client.gauges().idle), (200, 0), "{reply}");
        assert!(!post(&client, &receiver, false, soon()).await.reused);
        assert_eq!(receiver.accepted(), 2);
    }
}

#[tokio::test]
async fn a_reply_with_two_framings_uses_its_connection_up() {
    let authority = Authority::new();
    let reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let receiver = Receiver::saying(&authority, reply).await;
    let client = authority.client();
    post(&client, &receiver, false, patient()).await;
    assert_eq!(client.gauges().idle, 0);
}

#[tokio::test]
async fn a_body_beyond_the_cap_uses_its_connection_up() {
    let authority = Authority::new();
    let body = "x".repeat(64 * 1024 + 1);
    let receiver =
        Receiver::saying(&authority, format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())).await;
    let client = authority.client();
    assert_eq!(replied(&post(&client, &receiver, false, patient()).await).status, 200);
    assert_eq!(client.gauges().idle, 0);
    let body = "x".repeat(64 * 1024);
    let receiver =
        Receiver::saying(&authority, format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())).await;
    post(&client, &receiver, false, patient()).await;
    assert_eq!(client.gauges().idle, 1);
}

#[tokio::test]
async fn an_idle_connection_is_closed_when_its_time_is_up_and_not_at_the_next_use() {
    let authority = Authority::new();
    let (receiver, mut closes) = noting_closes(&authority).await;
    let client = authority.client_with(limits(BRIEF, LONG, 8));
    post(&client, &receiver, false, patient()).await;
    closes.recv().await.unwrap();
    assert_eq!(client.gauges().idle, 0);
    assert!(!post(&client, &receiver, false, patient()).await.reused);
    // The sweep that ended with the last connection starts again with the next.
    closes.recv().await.unwrap();
    assert_eq!(receiver.accepted(), 2);
}

#[tokio::test]
async fn a_connection_is_closed_at_its_age_however_busy() {
    let authority = Authority::new();
    let (receiver, mut closes) = noting_closes(&authority).await;
    let client = authority.client_with(limits(LONG, Duration::from_secs(3), 8));
    while receiver.accepted() < 2 {
        assert_eq!(replied(&post(&client, &receiver, false, patient()).await).status, 200);
    }
    closes.recv().await.unwrap();
    assert!(client.gauges().reused > 0);
}

#[tokio::test]
async fn idle_connections_are_bounded() {
    let authority = Authority::new();
    let (receiver, mut closes) = noting_closes(&authority).await;
    let client = authority.client_with(limits(LONG, LONG, 2));
    for _ in 0..4 {
        post(&client, &receiver, true, patient()).await;
    }
    closes.recv().await.unwrap();
    closes.recv().await.unwrap();
    assert_eq!(client.gauges(), PoolGauges { idle: 2, opened: 4, reused: 0 });

    let keeping_none = authority.client_with(limits(LONG, LONG, 0));
    post(&keeping_none, &receiver, false, patient()).await;
    closes.recv().await.unwrap();
    assert_eq!(keeping_none.gauges().idle, 0);
}

#[tokio::test]
async fn a_dropped_client_closes_what_it_kept() {
    let authority = Authority::new();
    let (receiver, mut closes) = noting_closes(&authority).await;
    let client = authority.client_with(limits(LONG, LONG, 8));
    post(&client, &receiver, false, patient()).await;
    drop(client);
    closes.recv().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_its_server_closed_while_idle_is_replaced() {
    let authority = Authority::new();
    let receiver = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(OK).await;
        let _ = stream.shutdown().await;
    })
    .await;
    let client = authority.client_with(limits(LONG, LONG, 8));
    for turn in 1..=3 {
        let posted = post(&client, &receiver, false, patient()).await;
        assert_eq!((replied(&posted).status, posted.reused, receiver.accepted()), (200, false, turn));
        while client.gauges().idle > 0 && !client.pool.has_closed() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_request_that_was_begun_on_a_kept_connection_is_not_sent_again() {
    let authority = Authority::new();
    let receiver = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(OK).await.unwrap();
        // The second request is read and left without an answer.
        read_request(&mut stream).await;
    })
    .await;
    let client = authority.client();
    post(&client, &receiver, false, patient()).await;
    let posted = post(&client, &receiver, false, patient()).await;
    assert_eq!(failed(&posted), Failure { fault: Fault::Disconnected, sent: Sent::Perhaps });
    assert_eq!((posted.reused, receiver.accepted()), (true, 1));
}

#[tokio::test]
async fn a_connection_serves_only_the_name_and_address_it_was_opened_for() {
    let authority = Authority::new();
    let receiver = Receiver::saying(&authority, OK).await;
    let client = authority.client();
    let destination = destination(NAME, receiver.address.port());
    for (address, reused) in [("127.0.0.1", false), ("127.0.0.2", false), ("127.0.0.1", true), ("127.0.0.2", true)] {
        let pinned = pinned_to(&destination, &[address]).await;
        let posted = client.post(&pinned, None, request_of(&destination, Bytes::new()), false, patient()).await;
        assert_eq!((replied(&posted).status, posted.reused), (200, reused), "{address}");
    }
    assert_eq!(receiver.accepted(), 2);
    // The same address under a name that the certificate does not bear.
    let other = super::destination("other.example.com", receiver.address.port());
    let pinned = pinned_to(&other, &["127.0.0.1"]).await;
    let posted = client.post(&pinned, None, request_of(&other, Bytes::new()), false, patient()).await;
    assert_eq!(failed(&posted).fault, Fault::TlsCertificate);
}

/// The answer to the next request, sent before it was asked, by a server that is confused or means harm.
#[tokio::test]
async fn an_answer_that_came_before_its_request_answers_nothing() {
    let authority = Authority::new();
    let stale = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n";
    let with_the_first = [OK, stale.as_slice()].concat();
    let receiver = Receiver::saying(&authority, with_the_first).await;
    let client = authority.client();
    for turn in 1..=3 {
        let posted = post(&client, &receiver, false, patient()).await;
        assert_eq!((replied(&posted).status, posted.reused, receiver.accepted()), (200, false, turn));
    }

    // The same, and a reset, while the connection is idle.
    for reset in [false, true] {
        let (go, goes) = unbounded_channel();
        let goes = Arc::new(tokio::sync::Mutex::new(goes));
        let receiver = Receiver::start(authority.server(NAME), move |mut stream| {
            let goes = Arc::clone(&goes);
            async move {
                read_request(&mut stream).await;
                stream.write_all(OK).await.unwrap();
                goes.lock().await.recv().await;
                if reset {
                    return stream.get_ref().0.set_zero_linger().unwrap();
                }
                let _ = stream.write_all(stale).await;
                closed(&mut stream).await;
            }
        })
        .await;
        let client = authority.client_with(limits(LONG, LONG, 8));
        for turn in 1..=3 {
            let posted = post(&client, &receiver, false, patient()).await;
            assert_eq!((replied(&posted).status, posted.reused, receiver.accepted()), (200, false, turn));
            go.send(()).unwrap();
            while client.gauges().idle > 0 && !client.pool.has_closed() {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Sent with the server's own part of the handshake, and so surely before the request.
#[tokio::test]
async fn an_answer_before_the_first_request_is_a_protocol_fault_and_nothing_is_sent() {
    use std::io::Write;
    let authority = Authority::new();
    let mut config = authority.server(NAME);
    config.send_half_rtt_data = true;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (heard, mut hears) = unbounded_channel();
    let receiver = Receiver::start_plain("127.0.0.1", move |tcp| {
        let shaken = acceptor.accept_with(tcp, |session| session.writer().write_all(OK).unwrap());
        let heard = heard.clone();
        async move {
            let mut stream = shaken.await.unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            heard.send(rest).unwrap();
        }
    })
    .await;
    let posted = post(&authority.client(), &receiver, false, patient()).await;
    assert_eq!(failed(&posted), Failure { fault: Fault::Protocol, sent: Sent::Nothing });
    assert_eq!(hears.recv().await.unwrap(), b"");
}
