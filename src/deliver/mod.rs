//! One delivery, from claim to verdict, on one screen. Each stage takes what the stage before it made, so that none can
//! be skipped; what a stage refuses becomes a cause here and nowhere else.

pub(crate) mod blame;
mod clock;
mod expiry;
mod name_servers;
mod outcome;
mod phase;
mod record;
mod report;
mod snapshot;
#[cfg_attr(not(feature = "otlp"), path = "spanless.rs")]
mod span;
pub(crate) mod trace;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use tokio::time::Instant;

pub(crate) use clock::{ClockWatch, reading};
pub(crate) use expiry::{dated, report_expiry};
pub(crate) use name_servers::ResolverWatch;
pub(crate) use phase::{Phase, Phases};
pub(crate) use snapshot::{
    Snapshot, SnapshotError, Way, client_identity, destinations, egress, keyring, provider, resolver, sealing_token,
};
pub(crate) use span::Spans;

use crate::address::{Destination, PinError, Pinned, pin};
use crate::certificate::ClientIdentity;
use crate::claim::{Claim, Lease, Times, TraceContext};
use crate::config::{CompatPolicy, Config};
use crate::envelope::{Authentication, Envelope, Row, open};
use crate::secret::{random, random_unit};
use crate::settle::{self, Judged};
use crate::signature::{Moment, Scheme, SignedRequest, sign};
use crate::signer::{ResolveError, Signer};
use crate::store::Broken;
use crate::telemetry::health::{Health, Warning};
use crate::telemetry::metrics;
use crate::verdict::{Attempt, Backoff, Cause, Class, Facts, StatusPolicy, Verdict, classify, schedule};

/// What every delivery of one outbox shares.
pub(crate) struct Tools {
    snapshot: Arc<ArcSwap<Snapshot>>,
    policy: StatusPolicy,
    backoff: Backoff,
    attempt_timeout: Duration,
    phases: Phases,
    settle: settle::Sender,
    spans: Spans,
    health: Arc<Health>,
    name_servers: Arc<ResolverWatch>,
    clock: Arc<ClockWatch>,
    /// Whether attempts leave records.
    history: bool,
    /// The number of the outbox whose rows are delivered with these.
    outbox: usize,
}

/// Who tells what is wrong that is no row's own fault.
pub(crate) struct Watches {
    pub(crate) health: Arc<Health>,
    pub(crate) name_servers: Arc<ResolverWatch>,
    pub(crate) clock: Arc<ClockWatch>,
}

impl Tools {
    pub(crate) fn new(
        config: &Config,
        snapshot: Arc<ArcSwap<Snapshot>>,
        phases: Phases,
        settle: settle::Sender,
        spans: Spans,
        Watches { health, name_servers, clock }: Watches,
        outbox: usize,
    ) -> Tools {
        let policy = match config.settings.compat.policy {
            CompatPolicy::Default => StatusPolicy::Default,
            CompatPolicy::Sdk => StatusPolicy::Sdk,
        };
        let attempt_timeout = config.settings.egress.attempt_timeout;
        let retry = &config.settings.retry;
        let backoff = Backoff {
            base: retry.base,
            cap: retry.cap,
            slow_base: retry.slow_base,
            slow_cap: retry.slow_cap,
            retry_after_cap: retry.retry_after_cap,
            unopenable_grace: config.settings.envelope.unopenable_grace,
            policy,
        };
        let history = config.settings.history.enabled;
        Tools {
            snapshot,
            policy,
            backoff,
            attempt_timeout,
            phases,
            settle,
            spans,
            health,
            name_servers,
            clock,
            history,
            outbox,
        }
    }
}

/// How a delivery ended, before it is judged.
enum Ending {
    /// Nothing was tried: the row is given back as it was.
    GivenBack(Cause),
    /// A stage before the network refused the row.
    Refused(Cause),
    /// The network was tried.
    Attempted(Attempt),
    /// Cut off by the end of the process after bytes may have left.
    CutOff,
}

/// What the report of an attempt may name: never more than this.
#[derive(Default)]
struct Trail {
    /// Host and port of it.
    destination: Option<Destination>,
    reused: bool,
    /// What a record of the attempt is made of, where one is kept.
    record: record::Draft,
    /// The host's own trace; where the attempt has a span, as seen from there.
    context: Option<TraceContext>,
}

