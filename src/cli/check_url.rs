//! `outboxd check-url`: what would become of a delivery to a URL, and what decided it. Connects to no receiver.

use std::fmt::Write as _;
use std::io::IsTerminal;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::seal::{print, read_input};
use super::{Failure, block_on};
use crate::config::Config;
use crate::deliver::trace::{Outcome, Step, Trace, Tracer};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The URL as a row would hold it, or `-` for URLs from standard input, one a line.
    url: String,
    /// Say why each step ends as it does, and which setting would change it.
    #[arg(long)]
    explain: bool,
    /// One JSON object for each URL, with everything in it that --explain says.
    #[arg(long)]
    json: bool,
}

pub(super) const HELP: &str = "\
Looks the name up as the daemon would and judges every address; connects to
none. Uses [egress] alone: no database, no keys. Of the URL it repeats only
scheme, host and port.
Exits with 0 where a delivery would connect, with 65 where it is refused, and
with 69 where the name could not be looked up.

  outboxd check-url https://hooks.buyer.example/adcp --explain
  psql -XAtc 'select distinct url from OUTBOX' | outboxd check-url - --json";

/// Questions under way at once; name servers answer many, and their limits are not known here.
const AT_ONCE: usize = 32;

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let tracer = Tracer::new(config)?;
    if args.url != "-" {
        let trace = block_on(async { Ok(tracer.trace(&args.url).await) })?;
        print(&rendered(&trace, args, None))?;
        return match trace.verdict {
            Outcome::Allowed => Ok(()),
            outcome => Err(failure(outcome, format!("{}: {}", outcome.word(), trace.code.unwrap_or_default()))),
        };
    }
    let input = read_input()?;
    let text = std::str::from_utf8(&input).map_err(|_| Failure::data("standard input is not UTF-8".into()))?;
    let urls: Vec<(usize, &str)> = text.lines().enumerate().filter(|(_, url)| !url.is_empty()).collect();
    let mut counts = [0_usize; 3];
    block_on(async {
        let mut traces = stream::iter(urls.iter().map(|(line, url)| {
            let tracer = &tracer;
            async move { (line + 1, tracer.trace(url).await) }
        }))
        .buffered(AT_ONCE);
        while let Some((line, trace)) = traces.next().await {
            counts[trace.verdict as usize] += 1;
            print(&rendered(&trace, args, Some(line)))?;
        }
        Ok(())
    })?;
    let [allowed, refused, unresolved] = counts;
    let message = format!("{allowed} allowed, {refused} refused, {unresolved} unresolved");
    match (refused, unresolved) {
        (0, 0) => Ok(()),
        (0, _) => Err(failure(Outcome::Unresolved, message)),
        _ => Err(failure(Outcome::Refused, message)),
    }
}

fn failure(outcome: Outcome, message: String) -> Failure {
    if outcome == Outcome::Unresolved { Failure::unavailable(message) } else { Failure::data(message) }
}

fn rendered(trace: &Trace, args: &Args, line: Option<usize>) -> String {
    if args.json {
        return in_json(trace, line) + "\n";
    }
    let head = line.map(|line| format!("line {line}\n")).unwrap_or_default();
    let foot = if line.is_some() { "\n" } else { "" };
    head + &in_words(trace, args.explain) + foot
}

fn in_json(trace: &Trace, line: Option<usize>) -> String {
    // Strings, numbers and lists of them: there is nothing that JSON could not hold.
    let mut value = serde_json::to_value(trace).unwrap_or_else(|_| json!({}));
    if let (Some(line), Value::Object(members)) = (line, &mut value) {
        members.insert("line".into(), line.into());
    }
    match line.is_none() && std::io::stdout().is_terminal() {
        true => format!("{value:#}"),
        false => value.to_string(),
    }
}

fn in_words(trace: &Trace, explain: bool) -> String {
    let mut text = String::new();
    for step in &trace.steps {
        put(&mut text, step.step, step.result, &sentence(step));
        // That a public address is public needs no explaining.
        if explain && step.class != Some("public") {
            for line in why(step) {
                put(&mut text, "", "", &line);
            }
        }
    }
    put(&mut text, "verdict", trace.verdict.word(), &conclusion(trace));
    if explain && let (Some(meaning), Some(row), Some(who)) = (trace.meaning, trace.row, trace.mended_by) {
        put(&mut text, "", "", meaning);
        put(&mut text, "", "", &format!("a row with this URL is {row}; who can mend it: {who}"));
    }
    text
}

fn put(text: &mut String, step: &str, result: &str, words: &str) {
    // Writing into a String does not fail.
    let _ = writeln!(text, "{}", format!("{step:<8} {result:<10} {words}").trim_end());
}

fn sentence(step: &Step) -> String {
    let mut words = String::new();
    if let Some(address) = step.address {
        words += &format!("{address}: ");
    }
    if let Some(inner) = step.carries {
        words += &format!("carries {inner}: ");
    }
    words += &step.detail;
    match (step.network, step.source) {
        (Some(network), Some(source)) => words += &format!(" ({network}, {source})"),
        (None, Some(source)) => words += &format!(" ({source})"),
        _ => {}
    }
    words
}

fn why(step: &Step) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(reason) = step.reason {
        lines.push(format!("it {reason}"));
    }
    match (step.result, step.opened_by) {
        ("refused", Some(setting)) => lines.push(format!("what could let it pass: {setting}")),
        ("refused", None) => lines.push("no setting lets it pass".into()),
        _ => {}
    }
    lines
}

fn conclusion(trace: &Trace) -> String {
    let code = trace.code.unwrap_or_default();
    if trace.verdict == Outcome::Allowed {
        let places: Vec<String> = trace.connects_to.iter().map(ToString::to_string).collect();
        return format!("would connect to {}", places.join(", then "));
    }
    let others = trace.steps.iter().filter(|step| step.step == "address").count().saturating_sub(1);
    match trace.refused_by {
        Some(address) if others > 0 => {
            let those = if others == 1 { "the other address" } else { "all other addresses" };
            format!("{code}: {address} refuses the name, and {those} with it")
        }
        _ => code.to_owned(),
    }
}
