use http::header::{CONTENT_TYPE, HOST};

use super::*;

fn read(text: &str) -> Captured {
    Captured::read(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn fault(text: impl AsRef<[u8]>) -> CaptureError {
    let outcome = Captured::read(text.as_ref());
    outcome.expect_err(&String::from_utf8_lossy(text.as_ref()))
}

/// The body of a capture that needs no file.
fn body(captured: &Captured) -> Vec<u8> {
    match &captured.body {
        Body::Here(bytes) => bytes.clone(),
        Body::Pieces(pieces) => pieces.iter().fold(Vec::new(), |mut body, piece| match piece {
            Piece::Text(text) => {
                body.extend_from_slice(text);
                body
            }
            Piece::File { path, .. } => panic!("{}", path.display()),
        }),
        Body::Missing => panic!("the body is missing"),
    }
}

const RAW: &str = "POST /hooks?x=1 HTTP/1.1\r\nHost: b.example\r\nContent-Type: application/json\r\n\
                   Content-Length: 7\r\n\r\n{\"a\":1}";

#[test]
fn raw_http_is_read_with_either_line_end() {
    for text in [RAW.to_owned(), RAW.replace("\r\n", "\n"), format!("\u{feff}\r\n{RAW}"), format!("{RAW}\r\n\n")] {
        let captured = read(&text);
        assert_eq!((captured.method.as_str(), captured.headers[HOST].as_bytes()), ("POST", b"b.example".as_slice()));
        assert_eq!(captured.headers[CONTENT_TYPE], "application/json");
        assert_eq!(captured.url(None).as_deref(), Ok("https://b.example/hooks?x=1"));
        assert_eq!(captured.url(Some("http://c.example:8080")).as_deref(), Ok("http://c.example:8080/hooks?x=1"));
        assert_eq!(body(&captured), b"{\"a\":1}");
    }
}

#[test]
fn a_body_without_a_length_is_everything_that_follows() {
    let captured = read("POST / HTTP/1.1\nA: b\n\n{}\n\nx\n");
    assert_eq!(body(&captured), b"{}\n\nx\n");
    assert_eq!(body(&read("POST / HTTP/1.1\nA: b\n")), b"");
    assert_eq!(body(&read("POST / HTTP/1.1")), b"");
}

#[test]
fn a_chunked_body_is_put_together() {
    let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(body(&read(&format!("{head}3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nT: x\r\n\r\n"))), b"abc0123456789");
    for broken in
        ["", "3\r\nabc", "3\r\nabcd\r\n0\r\n\r\n", "x\r\n", "-1\r\n", "ffffffffffffffff\r\n", "\r\n", "3\r\nab"]
    {
        assert_eq!(fault(format!("{head}{broken}")), CaptureError::Chunks, "{broken}");
    }
    let both = "POST / HTTP/1.1\nTransfer-Encoding: chunked\nContent-Length: 1\n\n1";
    assert_eq!(fault(both), CaptureError::Length);
    assert_eq!(fault("POST / HTTP/1.1\nTransfer-Encoding: gzip\n\n1"), CaptureError::Coding);
}

#[test]
fn a_length_that_does_not_fit_is_told_and_not_guessed_about() {
    let with = |length: &str, body: &str| fault(format!("POST / HTTP/1.1\nContent-Length: {length}\n\n{body}"));
    assert_eq!(with("3", "ab"), CaptureError::BodyShort { found: 2, said: 3 });
    assert_eq!(with("1", "ab"), CaptureError::BodyLong { found: 2, said: 1 });
    for length in ["", "+1", "1, 1", "x", "99999999999999999999999"] {
        assert_eq!(with(length, "a"), CaptureError::Length, "{length}");
    }
    assert_eq!(fault("POST / HTTP/1.1\nContent-Length: 1\nContent-Length: 1\n\na"), CaptureError::Length);
}

#[test]
fn what_is_no_request_is_refused_by_its_line() {
    assert_eq!(fault(""), CaptureError::Empty);
    assert_eq!(fault(" \r\n\t"), CaptureError::Empty);
    assert_eq!(fault("HTTP/1.1 200 OK\r\n\r\n"), CaptureError::Reply);
    for line in
        ["{\"a\":1}", "POST /", "POST / HTTP/9", "POST  / HTTP/1.1", "P\u{e9} / HTTP/1.1", "POST /\u{1b}[m HTTP/1.1"]
    {
        assert_eq!(fault(line), CaptureError::RequestLine { line: 1 }, "{line}");
    }
    for field in ["no colon", ": x", "a b: c", "A : b", " folded: x", "A: \u{1}"] {
        assert_eq!(fault(format!("POST / HTTP/1.1\nB: c\n{field}\n")), CaptureError::Field { line: 3 }, "{field}");
    }
    assert_eq!(read("OPTIONS * HTTP/1.1\nHost: b\n").url(None), Err(CaptureError::Target));
    assert_eq!(read("POST / HTTP/1.1\nA: b\n").url(None), Err(CaptureError::NoHost));
}

#[test]
fn size_is_bounded_before_anything_is_kept() {
    assert_eq!(fault(vec![b'x'; MAX_BYTES + 1]), CaptureError::TooLarge);
    let long = format!("POST / HTTP/1.1\nA: {}\n", "x".repeat(MAX_HEAD));
    assert_eq!(fault(long), CaptureError::HeadTooLarge);
    let many = format!("POST / HTTP/1.1\n{}", "A: b\n".repeat(MAX_FIELDS + 1));
    assert_eq!(fault(many), CaptureError::TooManyFields);
    let many = format!("curl https://b.example/{}", " -H A:b".repeat(MAX_FIELDS + 1));
    assert_eq!(fault(many), CaptureError::TooManyFields);
}

#[test]
fn what_curl_prints_is_read_past_its_own_words_and_the_reply() {
    let printed = "* Trying 192.0.2.1:443...\n* TLS handshake\n> POST /hooks HTTP/2\n> Host: b.example\n\
                   > content-type: application/json\n> Content-Length: 7\n> \n} [7 bytes data]\n* We are done\n\
                   < HTTP/2 401 \n< www-authenticate: x\n< \n{ [0 bytes data]\n";
    let captured = read(printed);
    assert_eq!(captured.url(None).as_deref(), Ok("https://b.example/hooks"));
    assert_eq!((captured.headers.len(), &captured.body), (3, &Body::Missing));
    assert_eq!(body(&read(&format!("{printed}{{\"a\":1}}\n"))), b"{\"a\":1}");
    assert_eq!(body(&read(&printed.replace("Length: 7", "Length: 0"))), b"");
    assert_eq!(fault(format!("{printed}> POST /again HTTP/1.1\n")), CaptureError::Several);
}

#[test]
fn a_curl_command_is_the_request_that_curl_would_send() {
    let captured = read(
        "$ curl -sS -X POST 'https://b.example:8443/hooks?x=1' \\\n  -H 'Content-Type: application/json' \\\r\n \
         -H \"X-A: say \\\"hi\\\" \\\\ $ \" -H 'X-Empty;' -H 'Accept:' --max-time 5 --data-binary '{\"a\": \"it'\\''s\"}'\n",
    );
    assert_eq!(captured.method, "POST");
    assert_eq!(captured.url(None).as_deref(), Ok("https://b.example:8443/hooks?x=1"));
    assert_eq!(captured.url(Some("https://c.example")).as_deref(), Ok("https://c.example/hooks?x=1"));
    assert_eq!(captured.headers["x-a"], "say \"hi\" \\ $");
    assert_eq!((&captured.headers["x-empty"], captured.headers.len()), (&HeaderValue::from_static(""), 3));
    assert_eq!(body(&captured), br#"{"a": "it's"}"#);
}

#[test]
fn methods_types_and_bodies_are_curls_defaults() {
    let get = read("curl https://b.example");
    assert_eq!((get.method.as_str(), get.headers.len(), body(&get)), ("GET", 0, Vec::new()));
    assert_eq!(get.url(None).as_deref(), Ok("https://b.example"));
    let form = read("curl b.example/p -d a=1 --data-raw @b");
    assert_eq!((form.method.as_str(), body(&form)), ("POST", b"a=1&@b".to_vec()));
    assert_eq!(form.headers[CONTENT_TYPE], "application/x-www-form-urlencoded");
    assert_eq!(form.url(None).as_deref(), Ok("http://b.example/p"));
    let json = read("curl --json '{\"a\":' --json '1}' --url https://b.example");
    assert_eq!(
        (&json.headers[CONTENT_TYPE], body(&json)),
        (&HeaderValue::from_static("application/json"), b"{\"a\":1}".to_vec())
    );
    let copied = read("curl 'https://b.example' -XPUT -svH'A:b' --data-raw $'{\"a\":\"\\u00e9\\'\\\\n\"}'");
    assert_eq!((copied.method.as_str(), &copied.headers["a"]), ("PUT", &HeaderValue::from_static("b")));
    assert_eq!(body(&copied), "{\"a\":\"\u{e9}'\\n\"}".as_bytes());
}

#[test]
fn files_of_a_command_are_named_and_not_opened() {
    let piece = |text: &str| match read(text).body {
        Body::Pieces(mut pieces) => pieces.remove(0),
        other => panic!("{other:?}"),
    };
    let file = |keeps_line_breaks| Piece::File { path: "/no/such".into(), keeps_line_breaks };
    assert_eq!(piece("curl b -d @/no/such"), file(false));
    assert_eq!(piece("curl b --data-binary @/no/such"), file(true));
    assert_eq!(piece("curl b --json @/no/such"), file(true));
    assert_eq!(piece("curl b --data-raw @/no/such"), Piece::Text(b"@/no/such".to_vec()));
    assert_eq!(fault("curl b -d @-"), CaptureError::StandardInput);
}

#[test]
fn nothing_that_a_shell_would_expand_or_run_is_passed_over() {
    for text in ["curl $URL", "curl \"$(id)\"", "curl `id`", "curl \"`id`\"", "curl ${U}", "curl -d $'\\101' b"] {
        assert_eq!(fault(text), CaptureError::Expansion, "{text}");
    }
    for text in ["curl b | jq", "curl b; id", "curl b & id", "curl b > out", "curl b < in", "curl https://b/?a=1&b=2"] {
        assert_eq!(fault(text), CaptureError::Shell, "{text}");
    }
    for text in ["curl 'b", "curl \"b", "curl b\\", "curl $'b", "curl \"b\\"] {
        assert_eq!(fault(text), CaptureError::Quote, "{text}");
    }
    for text in
        ["curl --form a=b c", "curl -F a=b c", "curl -G c", "curl --data-urlencode a c", "curl --config f", "curl -K f"]
    {
        assert!(matches!(fault(text), CaptureError::Option(_)), "{text}");
    }
    assert_eq!(fault("curl -X"), CaptureError::OptionValue("-X".into()));
    assert_eq!(fault("curl '--hush\u{1b}[2J'"), CaptureError::Option("that stands there".into()));
    for text in ["curl ", "curl -s", "curl a b", "curl 'a b'", "curl ''"] {
        assert_eq!(fault(text), CaptureError::Url, "{text}");
    }
    for header in ["'A\nB: c'", "'A: b\nC: d'", "no-colon", "': x'", "@file"] {
        assert!(matches!(fault(format!("curl b -H {header}")), CaptureError::Field { .. }), "{header}");
    }
    assert_eq!(fault(b"curl \xff"), CaptureError::NotText);
    assert_eq!(fault("curl b -X 'P T'"), CaptureError::RequestLine { line: 1 });
}

#[test]
fn reading_never_panics() {
    let pieces = [
        "curl ",
        "-H ",
        "-d ",
        "@",
        "'",
        "\"",
        "\\",
        "$'",
        "\\u",
        "> ",
        "POST / HTTP/1.1",
        "\n",
        "\r\n",
        "\n\n",
        ":",
        "A: b",
        "Content-Length: 3",
        "Transfer-Encoding: chunked",
        "ff",
        "é",
        "\u{0}",
        "<",
        "* ",
        "{ [",
        "https://b.example/",
        " ",
    ];
    let mut state = 1_u32;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..10 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push_str(pieces[(state >> 16) as usize % pieces.len()]);
        }
        let _ = Captured::read(text.as_bytes()).map(|captured| captured.url(None));
    }
}