/// Delivers one claimed row and hands its verdict to the settle loop. A panic costs the row a slow retry, and no other
/// row anything.
pub(crate) async fn deliver(claim: Claim, tools: Arc<Tools>) {
    let Claim { lease, times, row, context, slot } = claim;
    let started = Instant::now();
    let (begun, context) = span::begin(&tools.spans, &row, context);
    let mut trail = Trail { context, ..Trail::default() };
    let (row, attempt_count) = match row {
        Ok(row) => {
            let count = row.attempt_count;
            (Ok(row), count)
        }
        Err(broken) => (Err(broken), 1),
    };
    let ending = AssertUnwindSafe(attempt(row, &lease, &tools, &mut trail))
        .catch_unwind()
        .await
        .unwrap_or(Ending::Refused(Cause::Internal));
    let verdict = judge(&ending, attempt_count, &lease, &times, &tools);
    slot.report(outcome::told(&ending), outcome::asked_pause(&ending, &tools.backoff));
    if verdict.cause() == Cause::EnvelopeUnopenable {
        tools.health.saw(Warning::Unopenable);
    }
    report::attempt(&tools.health.meter, &lease, &trail, attempt_count, started.elapsed(), &verdict, &ending);
    span::end(&tools.spans, begun, &lease, &trail, attempt_count, &verdict, &ending);
    // The settle loop outlives every sender, so that this fails only when the process is past its end.
    let record = if tools.history { trail.record.complete(&ending, &verdict, started) } else { None };
    let _ = tools.settle.send(Judged { lease, times, verdict, record, unsettled: slot.over() });
}

async fn attempt(row: Result<Row, Broken>, lease: &Lease, tools: &Tools, trail: &mut Trail) -> Ending {
    let row = match row {
        Ok(row) => row,
        Err(Broken::Oversize { .. }) => return Ending::Refused(Cause::BodyTooLarge),
        Err(Broken::NothingComposed) => {
            tracing::error!(
                row = lease.held.id,
                "the composed row has no result beside the outbox to be rendered from"
            );
            return Ending::Refused(Cause::RowMalformed);
        }
        Err(Broken::Column { name }) => {
            tracing::error!(row = lease.held.id, column = name, "the row does not have the form of its table");
            return Ending::Refused(Cause::RowMalformed);
        }
    };
    if tools.phases.now() >= Phase::Draining {
        return Ending::GivenBack(Cause::Drained);
    }
    let now = Instant::now();
    if !lease.admits(now, tools.attempt_timeout) {
        return Ending::GivenBack(Cause::LeaseShort);
    }
    if tools.clock.is_off() {
        return Ending::GivenBack(Cause::ClocksApart);
    }
    let deadline = now + tools.attempt_timeout;
    let cut = tools.phases.reached(Phase::Cut);
    tokio::pin!(cut);
    let ready = tokio::select! {
        biased;
        ready = prepare(row, deadline, tools, trail) => ready,
        () = &mut cut => return Ending::GivenBack(Cause::Drained),
    };
    let ready = match ready {
        Ok(ready) => ready,
        Err(cause) => return Ending::Refused(cause),
    };
    // The process may have been stopped (SIGSTOP, a frozen machine) for longer than the lease since the claim: a timer
    // alone would notice only after the first bytes had left.
    let now = Instant::now();
    if now >= deadline || !lease.hold.admits(now, deadline) {
        return Ending::GivenBack(Cause::LeaseShort);
    }
    // Once more, since the signature was dated meanwhile.
    if tools.clock.is_off() {
        return Ending::GivenBack(Cause::ClocksApart);
    }
    killpoint!("k4");
    trail.record.fired = Some(Instant::now());
    tokio::select! {
        biased;
        attempt = post(ready, deadline, trail) => Ending::Attempted(attempt),
        () = cut => Ending::CutOff,
    }
}

/// A request that may be sent, and the only addresses it may be sent to.
struct Ready {
    snapshot: Arc<Snapshot>,
    pinned: Pinned,
    identity: Option<Arc<ClientIdentity>>,
    request: SignedRequest,
    /// A first attempt may use a kept connection; one that follows a failure may not.
    fresh: bool,
}

/// Open, resolve, pin, sign. Nothing has left this machine but DNS questions when it returns.
async fn prepare(mut row: Row, deadline: Instant, tools: &Tools, trail: &mut Trail) -> Result<Ready, Cause> {
    let snapshot = tools.snapshot.load_full();
    let opened = open(&mut row, &snapshot.keyring, snapshot.open_rules);
    if tools.history {
        trail.record.saw(&row.url, opened.as_ref().ok());
    }
    let envelope = opened.map_err(|error| blame::open(&error))?;
    killpoint!("k2");
    let destination = Destination::parse(&row.url, &snapshot.url_rules).map_err(|error| blame::url(&error))?;
    let destination = &*trail.destination.insert(destination);
    let authority = authority(&envelope, row.signing_scope_id.as_deref(), &snapshot, tools).await?;
    let pinned = pinned(destination, &snapshot, deadline, &tools.name_servers).await?;
    killpoint!("k3");
    let moment = Moment { unix_seconds: unix_seconds(), nonce: random() };
    let mut request = sign(authority.scheme(&row.idempotency_key), destination.target(), envelope.body, moment)
        .map_err(|error| blame::sign(&error))?;
    if let Some(context) = &trail.context {
        context.put_into(&mut request.headers);
    }
    let identity = authority.identity().or(snapshot.identity.as_ref()).map(Arc::clone);
    Ok(Ready { snapshot, pinned, identity, request, fresh: row.attempt_count > 1 })
}

