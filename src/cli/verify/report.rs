//! What came of the checks, as a table for a person and as an object for a program. Text of the request is shown with its
//! control characters made visible, so that it cannot write to a terminal.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::advice::{self, SHARED, looks_at, not_made};
use super::{ProfileName, Scheme};
use crate::signature::LegacyError;
use crate::signature::verify::{Check, Fact, Family, SKEW_SECONDS, VerifyError};

pub(super) enum Verdict {
    Passed,
    Refused { code: &'static str, step: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// Another check failed before, or this command does not make it.
    NotMade(Option<&'static str>),
}

struct Row {
    step: String,
    name: &'static str,
    looks_at: &'static str,
    outcome: Outcome,
}

struct Failed {
    code: &'static str,
    step: String,
    check: &'static str,
    remedy: &'static str,
}

pub(super) struct Report {
    scheme: &'static str,
    profile: Option<&'static str>,
    family: Family,
    at: i64,
    rows: Vec<Row>,
    failed: Option<Failed>,
    kids: Vec<String>,
    notes: Vec<String>,
    window: Option<(i64, i64)>,
    parameters: Option<Value>,
    key: Option<Value>,
    base: Option<String>,
    digests: Option<(Option<Vec<u8>>, Vec<u8>)>,
}

impl Report {
    fn new(scheme: &'static str, at: i64) -> Report {
        Report {
            scheme,
            profile: None,
            family: Family::Webhook,
            at,
            rows: Vec::new(),
            failed: None,
            kids: Vec::new(),
            notes: Vec::new(),
            window: None,
            parameters: None,
            key: None,
            base: None,
            digests: None,
        }
    }

    pub(super) fn signed(profile: ProfileName, at: i64, kids: &[String], revocation: bool) -> Report {
        let (profile, family) = match profile {
            ProfileName::Webhook => ("adcp/webhook-signing/v1", Family::Webhook),
            ProfileName::RequestSigning => ("adcp/request-signing/v1", Family::Request),
            ProfileName::RequestSigning31 => ("adcp/request-signing/v1, AdCP 3.1", Family::Request),
        };
        let rows = Check::ALL.map(|check| Row {
            step: check.step().to_owned(),
            name: check.name(),
            looks_at: looks_at(check),
            outcome: Outcome::NotMade(not_made(check, revocation)),
        });
        let mut report = Report::new("rfc9421", at);
        (report.profile, report.family) = (Some(profile), family);
        (report.rows, report.kids) = (rows.into(), kids.to_vec());
        report
    }

    pub(super) fn shared(scheme: Scheme, at: i64, outcome: Result<(), LegacyError>, headers: &HeaderMap) -> Report {
        let standard = scheme == Scheme::StandardWebhooks;
        let mut report = Report::new(if standard { "standard-webhooks" } else { "hmac-sha256" }, at);
        for (step, (error, name, looks_at)) in (1..).zip(SHARED) {
            let step = step.to_string();
            let outcome = match (outcome, &report.failed) {
                (_, Some(_)) => Outcome::NotMade(None),
                (Err(found), None) if found == error => {
                    let remedy = advice::shared_remedy(error);
                    let code = "signature_legacy_failed";
                    report.failed = Some(Failed { code, step: step.clone(), check: name, remedy });
                    Outcome::Failed
                }
                _ => Outcome::Passed,
            };
            report.rows.push(Row { step, name, looks_at, outcome });
        }
        let timestamp = headers.get(if standard { "webhook-timestamp" } else { "x-adcp-timestamp" });
        let sent = timestamp.and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<i64>().ok());
        report.window = sent.map(|sent| (sent.saturating_sub(300), sent.saturating_add(300)));
        report
    }

    pub(super) fn outcome_of(&mut self, check: Check, outcome: Result<(), VerifyError>) {
        // Without a list, and without a store, passing says nothing.
        let Some(row) = self.rows.iter_mut().find(|row| row.name == check.name()) else { return };
        match outcome {
            Ok(()) if matches!(row.outcome, Outcome::NotMade(Some(_))) => {}
            Ok(()) => row.outcome = Outcome::Passed,
            Err(error) => {
                row.outcome = Outcome::Failed;
                self.failed = Some(Failed {
                    code: error.code_of(self.family),
                    step: row.step.clone(),
                    check: row.name,
                    remedy: advice::remedy(check, error),
                });
            }
        }
    }

    pub(super) fn keep(&mut self, fact: Fact<'_>) {
        match fact {
            Fact::Parameters { created, expires, nonce, keyid, alg, tag } => {
                self.window = Some((created.saturating_sub(SKEW_SECONDS), expires.saturating_add(SKEW_SECONDS)));
                self.parameters = Some(json!({
                    "created": created, "expires": expires, "nonce": nonce, "keyid": keyid, "alg": alg, "tag": tag,
                }));
            }
            Fact::Key(jwk) => self.key = Some(public(jwk)),
            Fact::Base(base) => self.base = Some(base.to_owned()),
            Fact::Digest { sent, computed } => self.digests = Some((sent.map(<[u8]>::to_vec), computed.to_vec())),
            Fact::BodyNotCovered => self.notes.push("the signature does not cover the body".into()),
        }
    }

    pub(super) fn lacks_key(&mut self) {
        self.notes.push("the body has no idempotency_key: a receiver refuses it after the signature".into());
    }

    /// Editors and shells end files with a line break that was not sent.
    pub(super) fn compare_body(&mut self, body: &[u8]) {
        let Some((Some(sent), computed)) = &self.digests else { return };
        let shorter = body.strip_suffix(b"\r\n").or_else(|| body.strip_suffix(b"\n"));
        if sent != computed && shorter.is_some_and(|body| digest(&SHA256, body).as_ref() == sent.as_slice()) {
            self.notes.push("without its last line break the body would have the right digest".into());
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        match &self.failed {
            None => Verdict::Passed,
            Some(failed) => Verdict::Refused { code: failed.code, step: failed.step.clone() },
        }
    }

    pub(super) fn to_text(&self, explain: bool) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{}{}, judged as of {} ({})",
            self.scheme,
            self.profile.map(|profile| format!(" by {profile}")).unwrap_or_default(),
            self.at,
            time(self.at)
        );
        for row in &self.rows {
            let (mark, why) = match row.outcome {
                Outcome::Passed => ("ok", None),
                Outcome::Failed => ("FAIL", None),
                Outcome::NotMade(why) => ("-", why),
            };
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            let _ = writeln!(text, "{:>4}  {mark:<4}  {}{why}", row.step, row.looks_at);
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        if explain {
            self.explain(&mut text);
        }
        match &self.failed {
            None => text.push_str("pass\n"),
            Some(Failed { code, step, check, remedy }) => {
                let _ = writeln!(text, "refused: {code} (step {step}, {check})\n{remedy}");
                if *check == "key" {
                    let kids: Vec<String> = self.kids.iter().take(20).map(|kid| visible(kid)).collect();
                    let _ = writeln!(text, "The key set has: {}", kids.join(", "));
                }
            }
        }
        text
    }

    fn explain(&self, text: &mut String) {
        if let Some((from, until)) = self.window {
            let _ = writeln!(text, "window: {from} ({}) to {until} ({})", time(from), time(until));
        }
        if let Some(parameters) = &self.parameters {
            let _ = writeln!(text, "parameters: {}", visible(&parameters.to_string()));
        }
        if let Some(key) = &self.key {
            let _ = writeln!(text, "key: {}", visible(&key.to_string()));
        }
        if let Some(base) = &self.base {
            let _ = writeln!(text, "signature base, {} bytes, \u{240a} where a line ends:", base.len());
            for line in base.split_inclusive('\n') {
                let _ = writeln!(text, "  {}", visible(line));
            }
        }
        if let Some((sent, computed)) = &self.digests {
            let sent = sent.as_ref().map_or("unreadable".to_owned(), |sent| STANDARD.encode(sent));
            let _ = writeln!(text, "digest received: {sent}\ndigest computed: {}", STANDARD.encode(computed));
        }
    }

    pub(super) fn to_json(&self, explain: bool) -> String {
        let checks = self.rows.iter().map(|row| {
            let outcome = match row.outcome {
                Outcome::Passed => "ok",
                Outcome::Failed => "fail",
                Outcome::NotMade(_) => "not_made",
            };
            json!({"step": row.step, "check": row.name, "outcome": outcome})
        });
        let mut told = json!({
            "scheme": self.scheme, "profile": self.profile, "at": self.at,
            "verdict": if self.failed.is_some() { "refused" } else { "pass" },
            "checks": checks.collect::<Vec<Value>>(), "notes": self.notes,
        });
        if let Some(Failed { code, step, check, remedy }) = &self.failed {
            (told["code"], told["step"], told["check"]) = ((*code).into(), step.as_str().into(), (*check).into());
            told["remedy"] = (*remedy).into();
        }
        if explain {
            let digests = self.digests.as_ref().map(|(sent, computed)| {
                let sent = sent.as_ref().map(|sent| STANDARD.encode(sent));
                json!({"received": sent, "computed": STANDARD.encode(computed)})
            });
            told["explain"] = json!({
                "window": self.window.map(|(from, until)| json!({"from": from, "until": until})),
                "parameters": self.parameters, "key": self.key, "base": self.base, "digest": digests,
                "kids": self.kids,
            });
        }
        format!("{told}\n")
    }
}

/// What tells keys apart, and no member that may be private.
fn public(jwk: &Value) -> Value {
    let members = ["kid", "kty", "crv", "alg", "use", "key_ops", "adcp_use", "x", "y"];
    let known = members.into_iter().filter_map(|name| jwk.get(name).map(|value| (name.to_owned(), value.clone())));
    Value::Object(known.collect())
}

/// Line ends as a sign, and every other character beyond printable ASCII by its number.
fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push('\u{240a}'),
            '\t' => out.push('\u{2409}'),
            ' '..='~' => out.push(c),
            other => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(other));
            }
        }
    }
    out
}

fn time(unix_seconds: i64) -> String {
    let since = u64::try_from(unix_seconds).ok().map(std::time::Duration::from_secs);
    let time = since.and_then(|since| std::time::UNIX_EPOCH.checked_add(since));
    // Beyond the year 9999 there is no such spelling.
    match time.filter(|_| unix_seconds < 253_402_300_800) {
        Some(time) => humantime::format_rfc3339_seconds(time).to_string(),
        None => "no date".into(),
    }
}
