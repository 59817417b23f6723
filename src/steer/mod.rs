//! Many rows at once at an operator's word: counted, then requeued, cancelled, expired or deleted, batch by batch and beside
//! running daemons. Which rows may be, and what becomes of one, is decided by the functions in the database.

mod renew;
mod run;

pub(crate) use renew::uuid;
pub(crate) use run::{End, Steer, Survey, Tally, survey};
