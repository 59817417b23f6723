use super::*;

const AT: i64 = 1_767_322_800;

fn secret() -> Secret {
    Secret::from("hmac-secret-0123456789abcdef01234".to_owned())
}

fn signed() -> HeaderMap {
    hmac_headers(&secret(), b"{}", AT).unwrap()
}

fn with(name: HeaderName, value: &str) -> HeaderMap {
    let mut headers = signed();
    headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    headers
}

#[test]
fn an_hmac_holds_for_its_secret_and_body_alone() {
    assert_eq!(verify_hmac(&secret(), &signed(), b"{}", AT), Ok(()));
    assert_eq!(verify_hmac(&secret(), &signed(), b"{ }", AT), Err(LegacyError::Mismatch));
    let other = Secret::from("other".to_owned());
    assert_eq!(verify_hmac(&other, &signed(), b"{}", AT), Err(LegacyError::Mismatch));
    assert_eq!(verify_hmac(&secret(), &with(TIMESTAMP, "1767322801"), b"{}", AT), Err(LegacyError::Mismatch));
}

#[test]
fn an_hmac_is_good_for_five_minutes_either_way() {
    for (now, outcome) in [(AT - 300, Ok(())), (AT + 300, Ok(())), (AT - 301, Err(LegacyError::Skew))] {
        assert_eq!(verify_hmac(&secret(), &signed(), b"{}", now), outcome);
    }
    assert_eq!(verify_hmac(&secret(), &signed(), b"{}", AT + 301), Err(LegacyError::Skew));
    assert_eq!(verify_hmac(&secret(), &signed(), b"{}", i64::MIN), Err(LegacyError::Skew));
}

#[test]
fn malformed_hmac_headers_are_told_apart() {
    for value in ["", "sha256=", "sha1=00", "sha256=zz", &format!("sha256={}", "0".repeat(63))] {
        assert_eq!(verify_hmac(&secret(), &with(SIGNATURE, value), b"{}", AT), Err(LegacyError::Signature), "{value}");
    }
    let shouted = format!("sha256={}", "A".repeat(64));
    assert_eq!(verify_hmac(&secret(), &with(SIGNATURE, &shouted), b"{}", AT), Err(LegacyError::Signature));
    for value in ["", "-1", "+1", "1.5", "99999999999999999999"] {
        assert_eq!(verify_hmac(&secret(), &with(TIMESTAMP, value), b"{}", AT), Err(LegacyError::Timestamp), "{value}");
    }
    let mut twice = signed();
    twice.append(TIMESTAMP, HeaderValue::from(AT));
    assert_eq!(verify_hmac(&secret(), &twice, b"{}", AT), Err(LegacyError::Missing));
    assert_eq!(verify_hmac(&secret(), &HeaderMap::new(), b"{}", AT), Err(LegacyError::Missing));
}
