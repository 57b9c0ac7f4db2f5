//! Signing in: throttle, queue, password, scope, token, in this order. Each step may be the last.
//!
//! Runs as a task of the control runtime; the hash itself is computed on a blocking thread.

use super::hashing::verify;
use super::known_addresses;
use super::pair::Pair;
use super::session::{BASIC, Session, new_token};
use super::throttle::{Failed, Passed, Slot};
use super::totp::{self, CodeKey};
use super::users::{User, Users};
use super::{Auth, Issued, SignIn, SignInError, basic, covers};
use crate::config::Totp;
use crate::store::SessionRow;
use crypto::{Secret, sha256};
use limits::fair_queue::{MAX_WAIT, Turn};
use limits::sliding_window::Refused;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// When to come back if the queue for hashing is full; it empties in a few seconds.
const QUEUE_IS_FULL: SignInError = SignInError::Throttled {
    wait: Duration::from_secs(1),
};

impl Auth {
    /// Checks a password and hands out a token, durable before it is handed out.
    ///
    /// Unknown users and wrong passwords are the same error and cost the same time; a scope that is
    /// not covered is reported only after the password was right. With too many sign-ins waiting,
    /// the error is `Throttled`.
    pub async fn sign_in(&self, sign_in: SignIn, now: u64) -> Result<Issued, SignInError> {
        let users = self.check_password(&sign_in, now).await?;
        let user = users.find(&sign_in.user);
        let own = user.map(|user| &user.permissions);
        let had = sign_in.here.as_ref().or(own);
        let covers = |name| had.is_some_and(|had| covers(had, name));
        if !sign_in.scope.iter().all(|name| covers(name)) {
            return Err(SignInError::InvalidScope);
        }
        let record = user.and_then(|user| user.record);
        self.hand_out(sign_in, users.lifetime, record, now).await
    }

    /// Checks a password and a code; gives the users among whom that of the sign-in was found.
    pub(super) async fn check_password(
        &self,
        sign_in: &SignIn,
        now: u64,
    ) -> Result<Arc<Users>, SignInError> {
        let pair = Pair::new(&sign_in.user, sign_in.address);
        let (turn, attempt) = self.turn(pair, now).await?;

        let users = self.0.registry.users();
        let user = users.find(&sign_in.user);
        let totp = user.and_then(|user| user.totp.as_deref());
        let (attempted, code) = parts(totp, sign_in, now);
        let password = user.map_or_else(
            || users.stand_in(&sign_in.user),
            |user| user.password.clone(),
        );
        let renew = user.is_some_and(User::is_to_renew);
        let (right, renewed) = verify(turn, password, renew, attempted).await;
        let outside = right && !users.admits(&sign_in.user, sign_in.address);
        let right = right && !outside && self.use_code(&sign_in.user, code, now).await?;
        let Some(user) = user.filter(|_| right) else {
            let Failed { locked, guessed } = attempt.failed();
            if guessed {
                report_guessing(user.map(|_| sign_in.user.as_str()));
            }
            self.keep_failure(pair, now).await;
            return Err(SignInError::BadCredentials {
                locked,
                guessed,
                outside,
            });
        };
        self.keep_success(pair, attempt.passed(), now).await;
        user.hint(&sign_in.user);
        if let Some(hash) = renewed {
            self.renew_generated(hash).await;
        }
        Ok(users)
    }

    /// Makes the session of a sign-in that succeeded; one of Basic authentication has no token.
    async fn hand_out(
        &self,
        sign_in: SignIn,
        lifetime: Duration,
        record: Option<[u8; 32]>,
        now: u64,
    ) -> Result<Issued, SignInError> {
        let basic_key = self.key_of_basic(&sign_in);
        let (token, lifetime) = match basic_key {
            Some(_) => (Secret::default(), lifetime.min(basic::LIFETIME)),
            None => (new_token(), lifetime),
        };
        let row = SessionRow {
            token: basic_key.unwrap_or_else(|| sha256(token.reveal().as_bytes())),
            user: sign_in.user,
            client: sign_in.client,
            agent: sign_in.agent,
            scope: sign_in.scope.iter().map(ToString::to_string).collect(),
            created: now,
            expires: now.saturating_add(lifetime.as_secs()),
            password: record,
            ..SessionRow::default()
        };
        let key = row.token;
        let ended = self.start_session(row, now).await?;
        Ok(Issued {
            token,
            expires_in: lifetime,
            ended,
            key,
        })
    }

