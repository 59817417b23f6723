//! One request and one reply.

use super::*;
use crate::verdict::Challenge;

/// More than the socket buffers of both ends hold together, so that it cannot be sent to a receiver that does not read.
const HUGE: usize = 48 * 1024 * 1024;

fn huge() -> Bytes {
    Bytes::from(vec![b' '; HUGE])
}

async fn outcome(script: &'static [u8], deadline: Instant) -> Posted {
    let authority = Authority::new();
    let receiver = Receiver::saying(&authority, script).await;
    post(&authority.client(), &receiver, false, deadline).await
}

#[tokio::test]
async fn a_request_goes_out_as_it_was_signed() {
    let authority = Authority::new();
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let receiver = Receiver::start(authority.server(NAME), move |mut stream| {
        let heard = heard.clone();
        async move {
            heard.send(read_request(&mut stream).await.unwrap()).unwrap();
            stream.write_all(OK).await.unwrap();
            closed(&mut stream).await;
        }
    })
    .await;
    let body = Bytes::from_static(b"{\"a\": 1}");
    let posted = post_body(&authority.client(), &receiver, body.clone(), false, patient()).await;
    let expected = Reply { status: 200, request_sent: true, retry_after: None, challenge: None };
    assert_eq!(posted, Posted { attempt: Attempt::Replied(expected), reused: false });

    let (head, sent) = hears.recv().await.unwrap();
    assert_eq!(sent, body);
    let mut lines: Vec<&str> = head.trim_end().lines().collect();
    assert_eq!(lines.remove(0), "POST /hooks/a?x=1 HTTP/1.1");
    let host = format!("host: {NAME}:{}", receiver.address.port());
    let agent = format!("user-agent: outboxd/{}", env!("CARGO_PKG_VERSION"));
    for line in [host.as_str(), agent.as_str(), "content-length: 8", "accept-encoding: identity"] {
        assert_eq!(lines.iter().filter(|sent| **sent == line).count(), 1, "{line} in {head}");
    }
    assert!(!head.contains("transfer-encoding") && !head.contains("expect"));
}

#[tokio::test]
async fn every_status_is_passed_on_and_no_redirect_is_followed() {
    let authority = Authority::new();
    let client = authority.client();
    for status in [200, 202, 299, 300, 302, 307, 400, 401, 404, 410, 429, 500, 503, 599, 600, 999] {
        let reply = format!("HTTP/1.1 {status} x\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n");
        let receiver = Receiver::saying(&authority, reply).await;
        let posted = post(&client, &receiver, false, patient()).await;
        assert_eq!((replied(&posted).status, receiver.accepted()), (status, 1));
    }
    let none = Receiver::saying(&authority, "HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(replied(&post(&client, &none, false, patient()).await).status, 204);
}

#[tokio::test]
async fn hints_and_challenges_are_read_from_the_head() {
    let posted = outcome(b"HTTP/1.1 429 x\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n", patient()).await;
    assert_eq!(replied(&posted).retry_after, Some(Duration::from_secs(120)));
    let challenged =
        b"HTTP/1.1 401 x\r\nWWW-Authenticate: Basic realm=\"x\"\r\nwww-authenticate: Signature realm=\"a\", \
        error=\"webhook_signature_key_unknown\"\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(replied(&outcome(challenged, patient()).await).challenge, Some(Challenge::KeyUnknown));
    let free_text =
        b"HTTP/1.1 401 x\r\nWWW-Authenticate: Signature error=\"anything else\"\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(replied(&outcome(free_text, patient()).await).challenge, None);
}

#[tokio::test]
async fn interim_replies_are_passed_over() {
    let posted = outcome(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        patient(),
    )
    .await;
    assert_eq!(replied(&posted).status, 200);
}

#[tokio::test]
async fn what_is_no_reply_head_is_a_protocol_fault() {
    let many: Vec<u8> = (0..101).flat_map(|n| format!("X-{n}: 1\r\n").into_bytes()).collect();
    let many = [b"HTTP/1.1 200 OK\r\n".as_slice(), &many, b"Content-Length: 0\r\n\r\n"].concat();
    let long =
        [b"HTTP/1.1 200 OK\r\nX-Long: ".as_slice(), &[b'x'; 100 * 1024], b"\r\nContent-Length: 0\r\n\r\n"].concat();
    let authority = Authority::new();
    let client = authority.client();
    for script in [
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".to_vec(),
        b"hello, who is there?\r\n\r\n".to_vec(),
        b"HTTP/2 200\r\n\r\n".to_vec(),
        b"HTTP/1.1 2xx OK\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok".to_vec(),
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n".to_vec(),
        many,
        long,
    ] {
        let shown = String::from_utf8_lossy(&script[..script.len().min(60)]).into_owned();
        let receiver = Receiver::saying(&authority, script).await;
        let posted = post(&client, &receiver, false, patient()).await;
        assert_eq!(failed(&posted), Failure { fault: Fault::Protocol, sent: Sent::Perhaps }, "{shown}");
    }
    assert_eq!(client.gauges().idle, 0);
}

#[tokio::test]
async fn an_endless_header_is_a_protocol_fault() {
    let authority = Authority::new();
    let receiver = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX-Endless: ").await;
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    })
    .await;
    let posted = post(&authority.client(), &receiver, false, patient()).await;
    assert_eq!(failed(&posted).fault, Fault::Protocol);
}

