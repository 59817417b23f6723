//! How a connection to Postgres is made: where to, as whom, with how much TLS, and with which session settings.
//! It opens none itself; the pool does, when the first statement asks.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::QueueMode;
use deadpool_postgres::{Connect, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts};
use tokio::task::JoinHandle;

use super::dsn::{Dsn, DsnError, SslMode};
use super::hosts::Hosts;
use super::table::TableName;
use super::tls::{self, TlsError};
use crate::secret::Secret;

/// libpq's default on Debian, when the connection string names no host.
const DEFAULT_SOCKET: &str = "/var/run/postgresql";
/// Finds a dead peer behind a silent firewall long before the kernel's two hours.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// All that the store needs to know.
#[derive(Debug, Clone)]
pub(crate) struct StoreConfig {
    /// A URL or libpq's `key=value` pairs; secret since it may hold the password.
    pub(crate) url: Secret,
    /// Wins over one in the URL.
    pub(crate) password: Option<Secret>,
    /// Wins over the URL's; `prefer` where neither says.
    pub(crate) sslmode: Option<SslMode>,
    /// A PEM file, or `system`; wins over the URL's.
    pub(crate) sslrootcert: Option<PathBuf>,
    pub(crate) pool_size: usize,
    /// Off for a pooler in transaction mode without support for named statements; the session settings, which
    /// such poolers refuse as well, are left out then and better given to the role.
    pub(crate) prepared_statements: bool,
    pub(crate) connect_timeout: Duration,
    /// The longest that one statement may take from asking for a connection to the last row of its answer.
    pub(crate) statement_timeout: Duration,
    pub(crate) table: TableName,
    pub(crate) plans: Plans,
    /// Rows may be gathered by more than one index, or by one of blocks: for who looks at what happened lately. Claims and
    /// settles must not be planned so.
    pub(crate) bitmaps: bool,
}

/// When a statement is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plans {
    /// Each time that it is asked, for what it is asked with: for who asks once.
    Afresh,
    /// Once where that is no worse: for statements that find every row by its key.
    KeptIfNoWorse,
    /// Once. Planning a batch would cost as much as two rows of it.
    Kept,
}

impl Plans {
    /// Where nothing but an index can be read and nothing but a loop can join, a plan that was made when the table was empty is
    /// the one for millions of rows.
    fn settings(self) -> &'static str {
        match self {
            Plans::Afresh => "-c plan_cache_mode=force_custom_plan",
            Plans::KeptIfNoWorse => "-c plan_cache_mode=auto",
            Plans::Kept => "-c plan_cache_mode=force_generic_plan -c enable_hashjoin=off -c enable_mergejoin=off",
        }
    }
}

impl StoreConfig {
    /// The file with the authorities that the server's certificate is held against, where there is one.
    pub(crate) fn root_file(&self) -> Option<PathBuf> {
        let in_url = || Dsn::parse(std::str::from_utf8(self.url.expose()).ok()?.trim()).ok()?.sslrootcert;
        let file = self.sslrootcert.clone().or_else(in_url)?;
        Some(file).filter(|file| file.as_path() != Path::new(tls::SYSTEM_ROOTS))
    }
}

