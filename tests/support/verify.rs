//! An independent check of RFC 9421 webhook signatures, written from wire.md section 3 with ring and nothing
//! of the crate. It deliberately accepts only the one shape that the profile emits.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey};

use super::keys::{Algorithm, SigningKey};
use super::receiver::Received;

const COMPONENTS: &str = r#"("@method" "@target-uri" "@authority" "content-type" "content-digest")"#;

#[derive(Debug, PartialEq, Eq)]
pub struct Verified {
    pub nonce: String,
    pub created: i64,
}

/// Panics, with what is wrong, unless `request` is signed by `key` as the profile demands.
pub fn assert_signed(request: &Received, key: &SigningKey) -> Verified {
    match verify(request, key) {
        Ok(verified) => verified,
        Err(reason) => panic!("{reason}: {} {:?}", request.target, request.headers),
    }
}

fn verify(request: &Received, key: &SigningKey) -> Result<Verified, String> {
    let input = request.header("signature-input").ok_or("no Signature-Input")?;
    let params = input.strip_prefix("sig1=").ok_or("the label is not sig1")?;
    let list = params.strip_prefix(COMPONENTS).ok_or("other components are covered")?;
    let values = parameters(list)?;
    let created: i64 = values[0].parse().map_err(|_| "created is not an integer")?;
    let expires: i64 = values[1].parse().map_err(|_| "expires is not an integer")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970").as_secs().cast_signed();
    if expires != created + 300 || (now - created).abs() > 60 {
        return Err(format!("the window is {created}..{expires} at {now}"));
    }
    let nonce = quoted(&values[2])?;
    if URL_SAFE_NO_PAD.decode(&nonce).map_err(|_| "the nonce is not base64url")?.len() != 16 {
        return Err("the nonce is not 16 bytes".into());
    }
    if quoted(&values[3])? != key.kid || quoted(&values[4])? != key.algorithm.name() {
        return Err("another key or algorithm is named".into());
    }
    if quoted(&values[5])? != "adcp/webhook-signing/v1" {
        return Err("another tag".into());
    }
    let digest = format!("sha-256=:{}:", STANDARD.encode(digest(&SHA256, &request.body)));
    if request.header("content-digest") != Some(&digest) {
        return Err("the digest is not of this body".into());
    }
    let base = base(request, params)?;
    let signature = request
        .header("signature")
        .and_then(|text| text.strip_prefix("sig1=:")?.strip_suffix(':'))
        .ok_or("no Signature of label sig1")?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "the signature is not unpadded base64url")?;
    let valid = match key.algorithm {
        Algorithm::Ed25519 => UnparsedPublicKey::new(&ED25519, &key.public).verify(base.as_bytes(), &signature),
        Algorithm::EcdsaP256Sha256 => {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &key.public).verify(base.as_bytes(), &signature)
        }
    };
    valid.map_err(|_| format!("the signature is not of this base:\n{base}"))?;
    Ok(Verified { nonce, created })
}

/// The tests' URLs are canonical already (lowercase host, no default port, no dot segments), so Host and the
/// request target are the authority and the path.
fn base(request: &Received, params: &str) -> Result<String, String> {
    let authority = request.header("host").ok_or("no Host")?;
    let content_type = request.header("content-type").ok_or("no Content-Type")?;
    let content_digest = request.header("content-digest").ok_or("no Content-Digest")?;
    Ok([
        format!("\"@method\": {}", request.method),
        format!("\"@target-uri\": https://{authority}{}", request.target),
        format!("\"@authority\": {authority}"),
        format!("\"content-type\": {content_type}"),
        format!("\"content-digest\": {content_digest}"),
        format!("\"@signature-params\": {params}"),
    ]
    .join("\n"))
}

/// The six values, which must come in this order.
fn parameters(list: &str) -> Result<Vec<String>, String> {
    let names = ["created", "expires", "nonce", "keyid", "alg", "tag"];
    let found: Vec<(&str, &str)> = list.split(';').skip(1).filter_map(|item| item.split_once('=')).collect();
    if !found.iter().map(|(name, _)| *name).eq(names) {
        return Err(format!("the parameters are {list}"));
    }
    Ok(found.into_iter().map(|(_, value)| value.to_string()).collect())
}

fn quoted(text: &str) -> Result<String, String> {
    text.strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .map(str::to_string)
        .ok_or_else(|| format!("{text} is not quoted"))
}
