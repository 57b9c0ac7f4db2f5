//! Challenges of passkeys: sealed in a cookie, so that those that no browser answers take no
//! memory, and bound to that browser, its page's origin, what they are for, and the session if
//! there is one. The store knows which were answered: each counts once.

use super::base64url::encode;
use super::ceremony::PasskeyError;
use crate::auth::seal::Seal;
use crypto::{Secret, random, sha256};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What they are sealed for.
const PURPOSE: &[u8] = b"challenge of a passkey";

/// Seconds in which a user must answer. Web Authentication §5.4, "timeout" recommends 300 to 600.
pub(super) const LIFETIME: u64 = 300;

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

/// Seals challenges.
pub(in crate::auth) struct Challenges(Seal);

/// A challenge on its way to the browser.
#[derive(Debug)]
pub struct PasskeyBegun {
    /// The options for `navigator.credentials`, as `PublicKeyCredential.parse…OptionsFromJSON`
    /// reads them.
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
        Self(Seal::new(secret))
    }

    /// Begins; `None`: the library refuses.
    pub(super) fn begin(
        &self,
        challenge: &Challenge,
        options: serde_json::Value,
    ) -> Option<PasskeyBegun> {
        Some(PasskeyBegun {
            options,
            cookie: Secret::new(self.0.seal(PURPOSE, challenge)?),
            lifetime: Duration::from_secs(LIFETIME),
        })
    }

    /// The challenge of a cookie: of this purpose, page and session, and not expired. Whether it
    /// was answered before is another question, which the one who has a right answer asks.
    pub(super) fn open(
        &self,
        cookie: &str,
        session: &str,
        purpose: Purpose,
        site: &PasskeySite,
        now: u64,
    ) -> Result<Challenge, PasskeyError> {
        let opened: Option<Challenge> = self.0.open(PURPOSE, cookie);
        let fits = opened.filter(|challenge| {
            challenge.purpose == purpose && challenge.session == session && now < challenge.ends()
        });
        let challenge = fits.ok_or(PasskeyError::Challenge)?;
        if challenge.site != *site {
            return Err(PasskeyError::Origin);
        }
        Ok(challenge)
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
    fn a_challenge_counts_for_its_purpose_page_session_and_time() {
        let (challenges, here) = (Challenges::new(None), site("a.example"));
        let mut challenge = Challenge::new(Purpose::StepUp, &here, 1000);
        challenge.session = "one".into();
        let cookie = challenges.begin(&challenge, ().into()).unwrap().cookie;
        let open = |session, purpose, site: &PasskeySite, now| {
            challenges.open(cookie.reveal(), session, purpose, site, now)
        };
        let error = Err(PasskeyError::Challenge);
        assert_eq!(open("two", Purpose::StepUp, &here, 1000), error);
        assert_eq!(open("", Purpose::SignIn, &here, 1000), error);
        assert_eq!(open("one", Purpose::Registration, &here, 1000), error);
        assert_eq!(open("one", Purpose::StepUp, &here, 1300), error);
        let elsewhere = open("one", Purpose::StepUp, &site("b.example"), 1000);
        assert_eq!(elsewhere, Err(PasskeyError::Origin));
        let foreign =
            Challenges::new(None).open(cookie.reveal(), "one", Purpose::StepUp, &here, 1000);
        assert_eq!(foreign, error, "another gateway's");

        assert_eq!(open("one", Purpose::StepUp, &here, 1299), Ok(challenge));
    }
}
