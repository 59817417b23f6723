//! The structured fields (RFC 8941) of a signed message: `Signature-Input`, and the two ways in which profiles spell the
//! bytes of `Signature` and `Content-Digest`. It judges syntax, never meaning.

mod strict;
mod webhook;

pub(super) use self::strict::{Bare, Parameters};
pub(super) use self::webhook::{has_duplicate_keys, split_at_commas};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// One member of `Signature-Input`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SignatureInput<'a> {
    pub(super) label: &'a str,
    pub(super) components: Vec<Component<'a>>,
    pub(super) parameters: Parameters<'a>,
    /// The member as it was sent, without its label: the last line of the signature base.
    pub(super) raw: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Component<'a> {
    pub(super) name: String,
    /// They select parts of a component; no component of these profiles has any.
    pub(super) parameters: Parameters<'a>,
    /// Quoted name and parameters as they were sent: what a line of the signature base begins with.
    pub(super) identifier: &'a str,
}

impl SignatureInput<'_> {
    pub(super) fn parameter(&self, name: &str) -> Option<&Bare<'_>> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// Parses the whole field: RFC 8941 section 4.2 fails a field as a whole, so a broken second label spoils the first.
/// Duplicate labels and parameters are refused where the RFC would let the last one win.
pub(super) fn signature_inputs(field: &str) -> Result<Vec<SignatureInput<'_>>, Malformed> {
    let members = strict::dictionary(field)?;
    if members.is_empty() {
        return Err(Malformed);
    }
    members.into_iter().map(|(label, member)| signature_input(label, member)).collect()
}

fn signature_input<'a>(label: &'a str, member: strict::Member<'a>) -> Result<SignatureInput<'a>, Malformed> {
    let strict::Value::InnerList(items) = member.value else { return Err(Malformed) };
    let mut components = Vec::with_capacity(items.len());
    for item in items {
        let Bare::String(name) = item.value else { return Err(Malformed) };
        components.push(Component { name, parameters: item.parameters, identifier: item.raw });
    }
    Ok(SignatureInput { label, components, parameters: member.parameters, raw: member.raw })
}

/// How a profile spells byte sequences. Types and not values of one type: a profile has one of them for good, so that what
/// its decoder refuses cannot be tried again with the other.
pub(crate) trait Decoder {
    /// Whether the entry under `label` must be refused before anything else is looked at.
    fn is_ambiguous(&self, signature: &str, label: &str) -> bool;

    /// The bytes under `label` of a `Signature` field.
    fn signature(&self, field: &str, label: &str) -> Result<Vec<u8>, Malformed>;

    /// The SHA-256 that a `Content-Digest` field names.
    fn sha256(&self, field: &str) -> Result<Vec<u8>, Malformed>;
}

/// As RFC 8941 has it, and with it RFC 9421 and RFC 9530: standard base64 with its padding, in a dictionary that is well
/// formed as a whole.
pub(crate) struct Rfc8941;

impl Decoder for Rfc8941 {
    fn is_ambiguous(&self, _: &str, _: &str) -> bool {
        false
    }

    fn signature(&self, field: &str, label: &str) -> Result<Vec<u8>, Malformed> {
        strict::byte_sequence(field, label)
    }

    fn sha256(&self, field: &str) -> Result<Vec<u8>, Malformed> {
        strict::byte_sequence(field, "sha-256")
    }
}

/// As the webhook profile has it in all of AdCP 3.x: unpadded base64url, or the padded standard base64 that its peers
/// take as well. Either only in its one canonical spelling, so that no second text stands for the same signature.
pub(crate) struct WebhookV1;

impl Decoder for WebhookV1 {
    fn is_ambiguous(&self, signature: &str, label: &str) -> bool {
        webhook::byte_sequence(signature, |key| key == label).ok().flatten().is_some_and(webhook::mixes_alphabets)
    }

    fn signature(&self, field: &str, label: &str) -> Result<Vec<u8>, Malformed> {
        webhook::byte_sequence(field, |key| key == label)?.and_then(webhook::decode_either).ok_or(Malformed)
    }

    /// Upper case is no key, but the reference reads it, and it cannot hide a second digest.
    fn sha256(&self, field: &str) -> Result<Vec<u8>, Malformed> {
        webhook::byte_sequence(field, |key| key.eq_ignore_ascii_case("sha-256"))?
            .and_then(webhook::decode_either)
            .ok_or(Malformed)
    }
}

#[cfg(test)]
mod tests;
