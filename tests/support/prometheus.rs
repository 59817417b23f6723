//! The real Prometheus from Debian, scraping daemons under test several times a second and judging by our rules. It
//! deliberately changes nothing of a rule but its times.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::eventually::eventually;
use super::loopback::address_of_its_own;
use super::{manifests, runtime};

pub struct Prometheus {
    address: SocketAddr,
    child: Child,
    _home: TempDir,
}

/// Minutes become seconds where a rule waits or looks back; what it compares with stays.
fn hasty(rules: &str) -> String {
    let mut hasty = String::new();
    for line in rules.lines() {
        let line = match line.trim_start() {
            rest if rest.starts_with("for: ") => line.replace(rest, "for: 1s"),
            rest if rest.starts_with("interval: ") => continue,
            _ => ["5m", "10m", "15m", "1h"]
                .iter()
                .fold(line.to_string(), |line, window| line.replace(&format!("[{window}]"), "[4s]")),
        };
        hasty.push_str(&line);
        hasty.push('\n');
    }
    hasty
}

impl Prometheus {
    /// Scrapes whoever listens at `targets`, as the job "outboxd".
    pub async fn start(targets: &[SocketAddr]) -> Prometheus {
        let home = TempDir::new().expect("the temp directory takes another");
        for rules in ["recording.rules.yaml", "alerts.rules.yaml"] {
            let text = hasty(&manifests::read(&format!("deploy/prometheus/{rules}")));
            std::fs::write(home.path().join(rules), text).expect("our directory is ours");
        }
        let targets: Vec<String> = targets.iter().map(|address| format!("'{address}'")).collect();
        let config = format!(
            "global: {{scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}}\n\
             rule_files: [recording.rules.yaml, alerts.rules.yaml]\n\
             scrape_configs:\n- job_name: outboxd\n  static_configs: [{{targets: [{}]}}]\n",
            targets.join(", ")
        );
        let file = home.path().join("prometheus.yaml");
        std::fs::write(&file, config).expect("our directory is ours");
        // Prometheus takes no port of the kernel's choice.
        let address = address_of_its_own();
        let child = begin(&file, home.path(), address);
        let prometheus = Prometheus { address, child, _home: home };
        eventually("Prometheus scrapes", async || match prometheus.ask("up").await {
            Ok(series) if series.iter().any(|one| one["value"][1] == "1") => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        prometheus
    }

    /// The series that an expression gives now.
    pub async fn ask(&self, expression: &str) -> io::Result<Vec<Value>> {
        let query: String = url::form_urlencoded::byte_serialize(expression.as_bytes()).collect();
        let answer = self.get(&format!("/api/v1/query?query={query}")).await?;
        Ok(answer["data"]["result"].as_array().cloned().unwrap_or_default())
    }

    /// What fires now: names, and the sentences that somebody would read.
    pub async fn firing(&self) -> Vec<(String, String)> {
        let answer = self.get("/api/v1/alerts").await.expect("Prometheus answers");
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        alerts
            .iter()
            .filter(|alert| alert["state"] == "firing")
            .map(|alert| {
                let annotations = &alert["annotations"];
                let words = text(&annotations["summary"]) + "\n" + &text(&annotations["description"]);
                (text(&alert["labels"]["alertname"]), words)
            })
            .collect()
    }

    /// Waits until the alert fires; its words.
    pub async fn fires(&self, alert: &str) -> String {
        eventually(&format!("{alert} fires"), async || {
            let firing = self.firing().await;
            firing.iter().find(|(name, _)| name == alert).map(|(_, words)| words.clone()).ok_or(format!("{firing:?}"))
        })
        .await
    }

    pub async fn is_silent(&self, alert: &str) {
        eventually(&format!("{alert} is over"), async || {
            let firing = self.firing().await;
            if firing.iter().any(|(name, _)| name == alert) { Err(format!("{firing:?}")) } else { Ok(()) }
        })
        .await;
    }

    async fn get(&self, path: &str) -> io::Result<Value> {
        let mut stream = TcpStream::connect(self.address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await?;
        let body = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok(serde_json::from_str(body).unwrap_or_default())
    }
}

fn begin(file: &Path, home: &Path, address: SocketAddr) -> Child {
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", file.display()));
    command.arg(format!("--storage.tsdb.path={}", home.join("data").display()));
    command.args([&format!("--web.listen-address={address}"), "--log.level=error"]);
    let mut child = runtime::spawn(&command).expect("Prometheus is installed");
    // Left unread, a full pipe would stop it, and a closed one end it.
    let (out, err) = (child.stdout.take(), child.stderr.take());
    thread::spawn(move || io::copy(&mut out.expect("stdout is piped"), &mut io::sink()));
    thread::spawn(move || io::copy(&mut err.expect("stderr is piped"), &mut io::stderr()));
    child
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It is our child and not waited for yet, so its number is not another's.
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}