#[tokio::test]
async fn an_early_200_is_not_taken_for_an_answer_to_our_body() {
    let authority = Authority::new();
    let receiver = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_head(&mut stream).await;
        stream.write_all(OK).await.unwrap();
        stream.flush().await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let client = authority.client();
    let started = Instant::now();
    let posted = post_body(&client, &receiver, huge(), false, patient()).await;
    assert_eq!((replied(&posted).status, replied(&posted).request_sent), (200, false));
    // Sending stops with the reply: the rest of the body is not waited for.
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(client.gauges().idle, 0);
}

#[tokio::test]
async fn a_large_body_that_is_read_is_sent_whole() {
    let authority = Authority::new();
    let receiver = Receiver::saying(&authority, OK).await;
    let body = Bytes::from(vec![b' '; 3 * 1024 * 1024]);
    let posted = post_body(&authority.client(), &receiver, body, false, patient()).await;
    assert_eq!((replied(&posted).status, replied(&posted).request_sent), (200, true));
}

#[tokio::test]
async fn f10_one_deadline_bounds_the_whole_attempt() {
    let authority = Authority::new();
    let client = authority.client();
    let flood = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_request(&mut stream).await;
        while stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n").await.is_ok() {}
    })
    .await;
    let drip = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").await;
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        while stream.write_all(b"x").await.is_ok() && stream.flush().await.is_ok() {
            ticks.tick().await;
        }
    })
    .await;
    let silent = Receiver::start(authority.server(NAME), |mut stream| async move { closed(&mut stream).await }).await;
    for receiver in [&flood, &drip, &silent] {
        let (started, deadline) = (Instant::now(), soon());
        let posted = post(&client, receiver, false, deadline).await;
        assert_eq!(failed(&posted), Failure { fault: Fault::ReplyTimeout, sent: Sent::Perhaps });
        assert!(Instant::now() >= deadline && started.elapsed() < Duration::from_secs(5));
    }
    let deaf = Receiver::start(authority.server(NAME), |stream| async move {
        let _open = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let posted = post_body(&client, &deaf, huge(), false, soon()).await;
    assert_eq!(failed(&posted), Failure { fault: Fault::ReplyTimeout, sent: Sent::Perhaps });
    assert_eq!(client.gauges().idle, 0);
}

#[tokio::test]
async fn the_body_of_a_reply_never_changes_its_verdict() {
    let authority = Authority::new();
    let client = authority.client();
    let endless = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    })
    .await;
    let stalled = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx").await;
        closed(&mut stream).await;
    })
    .await;
    let truncated = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx").await;
    })
    .await;
    let garbled = Receiver::saying(&authority, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n").await;
    for (receiver, deadline) in
        [(&endless, patient()), (&stalled, soon()), (&truncated, patient()), (&garbled, patient())]
    {
        let posted = post(&client, receiver, false, deadline).await;
        assert_eq!((replied(&posted).status, replied(&posted).request_sent), (200, true));
    }
    assert_eq!(client.gauges().idle, 0);
}

