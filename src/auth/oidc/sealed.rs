//! What a sign-in with a provider needs when the browser comes back: sealed in a cookie of that browser, so that sign-ins that
//! no user finishes take no memory, and so that no other browser can finish it.

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crypto::random;
use serde::{Deserialize, Serialize};

/// Seconds in which a user must sign in at the provider. Our choice: time for a second factor there.
pub(super) const LIFETIME: u64 = 600;

/// Bytes of the nonce of AES-GCM.
const NONCE: usize = 12;

/// The program in the browser that a sign-in is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignInApp {
    /// Pages behind a sign-in: the session is a cookie.
    #[default]
    Pages,
    /// The stock editor: it gets a token.
    Editor,
    /// The console: it gets a token.
    Console,
}

/// A sign-in under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingSignIn {
    /// The provider's name.
    pub provider: String,
    /// `state`.
    pub state: String,
    /// `nonce` of the ID token.
    pub nonce: String,
    /// The verifier of PKCE (RFC 7636).
    pub verifier: String,
    /// The redirect URI sent to the provider.
    pub redirect_uri: String,
    /// Where the sign-in leads; empty: to no page.
    pub back: String,
    /// The program that signs in.
    pub app: SignInApp,
    /// When it began, seconds since 1970.
    pub begun: u64,
}

/// Seals and opens; the key lasts as long as the process.
pub(super) struct Seal(Option<RandomizedNonceKey>);

impl Seal {
    pub(super) fn new() -> Self {
        Self(RandomizedNonceKey::new(&AES_256_GCM, &random::<32>()).ok())
    }

    /// The cookie's value; `None`: the library refuses.
    pub(super) fn seal(&self, pending: &PendingSignIn) -> Option<String> {
        let mut text = serde_json::to_vec(pending).ok()?;
        let key = self.0.as_ref()?;
        let nonce = key.seal_in_place_append_tag(Aad::empty(), &mut text).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&nonce.as_ref()[..], &text].concat()))
    }

    /// The sign-in of a cookie, at a time; `None`: it is none of this process, or has expired.
    pub(super) fn open(&self, cookie: &str, now: u64) -> Option<PendingSignIn> {
        let mut sealed = URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (nonce, text) = sealed.split_at_mut_checked(NONCE)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let key = self.0.as_ref()?;
        let text = key.open_in_place(nonce, Aad::empty(), text).ok()?;
        let pending: PendingSignIn = serde_json::from_slice(text).ok()?;
        let ends = pending.begun.saturating_add(LIFETIME);
        (now < ends).then_some(pending)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_opened_by_its_process_only_within_its_time_and_unchanged() {
        let pending = PendingSignIn {
            provider: "a".into(),
            state: "s".into(),
            nonce: "n".into(),
            verifier: "v".into(),
            redirect_uri: "https://x/".into(),
            back: "/".into(),
            app: SignInApp::Editor,
            begun: 100,
        };
        let seal = Seal::new();
        let cookie = seal.seal(&pending).unwrap();
        assert_eq!(seal.open(&cookie, 699).as_ref(), Some(&pending));
        assert_eq!(seal.open(&cookie, 700), None);
        assert_eq!(Seal::new().open(&cookie, 100), None);
        for at in [0, 20, cookie.len() - 1] {
            let mut changed = cookie.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(seal.open(std::str::from_utf8(&changed).unwrap(), 100), None);
        }
        assert_eq!(seal.open("", 100), None);
    }
}
