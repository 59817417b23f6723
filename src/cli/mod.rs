//! The command line: what each command takes, and what its exit code means. The only place with `anyhow`.

mod check;
mod check_url;
mod codes;
mod completions;
mod demo;
mod destinations;
mod doctor;
mod exit;
mod filter;
mod hardening;
mod healthcheck;
mod keygen;
mod keys;
mod list;
mod man;
mod migrate;
mod open;
mod outboxes;
mod receive;
mod rekey;
mod run;
mod scope;
mod seal;
mod status;
mod steer;
mod table;
mod tail;
mod verify;
mod why;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};

use crate::config::{Config, Sources};
use crate::store::{Action, Store};
pub(crate) use exit::Failure;

/// Delivers webhooks from a Postgres outbox: exactly the bytes that were committed, signed, at least once.
///
/// The host application writes sealed rows in its own transactions; outboxd claims them under leases, signs each
/// attempt (RFC 9421), posts to addresses it has checked, and settles the rows. Any number of replicas may run.
///
/// Start here:  outboxd keygen envelope --out envelope.key
///              outboxd keygen ed25519 --out signing.pem --jwk signing.jwk.json
///              outboxd migrate --config outboxd.toml
///              outboxd check --config outboxd.toml
///              outboxd run --config outboxd.toml
#[derive(Parser)]
#[command(name = "outboxd", version, verbatim_doc_comment, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    source: SourceArgs,
}

const AFTER_HELP: &str = "Exit codes (sysexits): 0 done, 64 wrong usage, 65 input refused, 66 no such row or file, 69 database \
                          or name servers unreachable, 70 internal error, 71 refused by the operating system, 73 a file cannot be made, \
                          74 cannot read or write, 75 not yet, 77 no permission, 78 configuration or schema cannot be used.";

#[derive(clap::Args)]
struct SourceArgs {
    /// Configuration file (TOML). Every key and its default: outboxd config
    #[arg(long, short, global = true, value_name = "FILE", env = "OUTBOXD_CONFIG")]
    config: Option<PathBuf>,
    /// Overrides one setting, for example --set delivery.slots=64. May be repeated.
    #[arg(long, global = true, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Deliver until stopped. SIGTERM and SIGINT drain, a second one gives back at once, SIGHUP reloads keys and egress, as does a changed file.
    Run,
    /// Take in notifications until stopped: each is stored in Postgres before it is acknowledged. SIGTERM and SIGINT drain.
    Receive(receive::Args),
    /// Create or update the tables that the host and the daemon share.
    Migrate(migrate::Args),
    /// Look at everything `run` needs, one line each, and say what to do about what is wrong.
    Check(check::Args),
    /// Look at everything as `check` does, then at the last hour, and say what to do.
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::Args),
    /// Say whether a URL would be delivered to: each DNS answer, what it is, and which rule decides. Connects to no receiver.
    #[command(after_help = check_url::HELP)]
    CheckUrl(check_url::Args),
    /// Seal registrations and webhooks for a host without cryptography: JSON on standard input, JSON out.
    #[command(after_help = seal::HELP)]
    Seal(seal::Args),
    /// Say what a sealed row holds, which key opens it, and what is wrong where none does. Never prints credentials.
    #[command(after_help = open::HELP)]
    Open(open::Args),
    /// Judge a captured request by the receiver's checks: which of them fails, with which code, and what to do.
    #[command(after_help = verify::HELP)]
    Verify(verify::Args),
    /// Seal what is open again under the newest envelope key, while daemons deliver. May be broken off and run again.
    #[command(after_help = rekey::HELP)]
    Rekey(rekey::Args),
    /// Say which keys there are, who holds them, what needs each, and whether one can go.
    #[command(after_help = keys::HELP)]
    Keys(keys::Args),
    /// Have rows tried again that were quarantined or expired, or that wait: counted first, by filter.
    #[command(after_help = steer::REQUEUE)]
    Requeue(steer::Args),
    /// Take open rows out of delivery: counted first, by filter.
    #[command(after_help = steer::CANCEL)]
    Cancel(steer::Args),
    /// End open rows as though their retry horizon were over: counted first, by filter.
    #[command(after_help = steer::EXPIRE)]
    Expire(steer::Args),
    /// Delete finished rows past their horizon: counted first, by filter.
    #[command(after_help = steer::PURGE)]
    Purge(steer::Args),
    /// Show where due rows are to go and which destinations are parked, why and for how long; or let one go.
    #[command(after_help = destinations::HELP)]
    Destinations(destinations::Args),
    /// Say how it stands: what is due and since when, what goes wrong and where, who delivers, and what to do about it.
    #[command(after_help = status::HELP)]
    Status(status::Args),
    /// Tell one webhook's life in plain words: what happened, what happens next and when, or what to do.
    #[command(after_help = why::HELP)]
    Why(why::Args),
    /// Show attempts as they happen.
    #[command(after_help = tail::HELP)]
    Tail(tail::Args),
    /// Ask the daemon beside it whether it lives, for a container's health check.
    #[command(after_help = healthcheck::HELP)]
    Healthcheck(healthcheck::Args),
    /// List rows, newest first: what state each is in, how often it was tried, what is next. By state, account, destination, age or code.
    #[command(after_help = list::HELP)]
    List(list::Args),
    /// Make an encryption key or a signing key.
    Keygen(keygen::Args),
    /// Write, list and end the signing scopes of the table that every replica signs by (`signing.scopes_table`).
    Scope(scope::Args),
    /// Print the default configuration: every key, its unit, its default and what it is for.
    Config,
    /// Print every outcome code: what happens to the row, who can mend it, and what it means.
    Codes(codes::Args),
    /// Print the completion script of a shell.
    #[command(after_help = completions::HELP)]
    Completions(completions::Args),
    /// Print the manual, or write a page for each command.
    #[command(after_help = man::HELP)]
    Man(man::Args),
    /// See it work: a throwaway Postgres, buyers on loopback and 2,000 webhooks, all removed afterwards.
    Demo(demo::Args),
}

