use super::*;
use crate::secret::from_whsec;

/// From the test suites that the libraries of the Standard Webhooks project share (secret, message and time), with the
/// signature that they expect.
const SECRET: &[u8] = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const MESSAGE: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const SENT: i64 = 1_614_265_330;
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SIGNED: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

fn key() -> Secret {
    from_whsec(SECRET).unwrap()
}

fn signed() -> HeaderMap {
    headers(&key(), MESSAGE, BODY, SENT).unwrap()
}

fn with(name: HeaderName, value: &str) -> HeaderMap {
    let mut headers = signed();
    headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    headers
}

#[test]
fn the_published_signature_is_made_byte_for_byte() {
    let headers = signed();
    assert_eq!((&headers[ID], &headers[TIMESTAMP]), (&MESSAGE.parse().unwrap(), &SENT.into()));
    assert_eq!(headers[SIGNATURE], SIGNED);
    assert!(headers[SIGNATURE].is_sensitive());
    assert_eq!(verify_standard(&key(), &headers, BODY, SENT), Ok(()));
}

#[test]
fn one_good_signature_of_several_is_enough_and_unknown_versions_are_passed_over() {
    let wrong = format!("v1,{}", STANDARD.encode([7; 32]));
    for value in [format!("{wrong} {SIGNED}"), format!("v1a,AAAA {SIGNED} {wrong}"), format!("v1,??? {SIGNED}")] {
        assert_eq!(verify_standard(&key(), &with(SIGNATURE, &value), BODY, SENT), Ok(()), "{value}");
    }
    assert_eq!(verify_standard(&key(), &with(SIGNATURE, &wrong), BODY, SENT), Err(LegacyError::Mismatch));
    for value in ["", "v1", "v1,", "v1a,AAAA", "v1 AAAA", &SIGNED[3..], &SIGNED.replace("v1", "v2")] {
        let outcome = verify_standard(&key(), &with(SIGNATURE, value), BODY, SENT);
        assert!(matches!(outcome, Err(LegacyError::Signature | LegacyError::Mismatch)), "{value}: {outcome:?}");
    }
}

#[test]
fn every_signed_part_counts() {
    assert_eq!(verify_standard(&key(), &signed(), b"{}", SENT), Err(LegacyError::Mismatch));
    assert_eq!(verify_standard(&key(), &with(ID, "msg_other"), BODY, SENT), Err(LegacyError::Mismatch));
    let later = (SENT + 1).to_string();
    assert_eq!(verify_standard(&key(), &with(TIMESTAMP, &later), BODY, SENT), Err(LegacyError::Mismatch));
    let literal = Secret::new(SECRET.to_vec());
    assert_eq!(verify_standard(&literal, &signed(), BODY, SENT), Err(LegacyError::Mismatch), "the text is no key");
}

#[test]
fn a_signature_is_good_for_five_minutes_either_way() {
    for (now, outcome) in [(-300, Ok(())), (300, Ok(())), (-301, Err(LegacyError::Skew)), (301, Err(LegacyError::Skew))]
    {
        assert_eq!(verify_standard(&key(), &signed(), BODY, SENT + now), outcome, "{now}");
    }
    for value in ["", "-1", "+1614265330", "1614265330.0", "99999999999999999999"] {
        assert_eq!(
            verify_standard(&key(), &with(TIMESTAMP, value), BODY, SENT),
            Err(LegacyError::Timestamp),
            "{value}"
        );
    }
}

#[test]
fn each_header_must_be_there_once() {
    for name in [ID, TIMESTAMP, SIGNATURE] {
        let mut without = signed();
        without.remove(&name);
        assert_eq!(verify_standard(&key(), &without, BODY, SENT), Err(LegacyError::Missing), "{name}");
        let mut twice = signed();
        let value = twice[&name].clone();
        twice.append(&name, value);
        assert_eq!(verify_standard(&key(), &twice, BODY, SENT), Err(LegacyError::Missing), "{name}");
    }
    assert_eq!(verify_standard(&key(), &with(ID, ""), BODY, SENT), Err(LegacyError::Signature));
}

#[test]
fn an_id_that_no_header_carries_is_not_signed() {
    assert_eq!(headers(&key(), "a\nb", BODY, SENT).unwrap_err(), SignError::IdUnsendable);
}
