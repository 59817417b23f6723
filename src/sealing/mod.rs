//! Sealing for hosts that have no cryptography, by command and by a local socket, and looking into what was sealed.
//! Nothing is sealed that the daemon would quarantine, and nothing that comes out shows a secret.

mod batch;
mod bytes;
mod describe;
mod fault;
mod item;
mod listen;
mod object;
mod sealer;
mod socket;
#[cfg(test)]
mod tests;

pub(crate) use describe::{Description, Stored};
pub(crate) use listen::listen;
pub(crate) use sealer::{ScopeRule, Sealer};
