//! What must hold of every signed request that is let in: its key is held, its window is open, nothing of it can be
//! changed, and it is of the one profile that it was checked for.

use std::sync::LazyLock;

use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::fields::{cut, spot};
use crate::signature::verify::{
    Family, Knowledge, NOTIFICATION, NOTIFICATION_READ, REQUEST, REQUEST_3_1, Received, Revocation, Verified, WEBHOOK,
    verify_as,
};

const URL: &str = "https://buyer.example.com/adcp/webhook/create_media_buy/agent_123/op_abc";
/// The clock of the corpus of AdCP.
const NOW: i64 = 1_776_520_800;

static JWKS: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../tests/vectors/adcp/webhook-signing/keys.json");
    serde_json::from_str(text).expect("the corpus is JSON")
});

/// Fields: `Signature-Input`, `Signature`, `Content-Digest`, `Content-Type`, `Host`, URL, body. An empty header is left
/// out, an empty URL is the corpus's, and one that begins with a line feed stands for two lines of the header.
pub(super) fn check(data: &[u8]) {
    let [input, signature, digest, content_type, host, url, body] = cut(data);
    let mut headers = HeaderMap::new();
    let named = [
        (HeaderName::from_static("signature-input"), input),
        (HeaderName::from_static("signature"), signature),
        (HeaderName::from_static("content-digest"), digest),
        (CONTENT_TYPE, content_type),
        (HOST, host),
    ];
    for (name, lines) in named {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Ok(value) = HeaderValue::from_bytes(line) else { return };
            headers.append(name.clone(), value);
        }
    }
    let Ok(url) = std::str::from_utf8(url) else { return };
    let url = if url.is_empty() { URL } else { url };
    let verdict = |headers: &HeaderMap, url: &str, body: &[u8], now: i64| {
        let request = Received { method: "POST", url, headers, body };
        let knowledge =
            Knowledge { jwks: &JWKS, revocation: Revocation::NotTracked, crowded: &|_| false, unix_seconds: now };
        [
            verify_as(&WEBHOOK, &request, &knowledge),
            verify_as(&NOTIFICATION, &request, &knowledge),
            verify_as(&NOTIFICATION_READ, &request, &knowledge),
            verify_as(&REQUEST_3_1, &request, &knowledge),
            verify_as(&REQUEST, &request, &knowledge),
        ]
    };
    let verdicts = verdict(&headers, url, body, NOW);
    for outcome in &verdicts {
        if let Err(error) = outcome {
            assert!(error.code().starts_with("webhook_"), "{}", error.code());
            assert!(error.code_of(Family::Request).starts_with("request_"), "{}", error.code());
        }
    }
    if !headers.contains_key("signature") || !headers.contains_key("signature-input") {
        assert!(verdicts.iter().all(Result::is_err), "let in without a signature");
    }
    let Some(verified) = verdicts.iter().find_map(|outcome| outcome.as_ref().ok()) else { return };
    sound(verified, headers.get("signature-input").map_or(&[], |value| value.as_bytes()));
    let kinds = verdicts.iter().filter(|outcome| outcome.is_ok()).count();
    let notification = verdicts[0].is_err();
    assert!(kinds == 1 || notification, "two profiles take one signature");
    let refused = |headers: &HeaderMap, url: &str, body: &[u8], now: i64, what: &str| {
        assert!(verdict(headers, url, body, now).iter().all(Result::is_err), "let in although {what} was changed");
    };
    refused(&headers, url, &[body, b" "].concat(), NOW, "the body");
    if !url.contains(['#', '@']) {
        refused(&headers, &url.replacen("://", "://x.", 1), body, NOW, "the URL");
    }
    refused(&headers, url, body, NOW + 361 + 60, "the time");
    refused(&headers, url, body, NOW - 361 - 60, "the time");
    for name in ["signature-input", "content-digest", "content-type"] {
        let mut damaged = headers.clone();
        if let Some(changed) = damaged.get(name).and_then(|value| damage(name, value.as_bytes(), data)) {
            damaged.insert(HeaderName::from_static(name), changed);
            refused(&damaged, url, body, NOW, name);
        }
    }
    assert_eq!(verdict(&headers, url, body, NOW), verdicts, "a second look says otherwise");
}

fn sound(verified: &Verified, input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let keys = JWKS["keys"].as_array().expect("the corpus has keys");
    assert!(keys.iter().any(|key| key["kid"] == verified.keyid.as_str()), "by an unknown key");
    assert!(input.contains("sig1=(") && input.contains(&format!("expires={}", verified.expires)), "{input}");
    assert!(verified.nonce.len() <= 256 && verified.keyid.len() <= 256, "too long to be remembered");
    assert!((NOW - 60..=NOW + 360).contains(&verified.expires), "outside the window");
}

/// One bit of what the signature covers changed; `None` where it would not be that.
fn damage(name: &str, value: &[u8], data: &[u8]) -> Option<HeaderValue> {
    let covered = match name {
        // Other labels are not judged; our own member ends after its last parameter, which is the tag in the corpus.
        "signature-input" => {
            let text = std::str::from_utf8(value).ok()?;
            text.strip_prefix("sig1=").filter(|rest| !rest.contains("sig1"))?;
            "sig1=".len()..text.find("tag=")?
        }
        _ => 0..value.len(),
    };
    let at = covered.start + spot(data, covered.len());
    let mut changed = value.to_vec();
    *changed.get_mut(at)? ^= 1;
    // Space around a value is not part of it.
    let differs = changed.trim_ascii() != value.trim_ascii();
    HeaderValue::from_bytes(&changed).ok().filter(|_| differs)
}
