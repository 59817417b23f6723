//! The host: commits rows at a rate, and now and then thinks better of it. It knows of each whether it was committed, or that it
//! cannot know.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_postgres::{Client, NoTls};

use crate::plan::Random;
use crate::support::cluster::insert_by;
use crate::support::eventually::ticks;
use crate::support::history::{Commit, Enqueued};
use crate::support::runtime::servers;
use crate::support::seal::{Draft, EnvelopeKey, Sealed};

const STEP: Duration = Duration::from_millis(100);
/// One transaction of so many is rolled back.
const REGRETS: usize = 40;

pub struct Feed {
    pub url: String,
    pub key: EnvelopeKey,
    pub receivers: Vec<String>,
    pub rate: usize,
    pub enqueued: Arc<Mutex<Vec<Enqueued>>>,
}

impl Feed {
    pub async fn run(self, seed: u64, lasts: Duration) {
        let mut random = Random::new(seed ^ 0xfeed);
        let mut ticks = ticks(STEP);
        let mut client = None;
        let (mut owed, steps) = (0.0, lasts.as_millis() / STEP.as_millis());
        for _ in 0..steps {
            ticks.tick().await;
            owed += self.rate as f64 * STEP.as_secs_f64();
            let url = |random: &mut Random| format!("{}/hooks", self.receivers[random.below(self.receivers.len())]);
            let drafts: Vec<Draft> = (0..owed as usize).map(|_| Draft::to(url(&mut random))).collect();
            owed = owed.fract();
            if drafts.is_empty() {
                continue;
            }
            let rows: Vec<Sealed> = drafts.iter().map(|draft| draft.clone().seal(&self.key)).collect();
            let commit = match connected(&mut client, &self.url).await {
                Some(client) => commit(client, &rows, random.below(REGRETS) == 0).await,
                None => Commit::RolledBack,
            };
            let mut enqueued = self.enqueued.lock().expect("no holder panics");
            enqueued.extend(drafts.iter().map(|draft| Enqueued::of(draft, commit)));
        }
    }
}

async fn connected<'a>(client: &'a mut Option<Client>, url: &str) -> Option<&'a Client> {
    if client.as_ref().is_none_or(Client::is_closed) {
        *client = None;
        let (new, connection) = tokio_postgres::connect(url, NoTls).await.ok()?;
        servers().spawn(connection);
        *client = Some(new);
    }
    client.as_ref()
}

async fn commit(client: &Client, rows: &[Sealed], regrets: bool) -> Commit {
    let inserted = async {
        client.batch_execute("begin").await?;
        insert_by(client, rows).await
    };
    if inserted.await.is_err() || regrets {
        // One that fails has ended the transaction with its session, or there is none.
        let _ = client.batch_execute("rollback").await;
        return Commit::RolledBack;
    }
    match client.batch_execute("commit").await {
        Ok(()) => Commit::Known,
        Err(_) => Commit::Unknown,
    }
}
