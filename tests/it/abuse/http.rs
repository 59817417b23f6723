//! The wire table of the reliability anchors, section 4.1, and what else a peer can answer.

use super::{Case, Outcome, delivered, play, quarantined, refused, retried};
use crate::support::abuse::Nature::{Hasty, Tls};
use crate::support::abuse::Step;
use crate::support::abuse::Step::{Close, Deaf, Drip, Flood, Head, Pause, Request, Reset, Say, Wait};
use crate::support::certs::Authority;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// More than the socket buffers of both ends hold, so that it cannot be sent to a peer that does not read.
const HUGE: usize = 9 << 20;

fn case(name: &'static str, steps: Vec<Step>, outcome: Outcome) -> Case {
    Case::new(name, Tls(Authority::shared().leaf(&["127.0.0.1"]).server_config(), steps), outcome)
}

/// Reads a request and says this.
fn saying(name: &'static str, reply: impl Into<Vec<u8>>, outcome: Outcome) -> Case {
    case(name, vec![Request, Say(reply.into())], outcome)
}

fn say(text: &str) -> Step {
    Say(text.into())
}

fn flood(text: &str) -> Step {
    // In pieces that fill a record: what is tested is what comes, not how long it takes to be said.
    Flood(text.repeat(8192 / text.len() + 1).into())
}

fn garbled(name: &'static str, reply: impl Into<Vec<u8>>) -> Case {
    saying(name, reply, retried("protocol_error"))
}

fn floods() -> Vec<Case> {
    let late = |name, steps| case(name, steps, retried("reply_timeout"));
    let endless = |name, steps| case(name, steps, retried("protocol_error"));
    vec![
        late("1xx-flood", vec![Request, flood("HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n")]),
        late("100-flood", vec![Request, flood("HTTP/1.1 100 Continue\r\n\r\n")]),
        late("dripping-1xx", vec![Request, Drip(b"HTTP/1.1 102 Processing\r\n\r\n".to_vec())]),
        endless("empty-line-flood", vec![Request, flood("\r\n")]),
        late("dripping-head", vec![Request, say("HTTP/1.1 200 OK\r\nX-Drip: "), Drip(b"a".to_vec())]),
        late("dripping-headers", vec![Request, say("HTTP/1.1 200 OK\r\n"), Drip(b"A: b\r\n".to_vec())]),
        late("silent", vec![Wait]),
        late("deaf", vec![Deaf]),
        late("half-a-head", vec![Request, say("HTTP/1.1 200 OK\r\nContent-Le"), Wait]),
        endless("endless-header", vec![Request, say("HTTP/1.1 200 OK\r\nX-Long: "), flood("a")]),
        endless("endless-headers", vec![Request, say("HTTP/1.1 200 OK\r\n"), flood("X-Endless: a\r\n")]),
        endless("endless-name", vec![Request, say("HTTP/1.1 200 OK\r\nX"), flood("x")]),
        endless("endless-reason", vec![Request, say("HTTP/1.1 200 "), flood("very ")]),
        endless("endless-garbage", vec![Request, flood("hello, who is there? ")]),
        endless("endless-zeros", vec![Request, flood("\0")]),
    ]
}

