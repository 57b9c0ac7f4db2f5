//! Passkeys of local users (W3C Web Authentication Level 3): registration, sign-in without a
//! password, and the second factor of a session.
//!
//! [`ceremony`] checks what a browser returns, [`challenge`] makes challenges, [`registry`] adds,
//! lists and removes. A passkey is bound to its user, the host that it was registered at, and the
//! password that the user had: like a session, it ends with that.

mod base64url;
mod ceremony;
mod challenge;
mod registry;

pub use ceremony::{Assertion, PasskeyError, Registration};
pub(super) use challenge::Challenges;
pub use challenge::{PasskeyBegun, PasskeySite};
pub use registry::{AddPasskeyError, NewPasskey, PasskeyInfo, PasskeySelector};

use super::pair::Pair;
use super::session::{Session, new_token};
use super::sign_in::report_guessing;
use super::throttle::Failed;
use super::users::Users;
use super::{Auth, Caller, Issued, SignIn, SignInError, session_id};
use crate::store::{self, PasskeyRow, SessionRow};
use ceremony::{ALGORITHMS, Expected};
use challenge::{Challenge, LIFETIME, Purpose};
use crypto::sha256;
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::net::IpAddr;

/// The answer of a browser to a challenge.
#[derive(Debug)]
pub struct PasskeyAnswer {
    /// The cookie of the challenge; empty: there is none.
    pub cookie: String,
    /// The page that sends it.
    pub site: PasskeySite,
    /// What the authenticator has signed.
    pub assertion: Assertion,
}

/// Where a session is to be.
#[derive(Debug)]
pub struct PasskeyClient {
    /// The client, as in other sessions.
    pub client: String,
    /// `User-Agent`, as it may be shown.
    pub agent: String,
    /// The client's address.
    pub address: IpAddr,
}

impl Auth {
    /// Returns whether users may register passkeys and sign in with them.
    pub fn has_passkeys(&self) -> bool {
        self.0.registry.users().passkeys
    }

    /// Begins a sign-in. It names no user and no passkey: the authenticator offers what it has for
    /// this host.
    pub fn begin_passkey_sign_in(&self, site: &PasskeySite, now: u64) -> Option<PasskeyBegun> {
        let challenge = Challenge::new(Purpose::SignIn, site, now);
        let options = request_options(&challenge, "required", &[]);
        self.0.challenges.begin(&challenge, options)
    }

    /// Checks the answer and hands out a token, durable before it is handed out. The passkey stands
    /// for the password and the second factor, so the authenticator must have verified the user.
    ///
    /// All passkeys that do not count are refused alike.
    pub async fn sign_in_with_passkey(
        &self,
        answer: PasskeyAnswer,
        client: PasskeyClient,
        now: u64,
    ) -> Result<(SmolStr, Issued), SignInError> {
        let row = self
            .check_passkey(&answer, None, client.address, now)
            .await?;
        let users = self.0.registry.users();
        let token = new_token();
        let session = SessionRow {
            token: sha256(token.reveal().as_bytes()),
            user: row.user.clone(),
            client: client.client,
            agent: client.agent,
            created: now,
            expires: now.saturating_add(users.lifetime.as_secs()),
            password: Some(row.password),
            confirmed: now,
            factor: now,
            ..SessionRow::default()
        };
        let key = session.token;
        let ended = self.start_session(session, now).await?;
        let issued = Issued {
            token,
            expires_in: users.lifetime,
            ended,
            key,
        };
        Ok((row.user.into(), issued))
    }

    /// Begins to ask the user of a session for one of their passkeys; `None`: the session cannot
    /// have a second factor.
    pub async fn begin_passkey_step_up(
        &self,
        caller: &Caller,
        site: &PasskeySite,
        now: u64,
    ) -> Result<Option<PasskeyBegun>, SignInError> {
        let Some(session) = whole_users(caller) else {
            return Ok(None);
        };
        let rows = self.passkeys_of(&caller.user).await?;
        let own: Vec<_> = rows.iter().filter(|row| row.rp == site.rp).collect();
        let mut challenge = Challenge::new(Purpose::StepUp, site, now);
        challenge.session = session_id(session);
        let options = request_options(&challenge, "preferred", &own);
        Ok(self.0.challenges.begin(&challenge, options))
    }

