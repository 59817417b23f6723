//! The demo's steady buyers: one real `outboxd receive`, with a database of its own, that three of them share. Counts
//! nothing itself: what was received is read from the inbox's table, what was refused from the receiver's metrics.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Child;

use super::host::write_private;
use super::receiver::reserve;
use super::{PATIENCE, migrate, start};
use crate::config::{Config, Sources};
use crate::store::{DemoMessage, Store};
use crate::telemetry::metrics::RECEIVED_WEBHOOKS;

pub(super) struct Steady {
    pub(super) address: SocketAddr,
    admin: SocketAddr,
    store: Store,
    pub(super) receiver: Child,
}

impl Steady {
    pub(super) async fn start(binary: &Path, home: &Path, database: &str, jwks: &Value) -> anyhow::Result<Steady> {
        // Held until the receiver has them.
        let ((_door, address), (_side_door, admin)) = (reserve()?, reserve()?);
        let file = home.join("buyers.toml");
        write_private(&home.join("jwks.json"), jwks.to_string().as_bytes())?;
        write_private(&file, settings(database, home, address, admin).as_bytes())?;
        migrate(binary, &file).await?;
        let receiver = start(binary, home, "receive", &file)?;
        let config = Config::load(&Sources { file: Some(file), ..Sources::default() })?;
        let store = Store::open(&config.store()?, Arc::new(|_| {}))?;
        let mut steady = Steady { address, admin, store, receiver };
        steady.listens().await?;
        Ok(steady)
    }

    async fn listens(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        while TcpStream::connect(self.address).await.is_err() {
            if let Some(status) = self.receiver.try_wait()? {
                bail!("outboxd receive ended with {status}");
            }
            if began.elapsed() > PATIENCE {
                bail!("outboxd receive does not listen");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// What the inbox holds beyond the row `after`.
    pub(super) async fn received(&self, after: i64) -> anyhow::Result<Vec<DemoMessage>> {
        Ok(self.store.read_demo_inbox(after).await?)
    }

    /// How many requests were taken, signed right as they were, and how many refused for their signature.
    pub(super) async fn signatures(&self) -> anyhow::Result<(u64, u64)> {
        let mut stream = TcpStream::connect(self.admin).await?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
        let mut page = String::new();
        stream.read_to_string(&mut page).await?;
        let (mut verified, mut refused) = (0, 0);
        for line in page.lines().filter(|line| line.starts_with(RECEIVED_WEBHOOKS)) {
            let (code, count) = line.rsplit_once(' ').context("a metric without a value")?;
            let count: u64 = count.parse()?;
            if code.contains("\"stored\"") || code.contains("\"duplicate\"") {
                verified += count;
            } else if code.contains("signature_") {
                refused += count;
            }
        }
        Ok((verified, refused))
    }
}

fn settings(database: &str, home: &Path, address: SocketAddr, admin: SocketAddr) -> String {
    let home = home.display();
    format!(
        "[database]\nurl = {database:?}\n\
         [receive]\nprofile = \"adcp-webhook\"\nlisten = \"{address}\"\n\
         tls_cert_file = \"{home}/buyer.pem\"\ntls_key_file = \"{home}/buyer.key\"\n\
         [receive.webhook]\norigin = \"https://{address}\"\nsender = \"demo-seller\"\n\
         jwks_file = \"{home}/jwks.json\"\n\
         [admin]\nlisten = \"{admin}\"\n[log]\nformat = \"text\"\n"
    )
}
