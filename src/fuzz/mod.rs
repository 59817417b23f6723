//! The doors that the fuzz targets of `tests/fuzz` knock at, one for each: bytes in, and a panic where something that must
//! hold does not: each `expect` here is a check like the assertions. Not part of the daemon: built for fuzzing and for the
//! smoke run of the tests alone.

mod captured;
mod configuration;
mod envelope;
mod fields;
mod hint;
mod receiver;
mod signature;
mod url;

#[cfg(test)]
mod seeds;
#[cfg(test)]
mod tests;

/// A URL as a row has it.
pub fn url_policy(data: &[u8]) {
    url::check(data);
}

/// An outbox row.
pub fn envelope_open(data: &[u8]) {
    envelope::delivery(data);
}

/// A task's registration.
pub fn registration_open(data: &[u8]) {
    envelope::registration(data);
}

/// The headers of a signed request.
pub fn signature_input(data: &[u8]) {
    signature::check(data);
}

/// What a receiver says when a delivery is posted to it.
pub fn reply(data: &[u8]) {
    receiver::check(data);
}

/// `Retry-After` and `Date` of a reply.
pub fn retry_after(data: &[u8]) {
    hint::check(data);
}

/// A request as somebody captured it.
pub fn capture(data: &[u8]) {
    captured::check(data);
}

/// A configuration file, variables and `--set` flags.
pub fn config(data: &[u8]) {
    configuration::check(data);
}