/// The whole program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { exit::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    match hardening::harden().and_then(|()| dispatch(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Where that finds no room either, the exit status still says what it was.
            let _ = writeln!(std::io::stderr(), "outboxd: {}", failure.message());
            failure.code().into()
        }
    }
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    let environment = Sources::ours(std::env::vars_os());
    let sources = Sources { file: cli.source.config, sets: cli.source.set, environment };
    match cli.command {
        Command::Run => run::run(sources),
        Command::Receive(args) => receive::run(args, &sources),
        Command::Migrate(args) => migrate::run(args, &Config::load(&sources)?),
        Command::Check(args) => check::run(&args, &sources),
        Command::Doctor(args) => doctor::run(&args, &sources),
        Command::CheckUrl(args) => check_url::run(&args, &Config::load(&sources)?),
        Command::Seal(args) => seal::run(&args, &Config::load(&sources)?),
        Command::Open(args) => open::run(&args, &Config::load(&sources)?),
        Command::Verify(args) => verify::run(&args),
        Command::Rekey(args) => rekey::run(&args, &Config::load(&sources)?),
        Command::Keys(args) => keys::run(&args, &Config::load(&sources)?),
        Command::Requeue(args) => steer::run(Action::Requeue, &args, &Config::load(&sources)?),
        Command::Cancel(args) => steer::run(Action::Cancel, &args, &Config::load(&sources)?),
        Command::Expire(args) => steer::run(Action::Expire, &args, &Config::load(&sources)?),
        Command::Purge(args) => steer::run(Action::Purge, &args, &Config::load(&sources)?),
        Command::Destinations(args) => destinations::run(&args, &Config::load(&sources)?),
        Command::Status(args) => status::run(&args, &Config::load(&sources)?),
        Command::Why(args) => why::run(&args, &Config::load(&sources)?),
        Command::Tail(args) => tail::run(&args, &Config::load(&sources)?),
        Command::Healthcheck(args) => healthcheck::run(&args, &Config::load(&sources)?),
        Command::List(args) => list::run(&args, &Config::load(&sources)?),
        Command::Keygen(args) => keygen::run(args).map_err(Failure::cannot_create),
        Command::Scope(args) => scope::run(&args, &Config::load(&sources)?),
        Command::Config => {
            print!("{}", crate::config::DEFAULTS);
            Ok(())
        }
        Command::Codes(args) => {
            codes::run(&args);
            Ok(())
        }
        Command::Completions(args) => {
            completions::run(&args, Cli::command());
            Ok(())
        }
        Command::Man(args) => man::run(&args, Cli::command()),
        Command::Demo(args) => demo::run(args),
    }
}

/// The store of a command that knows one database only, whose statements nobody counts.
fn open_store(config: &Config) -> Result<Store, Failure> {
    Ok(Store::open(&config.store()?, Arc::new(|_| {}))?)
}

/// How long the end of a command waits for work that cannot be called off.
const LOOSE_ENDS: Duration = Duration::from_secs(1);

/// The runtime that a command with I/O runs in.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(work);
            crate::telemetry::logs::flush();
            // The system's resolver cannot be called off while name servers are silent, and nobody waits for its answer now.
            runtime.shutdown_timeout(LOOSE_ENDS);
            ended
        }
        Err(error) => Err(Failure::system(format!("cannot start worker threads: {error}"))),
    }
}
