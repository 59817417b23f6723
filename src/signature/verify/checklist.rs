//! The checks of a signed request in the order in which they are made, and who may watch them being made. It makes none.

use serde_json::Value;

use super::error::VerifyError;

/// One check. The order of the variants is the order of checking: a request with two faults earns the code of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    Text,
    FirstLabel,
    Pair,
    Ambiguity,
    Authority,
    Syntax,
    Parameters,
    ParameterTypes,
    Tag,
    Algorithm,
    Window,
    Components,
    Lengths,
    Key,
    Purpose,
    Revocation,
    Capacity,
    Signature,
    Digest,
    /// The caller's to make: its store knows the nonces that were seen.
    Nonce,
    /// The caller's to make: whether the body is a document.
    Body,
}

impl Check {
    pub(crate) const ALL: [Check; 21] = [
        Check::Text,
        Check::FirstLabel,
        Check::Pair,
        Check::Ambiguity,
        Check::Authority,
        Check::Syntax,
        Check::Parameters,
        Check::ParameterTypes,
        Check::Tag,
        Check::Algorithm,
        Check::Window,
        Check::Components,
        Check::Lengths,
        Check::Key,
        Check::Purpose,
        Check::Revocation,
        Check::Capacity,
        Check::Signature,
        Check::Digest,
        Check::Nonce,
        Check::Body,
    ];

    /// The step of the published checklist that it belongs to. Faults of syntax and of the target are looked for before
    /// their steps come, so that the numbers do not only rise.
    pub(crate) fn step(self) -> &'static str {
        match self {
            Check::Text | Check::Pair | Check::Ambiguity | Check::Syntax | Check::ParameterTypes => "1",
            Check::Parameters | Check::Lengths => "2",
            Check::Tag => "3",
            Check::Algorithm => "4",
            Check::Window => "5",
            Check::FirstLabel | Check::Components => "6",
            Check::Key => "7",
            Check::Purpose => "8",
            Check::Revocation => "9",
            Check::Capacity => "9a",
            Check::Authority | Check::Signature => "10",
            Check::Digest => "11",
            Check::Nonce => "12",
            Check::Body => "14",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Check::Text => "text",
            Check::FirstLabel => "first_label",
            Check::Pair => "pair",
            Check::Ambiguity => "ambiguity",
            Check::Authority => "authority",
            Check::Syntax => "syntax",
            Check::Parameters => "parameters",
            Check::ParameterTypes => "parameter_types",
            Check::Tag => "tag",
            Check::Algorithm => "algorithm",
            Check::Window => "window",
            Check::Components => "components",
            Check::Lengths => "lengths",
            Check::Key => "key",
            Check::Purpose => "purpose",
            Check::Revocation => "revocation",
            Check::Capacity => "capacity",
            Check::Signature => "signature",
            Check::Digest => "digest",
            Check::Nonce => "nonce",
            Check::Body => "body",
        }
    }
}

/// What came to light on the way.
#[derive(Debug)]
pub(crate) enum Fact<'a> {
    /// The parameters of the signature that is judged.
    Parameters {
        created: i64,
        expires: i64,
        nonce: &'a str,
        keyid: &'a str,
        alg: &'a str,
        tag: &'a str,
    },
    /// The key that was chosen, as its set holds it.
    Key(&'a Value),
    Base(&'a str),
    /// `sent` is what the header says, where that can be read.
    Digest {
        sent: Option<&'a [u8]>,
        computed: &'a [u8],
    },
    /// The body is not covered, and this profile lets that pass.
    BodyNotCovered,
}

/// Watches a verification. It cannot change its outcome.
pub(crate) trait Trace {
    fn checked(&mut self, check: Check, outcome: Result<(), VerifyError>);
    fn saw(&mut self, fact: Fact<'_>);
}

/// Watches nothing.
pub(crate) struct Unwatched;

impl Trace for Unwatched {
    fn checked(&mut self, _: Check, _: Result<(), VerifyError>) {}
    fn saw(&mut self, _: Fact<'_>) {}
}
