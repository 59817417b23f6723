//! When certificates expire. It holds no clock.

use rustls_pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// 9999-12-31T23:59:59Z: the certificate has no well-defined expiry (RFC 5280, section 4.1.2.5).
const NEVER: u64 = 253_402_300_799;

/// In Unix seconds. `None` where the certificate never expires, or cannot be read that far, which is TLS's to refuse.
fn expiry(certificate: &CertificateDer<'_>) -> Option<u64> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let ends = certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs();
    Some(ends).filter(|ends| *ends < NEVER)
}

pub(crate) fn earliest_expiry(certificates: &[CertificateDer<'_>]) -> Option<u64> {
    certificates.iter().filter_map(expiry).min()
}