    /// Checks the answer. The sign-in had a password or a passkey, so the authenticator need not
    /// have verified the user. Gives whether it is a second factor: it is.
    pub async fn check_second_factor(
        &self,
        answer: PasskeyAnswer,
        caller: &Caller,
        address: IpAddr,
        now: u64,
    ) -> Result<bool, SignInError> {
        let checked = self.check_passkey(&answer, Some(caller), address, now);
        checked.await.map(|_| true)
    }

    /// Checks the password of a session's user again, with the code of the second factor if there
    /// is one. Gives whether there is.
    pub async fn check_again(&self, asked: SignIn, now: u64) -> Result<bool, SignInError> {
        let users = self.check_password(&asked, now).await?;
        let user = users.find(&asked.user);
        Ok(user.is_some_and(|user| user.totp.is_some()))
    }

    /// From now on the password in this session is fresh, and so is the second factor if there was
    /// one; at all gateways.
    pub async fn step_up(
        &self,
        caller: &Caller,
        has_factor: bool,
        now: u64,
    ) -> Result<(), store::Error> {
        let Some(session) = whole_users(caller) else {
            return Ok(());
        };
        let factor = if has_factor { now } else { 0 };
        let kept = self.0.store.confirm_session(session.key, now, factor);
        kept.await?;
        session.confirm(now, factor);
        Ok(())
    }

    /// The passkey of an answer, for which the throttle counts like for a password. `caller`: the
    /// one who gives a second factor; `None`: it is a sign-in.
    async fn check_passkey(
        &self,
        answer: &PasskeyAnswer,
        caller: Option<&Caller>,
        address: IpAddr,
        now: u64,
    ) -> Result<PasskeyRow, SignInError> {
        let found = self.0.store.passkey(answer.assertion.raw_id.0.clone());
        let found = found.await?;
        let owner = found.as_ref().map(|row| SmolStr::new(&row.user));
        let counted = caller.map(|caller| caller.user.clone()).or(owner.clone());
        let pair = Pair::new(&counted.unwrap_or_default(), address);
        let attempt = self.attempt(pair, now).await?;
        let users = self.0.registry.users();
        let row = found.filter(|row| is_current(row, &users));
        let right = match (
            &row,
            caller.is_some_and(|caller| whole_users(caller).is_none()),
        ) {
            (_, true) => Err(PasskeyError::User),
            (None, _) => Err(PasskeyError::Unknown),
            (Some(row), _) if !users.admits(&row.user, address) => Err(PasskeyError::Network),
            (Some(row), _) => self.verify(row, answer, caller, now).await?,
        };
        match (right, row) {
            (Ok(()), Some(row)) => {
                self.keep_success(pair, attempt.passed(), now).await;
                Ok(row)
            }
            (right, _) => {
                let Failed { locked, guessed } = attempt.failed();
                if guessed {
                    report_guessing(owner.as_deref());
                }
                self.keep_failure(pair, now).await;
                Err(SignInError::BadPasskey {
                    user: owner,
                    reason: right.err().unwrap_or(PasskeyError::Unknown),
                    locked,
                    guessed,
                })
            }
        }
    }

    /// Whether the answer is right; then its challenge and its counter are used up.
    async fn verify(
        &self,
        row: &PasskeyRow,
        answer: &PasskeyAnswer,
        caller: Option<&Caller>,
        now: u64,
    ) -> Result<Result<(), PasskeyError>, SignInError> {
        let session = caller.and_then(Caller::session);
        let session = session.map(session_id).unwrap_or_default();
        let purpose = match caller {
            Some(_) => Purpose::StepUp,
            None => Purpose::SignIn,
        };
        let challenges = &self.0.challenges;
        let opened = challenges.open(&answer.cookie, &session, purpose, &answer.site, now);
        let challenge = match opened {
            Ok(challenge) => challenge,
            Err(error) => return Ok(Err(error)),
        };
        let counter = match answer.check(row, &challenge, caller) {
            Ok(counter) => counter,
            Err(error) => return Ok(Err(error)),
        };
        if !self.use_challenge(&challenge, now).await? {
            return Ok(Err(PasskeyError::Challenge));
        }
        let used = self.0.store.use_passkey(row.id.clone(), counter, now);
        if used.await? {
            return Ok(Ok(()));
        }
        tracing::warn!(
            user = row.user,
            passkey = row.name,
            "the counter of a passkey has not grown: there may be a copy of the authenticator; remove the passkey \
             (`flowgate passkey revoke`) unless you know why"
        );
        Ok(Err(PasskeyError::Counter))
    }