#[tokio::test]
async fn a_body_that_drips_is_given_two_seconds_and_no_more() {
    let authority = Authority::new();
    let receiver = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        while stream.write_all(b"x").await.is_ok() && stream.flush().await.is_ok() {
            ticks.tick().await;
        }
    })
    .await;
    let started = Instant::now();
    let posted = post(&authority.client(), &receiver, false, patient()).await;
    assert_eq!(replied(&posted).status, 200);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_connection_that_ends_without_a_reply_is_disconnected() {
    let authority = Authority::new();
    let client = authority.client();
    let closing = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_request(&mut stream).await;
    })
    .await;
    let mid_head = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nX-Half").await.unwrap();
        stream.shutdown().await.unwrap();
    })
    .await;
    let resetting = Receiver::start(authority.server(NAME), |mut stream| async move {
        read_head(&mut stream).await;
        // Unread bytes in the socket make its close a reset.
        stream.get_ref().0.set_zero_linger().unwrap();
    })
    .await;
    for receiver in [&closing, &mid_head, &resetting] {
        let posted = post(&client, receiver, false, patient()).await;
        assert_eq!(failed(&posted), Failure { fault: Fault::Disconnected, sent: Sent::Perhaps });
        assert_eq!(receiver.accepted(), 1);
    }
}

#[tokio::test]
async fn a_connection_that_ends_right_after_the_handshake_is_disconnected() {
    let authority = Authority::new();
    let receiver = Receiver::start(authority.server(NAME), |_| async {}).await;
    // Whether the request was begun before the close was seen is the network's to decide.
    let posted = post(&authority.client(), &receiver, false, patient()).await;
    assert_eq!((failed(&posted).fault, receiver.accepted()), (Fault::Disconnected, 1));
}

#[tokio::test]
async fn an_empty_body_counts_as_sent() {
    let authority = Authority::new();
    let receiver = Receiver::saying(&authority, OK).await;
    let posted = post_body(&authority.client(), &receiver, Bytes::new(), false, patient()).await;
    assert!(replied(&posted).request_sent);
}

#[tokio::test]
async fn dropping_the_attempt_cuts_the_connection() {
    let authority = Authority::new();
    let (seen, mut sees) = tokio::sync::mpsc::unbounded_channel();
    let receiver = Receiver::start(authority.server(NAME), move |mut stream| {
        let seen = seen.clone();
        async move {
            read_request(&mut stream).await;
            seen.send("request").unwrap();
            closed(&mut stream).await;
            seen.send("close").unwrap();
        }
    })
    .await;
    let client = authority.client();
    {
        let posting = post(&client, &receiver, false, patient());
        tokio::pin!(posting);
        tokio::select! {
            posted = &mut posting => panic!("{posted:?}"),
            seen = sees.recv() => assert_eq!(seen, Some("request")),
        }
    }
    assert_eq!(sees.recv().await, Some("close"));
}

/// Runs a test of this file again in an environment full of proxies, none of which exists.
#[test]
fn proxies_of_the_environment_are_ignored() {
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        again.env(name, "http://127.0.0.1:1/");
    }
    again.args(["--exact", "post::tests::single::a_request_goes_out_as_it_was_signed"]);
    let output = again.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
}
