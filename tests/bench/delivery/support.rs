//! What this program has in common with `tests/it`: certificates, keys, sealing, verifying, and children that die with us.

#[path = "../../support/certs.rs"]
pub mod certs;
#[path = "../../support/eventually.rs"]
pub mod eventually;
#[path = "../../support/keys.rs"]
pub mod keys;
#[path = "../../support/moment.rs"]
pub mod moment;
#[path = "../../support/receiver.rs"]
pub mod receiver;
#[path = "../../support/runtime.rs"]
pub mod runtime;
#[path = "../../support/seal.rs"]
pub mod seal;
#[path = "../../support/verify.rs"]
pub mod verify;