    /// Uses a challenge up whose answer is right; false: it was before, here or at another gateway
    /// of the store.
    async fn use_challenge(&self, challenge: &Challenge, now: u64) -> Result<bool, store::Error> {
        let store = &self.0.store;
        store.use_once(challenge.key(), challenge.ends(), now).await
    }
}

impl PasskeyAnswer {
    /// The counter, if the answer is right but for that (§7.2).
    fn check(
        &self,
        row: &PasskeyRow,
        challenge: &Challenge,
        caller: Option<&Caller>,
    ) -> Result<u32, PasskeyError> {
        let response = &self.assertion.response;
        if caller.is_some_and(|caller| caller.user != row.user) {
            return Err(PasskeyError::User);
        }
        // Of a sign-in the authenticator must say which user it has; else the session does (§7.2
        // step 6).
        let handle = response.user_handle.as_ref().map(|handle| &handle.0);
        let is_owner = handle.map_or(caller.is_some(), |handle| *handle == row.handle);
        if !is_owner {
            return Err(PasskeyError::User);
        }
        if row.rp != challenge.site.rp {
            return Err(PasskeyError::Unknown);
        }
        let expected = Expected {
            kind: "webauthn.get",
            challenge: &challenge.random,
            origin: &challenge.site.origin,
            rp: &challenge.site.rp,
            verified: caller.is_none(),
        };
        let (client, authenticator) = (&response.client_data.0, &response.authenticator_data.0);
        ceremony::client_data(client, &expected)?;
        let data = ceremony::authenticator_data(authenticator, &expected)?;
        ceremony::signature(
            row.algorithm,
            &row.key,
            authenticator,
            client,
            &response.signature.0,
        )?;
        Ok(data.counter)
    }
}

/// The caller's session, if it may change and use passkeys.
pub(super) fn whole_users(caller: &Caller) -> Option<&Session> {
    caller.session().filter(|session| session.is_whole_users())
}

/// Returns whether the user is there, with the password that the user had at the registration.
fn is_current(row: &PasskeyRow, users: &Users) -> bool {
    let user = users.find(&row.user);
    user.is_some_and(|user| user.record == Some(row.password))
}

/// `PublicKeyCredentialRequestOptionsJSON` (§5.1.10).
fn request_options(challenge: &Challenge, verification: &str, allowed: &[&PasskeyRow]) -> Json {
    json!({
        "challenge": challenge.random,
        "rpId": challenge.site.rp,
        "timeout": LIFETIME * 1000,
        "userVerification": verification,
        "allowCredentials": descriptors(allowed),
    })
}

/// `PublicKeyCredentialCreationOptionsJSON` (§5.1.9).
fn creation_options(challenge: &Challenge, user: &str, known: &[&PasskeyRow]) -> Json {
    let algorithms = ALGORITHMS.map(|alg| json!({ "type": "public-key", "alg": alg }));
    json!({
        "challenge": challenge.random,
        "rp": { "id": challenge.site.rp, "name": "flowgate" },
        "user": { "id": challenge.handle, "name": user, "displayName": user },
        "pubKeyCredParams": algorithms,
        "timeout": LIFETIME * 1000,
        "attestation": "none",
        "excludeCredentials": descriptors(known),
        "authenticatorSelection": { "residentKey": "preferred", "userVerification": "preferred" },
    })
}

fn descriptors(rows: &[&PasskeyRow]) -> Json {
    let rows = rows.iter();
    rows.map(|row| json!({ "type": "public-key", "id": base64url::encode(&row.id) }))
        .collect()
}
