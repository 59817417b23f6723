//! PEM (RFC 7468) around a private key, in and out, in memory that is wiped. It reads no other kind of block.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::key::KeyError;

pub(super) enum Block {
    Pkcs8(Zeroizing<Vec<u8>>),
    EncryptedPkcs8(Zeroizing<Vec<u8>>),
    Sec1(Zeroizing<Vec<u8>>),
}

/// The first private key of the text. Blocks of other kinds before it (`EC PARAMETERS`, certificates) are passed over.
pub(super) fn read(pem: &[u8]) -> Result<Block, KeyError> {
    let text = std::str::from_utf8(pem).map_err(|_| KeyError::Pem)?;
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) else {
            continue;
        };
        match label {
            "PRIVATE KEY" => return Ok(Block::Pkcs8(body(&mut lines)?)),
            "EC PRIVATE KEY" => return Ok(Block::Sec1(body(&mut lines)?)),
            "ENCRYPTED PRIVATE KEY" => return Ok(Block::EncryptedPkcs8(body(&mut lines)?)),
            "OPENSSH PRIVATE KEY" | "RSA PRIVATE KEY" | "DSA PRIVATE KEY" => return Err(KeyError::Unsupported),
            _ => {}
        }
    }
    Err(KeyError::Pem)
}

fn body<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let mut encoded = Zeroizing::new(String::with_capacity(4096));
    for line in lines {
        if line.starts_with("-----END ") {
            let mut der = Zeroizing::new(vec![0; base64::decoded_len_estimate(encoded.len())]);
            let written = STANDARD.decode_slice(encoded.as_bytes(), &mut der).map_err(|_| KeyError::Pem)?;
            der.truncate(written);
            return Ok(der);
        }
        if line.starts_with("Proc-Type:") {
            return Err(KeyError::LegacyEncryption);
        }
        // No key of this profile comes near it, and a buffer that never grows leaves no copy behind.
        if encoded.len() + line.len() > encoded.capacity() {
            return Err(KeyError::Unsupported);
        }
        encoded.push_str(line);
    }
    Err(KeyError::Pem)
}

pub(super) fn write_pkcs8(der: &[u8]) -> Zeroizing<String> {
    const LINE: usize = 48;
    let mut pem = Zeroizing::new(String::with_capacity(der.len() * 2 + 128));
    pem.push_str("-----BEGIN PRIVATE KEY-----\n");
    for chunk in der.chunks(LINE) {
        STANDARD.encode_string(chunk, &mut pem);
        pem.push('\n');
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    pem
}
