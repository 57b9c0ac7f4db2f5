//! Seals small values for cookies, and for the store: who keeps them for the gateway can neither
//! read nor change them.

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crypto::{Secret, hmac_sha256, random};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

/// Bytes of the nonce of AES-GCM.
const NONCE: usize = 12;

/// Bytes of the salt of each value's key: anyone can have values sealed, and one key must not seal
/// more than 2^32 of them (NIST SP 800-38D §8.3).
const SALT: usize = 16;

/// Bytes that a value is expected to have: a buffer that grows leaves what was in it behind.
const ROOM: usize = 8 << 10;

/// What the keys of a secret are for: the same secret encrypts credentials elsewhere.
const LABEL: &[u8] = b"flowgate seal";

/// Seals and opens, each value for a purpose: one that is sealed for another purpose does not open.
pub(super) struct Seal(Zeroizing<[u8; 32]>);

impl Seal {
    /// With the secret that gateways have in common all of them open what one has sealed. Without
    /// one the key lasts as long as the process.
    pub(super) fn new(secret: Option<&Secret>) -> Self {
        let of_secret = |secret: &Secret| hmac_sha256(secret.reveal().as_bytes(), LABEL);
        Self(Zeroizing::new(secret.map_or_else(random, of_secret)))
    }

    /// The value, as text for a cookie; `None`: the library refuses.
    pub(super) fn seal(&self, purpose: &[u8], value: &impl Serialize) -> Option<String> {
        let mut text = Vec::with_capacity(ROOM);
        serde_json::to_writer(&mut text, value).ok()?;
        let salt = random::<SALT>();
        let key = self.key(&salt, purpose)?;
        let nonce = key.seal_in_place_append_tag(Aad::empty(), &mut text).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&salt, &nonce.as_ref()[..], &text].concat()))
    }

    /// The value of a text; `None`: it was not sealed with this secret for this purpose, or was
    /// changed.
    pub(super) fn open<T: DeserializeOwned>(&self, purpose: &[u8], sealed: &str) -> Option<T> {
        let mut sealed = Zeroizing::new(URL_SAFE_NO_PAD.decode(sealed).ok()?);
        let (salt, rest) = sealed.split_at_mut_checked(SALT)?;
        let (nonce, text) = rest.split_at_mut_checked(NONCE)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let key = self.key(salt, purpose)?;
        let text = key.open_in_place(nonce, Aad::empty(), text).ok()?;
        serde_json::from_slice(text).ok()
    }

    fn key(&self, salt: &[u8], purpose: &[u8]) -> Option<RandomizedNonceKey> {
        let key = hmac_sha256(&*self.0, &[salt, purpose].concat());
        RandomizedNonceKey::new(&AES_256_GCM, &key).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_opened_by_its_seal_only_for_its_purpose_and_unchanged() {
        let seal = Seal::new(None);
        let cookie = seal.seal(b"a", &["a", "b"]).unwrap();
        let opened = |seal: &Seal, cookie: &str| seal.open::<Vec<String>>(b"a", cookie);
        assert_eq!(opened(&seal, &cookie).unwrap(), ["a", "b"]);
        assert_eq!(seal.open::<Vec<String>>(b"b", &cookie), None);
        assert_eq!(opened(&Seal::new(None), &cookie), None);
        for at in [0, 20, 30, cookie.len() - 1] {
            let mut changed = cookie.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(opened(&seal, std::str::from_utf8(&changed).unwrap()), None);
        }
        assert_eq!(opened(&seal, ""), None);
    }

    #[test]
    fn gateways_with_a_secret_in_common_open_what_one_has_sealed() {
        let of = |secret: &str| Seal::new(Some(&Secret::new(secret.to_owned())));
        let sealed = of("one").seal(b"a", &1).unwrap();
        assert_eq!(of("one").open(b"a", &sealed), Some(1));
        assert_eq!(of("two").open::<u8>(b"a", &sealed), None);
    }
}
