//! Challenges of passkeys: sealed in a cookie, so that those that no browser answers take no memory, and bound to that browser,
//! its page's origin, what they are for, and the session if there is one. Each counts once.

use super::base64url::encode;
use super::ceremony::PasskeyError;
use crate::auth::seal::Seal;
use crypto::{Secret, random, sha256};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What they are sealed for.
const PURPOSE: &[u8] = b"challenge of a passkey";

/// Seconds in which a user must answer. Web Authentication §5.4, "timeout" recommends 300 to 600.
pub(super) const LIFETIME: u64 = 300;

/// Challenges remembered as used. Our choice: some 0.5 MiB; only answers with a right signature stay in it.
const MAX_USED: usize = 10_000;

/// What a challenge is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Purpose {
    SignIn,
    StepUp,
    Registration,
}

/// The page that asks: its origin, and the relying party that is its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasskeySite {
    /// Such as `https://flows.example.org:8443`.
    pub origin: String,
    /// The host's name, in lower case.
    pub rp: String,
}

/// A challenge that is waiting for its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Challenge {
    pub(super) purpose: Purpose,
    /// 256 random bits, in base64url.
    pub(super) random: String,
    pub(super) site: PasskeySite,
    /// The id of the session; empty: a sign-in.
    pub(super) session: String,
    /// The user handle of a registration, in base64url; else empty.
    pub(super) handle: String,
    /// Seconds since 1970.
    begun: u64,
}

/// Seals challenges, and knows which were answered.
pub(in crate::auth) struct Challenges {
    seal: Seal,
    /// Until when they would count, by hash.
    used: Mutex<HashMap<[u8; 32], u64>>,
}

/// A challenge on its way to the browser.
#[derive(Debug)]
pub struct PasskeyBegun {
    /// The options for `navigator.credentials`, as `PublicKeyCredential.parse…OptionsFromJSON` reads them.
    pub options: serde_json::Value,
    /// The cookie to set.
    pub cookie: Secret,
    /// How long it counts.
    pub lifetime: Duration,
}

impl Challenge {
    pub(super) fn new(purpose: Purpose, site: &PasskeySite, now: u64) -> Self {
        Self {
            purpose,
            random: encode(&random::<32>()),
            site: site.clone(),
            session: String::new(),
            handle: String::new(),
            begun: now,
        }
    }

    /// Names it.
    pub(super) fn key(&self) -> [u8; 32] {
        sha256(self.random.as_bytes())
    }

    /// When it counts no more, seconds since 1970.
    pub(super) fn ends(&self) -> u64 {
        self.begun.saturating_add(LIFETIME)
    }
}

impl Challenges {
    /// `secret`: what gateways that share the store have in common.
    pub(in crate::auth) fn new(secret: Option<&Secret>) -> Self {
        Self {
            seal: Seal::new(secret),
            used: Mutex::default(),
        }
    }

    /// Begins; `None`: the library refuses.
    pub(super) fn begin(
        &self,
        challenge: &Challenge,
        options: serde_json::Value,
    ) -> Option<PasskeyBegun> {
        Some(PasskeyBegun {
            options,
            cookie: Secret::new(self.seal.seal(PURPOSE, challenge)?),
            lifetime: Duration::from_secs(LIFETIME),
        })
    }

    /// Takes the challenge of a cookie: of this purpose, page and session, not expired, and not used. No other request can
    /// take it until it is [released](Self::release).
    pub(super) fn take(
        &self,
        (cookie, session): (&str, &str),
        (purpose, site): (Purpose, &PasskeySite),
        now: u64,
    ) -> Result<Challenge, PasskeyError> {
        let opened: Option<Challenge> = self.seal.open(PURPOSE, cookie);
        let fits = opened.filter(|challenge| {
            challenge.purpose == purpose && challenge.session == session && now < challenge.ends()
        });
        let challenge = fits.ok_or(PasskeyError::Challenge)?;
        if challenge.site != *site {
            return Err(PasskeyError::Origin);
        }
        let mut used = self.used();
        if used.len() >= MAX_USED {
            used.retain(|_, ends| *ends > now);
        }
        let key = challenge.key();
        if used.len() >= MAX_USED || used.contains_key(&key) {
            return Err(PasskeyError::Challenge);
        }
        used.insert(key, challenge.ends());
        Ok(challenge)
    }

    /// A challenge whose answer was wrong may be answered again: what unauthenticated clients send is not remembered.
    pub(super) fn release(&self, challenge: &Challenge) {
        self.used().remove(&challenge.key());
    }

    fn used(&self) -> MutexGuard<'_, HashMap<[u8; 32], u64>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn site(host: &str) -> PasskeySite {
        PasskeySite {
            origin: format!("https://{host}"),
            rp: host.to_owned(),
        }
    }

    #[test]
    fn a_challenge_counts_once_for_its_purpose_page_session_and_time() {
        let (challenges, here) = (Challenges::new(None), site("a.example"));
        let mut challenge = Challenge::new(Purpose::StepUp, &here, 1000);
        challenge.session = "one".into();
        let cookie = challenges.begin(&challenge, ().into()).unwrap().cookie;
        let take = |session, purpose, site: &PasskeySite, now| {
            challenges.take((cookie.reveal(), session), (purpose, site), now)
        };
        let error = Err(PasskeyError::Challenge);
        assert_eq!(take("two", Purpose::StepUp, &here, 1000), error);
        assert_eq!(take("", Purpose::SignIn, &here, 1000), error);
        assert_eq!(take("one", Purpose::Registration, &here, 1000), error);
        assert_eq!(take("one", Purpose::StepUp, &here, 1300), error);
        let elsewhere = take("one", Purpose::StepUp, &site("b.example"), 1000);
        assert_eq!(elsewhere, Err(PasskeyError::Origin));
        let foreign =
            Challenges::new(None).take((cookie.reveal(), "one"), (Purpose::StepUp, &here), 1000);
        assert_eq!(foreign, error, "another gateway's");

        let taken = take("one", Purpose::StepUp, &here, 1299).unwrap();
        assert_eq!(taken, challenge);
        assert_eq!(take("one", Purpose::StepUp, &here, 1299), error);
        challenges.release(&taken);
        assert!(take("one", Purpose::StepUp, &here, 1299).is_ok());
    }

    #[test]
    fn used_challenges_take_bounded_memory_and_are_forgotten_when_they_have_expired() {
        let (challenges, here) = (Challenges::new(None), site("a.example"));
        let take = |begun: u64, now: u64| {
            let challenge = Challenge::new(Purpose::SignIn, &here, begun);
            let cookie = challenges.begin(&challenge, ().into()).unwrap().cookie;
            challenges.take((cookie.reveal(), ""), (Purpose::SignIn, &here), now)
        };
        for _ in 0..MAX_USED {
            assert!(take(1000, 1000).is_ok());
        }
        assert_eq!(take(1000, 1000), Err(PasskeyError::Challenge));
        assert_eq!(challenges.used().len(), MAX_USED);
        assert!(take(1300, 1300).is_ok());
        assert_eq!(challenges.used().len(), 1);
    }
}