/// A configuration with which no connection can be made, whatever the server does.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("database: {0}")]
    Dsn(#[from] DsnError),
    #[error("database: {0}")]
    Tls(#[from] TlsError),
    #[error("database.pool_size must be at least 1")]
    EmptyPool,
}

pub(super) fn pool(config: &StoreConfig, hosts: &Arc<Hosts>) -> Result<Pool, OpenError> {
    let manager = Manager::from_connect(
        hosts.first(),
        Connector(hosts.clone()),
        ManagerConfig { recycling_method: RecyclingMethod::Fast },
    );
    let create = config.connect_timeout + hosts.delay();
    let timeouts =
        Timeouts { wait: Some(config.statement_timeout), create: Some(create), recycle: Some(config.connect_timeout) };
    // Building fails only for timeouts without a runtime, or for no connections at all.
    Pool::builder(manager)
        .max_size(config.pool_size)
        // The one that was used last knows the plans and has the buffers; the others hold neither, and stay small.
        .queue_mode(QueueMode::Lifo)
        .timeouts(timeouts)
        .runtime(Runtime::Tokio1)
        .build()
        .ok()
        .filter(|_| config.pool_size > 0)
        .ok_or(OpenError::EmptyPool)
}

/// Where connections lead, and what holds for each.
pub(super) fn hosts(config: &StoreConfig) -> Result<Arc<Hosts>, OpenError> {
    let text = std::str::from_utf8(config.url.expose()).map_err(|_| DsnError::Malformed)?;
    let dsn = Dsn::parse(text.trim())?;
    let mut postgres: tokio_postgres::Config = dsn.plain.parse().map_err(|_| DsnError::Malformed)?;
    let mode = config.sslmode.or(dsn.sslmode).unwrap_or(SslMode::Prefer);
    let root_file = config.sslrootcert.as_ref().or(dsn.sslrootcert.as_ref());
    if let Some(password) = &config.password {
        postgres.password(password.expose());
    }
    if postgres.get_hosts().is_empty() && postgres.get_hostaddrs().is_empty() {
        postgres.host(DEFAULT_SOCKET);
    }
    postgres.ssl_mode(match mode {
        SslMode::Disable => tokio_postgres::config::SslMode::Disable,
        SslMode::Allow | SslMode::Prefer => tokio_postgres::config::SslMode::Prefer,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => tokio_postgres::config::SslMode::Require,
    });
    postgres.connect_timeout(config.connect_timeout);
    postgres.keepalives_idle(KEEPALIVE_IDLE);
    postgres.tcp_user_timeout(config.connect_timeout.max(config.statement_timeout));
    if postgres.get_application_name().is_none() {
        postgres.application_name(env!("CARGO_PKG_NAME"));
    }
    if config.prepared_statements {
        let theirs = postgres.get_options().unwrap_or_default();
        let options = format!("{} {theirs}", session_settings(config));
        postgres.options(options);
    }
    let tls = tls::client_config(mode, root_file.map(PathBuf::as_path))?;
    Ok(Arc::new(Hosts::new(&postgres, tls)?))
}

/// What holds for each of our sessions.
fn session_settings(config: &StoreConfig) -> String {
    // The server gives up a little before we do, so that it is not left working for no one.
    let server_timeout = (config.statement_timeout * 9 / 10).as_millis().max(1);
    let bitmaps = if config.bitmaps { "enable_bitmapscan=on" } else { "enable_bitmapscan=off" };
    let settings = [
        &format!("statement_timeout={server_timeout}"),
        &format!("lock_timeout={server_timeout}"),
        "idle_in_transaction_session_timeout=60000",
        // The statements' guards are written for it; a role may have another default.
        "default_transaction_isolation=read\\ committed",
        // A backlog appears faster than its statistics: measured on 20,000 fresh rows, the planner expected 10,
        // and read and sorted all of them for each claim. Every statement of ours has an index in its order.
        "enable_seqscan=off",
        bitmaps,
        // Where an index is missing, the cost of what is off would call for it.
        "jit=off",
    ];
    settings.map(|setting| format!("-c {setting}")).join(" ") + " " + config.plans.settings()
}

/// Connects like deadpool's own, but to several hosts, and leaves it to the statement that fails to tell of a lost
/// connection: deadpool would log the server's text, once for each connection.
struct Connector(Arc<Hosts>);

type Connected = Result<(tokio_postgres::Client, JoinHandle<()>), tokio_postgres::Error>;

impl Connect for Connector {
    fn connect(&self, _: &tokio_postgres::Config) -> Pin<Box<dyn Future<Output = Connected> + Send + '_>> {
        let hosts = self.0.clone();
        Box::pin(async move {
            let (client, connection) = hosts.connect().await?;
            let driver = tokio::spawn(async move {
                let _ = connection.await;
            });
            Ok((client, driver))
        })
    }
}
