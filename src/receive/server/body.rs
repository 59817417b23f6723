//! A request's body, unread until a profile asks for it, and then only as far as it asks, in time and within memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::crowd::Turn;
use super::wire::Allowance;

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body ended early")]
    Short,
    #[error("the body is larger than allowed")]
    #[allow(dead_code)] // for profiles that bound a body without a declared length
    TooLarge,
    #[error("the body did not come in time")]
    Late,
    #[error("too much memory is held by other bodies")]
    Crowded,
}

pub(crate) struct Body {
    pub(super) incoming: Incoming,
    pub(super) turn: Arc<Turn>,
    pub(super) timeout: Duration,
    pub(super) memory: Arc<Semaphore>,
    pub(super) allowance: Allowance,
}

/// Bytes that count against the memory for bodies for as long as they are held.
pub(crate) struct Held {
    bytes: Bytes,
    _memory: OwnedSemaphorePermit,
}

impl std::ops::Deref for Held {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

#[allow(dead_code)] // `all` is for profiles that take bodies without a declared length
impl Body {
    /// What the sender declared, by Content-Length.
    pub(crate) fn declared(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    /// Exactly this many bytes; what comes after them is not looked at.
    pub(crate) async fn exactly(self, length: usize) -> Result<Held, BodyError> {
        let held = self.read(length, |read| read >= length).await?;
        if held.len() < length {
            return Err(BodyError::Short);
        }
        Ok(Held { bytes: held.bytes.slice(..length), ..held })
    }

    /// All of it, unless it is more than `most`: then reading stops there.
    pub(crate) async fn all(self, most: usize) -> Result<Held, BodyError> {
        let length = match self.declared() {
            Some(declared) => usize::try_from(declared).unwrap_or(usize::MAX),
            None => most,
        };
        if length > most {
            return Err(BodyError::TooLarge);
        }
        let held = self.read(length, |read| read > most).await?;
        if held.len() > most { Err(BodyError::TooLarge) } else { Ok(held) }
    }

    async fn read(mut self, length: usize, enough: impl Fn(usize) -> bool) -> Result<Held, BodyError> {
        let permits = u32::try_from(length).map_err(|_| BodyError::Crowded)?;
        let memory = self.memory.clone().try_acquire_many_owned(permits).map_err(|_| BodyError::Crowded)?;
        let _pause = self.turn.pause();
        let reading = async {
            let mut bytes = BytesMut::with_capacity(length);
            while let Some(frame) = self.incoming.frame().await {
                // Cut off: whatever the reason, the rest does not come.
                let frame = frame.map_err(|_| BodyError::Short)?;
                if let Some(data) = frame.data_ref() {
                    // A frame that goes beyond is counted, and looked at no further.
                    bytes.extend_from_slice(data);
                    self.allowance.refund(data.len());
                }
                if enough(bytes.len()) {
                    break;
                }
            }
            Ok(bytes.freeze())
        };
        let bytes = tokio::time::timeout(self.timeout, reading).await.map_err(|_| BodyError::Late)??;
        Ok(Held { bytes, _memory: memory })
    }
}
