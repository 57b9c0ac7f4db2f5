//! Seals small values for cookies: a browser keeps them for the gateway, and can neither read nor change them.

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crypto::random;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of the nonce of AES-GCM.
const NONCE: usize = 12;

/// Seals and opens; the key lasts as long as the process, and opens nothing of another seal.
pub(super) struct Seal(Option<RandomizedNonceKey>);

impl Seal {
    pub(super) fn new() -> Self {
        Self(RandomizedNonceKey::new(&AES_256_GCM, &random::<32>()).ok())
    }

    /// The cookie's value; `None`: the library refuses.
    pub(super) fn seal(&self, value: &impl Serialize) -> Option<String> {
        let mut text = serde_json::to_vec(value).ok()?;
        let key = self.0.as_ref()?;
        let nonce = key.seal_in_place_append_tag(Aad::empty(), &mut text).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&nonce.as_ref()[..], &text].concat()))
    }

    /// The value of a cookie; `None`: this process has not sealed it, or it was changed.
    pub(super) fn open<T: DeserializeOwned>(&self, cookie: &str) -> Option<T> {
        let mut sealed = URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (nonce, text) = sealed.split_at_mut_checked(NONCE)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let key = self.0.as_ref()?;
        let text = key.open_in_place(nonce, Aad::empty(), text).ok()?;
        serde_json::from_slice(text).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_opened_by_its_seal_only_and_unchanged() {
        let seal = Seal::new();
        let cookie = seal.seal(&["a", "b"]).unwrap();
        let opened = |seal: &Seal, cookie: &str| seal.open::<Vec<String>>(cookie);
        assert_eq!(opened(&seal, &cookie).unwrap(), ["a", "b"]);
        assert_eq!(opened(&Seal::new(), &cookie), None);
        for at in [0, 20, cookie.len() - 1] {
            let mut changed = cookie.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(opened(&seal, std::str::from_utf8(&changed).unwrap()), None);
        }
        assert_eq!(opened(&seal, ""), None);
    }
}