fn bodies() -> Vec<Case> {
    let chunked = |status: &str| say(&format!("HTTP/1.1 {status} x\r\nTransfer-Encoding: chunked\r\n\r\n"));
    let bomb = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10485760\r\n\r\n\u{1f}";
    vec![
        case("endless-body", vec![Request, say("HTTP/1.1 200 OK\r\n\r\n"), flood("a")], delivered(200)),
        case("endless-chunks", vec![Request, chunked("200"), flood("10\r\naaaaaaaaaaaaaaaa\r\n")], delivered(200)),
        case("endless-empty-text", vec![Request, chunked("200"), flood("1\r\na\r\n")], delivered(200)),
        case("endless-body-500", vec![Request, chunked("500"), flood("1\r\na\r\n")], refused(500, "http_server_error")),
        case("endless-body-410", vec![Request, chunked("410"), flood("1\r\na\r\n")], quarantined(410, "http_gone")),
        case("dripping-body", vec![Request, say("HTTP/1.1 200 OK\r\n\r\n"), Drip(b"a".to_vec())], delivered(200)),
        case("dripping-chunk", vec![Request, chunked("200"), Drip(b"1\r\na\r\n".to_vec())], delivered(200)),
        case("no-body", vec![Request, say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), Wait], delivered(200)),
        case("cut-body", vec![Request, say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"), Close], delivered(200)),
        case(
            "reset-body",
            vec![Request, say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"), Pause, Reset],
            delivered(200),
        ),
        case("gzip-bomb", vec![Request, say(bomb), flood("\0")], delivered(200)),
        case("chunk-extensions", vec![Request, chunked("200"), say("1;"), flood("a=b;")], delivered(200)),
        case(
            "chunk-extensions-each",
            vec![Request, chunked("200"), flood("1;a=bbbbbbbbbbbbbbbb\r\na\r\n")],
            delivered(200),
        ),
        case("endless-chunk-size", vec![Request, chunked("200"), flood("0")], delivered(200)),
        case("chunk-too-large", vec![Request, chunked("200"), say("fffffffffffffffff\r\na\r\n")], delivered(200)),
        case("chunk-of-no-size", vec![Request, chunked("200"), say("zz\r\na\r\n")], delivered(200)),
        case(
            "endless-trailers",
            vec![Request, chunked("200"), say("0\r\n"), flood("X-Trailer: a\r\n")],
            delivered(200),
        ),
        case("endless-trailer", vec![Request, chunked("200"), say("0\r\nX-Trailer: "), flood("a")], delivered(200)),
        saying("largest-length", "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551613\r\n\r\n", delivered(200)),
        saying("gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", delivered(200))
            .reused(),
        saying("unknown-coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc", delivered(200)),
        saying(
            "coding-after-chunked",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\nabc",
            delivered(200),
        ),
    ]
}

fn framings() -> Vec<Case> {
    let many = |count: usize| -> String { (0..count).map(|n| format!("X-{n}: 1\r\n")).collect() };
    let with = |headers: &str| format!("HTTP/1.1 200 OK\r\n{headers}\r\n");
    let both = "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
    vec![
        saying("plain", OK, delivered(200)).reused(),
        saying("continued", [b"HTTP/1.1 100 Continue\r\n\r\n", OK].concat(), delivered(200)).reused(),
        saying("99-headers", with(&format!("{}Content-Length: 0\r\n", many(99))), delivered(200)).reused(),
        garbled("101-headers", with(&format!("{}Content-Length: 0\r\n", many(100)))),
        saying("length-and-chunks", with(both), delivered(200)),
        saying("same-length-twice", with("Content-Length: 0\r\nContent-Length: 0\r\n"), delivered(200)).reused(),
        garbled("two-lengths", with("Content-Length: 0\r\nContent-Length: 5\r\n")),
        garbled("two-lengths-in-one", with("Content-Length: 0, 5\r\n")),
        garbled("negative-length", with("Content-Length: -1\r\n")),
        garbled("signed-length", with("Content-Length: +0\r\n")),
        garbled("hexadecimal-length", with("Content-Length: 0x0\r\n")),
        garbled("length-too-large", with("Content-Length: 99999999999999999999\r\n")),
        garbled("folded-header", with("X-Folded: a\r\n b\r\nContent-Length: 0\r\n")),
        garbled("nul-in-header", with("X-Nul: a\0b\r\nContent-Length: 0\r\n")),
        garbled("return-in-header", with("X-Return: a\rb\r\nContent-Length: 0\r\n")),
        garbled("space-before-colon", with("Content-Length : 0\r\n")),
        garbled("header-without-colon", with("Content-Length\r\n")),
        garbled("version-2", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
        garbled("version-3", "HTTP/3 200\r\n\r\n"),
        garbled("version-1.2", "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n"),
        garbled("http-0.9", "<html>hello</html>\r\n\r\n"),
        garbled("h2-preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        garbled("h2-settings", vec![0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0]),
        garbled("ssh", "SSH-2.0-OpenSSH_9.2\r\n\r\n"),
        garbled("a-request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        saying("http-1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", delivered(200)),
        saying("closing", with("Connection: close\r\nContent-Length: 0\r\n"), delivered(200)),
    ]
}

fn statuses() -> Vec<Case> {
    let status = |status: &str| format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
    let tempting = "Location: https://127.0.0.1:1/\r\nAlt-Svc: h2=\"127.0.0.1:1\"; persist=1\r\nRefresh: 0; url=/other\r\n\
                    Set-Cookie: a=b\r\nWWW-Authenticate: Basic realm=\"a\"\r\nProxy-Authenticate: Basic realm=\"a\"\r\n\
                    Strict-Transport-Security: max-age=1\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n";
    let tempted = |status: &str| format!("HTTP/1.1 {status} x\r\n{tempting}");
    let upgrade = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n";
    vec![
        garbled("101", upgrade),
        garbled("101-and-200", [upgrade.as_bytes(), OK].concat()),
        garbled("099", status("099")),
        garbled("two-digits", status("20")),
        garbled("four-digits", status("2000")),
        garbled("letters", status("2xx")),
        saying("600", status("600"), refused(600, "protocol_error")).reused(),
        saying("999", status("999"), refused(999, "protocol_error")).reused(),
        saying("204-with-body", "HTTP/1.1 204 x\r\nContent-Length: 2\r\n\r\nok", delivered(204)),
        saying("204-with-reply", [b"HTTP/1.1 204 x\r\n\r\n", OK].concat(), delivered(204)),
        saying("304-with-body", "HTTP/1.1 304 x\r\nContent-Length: 2\r\n\r\nok", refused(304, "http_redirect")),
        saying("tempting-200", tempted("200"), delivered(200)).reused(),
        saying("tempting-307", tempted("307"), refused(307, "http_redirect")).reused(),
        saying("tempting-401", tempted("401"), refused(401, "http_unauthorized")).reused(),
        saying("tempting-407", tempted("407"), refused(407, "http_client_error")).reused(),
        saying("426", "HTTP/1.1 426 x\r\nUpgrade: h2\r\nContent-Length: 0\r\n\r\n", refused(426, "http_client_error"))
            .reused(),
    ]
}

/// Ends, and what comes at another time than it should.
fn ends_and_races() -> Vec<Case> {
    let gone = |name, steps| case(name, steps, retried("disconnected"));
    let stale = [OK, b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"].concat();
    let hasty = || {
        let mut config = rustls::ServerConfig::clone(&Authority::shared().leaf(&["127.0.0.1"]).server_config());
        config.send_half_rtt_data = true;
        config.into()
    };
    let gone_already = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n".to_vec();
    vec![
        gone("closed-after-head", vec![Head, Close]),
        gone("closed-after-request", vec![Request, Close]),
        gone("closed-in-head", vec![Request, say("HTTP/1.1 200 OK\r\nContent-Le"), Close]),
        gone("closed-after-1xx", vec![Request, say("HTTP/1.1 100 Continue\r\n\r\n"), Close]),
        gone("reset-after-head", vec![Head, Reset]),
        gone("reset-after-request", vec![Request, Reset]),
        gone("reset-in-head", vec![Request, say("HTTP/1.1 200 OK\r\nContent-Le"), Reset]),
        case("closed-when-idle", vec![Request, Say(OK.to_vec()), Close], delivered(200)),
        // The second request was read; whether it had its effect only the peer knows. It is not sent again by itself.
        case("closed-after-the-second", vec![Request, Say(OK.to_vec()), Request, Close], delivered(200))
            .then(retried("disconnected"))
            .reused(),
        saying("reply-too-many", stale, delivered(200)),
        saying("bytes-too-many", [OK, b"x"].concat(), delivered(200)),
        Case::new("200-before-the-request", Hasty(hasty(), OK.to_vec(), vec![Wait]), retried("protocol_error")),
        Case::new("410-before-the-request", Hasty(hasty(), gone_already, vec![Wait]), retried("protocol_error")),
    ]
}

/// Answers to a request that is not read to its end.
fn early() -> Vec<Case> {
    let early = |name, status: &str, outcome| {
        let reply = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
        case(name, vec![Head, Say(reply.into()), Deaf], outcome).padded(HUGE)
    };
    vec![
        early("early-200", "200", refused(200, "reply_before_request")),
        early("early-204", "204", refused(204, "reply_before_request")),
        early("early-409", "409", refused(409, "reply_before_request")),
        early("early-307", "307", refused(307, "http_redirect")),
        early("early-400", "400", refused(400, "http_client_error")),
        early("early-413", "413", quarantined(413, "http_too_large")),
        early("early-500", "500", refused(500, "http_server_error")),
        case("deaf-from-the-start", vec![Deaf], retried("reply_timeout")).padded(HUGE),
        case("flood-meanwhile", vec![Head, flood("HTTP/1.1 103 x\r\n\r\n")], retried("reply_timeout")).padded(HUGE),
        case("read-in-time", vec![Request, Say(OK.to_vec()), Close], delivered(200)).padded(HUGE),
    ]
}

#[tokio::test]
async fn p16_bad_http_peers_are_judged_by_the_table() {
    let table = [floods(), bodies(), framings(), statuses(), ends_and_races()];
    play(table.into_iter().flatten().collect(), &[], 24 << 20).await;
}

/// Twenty bodies of nine megabytes, each in memory once, sealed and then opened in place.
#[tokio::test]
async fn p2_early_answers_are_no_answers_to_what_was_not_sent() {
    play(early(), &[], 300 << 20).await;
}