/// A lookup that nobody answered is held against its name only if the name servers answer something else.
async fn pinned(
    destination: &Destination,
    snapshot: &Snapshot,
    deadline: Instant,
    name_servers: &ResolverWatch,
) -> Result<Pinned, Cause> {
    let (began, answered) = (Instant::now(), snapshot.resolver.answered());
    let pinning = tokio::time::timeout_at(deadline, pin(destination, &snapshot.policy, &snapshot.resolver)).await;
    if snapshot.resolver.answered() > answered {
        name_servers.heard(snapshot.resolver.answered());
    }
    let error = match pinning.unwrap_or(Err(PinError::Timeout)) {
        Ok(pinned) => return Ok(pinned),
        Err(error) => error,
    };
    if error.is_silence() && Box::pin(name_servers.explains(&snapshot.resolver, began)).await {
        return Err(Cause::ResolverDown);
    }
    Err(blame::pin(&error))
}

/// By what this attempt authenticates: the legacy registration inside the envelope, or the signer of the row's scope as it
/// is now.
enum Authority {
    Signer(Signer),
    Legacy(Authentication),
}

impl Authority {
    /// `id` names the message, the same for every attempt.
    fn scheme<'a>(&'a self, id: &'a str) -> Scheme<'a> {
        match self {
            Authority::Signer(signer) => Scheme::Rfc9421(&signer.key),
            Authority::Legacy(Authentication::Bearer(credentials)) => Scheme::Bearer(credentials),
            Authority::Legacy(Authentication::HmacSha256(credentials)) => Scheme::HmacSha256(credentials),
            Authority::Legacy(Authentication::StandardWebhooks(key)) => Scheme::StandardWebhooks { key, id },
        }
    }

    fn identity(&self) -> Option<&Arc<ClientIdentity>> {
        match self {
            Authority::Signer(signer) => signer.identity.as_ref(),
            Authority::Legacy(_) => None,
        }
    }
}

async fn authority(
    envelope: &Envelope,
    scope: Option<&str>,
    snapshot: &Snapshot,
    tools: &Tools,
) -> Result<Authority, Cause> {
    if let Some(authentication) = &envelope.authentication {
        return Ok(Authority::Legacy(authentication.clone()));
    }
    snapshot.provider.resolve(tools.outbox, scope).await.map(Authority::Signer).map_err(|error| {
        if error == ResolveError::OutsideWindows {
            tools.health.saw(Warning::NoSigningKey);
        }
        tracing::debug!(%error, "a row has no signer");
        blame::resolve(&error)
    })
}

async fn post(ready: Ready, deadline: Instant, trail: &mut Trail) -> Attempt {
    let Ready { snapshot, pinned, identity, request, fresh } = ready;
    let posted = snapshot.client.post(&pinned, identity.as_ref(), request, fresh, deadline).await;
    metrics::connection(posted.reused);
    metrics::dials(crate::post::dials());
    metrics::connections_idle(snapshot.client.gauges().idle);
    trail.reused = posted.reused;
    posted.attempt
}

fn judge(ending: &Ending, attempt_count: i32, lease: &Lease, times: &Times, tools: &Tools) -> Verdict {
    let reply = match ending {
        Ending::Attempted(Attempt::Replied(reply)) => Some(reply),
        _ => None,
    };
    let facts = Facts {
        attempt_count,
        since_first_attempt: times.since_first_attempt,
        horizon_left: lease.hold.horizon.saturating_duration_since(Instant::now()),
        retry_after: reply.and_then(|reply| reply.retry_after),
        status: reply.map(|reply| reply.status),
        challenge: reply.and_then(|reply| reply.challenge),
    };
    let (class, cause) = match ending {
        Ending::GivenBack(cause) => (Class::GiveBack, *cause),
        Ending::Refused(cause) => (cause.class(tools.policy), *cause),
        Ending::Attempted(attempt) => classify(attempt, tools.policy),
        Ending::CutOff => {
            return Verdict::Retry { delay: Duration::ZERO, status: None, cause: Cause::Drained, challenge: None };
        }
    };
    // Randomness is asked of the system; where nothing is put off, nothing is to be spread.
    let jitter = if class == Class::Delivered { 0.0 } else { random_unit() };
    schedule(class, cause, &facts, &tools.backoff, jitter)
}

/// Seconds for the signature's `created`; a clock before 1970 signs nothing that a receiver would take anyway.
fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
