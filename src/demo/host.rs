//! The demo's seller: makes keys, seals webhooks and commits them, as a host application does. Delivers nothing.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use ring::rand::SystemRandom;
use serde_json::{Value, json};

use super::Door;
use super::ledger::{Commit, Committed, Line};
use crate::config::{Config, Sources};
use crate::envelope::{Aad, Binding, EnvelopeKey, seal};
use crate::hex;
use crate::secret::random;
use crate::signature::{Algorithm, SigningKey};
use crate::store::{DemoRows, Store};

/// Webhooks per commit.
const PER_COMMIT: usize = 50;

pub(super) struct Host {
    store: Store,
    envelope_key: EnvelopeKey,
    pub(super) jwks: Value,
}

impl Host {
    /// Makes both keys and leaves them where the daemon's configuration will look.
    pub(super) fn new(database_url: &str, home: &Path) -> anyhow::Result<Host> {
        let hex = hex::encode(&random::<32>());
        write_private(&home.join("envelope.key"), hex.as_bytes())?;
        let (key, pem) = SigningKey::generate(Algorithm::Ed25519, Some("demo-key"), &SystemRandom::new())?;
        write_private(&home.join("signing.pem"), pem.as_bytes())?;
        let file = home.join("outboxd.toml");
        write_private(&file, settings(database_url, home).as_bytes())?;
        let config = Config::load(&Sources { file: Some(file), ..Sources::default() })?;
        Ok(Host {
            store: Store::open(&config.store()?, Arc::new(|_| {}))?,
            envelope_key: EnvelopeKey::parse(hex.as_bytes())?,
            jwks: json!({ "keys": [key.public_jwk()] }),
        })
    }

    /// The database that the steady buyers keep their inbox in; nothing of the host's is in it.
    pub(super) async fn make_room_for_buyers(&self) -> anyhow::Result<()> {
        Ok(self.store.create_demo_buyers().await?)
    }

    /// Seals and commits every door's webhooks, mixed, a few at a time.
    pub(super) async fn enqueue(&self, doors: &[Door]) -> anyhow::Result<Committed> {
        let most = doors.iter().map(|door| door.rows).max().unwrap_or_default();
        let mut order: Vec<(u64, &Door)> = doors
            .iter()
            .flat_map(|door| (0..door.rows).map(move |nth| (nth * most / door.rows.max(1), door)))
            .collect();
        order.sort_by_key(|(position, _)| *position);
        let mut committed = Committed::new();
        for batch in order.chunks(PER_COMMIT) {
            let mut rows = DemoRows::default();
            let bodies: Vec<String> = batch.iter().map(|(_, door)| self.seal_into(&mut rows, &door.url)).collect();
            self.store.insert_demo_rows(&rows).await?;
            let at = SystemTime::now();
            let commits = bodies.into_iter().map(|body| Commit { at, body: body.into_bytes() });
            committed.extend(rows.idempotency_keys.into_iter().zip(commits));
        }
        Ok(committed)
    }

    /// Returns the body that was sealed.
    fn seal_into(&self, rows: &mut DemoRows, url: &str) -> String {
        let task_id = format!("task_{}", hex::encode(&random::<8>()));
        let key = format!("whk_{}", hex::encode(&random::<16>()));
        let body = json!({
            "idempotency_key": key,
            "notification_id": format!("{task_id}.terminal"),
            "operation_id": "op_demo",
            "task_id": task_id,
            "task_type": "create_media_buy",
            "protocol": "media-buy",
            "status": "completed",
            "timestamp": humantime::format_rfc3339_micros(SystemTime::now()).to_string(),
            "result": { "media_buy_id": format!("mb_{}", hex::encode(&random::<4>())), "packages": [] },
        })
        .to_string();
        let aad = Aad::delivery(&Binding {
            account_id: "acct_demo",
            task_id: &task_id,
            task_type: "create_media_buy",
            terminal_status: "completed",
            url,
            operation_id: "op_demo",
            idempotency_key: &key,
            signing_scope_id: None,
        });
        let nonce = random();
        let sealed = seal(&aad, &self.envelope_key, nonce, body.clone().into_bytes());
        rows.task_ids.push(task_id);
        rows.urls.push(url.to_owned());
        rows.idempotency_keys.push(key);
        rows.sealed.push(sealed);
        rows.nonces.push(nonce.to_vec());
        body
    }

    /// What the table says became of each door's webhooks.
    pub(super) async fn read_ledger(&self, doors: &[Door]) -> anyhow::Result<Vec<Line>> {
        let found = self.store.read_demo_states().await?;
        let lines = doors.iter().map(|door| {
            let mut line = Line { name: door.name, rows: door.rows, ..Line::default() };
            for entry in found.iter().filter(|entry| entry.url == door.url) {
                match entry.state.as_str() {
                    "delivered" => {
                        line.delivered = entry.rows;
                        line.retried = entry.retried;
                    }
                    "invalid" => line.quarantined = entry.rows,
                    _ => line.due += entry.rows,
                }
            }
            line
        });
        Ok(lines.collect())
    }
}

/// What the demo changes about the defaults. Three buyers behind one door are one destination, with three shares here.
fn settings(database_url: &str, home: &Path) -> String {
    let home = home.display();
    format!(
        "[database]\nurl = {database_url:?}\n\
         [envelope]\nkey_files = [\"{home}/envelope.key\"]\n\
         [signing]\nkey_file = \"{home}/signing.pem\"\nkey_id = \"demo-key\"\n\
         [egress]\nallow = [\"127.0.0.0/8\"]\ntrust_anchors = [\"{home}/ca.pem\"]\nsystem_roots = false\n\
         [delivery]\nper_destination = 192\n\
         [admin]\nlisten = \"\"\n[log]\nformat = \"text\"\n"
    )
}

pub(super) fn write_private(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    Ok(())
}