    /// Whether the second factor is right too. A code counts once, also after a restart.
    async fn use_code(
        &self,
        user: &str,
        code: SecondFactor,
        now: u64,
    ) -> Result<bool, SignInError> {
        match code {
            SecondFactor::NotNeeded => Ok(true),
            SecondFactor::Wrong => Ok(false),
            SecondFactor::Right(key) => {
                let is_new = self.0.store.use_code(user.to_owned(), key, now);
                Ok(is_new.await?)
            }
        }
    }

    /// Waits for the turn of a sign-in, if the throttle lets it, and begins it.
    ///
    /// The throttle is asked first, so that a sign-in that it refuses takes no place from others.
    /// It is asked again at the turn, because others have failed meanwhile.
    async fn turn(&self, pair: Pair, now: u64) -> Result<(Turn, Attempt<'_>), SignInError> {
        let admitted = self.throttle().admit(pair, now);
        let known = admitted.map_err(|wait| SignInError::Throttled { wait })?;
        let turn = self.0.hashing.turn(pair.prefix, known).await;
        let turn = turn.ok_or(QUEUE_IS_FULL)?;
        Ok((turn, self.attempt(pair, now).await?))
    }

    /// Begins a sign-in, unless there were too many failures.
    pub(super) async fn attempt(&self, pair: Pair, now: u64) -> Result<Attempt<'_>, SignInError> {
        let attempt = tokio::time::timeout(MAX_WAIT, Attempt::begin(self, pair, now));
        attempt.await.map_err(|_| QUEUE_IS_FULL)?
    }

    /// Makes a session durable, then known; gives how many others of the user it has ended.
    pub(super) async fn start_session(
        &self,
        row: SessionRow,
        now: u64,
    ) -> Result<usize, SignInError> {
        if row.client != BASIC {
            self.0.store.save_session(row.clone()).await?;
        } else if self.0.registry.sessions().find(&row.token).is_some() {
            // Another request of the device was faster. Nothing is awaited from here until the
            // session is there.
            return Ok(0);
        }
        let user = row.user.clone();
        let Some(ended) = self.0.registry.admit(Session::new(&row, now)) else {
            self.forget(vec![row.token]).await?;
            return Err(SignInError::BadCredentials {
                locked: false,
                guessed: false,
                outside: false,
            });
        };
        Ok(self.end_surplus(&user, ended).await)
    }

    /// Replaces the hash of the generated admin, which is the only one that is ours; without that
    /// all goes on.
    async fn renew_generated(&self, hash: Secret) {
        match self.0.store.save_generated_admin(hash.clone()).await {
            Ok(()) => {
                self.0.registry.renew(|users| users.renewed(&hash));
            }
            Err(error) => tracing::warn!(%error, "a stronger password hash could not be kept"),
        }
    }

    /// A failure that cannot be kept still counts until a restart: the answer stays the same.
    pub(super) async fn keep_failure(&self, pair: Pair, now: u64) {
        if let Err(error) = self.0.store.save_failure(pair.failure_row(now)).await {
            tracing::warn!(%error, "a failed sign-in could not be kept for after a restart");
        }
    }

    /// Stores a success. If that fails, it still counts until a restart: the sign-in succeeds.
    pub(super) async fn keep_success(&self, pair: Pair, passed: Passed, now: u64) {
        let store = &self.0.store;
        if passed.cleared {
            let row = pair.failure_row(now);
            if let Err(error) = store.clear_failures(&row.user, &row.address).await {
                tracing::warn!(%error, "failures before a sign-in could not be forgotten for after a restart");
            }
        }
        if passed.remember {
            let row = pair.address_row(now);
            let saved = store.save_known_address(row, known_addresses::PER_USER);
            if let Err(error) = saved.await {
                tracing::warn!(%error, "the address of a sign-in could not be kept for after a restart");
            }
        }
    }
}

