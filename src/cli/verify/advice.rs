//! What each check looks at, and what to do about one that failed, in words for whoever sent or received the request.

use crate::signature::LegacyError;
use crate::signature::verify::{Check, VerifyError};

pub(super) fn looks_at(check: Check) -> &'static str {
    match check {
        Check::Text => "Signature and Signature-Input are text; sig1 does not mix base64 alphabets",
        Check::FirstLabel => "the first label of Signature-Input covers content-type, if that is sent",
        Check::Pair => "Signature and Signature-Input are both there",
        Check::Ambiguity => "no field, label or digest of the signature comes twice; one Content-Type",
        Check::Authority => "Host and the URL's authority are well formed, and the URL's is ASCII",
        Check::Syntax => "Signature-Input parses and has sig1; the bytes of sig1 decode",
        Check::Parameters => "created, expires, nonce, keyid, alg and tag are there",
        Check::ParameterTypes => "they are two integers and four strings",
        Check::Tag => "tag is the profile's",
        Check::Algorithm => "alg is ed25519 or ecdsa-p256-sha256",
        Check::Window => "created < expires within 300 s, and the time is inside, give or take 60 s",
        Check::Components => "the components of the profile are covered, none twice or in part",
        Check::Lengths => "keyid and nonce have at most 256 characters",
        Check::Key => "the key set has the key",
        Check::Purpose => "the key is for this: use, key_ops, adcp_use, and its curve fits alg",
        Check::Revocation => "the key is not revoked, by a list that is not stale",
        Check::Capacity => "the key's share of the replay store is not full",
        Check::Signature => "the signature holds over the signature base",
        Check::Digest => "Content-Digest is the SHA-256 of the body",
        Check::Nonce => "the nonce was not seen before",
        Check::Body => "the body is strict JSON, an object, no key twice",
    }
}

/// Why a check that comes to pass in no report is not made by this command.
pub(super) fn not_made(check: Check, revocation: bool) -> Option<&'static str> {
    match check {
        Check::Revocation if !revocation => Some("no --revocation list was given"),
        Check::Capacity => Some("only the receiver knows how full its store is"),
        Check::Nonce => Some("only the receiver knows the nonces it has seen"),
        _ => None,
    }
}

pub(super) fn remedy(check: Check, error: VerifyError) -> &'static str {
    match (check, error) {
        (Check::Text, _) => {
            "Sender: encode the signature in one alphabet, unpadded base64url in the webhook profile. Something that \
             rewrites headers on the way can mix them as well."
        }
        (Check::FirstLabel, _) => {
            "Sender: let every signature cover content-type where the header is sent, also those of other labels; or put \
             sig1 first."
        }
        (Check::Pair, VerifyError::Required) => "Sender: sign the request. Nothing of a signature is on it.",
        (Check::Pair, _) => {
            "The request lacks Signature, Signature-Input or both. If the sender signs, a proxy took the header away."
        }
        (Check::Ambiguity, _) => {
            "A header line, a label or a digest is there twice, or two content types are. Look for a proxy that adds or \
             joins header lines."
        }
        (Check::Authority, _) => {
            "Sender: put the host into the URL in its ASCII form (xn--...), IPv6 addresses in brackets, one port at most."
        }
        (Check::Syntax, _) => {
            "Sender: name the signature sig1 and spell both fields by RFC 8941: sig1=(\"@method\" ...);created=... and \
             sig1=:base64:. In the webhook profile the base64 is unpadded base64url; in request-signing of AdCP 3.2 it is \
             standard base64 with padding."
        }
        (Check::Parameters, _) => "Sender: give all of created, expires, nonce, keyid, alg and tag.",
        (Check::ParameterTypes, _) => "Sender: write created and expires as bare integers, the other four in quotes.",
        (Check::Tag, _) => {
            "The signature was made for another profile. Sender: sign with the tag of this one; or choose --profile."
        }
        (Check::Algorithm, _) => "Sender: sign with Ed25519 or ECDSA P-256; no others are allowed.",
        (Check::Window, _) => {
            "Judged at another time than it was received? Give --at. Otherwise one of the clocks is wrong, or the request \
             waited too long: a sender must sign anew for each attempt."
        }
        (Check::Components, _) => {
            "Sender: cover @method, @target-uri, @authority, content-type and content-digest, each once and without \
             parameters."
        }
        (Check::Lengths, _) => "Sender: take a shorter keyid or nonce.",
        (Check::Key, _) => {
            "Sender: publish the key under this keyid before signing with it. Receiver: fetch the key set anew; is it the \
             right sender's?"
        }
        (Check::Purpose, _) => {
            "Sender: publish the key with use \"sig\", key_ops with \"verify\", adcp_use \"webhook-signing\" or \
             \"request-signing\", and a kty and crv that fit alg."
        }
        (Check::Revocation, VerifyError::RevocationStale) => "Receiver: get a newer revocation list.",
        (Check::Revocation, _) => "Sender: stop signing with the revoked key.",
        (Check::Capacity, _) => "Sender: send less under one key; the receiver remembers a bounded number of nonces.",
        (Check::Signature, VerifyError::TargetUriMalformed) => {
            "Sender: mend the URL: its host, port or brackets are not well formed."
        }
        (Check::Signature, VerifyError::HeaderMalformed) => {
            "A covered component is not in the request, or the key's coordinates are not 32 bytes in base64url."
        }
        (Check::Signature, _) => {
            "Compare the base that --explain prints with the sender's: method, URL (did a proxy change host or path? give \
             --url), content type. If they are the same, another key signed than the one published under this keyid."
        }
        (Check::Digest, _) => {
            "The body is not the one that was signed: something changed it after signing, be it by a space, a line break \
             or another encoding. Capture it as bytes, not as text."
        }
        (Check::Nonce, _) => "Sender: draw a fresh nonce for every attempt.",
        (Check::Body, _) => "Sender: send one JSON object in UTF-8 without a byte order mark, each key once.",
    }
}

/// The checks of a scheme with a shared secret, in their order.
pub(super) const SHARED: [(LegacyError, &str, &str); 5] = [
    (LegacyError::Missing, "headers", "each header of the scheme is there once"),
    (LegacyError::Signature, "form", "the signature has the form of the scheme"),
    (LegacyError::Timestamp, "timestamp", "the timestamp is a number"),
    (LegacyError::Skew, "window", "the timestamp is at most 300 s away"),
    (LegacyError::Mismatch, "signature", "the HMAC holds for a secret that was given"),
];

pub(super) fn shared_remedy(error: LegacyError) -> &'static str {
    match error {
        LegacyError::Missing => "A header of the scheme is missing or comes twice; a proxy may have taken or added it.",
        LegacyError::Signature => {
            "Sender: sha256= and 64 lower-case hex digits for HMAC-SHA256, v1, and padded base64 for Standard Webhooks."
        }
        LegacyError::Timestamp => "Sender: give the timestamp in decimal Unix seconds.",
        LegacyError::Skew => {
            "Judged at another time than it was received? Give --at. Otherwise one of the clocks is wrong, or the sender \
             did not sign anew for this attempt."
        }
        LegacyError::Mismatch => {
            "Another secret signed it, or the body was changed after signing. HMAC-SHA256 takes the secret's text as key; \
             Standard Webhooks takes what the base64 after whsec_ stands for."
        }
    }
}
