use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use super::*;

fn message() -> Message {
    Message {
        claim: crate::store::Claim::Webhook { id: 1, token: "t".into() },
        sender: "seller".into(),
        idempotency_key: "whk_0123456789abcdef".into(),
        attempt: 2,
        body: br#"{"a":"\u00e9"}"#.to_vec(),
    }
}

#[test]
fn only_what_blames_the_message_refuses_it() {
    assert_eq!(Outcome::of_status(204), Outcome::Taken);
    for status in [400, 409, 422] {
        assert_eq!(Outcome::of_status(status), Outcome::Refused(format!("forward_status_{status}")));
    }
    for status in [302, 401, 404, 429, 500, 503] {
        assert_eq!(Outcome::of_status(status), Outcome::Retry(format!("forward_status_{status}")));
    }
    let exit = |code: i32| Outcome::of_exit(ExitStatus::from_raw(code << 8));
    assert_eq!(exit(0), Outcome::Taken);
    assert_eq!(exit(65), Outcome::Refused("forward_exit_65".into()));
    assert_eq!(exit(75), Outcome::Retry("forward_exit_75".into()));
    assert_eq!(Outcome::of_exit(ExitStatus::from_raw(9)), Outcome::Retry("forward_signal_9".into()));
}

#[test]
fn a_message_goes_to_this_machine_only() {
    for good in ["http://127.0.0.1:8080/hook?x=1", "http://[::1]:1/", "http://127.9.9.9", "unix:/run/host.sock"] {
        assert!(Endpoint::parse(good).is_ok(), "{good}");
    }
    for bad in ["https://127.0.0.1/", "http://localhost/", "http://10.0.0.1/", "http://example.com/", "unix:x", "x", ""]
    {
        assert!(Endpoint::parse(bad).is_err(), "{bad}");
    }
}

/// Answers one request with this head, and returns what came.
async fn answer_once(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin, head: &str) -> String {
    let mut seen = Vec::new();
    let body = message().body;
    while !seen.ends_with(&body) {
        let mut chunk = [0; 1024];
        let read = stream.read(&mut chunk).await.unwrap();
        assert_ne!(read, 0, "the request ended early");
        seen.extend_from_slice(&chunk[..read]);
    }
    stream.write_all(head.as_bytes()).await.unwrap();
    String::from_utf8(seen).unwrap()
}

#[tokio::test]
async fn an_endpoint_gets_the_very_bytes_and_its_status_counts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::parse(&format!("http://{}/hook?x=1", listener.local_addr().unwrap())).unwrap();
    let message = message();
    let serving = async {
        let (stream, _): (TcpStream, _) = listener.accept().await.unwrap();
        answer_once(stream, "HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n").await
    };
    let (outcome, seen) = tokio::join!(endpoint.post(&message), serving);
    assert_eq!(outcome, Outcome::Refused("forward_status_422".into()));
    assert!(seen.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{seen}");
    for line in ["idempotency-key: whk_0123456789abcdef", "outboxd-sender: seller", "outboxd-attempt: 2"] {
        assert!(seen.contains(line), "{seen}");
    }
    drop(listener);
    assert_eq!(endpoint.post(&message).await, Outcome::Retry("forward_connect_failed".into()));
}

#[tokio::test]
async fn a_unix_socket_serves_as_well_and_a_cut_connection_is_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("host.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let endpoint = Endpoint::parse(&format!("unix:{}", path.display())).unwrap();
    let message = message();
    for (head, expected) in
        [("HTTP/1.1 204 Yes\r\n\r\n", Outcome::Taken), ("", Outcome::Retry("forward_disconnected".into()))]
    {
        let serving = async { answer_once(listener.accept().await.unwrap().0, head).await };
        let (outcome, _) = tokio::join!(endpoint.post(&message), serving);
        assert_eq!(outcome, expected);
    }
}

#[tokio::test]
async fn a_program_gets_the_message_and_its_exit_code_counts() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let script = |text: String| Program::new("/bin/sh", &["-c".into(), text]);
    let keep = script(format!("cat > {0}; echo \" $OUTBOXD_SENDER $OUTBOXD_ATTEMPT\" >> {0}", out.display()));
    assert_eq!(keep.run(&message()).await, Outcome::Taken);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "{\"a\":\"\\u00e9\"} seller 2\n");
    assert_eq!(script("exit 65".into()).run(&message()).await, Outcome::Refused("forward_exit_65".into()));
    let absent = Program::new("/nowhere/at/all", &[]);
    assert_eq!(absent.run(&message()).await, Outcome::Retry("forward_not_started".into()));
}
