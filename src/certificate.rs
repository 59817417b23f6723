//! What a receiver that demands a client certificate is shown. It opens no connection.

/// A certificate and its private key.
#[derive(Debug)]
pub(crate) struct ClientIdentity;
