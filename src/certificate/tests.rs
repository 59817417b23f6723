use rcgen::{CertificateParams, KeyPair};

use super::*;

struct Made {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

fn made(ends: Option<i32>) -> Made {
    let mut params = CertificateParams::new(vec!["client.example".to_owned()]).unwrap();
    params.not_after = ends.map_or(rcgen::date_time_ymd(9999, 12, 31), |year| rcgen::date_time_ymd(year, 1, 1));
    if ends.is_none() {
        params.not_after = params.not_after.replace_hour(23).unwrap().replace_minute(59).unwrap();
        params.not_after = params.not_after.replace_second(59).unwrap();
    }
    let key = KeyPair::generate().unwrap();
    Made { certificate: params.self_signed(&key).unwrap(), key }
}

#[test]
fn a_chain_and_its_key_are_an_identity() {
    let one = made(Some(2030));
    let identity = ClientIdentity::from_pem(one.certificate.pem().as_bytes(), one.key.serialize_pem().as_bytes());
    let identity = identity.unwrap();
    let two = made(Some(2030));
    let both = format!("{}{}", one.certificate.pem(), two.certificate.pem());
    let longer = ClientIdentity::from_pem(both.as_bytes(), one.key.serialize_pem().as_bytes()).unwrap();
    let again = ClientIdentity::from_pem(both.as_bytes(), one.key.serialize_pem().as_bytes()).unwrap();
    assert!(longer.id() == again.id() && longer.id() != identity.id());
}

#[test]
fn what_does_not_belong_together_is_refused_and_says_which_file_it_is() {
    let (one, other) = (made(Some(2030)), made(Some(2030)));
    let (certificate, key) = (one.certificate.pem(), one.key.serialize_pem());
    let faulty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (certificate, key, fault, about_key) in [
        (certificate.as_str(), other.key.serialize_pem().as_str(), CertificateFault::KeyOfAnother, true),
        (certificate.as_str(), certificate.as_str(), CertificateFault::NoKey, true),
        (key.as_str(), key.as_str(), CertificateFault::NoCertificate, false),
        ("", key.as_str(), CertificateFault::NoCertificate, false),
        ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", key.as_str(), CertificateFault::NotPem, false),
        (faulty, key.as_str(), CertificateFault::Unusable, false),
    ] {
        let refused = certified(certificate.as_bytes(), key.as_bytes()).map(drop);
        assert_eq!(refused, Err(fault), "{certificate} {key}");
        assert_eq!(fault.is_about_key(), about_key);
    }
}

#[test]
fn a_bundle_holds_what_belongs_together_and_no_more() {
    let (one, other) = (made(Some(2030)), made(Some(2031)));
    let both = format!("{}{}{}", one.key.serialize_pem(), one.certificate.pem(), other.certificate.pem());
    let bundled = bundle(both.as_bytes(), both.as_bytes()).unwrap();
    let from = ClientIdentity::from_pem(&bundled, &bundled).unwrap();
    assert!(from.id() == ClientIdentity::from_pem(both.as_bytes(), both.as_bytes()).unwrap().id());
    // A certificate file with a key of another in it, and a key file with another's certificate.
    let certificates = format!("{}{}", other.key.serialize_pem(), one.certificate.pem());
    let keys = format!("{}{}", other.certificate.pem(), one.key.serialize_pem());
    let bundled = bundle(certificates.as_bytes(), keys.as_bytes()).unwrap();
    let from = ClientIdentity::from_pem(&bundled, &bundled).unwrap();
    assert!(from.id() == ClientIdentity::from_pem(one.certificate.pem().as_bytes(), keys.as_bytes()).unwrap().id());
    assert_eq!(bundle(b"", keys.as_bytes()).map(drop), Err(CertificateFault::NoCertificate));
    assert_eq!(bundle(certificates.as_bytes(), b"").map(drop), Err(CertificateFault::NoKey));
}

#[test]
fn the_earliest_expiry_counts_and_some_certificates_have_none() {
    let (soon, late, never) = (made(Some(2027)), made(Some(2060)), made(None));
    let of = |made: &[&Made]| {
        let chain: Vec<_> = made.iter().map(|made| made.certificate.der().clone()).collect();
        earliest_expiry(&chain)
    };
    assert_eq!(of(&[&late, &soon, &never]), Some(1_798_761_600));
    assert_eq!(of(&[&never]), None);
    assert_eq!(of(&[]), None);
    assert_eq!(earliest_expiry(&[CertificateDer::from(b"no certificate".to_vec())]), None);
}

#[test]
fn an_identity_shows_no_key_when_it_is_printed() {
    let one = made(Some(2030));
    let identity = ClientIdentity::from_pem(one.certificate.pem().as_bytes(), one.key.serialize_pem().as_bytes());
    let printed = format!("{:?}", identity.unwrap());
    assert!(printed.starts_with("ClientIdentity(\"") && printed.len() < 40, "{printed}");
}
