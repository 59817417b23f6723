//! Log lines on stdout: text for a person, JSON for a collector. Never lets a library's own chatter through, and never makes
//! anybody wait for whoever reads.

use std::io::IsTerminal;

use tracing::Metadata;
use tracing_subscriber::filter::{EnvFilter, FilterExt, FilterFn, LevelFilter, ParseError};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use super::lines::{self, Lines};
use crate::config::LogFormat;

#[derive(Debug, thiserror::Error)]
pub(crate) enum LogsError {
    #[error(transparent)]
    Filter(#[from] ParseError),
    #[error("no thread for log lines")]
    Thread(#[from] std::io::Error),
}

/// Starts logging.
pub(crate) fn install(format: Option<LogFormat>, filter: &str) -> Result<(), LogsError> {
    let filter = EnvFilter::builder().parse(filter)?;
    let format = format.unwrap_or(match std::io::stdout().is_terminal() {
        true => LogFormat::Text,
        false => LogFormat::Json,
    });
    let layer = fmt::layer().with_writer(Lines::to_stdout()?);
    let layer = match format {
        LogFormat::Text => layer.with_target(false).with_ansi(std::io::stdout().is_terminal()).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_span_list(false).boxed(),
    };
    // One filter that knows its level: of two, each without the other's, a line that neither shows is asked about again for
    // every row, and every trace of a library too.
    let level = filter.max_level_hint().unwrap_or(LevelFilter::TRACE);
    let ours = FilterFn::new(is_ours).with_max_level_hint(level);
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter.and(ours))).try_init();
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// To be called before the process ends.
pub(crate) fn flush() {
    lines::flush();
}

/// Libraries log what they handle at debug and trace (statement parameters, TLS messages, names with paths), at warn what
/// we report ourselves, once for each connection, and at error what a name server said. None of it may reach a log,
/// whatever the filter says.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with(env!("CARGO_PKG_NAME"))
}

/// A panic's message may quote the data that it tripped over, so that only the place is told.
fn log_panic(info: &std::panic::PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(place, "internal error: a task panicked; please report the place");
}
