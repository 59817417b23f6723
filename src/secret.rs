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
