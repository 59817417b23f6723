//! What must hold of every captured request, which may be a stranger's text pasted by an operator: it is read or refused,
//! and what it aims at is a URL of the origin it was aimed at.

use crate::capture::{Captured, MAX_BYTES};

pub(super) fn check(data: &[u8]) {
    match Captured::read(data) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(captured) => {
            assert!(data.len() <= MAX_BYTES && !captured.method.is_empty());
            for origin in [None, Some("https://hooks.example.com")] {
                let Ok(url) = captured.url(origin) else { continue };
                assert!(url.contains("://"), "{url:?} is no URL");
                if origin.is_some() {
                    assert!(url.starts_with("https://hooks.example.com"), "{url:?} is elsewhere");
                }
            }
        }
    }
}
