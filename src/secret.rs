//! Secret values that are wiped when dropped and never print themselves.

use zeroize::Zeroizing;

/// Bytes that must not be shown: no `Display`, no `Serialize`, and a `Debug` that says nothing.
#[derive(Clone)]
pub(crate) struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Secret(Zeroizing::new(bytes))
    }

    /// The only way to the content, named so that a reader of the call notices.
    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret::new(text.into_bytes())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

/// Fresh random bytes from the operating system; never from a generator that a snapshot of this machine would repeat.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0u8; N];
    let filled = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    // getrandom(2) does not fail once the kernel has booted; without randomness no key or nonce would be safe.
    filled.expect("the operating system gives random bytes");
    bytes
}

/// A random number in [0, 1), for jitter.
pub(crate) fn random_unit() -> f64 {
    (u64::from_le_bytes(random()) >> 11) as f64 / (1u64 << 53) as f64
}