/// The second factor of a sign-in, checked.
enum SecondFactor {
    /// The user has none.
    NotNeeded,
    /// The code is missing or wrong.
    Wrong,
    /// The code is right, if it was not used before.
    Right(CodeKey),
}

/// The password to check, and the second factor. A device that authenticates with each request has
/// no code.
fn parts(totp: Option<&Totp>, sign_in: &SignIn, now: u64) -> (Secret, SecondFactor) {
    let whole = || sign_in.password.clone();
    let Some(totp) = totp.filter(|_| sign_in.client != BASIC) else {
        let needed = totp.is_some();
        let factor = if needed {
            SecondFactor::Wrong
        } else {
            SecondFactor::NotNeeded
        };
        return (whole(), factor);
    };
    let checked = |code: &str| {
        let key = totp::check(totp, code.trim(), now);
        key.map_or(SecondFactor::Wrong, SecondFactor::Right)
    };
    if let Some(code) = &sign_in.code {
        return (whole(), checked(code));
    }
    match totp::split(sign_in.password.reveal()) {
        Some((password, code)) => (Secret::new(password.to_owned()), checked(code)),
        None => (whole(), SecondFactor::Wrong),
    }
}

/// Names that are no user's may be passwords in the wrong field.
pub(super) fn report_guessing(user: Option<&str>) {
    tracing::warn!(
        user = user.unwrap_or("(no such user)"),
        "many failed sign-ins of one user from several addresses: the password may be under attack; addresses \
         from which the user has not signed in before have to wait ([auth.throttle] per_user)"
    );
}

/// A sign-in that the throttle let through. It is a failure unless it passes, also when it is
/// dropped half-way.
pub(super) struct Attempt<'a> {
    auth: &'a Auth,
    slot: Option<Slot>,
    now: u64,
}

impl<'a> Attempt<'a> {
    /// Waits while sign-ins under way decide whether this one may be tried. Only those with a turn
    /// begin, so there are few, and the longest wait is that for a hash.
    async fn begin(auth: &'a Auth, pair: Pair, now: u64) -> Result<Self, SignInError> {
        loop {
            let mut decided = pin!(auth.0.decided.notified());
            // before looking, so that no decision falls between looking and waiting
            decided.as_mut().enable();
            let begun = auth.throttle().begin(pair, now);
            match begun {
                Ok(slot) => {
                    return Ok(Self {
                        auth,
                        slot: Some(slot),
                        now,
                    });
                }
                Err(Refused::Blocked(wait)) => return Err(SignInError::Throttled { wait }),
                Err(Refused::Busy) => decided.await,
            }
        }
    }

    /// The password was right.
    pub(super) fn passed(mut self) -> Passed {
        let passed = self.slot.take();
        let passed = passed.map(|slot| self.auth.throttle().passed(slot, self.now));
        self.auth.0.decided.notify_waiters();
        passed.unwrap_or_default()
    }

    pub(super) fn failed(mut self) -> Failed {
        self.fail()
    }

    fn fail(&mut self) -> Failed {
        let Some(slot) = self.slot.take() else {
            return Failed::default();
        };
        let failed = self.auth.throttle().failed(slot, self.now);
        let parts = &self.auth.0;
        for (happened, count) in [
            (failed.locked, &parts.lockouts),
            (failed.guessed, &parts.guessing),
        ] {
            count.fetch_add(happened.into(), Ordering::Relaxed);
        }
        parts.decided.notify_waiters();
        failed
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.fail();
    }
}
