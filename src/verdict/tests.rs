//! The tables of the contract, row by row, and what must hold for any facts at all.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn backoff(policy: StatusPolicy) -> Backoff {
    Backoff {
        base: SECOND,
        cap: 900 * SECOND,
        slow_base: 60 * SECOND,
        slow_cap: 3600 * SECOND,
        retry_after_cap: DAY,
        unopenable_grace: DAY,
        policy,
    }
}

fn facts(attempt_count: i32) -> Facts {
    Facts {
        attempt_count,
        since_first_attempt: Duration::ZERO,
        horizon_left: 7 * DAY,
        retry_after: None,
        status: None,
        challenge: None,
    }
}

fn replied(status: u16, request_sent: bool) -> Attempt {
    Attempt::Replied(Reply { status, request_sent, retry_after: None, challenge: None })
}

/// The longest delay of a class after this many attempts: with a jitter that takes nothing away.
fn delay_of(class: Class, facts: &Facts, backoff: &Backoff) -> Duration {
    match schedule(class, Cause::Internal, facts, backoff, 1.0) {
        Verdict::Retry { delay, .. } => delay,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_status_is_judged_as_the_default_table_says() {
    for status in 100..=999 {
        let expected = match status {
            200..=299 => (Class::Delivered, Cause::Delivered),
            300..=399 => (Class::RetrySlow, Cause::HttpRedirect),
            401 => (Class::RetrySlow, Cause::HttpUnauthorized),
            409 => (Class::Quarantine, Cause::HttpConflict),
            410 => (Class::Quarantine, Cause::HttpGone),
            413 => (Class::Quarantine, Cause::HttpTooLarge),
            451 => (Class::Quarantine, Cause::HttpLegal),
            429 => (Class::Retry, Cause::HttpThrottled),
            408 | 421 | 425 => (Class::Retry, Cause::HttpRetryable),
            400..=499 => (Class::RetrySlow, Cause::HttpClientError),
            500..=599 => (Class::Retry, Cause::HttpServerError),
            _ => (Class::Retry, Cause::ProtocolError),
        };
        assert_eq!(classify(&replied(status, true), StatusPolicy::Default), expected, "{status}");
    }
}

#[test]
fn every_status_ends_under_the_sdks_policy_as_with_the_sdk() {
    for status in 100..=999 {
        let expected = match status {
            200..=299 => Class::Delivered,
            408 | 425 | 429 | 500..=999 => Class::Retry,
            300..=499 => Class::Quarantine,
            // The SDK's HTTP client takes a final 1xx for a protocol error, which is retried.
            _ => Class::Retry,
        };
        assert_eq!(classify(&replied(status, true), StatusPolicy::Sdk).0, expected, "{status}");
    }
}

#[test]
fn a_2xx_and_a_409_count_only_for_a_request_that_was_wholly_sent() {
    for policy in [StatusPolicy::Default, StatusPolicy::Sdk] {
        for status in (200..=299).chain([409]) {
            let judged = classify(&replied(status, false), policy);
            assert_eq!(judged, (Class::Retry, Cause::ReplyBeforeRequest), "{status}");
        }
        // These may be said of the head alone.
        for (status, cause) in
            [(410, Cause::HttpGone), (413, Cause::HttpTooLarge), (451, Cause::HttpLegal), (503, Cause::HttpServerError)]
        {
            assert_eq!(classify(&replied(status, false), policy).1, cause, "{status}");
        }
    }
}

#[test]
fn every_failed_attempt_is_retried_under_a_cause_of_its_own() {
    let table = [
        (Fault::ConnectTimeout, Cause::ConnectTimeout),
        (Fault::Connect, Cause::ConnectFailed),
        (Fault::PeerMismatch, Cause::PeerMismatch),
        (Fault::LocalResources, Cause::LocalResources),
        (Fault::TlsTimeout, Cause::TlsTimeout),
        (Fault::TlsCertificate, Cause::TlsCertificate),
        (Fault::TlsClientAuth, Cause::TlsClientAuth),
        (Fault::Tls, Cause::TlsFailed),
        (Fault::ReplyTimeout, Cause::ReplyTimeout),
        (Fault::Disconnected, Cause::Disconnected),
        (Fault::Protocol, Cause::ProtocolError),
    ];
    for (fault, cause) in table {
        for sent in [Sent::Nothing, Sent::Perhaps] {
            for policy in [StatusPolicy::Default, StatusPolicy::Sdk] {
                let judged = classify(&Attempt::Failed(Failure { fault, sent }), policy);
                assert_eq!(judged, (Class::Retry, cause), "{fault:?}");
            }
        }
    }
}

#[test]
fn each_cause_has_its_class() {
    use Class::*;
    let table = [
        ("delivered", Delivered, Delivered),
        ("http_redirect", RetrySlow, Quarantine),
        ("http_unauthorized", RetrySlow, Quarantine),
        ("http_client_error", RetrySlow, Quarantine),
        ("http_conflict", Quarantine, Quarantine),
        ("http_gone", Quarantine, Quarantine),
        ("http_too_large", Quarantine, Quarantine),
        ("http_legal", Quarantine, Quarantine),
        ("http_throttled", Retry, Retry),
        ("http_retryable", Retry, Retry),
        ("http_server_error", Retry, Retry),
        ("reply_before_request", Retry, Retry),
        ("connect_timeout", Retry, Retry),
        ("connect_failed", Retry, Retry),
        ("peer_mismatch", Retry, Retry),
        ("local_resources", Retry, Retry),
        ("tls_timeout", Retry, Retry),
        ("tls_certificate", Retry, Retry),
        ("tls_client_auth", Retry, Retry),
        ("tls_failed", Retry, Retry),
        ("reply_timeout", Retry, Retry),
        ("disconnected", Retry, Retry),
        ("protocol_error", Retry, Retry),
        ("dns_not_found", RetrySlow, Retry),
        ("dns_no_address", Retry, Retry),
        ("dns_failed", Retry, Retry),
        ("dns_timeout", Retry, Retry),
        ("resolver_down", GiveBack, GiveBack),
        ("dns_too_many_addresses", RetrySlow, Retry),
        ("address_forbidden", RetrySlow, Quarantine),
        ("literal_forbidden", Quarantine, Quarantine),
        ("url_refused", Quarantine, Quarantine),
        ("row_malformed", Quarantine, Quarantine),
        ("envelope_unopenable", RetryThenQuarantine, Quarantine),
        ("envelope_malformed", Quarantine, Quarantine),
        ("envelope_mismatch", Quarantine, Quarantine),
        ("hmac_disabled", Quarantine, Quarantine),
        ("credentials_unsendable", Quarantine, Quarantine),
        ("body_too_large", Quarantine, Quarantine),
        ("scope_decommissioned", Quarantine, Quarantine),
        ("scope_malformed", Quarantine, Quarantine),
        ("scope_unknown", RetrySlow, Quarantine),
        ("scope_required", RetrySlow, Quarantine),
        ("scope_unexpected", RetrySlow, Quarantine),
        ("signing_key_refused", RetrySlow, Quarantine),
        ("signing_unavailable", Retry, Retry),
        ("cancelled", Quarantine, Quarantine),
        ("clocks_apart", GiveBack, GiveBack),
        ("lease_short", GiveBack, GiveBack),
        ("drained", GiveBack, GiveBack),
        ("internal", RetrySlow, Retry),
    ];
    assert_eq!(Cause::ALL.len(), table.len());
    for (cause, (code, default, sdk)) in Cause::ALL.iter().zip(table) {
        assert_eq!(cause.code(), code);
        assert_eq!(cause.class(StatusPolicy::Default), default, "{code}");
        assert_eq!(cause.class(StatusPolicy::Sdk), sdk, "{code}");
    }
}

#[test]
fn codes_are_unique_snake_case_and_each_has_one_sentence() {
    let codes: HashSet<_> = Cause::ALL.iter().map(|cause| cause.code()).collect();
    assert_eq!(codes.len(), Cause::ALL.len());
    for cause in Cause::ALL {
        assert!(cause.code().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{cause}");
        assert!(cause.meaning().ends_with('.') && !cause.meaning().contains(". "), "{cause}");
    }
}

#[test]
fn challenge_codes_are_read_back_exactly_and_nothing_else_is() {
    let codes: HashSet<_> = Challenge::ALL.iter().map(|challenge| challenge.code()).collect();
    assert_eq!(codes.len(), Challenge::ALL.len());
    for challenge in Challenge::ALL {
        assert_eq!(Challenge::from_code(challenge.code().as_bytes()), Some(challenge));
    }
    for other in ["", "webhook_signature_", "webhook_signature_invalid ", "WEBHOOK_SIGNATURE_INVALID", "secret"] {
        assert_eq!(Challenge::from_code(other.as_bytes()), None, "{other}");
    }
}

#[test]
fn f8_back_off_doubles_until_it_reaches_fifteen_minutes() {
    let expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900];
    for (attempt, seconds) in (1..).zip(expected) {
        let delay = delay_of(Class::Retry, &facts(attempt), &backoff(StatusPolicy::Default));
        assert_eq!(delay, seconds * SECOND, "attempt {attempt}");
    }
    for attempt in [i32::MIN, -1, 0] {
        assert_eq!(delay_of(Class::Retry, &facts(attempt), &backoff(StatusPolicy::Default)), SECOND);
    }
    assert_eq!(delay_of(Class::Retry, &facts(i32::MAX), &backoff(StatusPolicy::Default)), 900 * SECOND);
}

#[test]
fn slow_back_off_doubles_from_a_minute_to_an_hour() {
    let expected = [60, 120, 240, 480, 960, 1920, 3600, 3600];
    for (attempt, seconds) in (1..).zip(expected) {
        let delay = delay_of(Class::RetrySlow, &facts(attempt), &backoff(StatusPolicy::Default));
        assert_eq!(delay, seconds * SECOND, "attempt {attempt}");
    }
}

#[test]
fn the_sdks_ladder_ends_at_thirty_seconds_for_every_class() {
    for class in [Class::Retry, Class::RetrySlow] {
        for (attempt, seconds) in (1..).zip([1, 2, 4, 8, 16, 30, 30]) {
            let delay = delay_of(class, &facts(attempt), &backoff(StatusPolicy::Sdk));
            assert_eq!(delay, seconds * SECOND, "attempt {attempt}");
        }
    }
}

#[test]
fn jitter_takes_away_at_most_half() {
    let backoff = backoff(StatusPolicy::Default);
    let delay = |jitter| match schedule(Class::Retry, Cause::Disconnected, &facts(5), &backoff, jitter) {
        Verdict::Retry { delay, .. } => delay,
        other => panic!("{other:?}"),
    };
    assert_eq!(delay(0.0), 8 * SECOND);
    assert_eq!(delay(0.5), 12 * SECOND);
    assert_eq!(delay(f64::NAN), 8 * SECOND);
    assert_eq!(delay(-1.0), 8 * SECOND);
    assert_eq!(delay(f64::INFINITY), 16 * SECOND);
}

#[test]
fn f8_a_retry_after_lengthens_the_delay_and_never_shortens_it() {
    let backoff = backoff(StatusPolicy::Default);
    let delay = |status, hint: u64, attempt, jitter| {
        let facts = Facts { status: Some(status), retry_after: Some(Duration::from_secs(hint)), ..facts(attempt) };
        match schedule(Class::Retry, Cause::HttpThrottled, &facts, &backoff, jitter) {
            Verdict::Retry { delay, .. } => delay,
            other => panic!("{other:?}"),
        }
    };
    for status in [300, 301, 307, 399, 429, 503] {
        assert_eq!(delay(status, 120, 1, 0.0), 120 * SECOND, "{status}");
        assert_eq!(delay(status, 120, 1, 1.0), 132 * SECOND, "{status}: jittered upward only");
        assert_eq!(delay(status, 1, 11, 0.0), 450 * SECOND, "{status}: the own back-off is longer");
        assert_eq!(delay(status, 999_999, 1, 1.0), DAY, "{status}: capped");
    }
    for status in [400, 401, 404, 408, 421, 425, 500, 502, 504] {
        assert_eq!(delay(status, 120, 1, 1.0), SECOND, "{status}: the header means nothing there");
    }
}

#[test]
fn f4_a_401_is_retried_slowly_with_the_receivers_reason_and_never_quarantined() {
    let reply = Reply { status: 401, request_sent: true, retry_after: None, challenge: Some(Challenge::KeyUnknown) };
    let (class, cause) = classify(&Attempt::Replied(reply), StatusPolicy::Default);
    for attempt in [1, 2, 100, i32::MAX] {
        let facts = Facts { status: Some(401), challenge: Some(Challenge::KeyUnknown), ..facts(attempt) };
        let verdict = schedule(class, cause, &facts, &backoff(StatusPolicy::Default), 0.3);
        assert!(matches!(verdict, Verdict::Retry { status: Some(401), .. }), "{verdict:?}");
        assert_eq!(verdict.last_error().unwrap(), "http_unauthorized:webhook_signature_key_unknown");
    }
}

#[test]
fn f3_a_missing_key_never_invalidates_a_row_before_its_grace_is_over() {
    let judge = |since: Duration, grace: Duration, policy| {
        let backoff = Backoff { unopenable_grace: grace, ..backoff(policy) };
        let facts = Facts { since_first_attempt: since, ..facts(1) };
        schedule(Cause::EnvelopeUnopenable.class(policy), Cause::EnvelopeUnopenable, &facts, &backoff, 1.0)
    };
    let retry = Verdict::Retry { delay: 60 * SECOND, status: None, cause: Cause::EnvelopeUnopenable, challenge: None };
    let quarantine = Verdict::Quarantine { status: None, cause: Cause::EnvelopeUnopenable, challenge: None };
    assert_eq!(judge(Duration::ZERO, DAY, StatusPolicy::Default), retry);
    assert_eq!(judge(DAY - SECOND, DAY, StatusPolicy::Default), retry);
    assert_eq!(judge(DAY, DAY, StatusPolicy::Default), quarantine);
    assert_eq!(judge(Duration::ZERO, Duration::ZERO, StatusPolicy::Default), quarantine, "a grace of 0 is at once");
    assert_eq!(judge(Duration::ZERO, DAY, StatusPolicy::Sdk), quarantine, "as the SDK does");
}

#[test]
fn a_delay_past_the_horizon_becomes_one_last_attempt_before_it() {
    let delay = |attempt, horizon_left: u64| {
        let facts = Facts { horizon_left: Duration::from_secs(horizon_left), ..facts(attempt) };
        delay_of(Class::Retry, &facts, &backoff(StatusPolicy::Default)).as_secs()
    };
    assert_eq!(delay(11, 2000), 900, "nowhere near the horizon");
    assert_eq!(delay(11, 905), 900, "just in time");
    assert_eq!(delay(11, 904), 874, "too late to be claimed, so 30 s before the horizon");
    assert_eq!(delay(11, 600), 570);
    assert_eq!(delay(11, 31), 1);
    assert_eq!(delay(11, 30), 30, "that last attempt has been made: it expires");
    assert_eq!(delay(11, 0), 0);
    assert_eq!(delay(3, 20), 4, "a short delay still fits");
}

#[test]
fn a_retry_after_cannot_carry_a_row_past_its_horizon() {
    let facts = Facts { status: Some(503), retry_after: Some(DAY), horizon_left: 3600 * SECOND, ..facts(1) };
    assert_eq!(delay_of(Class::Retry, &facts, &backoff(StatusPolicy::Default)), 3570 * SECOND);
}

#[test]
fn a_row_given_back_is_due_at_once() {
    let backoff = backoff(StatusPolicy::Default);
    let give_back = |cause, retry_after| {
        let facts = Facts { retry_after, ..facts(9) };
        match schedule(Class::GiveBack, cause, &facts, &backoff, 1.0) {
            Verdict::GiveBack { delay, .. } => delay,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(give_back(Cause::Drained, Some(DAY)), Duration::ZERO);
    assert_eq!(give_back(Cause::LeaseShort, None), Duration::ZERO);
}

#[test]
fn last_error_is_a_code_and_nothing_else() {
    let backoff = backoff(StatusPolicy::Default);
    for &cause in Cause::ALL {
        let facts = Facts { status: Some(500), challenge: Some(Challenge::Invalid), ..facts(1) };
        let verdict = schedule(cause.class(StatusPolicy::Default), cause, &facts, &backoff, 0.5);
        let expected = match cause {
            Cause::Delivered => None,
            Cause::HttpUnauthorized => Some("http_unauthorized:webhook_signature_invalid"),
            other => Some(other.code()),
        };
        assert_eq!(verdict.last_error().as_deref(), expected);
        assert_eq!(verdict.cause(), cause);
    }
    let verdict = schedule(Class::Quarantine, Cause::HttpGone, &Facts { status: Some(410), ..facts(1) }, &backoff, 0.5);
    assert_eq!(verdict.status(), Some(410), "quarantine keeps the status");
}

fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        any::<(u64, u32)>().prop_map(|(seconds, nanos)| Duration::new(seconds, nanos % 1_000_000_000)),
        (0u64..1_000_000).prop_map(Duration::from_millis),
        Just(Duration::MAX),
        Just(Duration::ZERO),
    ]
}

proptest! {
    #[test]
    fn no_delay_passes_its_cap_or_the_horizon(
        attempt_count in any::<i32>(),
        limits in proptest::array::uniform6(any_duration()),
        horizon_left in any_duration(),
        since_first_attempt in any_duration(),
        retry_after in proptest::option::of(any_duration()),
        status in proptest::option::of(any::<u16>()),
        which in 0..Cause::ALL.len(),
        jitter in any::<f64>(),
        sdk in any::<bool>(),
    ) {
        let policy = if sdk { StatusPolicy::Sdk } else { StatusPolicy::Default };
        let [base, cap, slow_base, slow_cap, retry_after_cap, unopenable_grace] = limits;
        let backoff = Backoff { base, cap, slow_base, slow_cap, retry_after_cap, unopenable_grace, policy };
        let facts = Facts { attempt_count, since_first_attempt, horizon_left, retry_after, status, challenge: None };
        let cause = Cause::ALL[which];
        let verdict = schedule(cause.class(policy), cause, &facts, &backoff, jitter);
        prop_assert_eq!(verdict.cause(), cause);
        if let Verdict::Retry { delay, .. } | Verdict::GiveBack { delay, .. } = verdict {
            prop_assert!(delay <= horizon_left);
            let longest = cap.max(slow_cap).max(30 * SECOND).max(retry_after_cap);
            prop_assert!(delay <= longest);
        }
    }
}
