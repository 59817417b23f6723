//! Each stage's refusal as a cause: the one place where the rooms' errors meet the list of codes.

use crate::address::{PinError, UrlError};
use crate::envelope::OpenError;
use crate::signature::SignError;
use crate::signer::ResolveError;
use crate::verdict::Cause;

pub(crate) fn open(error: &OpenError) -> Cause {
    match error {
        OpenError::Unopenable => Cause::EnvelopeUnopenable,
        OpenError::Row(_) => Cause::RowMalformed,
        OpenError::Malformed(_) => Cause::EnvelopeMalformed,
        OpenError::Mismatch { .. } => Cause::EnvelopeMismatch,
        OpenError::HmacDisabled => Cause::HmacDisabled,
        OpenError::CredentialsUnsendable => Cause::CredentialsUnsendable,
        OpenError::BodyTooLarge { .. } => Cause::BodyTooLarge,
    }
}

pub(crate) fn url(_: &UrlError) -> Cause {
    Cause::UrlRefused
}

pub(crate) fn pin(error: &PinError) -> Cause {
    match error {
        PinError::Forbidden { .. } => Cause::AddressForbidden,
        PinError::ForbiddenLiteral { .. } => Cause::LiteralForbidden,
        PinError::NameNotFound => Cause::DnsNotFound,
        PinError::NoAddress => Cause::DnsNoAddress,
        PinError::Dns(_) => Cause::DnsFailed,
        PinError::Timeout => Cause::DnsTimeout,
        PinError::Shortage => Cause::LocalResources,
        PinError::TooManyAddresses => Cause::DnsTooManyAddresses,
    }
}

pub(crate) fn resolve(error: &ResolveError) -> Cause {
    match error {
        ResolveError::Decommissioned => Cause::ScopeDecommissioned,
        ResolveError::Unknown => Cause::ScopeUnknown,
        ResolveError::Unavailable(_) | ResolveError::OutsideWindows => Cause::SigningUnavailable,
        ResolveError::AlgorithmNotAdvertised => Cause::SigningKeyRefused,
        ResolveError::ScopeRequired => Cause::ScopeRequired,
        ResolveError::ScopeUnexpected => Cause::ScopeUnexpected,
        ResolveError::ScopeMalformed => Cause::ScopeMalformed,
    }
}

pub(super) fn sign(error: &SignError) -> Cause {
    match error {
        SignError::CredentialsUnsendable => Cause::CredentialsUnsendable,
        SignError::IdUnsendable => Cause::RowMalformed,
        SignError::TargetUnsendable => Cause::UrlRefused,
        SignError::Key(_) => Cause::SigningUnavailable,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use hickory_resolver::proto::op::ResponseCode;
    use hickory_resolver::proto::rr::RecordType;
    use proptest::prelude::*;

    use super::*;
    use crate::address::name_server::{Answer, NameServer};
    use crate::address::{Destination, Policy, UrlRules};
    use crate::verdict::{Class, StatusPolicy};

    fn any_answer() -> impl Strategy<Value = Answer> {
        let address = prop_oneof![
            any::<u32>().prop_map(|bits| IpAddr::from(bits.to_be_bytes())),
            any::<u128>().prop_map(|bits| IpAddr::from(bits.to_be_bytes())),
            prop_oneof![Just("10.0.0.1"), Just("127.0.0.1"), Just("169.254.169.254"), Just("::1"), Just("8.8.8.8")]
                .prop_map(|text| text.parse().unwrap()),
        ];
        let addresses = proptest::collection::vec(address, 0..50);
        let code = prop_oneof![(0u8..24).prop_map(|low| ResponseCode::from(0, low)), any::<u16>().prop_map(Into::into)];
        prop_oneof![
            (any::<u32>(), addresses.clone()).prop_map(|(ttl, addresses)| Answer::Addresses(ttl, addresses)),
            addresses.prop_map(|addresses| Answer::Alias("b.example.net.", addresses)),
            code.prop_map(Answer::Code),
            Just(Answer::Silence),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        /// D2: sinkholes and split horizons lie for a while, so that no answer of a name server may end a row.
        #[test]
        fn no_answer_of_a_name_server_quarantines(v4 in any_answer(), v6 in any_answer()) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let pinned = runtime.block_on(async {
                let server = NameServer::start(move |_, family, _| match family {
                    RecordType::A => v4.clone(),
                    _ => v6.clone(),
                })
                .await;
                let place = Destination::parse("https://a.example.com/", &UrlRules::default()).unwrap();
                crate::address::pin(&place, &Policy::default(), &server.hasty_resolver()).await
            });
            if let Err(error) = pinned {
                prop_assert!(!matches!(error, PinError::ForbiddenLiteral { .. }), "no literal was asked for");
                let cause = pin(&error);
                let class = cause.class(StatusPolicy::Default);
                prop_assert!(matches!(class, Class::Retry | Class::RetrySlow), "{}: {:?}", cause, class);
                // The SDK's worker quarantines a forbidden answer; under its policy so do we, and for nothing else.
                let sdk = cause.class(StatusPolicy::Sdk);
                prop_assert_eq!(sdk == Class::Quarantine, cause == Cause::AddressForbidden, "{}", cause);
            }
        }
    }
}
