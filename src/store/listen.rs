//! Hears the hosts' wake-ups on a connection of its own, outside the pool, and proves that it does. A wake-up says that
//! something happened and never what: claims find that out, and look without it too.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use super::claim::read;
use super::error::{Kind, StoreError, Unavailable};
use super::statement::{Parameter, Statement, typed};
use super::{Answer, Store};

/// A connection that is cut off silently is found out by the first beat after that: within both of these together, 13 s.
const BEAT_EVERY: Duration = Duration::from_secs(5);
const BEAT_PATIENCE: Duration = Duration::from_secs(8);
/// A notification of another session comes within milliseconds; a machine that is busy may take longer.
const PROOF_PATIENCE: Duration = Duration::from_secs(5);
/// What the payload of a word to oneself begins with; a host's wake-up has none.
const BEAT: &str = "beat";
const PROOF: &str = "proof";

/// What comes in by the ear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Listening has begun. What was said before is missed.
    Listening,
    /// It is proven that other sessions are heard.
    Proven,
    /// A host committed something.
    WakeUp,
}

/// The words that came back, by their number.
#[derive(Default, Clone, Copy)]
struct Echoes {
    beat: u64,
    proof: bool,
}

impl Store {
    /// Listens until the connection ends or turns out to be deaf, and says why.
    pub(crate) async fn hear(&self, heard: impl Fn(Heard)) -> StoreError {
        let statement = &self.statements.listen_wake;
        let failed = |error| StoreError::new(statement.label, Kind::of(&error, self.door.timeout));
        let (client, mut connection) = match timeout(self.door.timeout, self.hosts.connect()).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return failed(error),
            Err(_) => return StoreError::new(statement.label, Kind::Unavailable(Unavailable::ConnectTimeout)),
        };
        let (echo, echoes) = watch::channel(Echoes::default());
        let hearing = async {
            while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                match message {
                    Ok(AsyncMessage::Notification(told)) => match told.payload().split_once(' ') {
                        Some((BEAT, word)) => {
                            echo.send_modify(|echoes| echoes.beat = word.parse().unwrap_or(echoes.beat))
                        }
                        Some((PROOF, _)) => echo.send_modify(|echoes| echoes.proof = true),
                        _ => heard(Heard::WakeUp),
                    },
                    Ok(_) => {}
                    Err(error) => return failed(error),
                }
            }
            StoreError::new(statement.label, Kind::Unavailable(Unavailable::Closed))
        };
        tokio::select! {
            ended = self.listen(&client, echoes, &heard) => ended,
            ended = hearing => ended,
        }
    }

    /// `sql/outbox/listen_wake.sql`, then a beat every few seconds for as long as they are answered.
    async fn listen(&self, client: &Client, mut echoes: watch::Receiver<Echoes>, heard: &impl Fn(Heard)) -> StoreError {
        if let Err(error) = self.ask_ear(client, &self.statements.listen_wake, &[]).await {
            return error;
        }
        heard(Heard::Listening);
        let mut proven = false;
        for beat in 1_u64.. {
            let late = Kind::Timeout { after: BEAT_PATIENCE };
            let beating = timeout(BEAT_PATIENCE, self.beat_ear(client, beat, &mut echoes)).await;
            let ear = match beating.unwrap_or(Err(StoreError::new(self.statements.beat_ear.label, late))) {
                Ok(ear) => ear,
                Err(error) => return error,
            };
            // Where the pool cannot say the word now, nothing is known, and the next beat tries again.
            if !proven && self.prove_ear(ear).await.is_ok() {
                if timeout(PROOF_PATIENCE, echoes.wait_for(|echoes| echoes.proof)).await.is_err() {
                    let kind = Kind::Unavailable(Unavailable::Deaf);
                    return StoreError::new(self.statements.prove_ear.label, kind);
                }
                proven = true;
                heard(Heard::Proven);
            }
            sleep(BEAT_EVERY).await;
        }
        // There are more beats than anybody lives to hear.
        StoreError::new(self.statements.beat_ear.label, Kind::Unavailable(Unavailable::Closed))
    }

    /// `sql/outbox/beat_ear.sql`: the process that listens, when its word has come back.
    async fn beat_ear(
        &self,
        client: &Client,
        beat: u64,
        echoes: &mut watch::Receiver<Echoes>,
    ) -> Result<i32, StoreError> {
        let statement = &self.statements.beat_ear;
        let closed = || StoreError::new(statement.label, Kind::Unavailable(Unavailable::Closed));
        let answer = self.ask_ear(client, statement, &[&format!("{BEAT} {beat}")]).await?;
        let ear = answer.first().ok_or_else(closed)?;
        let ear = read(ear, "ear").map_err(|kind| StoreError::new(statement.label, kind))?;
        echoes.wait_for(|echoes| echoes.beat >= beat).await.map_err(|_| closed())?;
        Ok(ear)
    }

    /// `sql/outbox/prove_ear.sql`, by the pool: the ear must hear it.
    async fn prove_ear(&self, ear: i32) -> Result<(), StoreError> {
        let parameters: [Parameter<'_>; 2] = [&ear, &format!("{PROOF} {ear}")];
        self.read_all(&self.statements.prove_ear, &parameters, |_| Ok(())).await.map(drop)
    }

    /// On the ear's own connection, and unnamed: behind a pooler a name may be known or not.
    async fn ask_ear(
        &self,
        client: &Client,
        statement: &Statement,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        let parameters = typed(statement, parameters);
        let asking = timeout(self.door.timeout, client.query_typed(&statement.sql, &parameters));
        let kind = match asking.await {
            Ok(Ok(rows)) => return Ok(rows),
            Ok(Err(error)) => Kind::of(&error, self.door.timeout),
            Err(_) => Kind::Timeout { after: self.door.timeout },
        };
        Err(StoreError::new(statement.label, kind))
    }
}
