//! `outboxd verify`: judges a captured request by the very checks of the receiver, and says which of them it fails and what
//! to do about it. It connects to nothing, needs no configuration, and shows no secret.

mod advice;
mod input;
mod report;

use std::path::{Path, PathBuf};

use http::HeaderMap;

use self::input::{Knowns, read_request};
use self::report::{Report, Verdict};
use super::Failure;
use super::seal::print;
use crate::capture::Captured;
use crate::envelope::json;
use crate::secret::Secret;
use crate::signature::verify::{
    Check, Fact, Knowledge, REQUEST, REQUEST_3_1, Received, Revocation, Trace, VerifyError, WEBHOOK, is_signed,
    verify_watched,
};
use crate::signature::{LegacyError, is_hmac, is_standard, verify_hmac, verify_standard};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The request: raw HTTP/1.1, the output of `curl -v`, or a curl command. Standard input where it is left out or `-`.
    #[arg(value_name = "REQUEST_FILE")]
    request: Option<PathBuf>,
    /// The sender's key set (a JSON Web Key Set, or one JWK). Needed for RFC 9421 signatures.
    #[arg(long, value_name = "FILE")]
    jwks: Option<PathBuf>,
    /// Key ids that are not to be trusted: `{"revoked_kids": [...]}`, with `updated` and `next_update` if it can grow stale.
    #[arg(long, value_name = "FILE")]
    revocation: Option<PathBuf>,
    /// The shared secret of an HMAC-SHA256 or Standard Webhooks request; one a line where several are in use.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// When the request came in: Unix seconds, or RFC 3339 such as 2026-04-18T10:00:00Z [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    /// The scheme and host that the sender aimed at, where the capture shows others, such as those behind a proxy.
    #[arg(long, value_name = "ORIGIN")]
    url: Option<String>,
    /// The body, where the capture does not hold it: `curl -v` prints none.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// What to judge by [default: what the request's headers ask for]
    #[arg(long, value_enum)]
    scheme: Option<Scheme>,
    /// Which profile an RFC 9421 signature must be of.
    #[arg(long, value_enum, default_value_t = ProfileName::Webhook)]
    profile: ProfileName,
    /// Also print the signature base with its line ends, both digests, the key that was chosen and the time window.
    #[arg(long)]
    explain: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Scheme {
    Rfc9421,
    #[value(name = "hmac-sha256")]
    HmacSha256,
    StandardWebhooks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ProfileName {
    /// Webhooks (`adcp/webhook-signing/v1`), in all of AdCP 3.x
    Webhook,
    /// Requests between agents (`adcp/request-signing/v1`) as AdCP 3.2 signs them
    RequestSigning,
    /// The same as AdCP 3.1 signs them: base64url, and the body may be left out
    #[value(name = "request-signing-3.1")]
    RequestSigning31,
}

pub(super) const HELP: &str = "\
Each check is printed in its order as ok, FAIL or - (not made), with its step of
the AdCP checklist. Exits with 0 where the request passes, 65 where it is
refused, 66 where a file is missing, 64 where an argument is.

  outboxd verify request.http --jwks jwks.json --at 2026-04-18T10:00:00Z
  pbpaste | outboxd verify --jwks jwks.json --explain
  outboxd verify request.http --secret-file whsec.txt";

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let at = match &args.at {
        None => input::now(),
        Some(text) => input::moment(text)?,
    };
    let origin = args.url.as_deref().map(input::origin).transpose()?;
    let captured = read_request(args.request.as_deref())?;
    let body = input::body(&captured, args.body.as_deref())?;
    let url = captured.url(origin.as_deref()).map_err(|error| Failure::data(format!("the request: {error}")))?;
    let scheme = args.scheme.unwrap_or_else(|| asked(&captured.headers));
    let request = Received { method: &captured.method, url: &url, headers: &captured.headers, body: &body };
    let report = match scheme {
        Scheme::Rfc9421 => signed(args, &request, at)?,
        Scheme::HmacSha256 | Scheme::StandardWebhooks => shared(args, scheme, &request, at)?,
    };
    print(&if args.json { report.to_json(args.explain) } else { report.to_text(args.explain) })?;
    match report.verdict() {
        Verdict::Passed => Ok(()),
        Verdict::Refused { code, step } => Err(Failure::data(format!("the request is refused: {code} (step {step})"))),
    }
}

