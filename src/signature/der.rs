//! The little DER that a private key file needs: PKCS#8 (RFC 5208, RFC 8410) and SEC1 (RFC 5915). It copies no secret: what
//! it returns borrows from the input.

use super::key::KeyError;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
/// SEC1's optional public key.
const CONTEXT_1: u8 = 0xa1;

const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

/// What precedes the 32 bytes of the seed in a PKCS#8 v1 Ed25519 key: the form that every tool reads, where version 2
/// with its public key is refused by many.
const ED25519_PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

pub(super) enum RawKey<'a> {
    Ed25519 { seed: &'a [u8] },
    P256 { scalar: &'a [u8], point: &'a [u8] },
}

pub(super) fn ed25519_pkcs8(seed: &[u8; 32]) -> zeroize::Zeroizing<Vec<u8>> {
    let mut der = zeroize::Zeroizing::new(Vec::with_capacity(ED25519_PKCS8_PREFIX.len() + seed.len()));
    der.extend_from_slice(&ED25519_PKCS8_PREFIX);
    der.extend_from_slice(seed);
    der
}

pub(super) fn pkcs8(der: &[u8]) -> Result<RawKey<'_>, KeyError> {
    let mut body = whole(der, SEQUENCE)?;
    take(&mut body, INTEGER)?;
    let mut algorithm = take(&mut body, SEQUENCE)?;
    let key = take(&mut body, OCTET_STRING)?;
    // Attributes and a version 2 public key may follow; neither adds anything that is needed.
    match take(&mut algorithm, OBJECT_ID)? {
        ED25519 => Ok(RawKey::Ed25519 { seed: whole(key, OCTET_STRING)? }),
        EC_PUBLIC_KEY if take(&mut algorithm, OBJECT_ID)? == P256 => ec_private_key(key, true),
        _ => Err(KeyError::Unsupported),
    }
}

/// The parts of an `EncryptedPrivateKeyInfo`: the algorithm identifier with its own head, and the ciphertext.
pub(super) fn encrypted_pkcs8(der: &[u8]) -> Result<(&[u8], &[u8]), KeyError> {
    let mut body = whole(der, SEQUENCE)?;
    let all = body;
    take(&mut body, SEQUENCE)?;
    let algorithm = &all[..all.len() - body.len()];
    Ok((algorithm, whole(body, OCTET_STRING)?))
}

/// An `EC PRIVATE KEY` file must name its curve itself.
pub(super) fn sec1(der: &[u8]) -> Result<RawKey<'_>, KeyError> {
    ec_private_key(der, false)
}

fn ec_private_key(der: &[u8], mut curve_known: bool) -> Result<RawKey<'_>, KeyError> {
    let mut body = whole(der, SEQUENCE)?;
    take(&mut body, INTEGER)?;
    let scalar = take(&mut body, OCTET_STRING)?;
    let mut point = None;
    while !body.is_empty() {
        let (tag, mut value) = next(&mut body)?;
        if tag == CONTEXT_1 {
            let bits = take(&mut value, BIT_STRING)?;
            // The first byte counts unused bits, of which a point has none.
            point = Some(bits.strip_prefix(&[0]).ok_or(KeyError::Der)?);
        } else if take(&mut value, OBJECT_ID)? == P256 {
            curve_known = true;
        } else {
            return Err(KeyError::Unsupported);
        }
    }
    if !curve_known {
        return Err(KeyError::Unsupported);
    }
    Ok(RawKey::P256 { scalar, point: point.ok_or(KeyError::PublicMissing)? })
}

fn whole(der: &[u8], tag: u8) -> Result<&[u8], KeyError> {
    let mut rest = der;
    let value = take(&mut rest, tag)?;
    if rest.is_empty() { Ok(value) } else { Err(KeyError::Der) }
}

fn take<'a>(input: &mut &'a [u8], tag: u8) -> Result<&'a [u8], KeyError> {
    match next(input)? {
        (found, value) if found == tag => Ok(value),
        _ => Err(KeyError::Der),
    }
}

fn next<'a>(input: &mut &'a [u8]) -> Result<(u8, &'a [u8]), KeyError> {
    let (&[tag, first], mut rest) = input.split_first_chunk::<2>().ok_or(KeyError::Der)?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        // Two length bytes reach beyond the size of any file that is read here.
        let bytes = usize::from(first & 0x7f);
        if !(1..=2).contains(&bytes) || rest.len() < bytes {
            return Err(KeyError::Der);
        }
        length = rest[..bytes].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        rest = &rest[bytes..];
    }
    let (value, rest) = rest.split_at_checked(length).ok_or(KeyError::Der)?;
    *input = rest;
    Ok((tag, value))
}