/// As the receiver chooses: a signature leaves no choice.
fn asked(headers: &HeaderMap) -> Scheme {
    match () {
        () if is_signed(headers) => Scheme::Rfc9421,
        () if is_hmac(headers) => Scheme::HmacSha256,
        () if is_standard(headers) => Scheme::StandardWebhooks,
        () => Scheme::Rfc9421,
    }
}

fn signed(args: &Args, request: &Received<'_>, at: i64) -> Result<Report, Failure> {
    let Some(jwks) = &args.jwks else {
        return Err(Failure::usage("an RFC 9421 signature is judged by the sender's keys: give --jwks FILE".into()));
    };
    let knowns = Knowns::read(jwks, args.revocation.as_deref())?;
    let mut report = Report::signed(args.profile, at, &knowns.kids(), knowns.revocation.is_some());
    let knowledge = Knowledge {
        jwks: &knowns.jwks,
        revocation: knowns.revocation.as_ref().map_or(Revocation::NotTracked, |list| list.at(at)),
        crowded: &|_| false,
        unix_seconds: at,
    };
    let outcome = match args.profile {
        ProfileName::Webhook => verify_watched(&WEBHOOK, request, &knowledge, &mut report),
        ProfileName::RequestSigning => verify_watched(&REQUEST, request, &knowledge, &mut report),
        ProfileName::RequestSigning31 => verify_watched(&REQUEST_3_1, request, &knowledge, &mut report),
    };
    if outcome.is_ok() {
        judge_body(request.body, &mut report);
    }
    report.compare_body(request.body);
    Ok(report)
}

/// What comes after the signature: a document, where there is a body at all.
fn judge_body(body: &[u8], report: &mut Report) {
    if body.is_empty() {
        return;
    }
    let key: json::Path = &["idempotency_key"];
    match json::read(body, [key]) {
        Ok(Some([key])) => {
            report.checked(Check::Body, Ok(()));
            if !matches!(key, json::Member::Text(_)) {
                report.lacks_key();
            }
        }
        Ok(None) | Err(_) => report.checked(Check::Body, Err(VerifyError::BodyMalformed)),
    }
}

fn shared(args: &Args, scheme: Scheme, request: &Received<'_>, at: i64) -> Result<Report, Failure> {
    let Some(path) = &args.secret_file else {
        return Err(Failure::usage("the request is judged by a shared secret: give --secret-file FILE".into()));
    };
    let secrets = input::secrets(path, scheme)?;
    let judge = |secret: &Secret| match scheme {
        Scheme::StandardWebhooks => verify_standard(secret, request.headers, request.body, at),
        Scheme::HmacSha256 | Scheme::Rfc9421 => verify_hmac(secret, request.headers, request.body, at),
    };
    // The form is the same whatever the secret, so that only the last check differs between them.
    let outcomes: Vec<Result<(), LegacyError>> = secrets.iter().map(judge).collect();
    let outcome = outcomes.iter().find(|outcome| outcome.is_ok()).unwrap_or(&outcomes[0]);
    Ok(Report::shared(scheme, at, *outcome, request.headers))
}

/// A file that a flag names.
fn read_file(path: &Path, what: &str, most: usize) -> Result<Vec<u8>, Failure> {
    use std::io::Read;
    let fault = |error: std::io::Error| {
        let message = format!("{what} {}: {}", path.display(), error.kind());
        if error.kind() == std::io::ErrorKind::NotFound { Failure::absent(message) } else { Failure::io(message) }
    };
    // Before opening, because opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(fault)?.is_file() {
        return Err(Failure::data(format!("{what} {}: it is not a regular file", path.display())));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(fault)?;
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(fault)?;
    if bytes.len() > most {
        return Err(Failure::data(format!("{what} {}: it is larger than {most} bytes", path.display())));
    }
    Ok(bytes)
}

fn read_captured(bytes: &[u8]) -> Result<Captured, Failure> {
    Captured::read(bytes).map_err(|error| Failure::data(format!("the request: {error}")))
}

impl Trace for Report {
    fn checked(&mut self, check: Check, outcome: Result<(), VerifyError>) {
        self.outcome_of(check, outcome);
    }

    fn saw(&mut self, fact: Fact<'_>) {
        self.keep(fact);
    }
}
