//! Our account at the upstream: the token that our requests show, obtained when it is needed and
//! renewed before it expires or when it is refused.
//!
//! One sign-in at a time for all requests, and never many of them: runtimes lock an account out
//! that fails often. Decides when to sign in; [`super::sign_in`] does it.

use super::bearer::{Bearer, refuses_token, sign};
use super::sign_in::{Failure, SHORT_TIMEOUT, SIGN_IN_TIMEOUT};
use super::{Error, Outgoing, ResponseBody, Upstream};
use crate::config::{self, token_in};
use arc_swap::ArcSwapOption;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

/// The first wait after a failure; each further one doubles it. Our choice.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest such wait. Our choice.
const MAX_WAIT: Duration = Duration::from_mins(1);
/// The wait after a refused password: four sign-ins in the ten minutes in which Node-RED allows
/// five, locked out or not.
const REFUSED_WAIT: Duration = Duration::from_mins(3);
/// A token refused before it is so old counts as a failure. Our choice.
const YOUNG: Duration = Duration::from_mins(1);

/// A path that the upstream answers only with a valid token, and that is not in Node-RED's audit
/// log.
const CLOSED: &str = "/settings";

/// The most that is read of it. Our choice: Node-RED's are some KiB.
const SETTINGS: usize = 1 << 20;

/// The upstream's account of ours.
pub(super) struct Account {
    current: ArcSwapOption<Bearer>,
    turn: Mutex<Turn>,
    /// Turns that have begun.
    begun: AtomicU64,
    /// True if a task renews a token that is still good.
    renewing: AtomicBool,
    /// Whether the upstream takes us for who we are: [`UNKNOWN`], [`YES`] or [`NO`].
    accepted: AtomicU8,
}

const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

/// The right to sign in, held by one task at a time.
struct Turn {
    /// `None`: signed out for good.
    means: Option<config::Account>,
    /// No sign-in before this.
    earliest: Option<Instant>,
    /// Failures in a row.
    failures: u32,
    /// Tokens in a row that were refused while young.
    strikes: u32,
    last: Option<Failure>,
}

/// Why another token is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// There is none, or it ends.
    Due,
    /// The upstream has refused it.
    Refused,
}

impl Upstream {
    /// Sends a request with the gateway's credentials, and waits for the head of its response. A
    /// rejected token is renewed, and the request repeated once, unless its body is streamed from a
    /// client: a rejected request has changed nothing.
    pub async fn send(
        &self,
        head: impl Fn() -> Request<()>,
        body: Outgoing,
        client: Option<IpAddr>,
    ) -> Result<Response<ResponseBody>, Error> {
        let Some(account) = &self.0.account else {
            return self.send_bare(head, body, client).await;
        };
        let shown = self.counted(self.shown(account).await)?;
        let again = body.again();
        let response = self
            .send_bare(|| sign(head(), &shown), body, client)
            .await?;
        let headers = response.headers();
        let of_another_kind = headers.contains_key(WWW_AUTHENTICATE) && !refuses_token(headers);
        if response.status() != StatusCode::UNAUTHORIZED || of_another_kind {
            return Ok(response);
        }
        // A flow may send a 401 too, or a permission is missing: another request checks the token.
        let fresh = self.another(Some(shown.clone()), Why::Refused).await;
        let fresh = self.counted(fresh)?;
        if fresh == shown {
            return Ok(response);
        }
        drop(response);
        match again {
            Some(body) => Box::pin(self.send_bare(|| sign(head(), &fresh), body, client)).await,
            None => Err(self.refused()),
        }
    }

    /// A token that is good now, for what is no request; `None`: the upstream is open.
    pub async fn token(&self) -> Result<Option<Arc<Bearer>>, Error> {
        let Some(account) = &self.0.account else {
            return Ok(None);
        };
        self.shown(account).await?;
        Ok(account.current.load_full())
    }

    /// Another token in place of this one, which was rejected; the same if the upstream, queried
    /// again, accepts it.
    pub async fn renew(&self, refused: &Bearer) -> Result<Option<Arc<Bearer>>, Error> {
        let Some(account) = &self.0.account else {
            return Ok(None);
        };
        let refused = refused.header().clone();
        self.another(Some(refused), Why::Refused).await?;
        Ok(account.current.load_full())
    }

    /// Returns whether the gateway has an account there.
    pub(super) fn has_account(&self) -> bool {
        self.0.account.is_some()
    }

    /// Returns whether the upstream accepts the gateway's account, or needs none.
    pub fn authorized(&self) -> bool {
        match &self.0.account {
            Some(account) => account.accepted.load(Ordering::Relaxed) == YES,
            None => !self.0.lacks_account.load(Ordering::Relaxed),
        }
    }

    /// Takes over another password or token, and tries again at once what has been refused.
    pub async fn change_account(&self, means: Option<config::Account>) {
        let (account, means) = match (&self.0.account, means) {
            (Some(account), Some(means)) => (account, means),
            (None, None) => return,
            (Some(_), None) | (None, Some(_)) => {
                let sentence = "an account at the upstream cannot come or go without a restart";
                return tracing::warn!(upstream = ?self, "{sentence}");
            }
        };
        let mut turn = account.turn.lock().await;
        let same = match (&turn.means, &means) {
            (Some(config::Account::User(old)), config::Account::User(new)) => old == new,
            _ => false,
        };
        if !same {
            account.current.store(Bearer::at_once(&means));
        }
        *turn = Turn::new(means);
    }

    /// Gives the token back and takes no other: the gateway ends.
    pub async fn sign_out(&self) {
        let Some(account) = &self.0.account else {
            return;
        };
        let leave = async {
            let means = account.turn.lock().await.means.take();
            match (means, account.current.swap(None)) {
                (Some(config::Account::User(_)), Some(bearer)) => self.revoke(&bearer).await,
                _ => true,
            }
        };
        if !timeout(SHORT_TIMEOUT, leave).await.unwrap_or(false) {
            let sentence = "the gateway's token at the upstream could not be revoked";
            tracing::warn!(upstream = ?self, "{sentence}");
        }
    }

    /// The value of `Authorization`, at once if the token is good.
    async fn shown(&self, account: &Account) -> Result<HeaderValue, Error> {
        let now = Instant::now();
        let current = account.current.load();
        let Some(bearer) = current.as_ref().filter(|bearer| bearer.is_good(now)) else {
            let old = current.as_ref().map(|bearer| bearer.header().clone());
            drop(current);
            return self.another(old, Why::Due).await;
        };
        let header = bearer.header().clone();
        if bearer.is_due(now) && !account.renewing.swap(true, Ordering::Relaxed) {
            let (upstream, old) = (self.clone(), header.clone());
            tokio::spawn(async move {
                if upstream.another(Some(old), Why::Due).await.is_err() {
                    sleep(FIRST_WAIT).await;
                }
                let account = upstream.0.account.as_ref();
                account.inspect(|account| account.renewing.store(false, Ordering::Relaxed));
            });
        }
        Ok(header)
    }

    /// Another token than `old`. A task of its own, so that a client that leaves neither stops it
    /// nor makes us sign in again and again.
    async fn another(&self, old: Option<HeaderValue>, why: Why) -> Result<HeaderValue, Error> {
        let Some(account) = &self.0.account else {
            return Err(Error::SignedOut);
        };
        let seen = account.begun.load(Ordering::Acquire);
        let upstream = self.clone();
        let task = tokio::spawn(async move { upstream.in_turn(old, why, seen).await });
        task.await.unwrap_or(Err(Error::SignedOut))
    }

    async fn in_turn(
        self,
        old: Option<HeaderValue>,
        why: Why,
        seen: u64,
    ) -> Result<HeaderValue, Error> {
        let Some(account) = &self.0.account else {
            return Err(Error::SignedOut);
        };
        let mut turn = account.turn.lock().await;
        let current = account.current.load_full();
        match &current {
            Some(bearer) if Some(bearer.header()) != old.as_ref() => {
                return Ok(bearer.header().clone());
            }
            _ if account.begun.load(Ordering::Acquire) == seen => {}
            // Another task has had a turn since then.
            Some(bearer) if turn.last.is_none() => return Ok(bearer.header().clone()),
            _ => return Err(turn.error()),
        }
        account.begun.fetch_add(1, Ordering::Release);
        self.renewed(account, &mut turn, current, why).await
    }

    async fn renewed(
        &self,
        account: &Account,
        turn: &mut Turn,
        current: Option<Arc<Bearer>>,
        why: Why,
    ) -> Result<HeaderValue, Error> {
        let Some(means) = turn.means.clone() else {
            return Err(Error::SignedOut);
        };
        let mut good = current
            .as_deref()
            .filter(|bearer| bearer.is_good(Instant::now()));
        if let (Why::Refused, Some(bearer)) = (why, good) {
            match self.is_accepted(bearer).await {
                Ok(true) => {
                    turn.last = None;
                    self.accept(account, true, "");
                    return Ok(bearer.header().clone());
                }
                Ok(false) => turn.strike(bearer),
                Err(error) => {
                    tracing::warn!(upstream = ?self, why = %error, "the upstream could not be asked whether it accepts the token");
                    turn.last = Some(Failure::Failed(error));
                    return Err(turn.error());
                }
            }
            good = None;
        }
        if turn.earliest.is_some_and(|at| Instant::now() < at) {
            if good.is_none() {
                let failure = turn.last.get_or_insert(Failure::Token);
                if failure.is_refusal() {
                    self.accept(account, false, &failure.to_string());
                }
            }
            return Err(turn.error());
        }
        match self.obtain(means, current.as_deref()).await {
            Ok(bearer) => {
                turn.succeeded();
                if turn.strikes == 0 {
                    self.accept(account, true, "");
                }
                let header = bearer.header().clone();
                account.current.store(Some(Arc::new(bearer)));
                Ok(header)
            }
            Err(failure) => {
                if good.is_none() && failure.is_refusal() {
                    self.accept(account, false, &failure.to_string());
                } else if turn.failures == 0 {
                    tracing::warn!(upstream = ?self, why = %failure, "no token of the upstream could be obtained; retrying");
                }
                turn.failed(failure);
                Err(turn.error())
            }
        }
    }

    /// Whether the upstream takes this token, asked where no flow can answer.
    async fn is_accepted(&self, bearer: &Bearer) -> Result<bool, Error> {
        let head = || sign(self.own(CLOSED), bearer.header());
        let asked = timeout(
            SIGN_IN_TIMEOUT,
            self.send_bare(head, Outgoing::empty(), None),
        )
        .await;
        let response = asked.unwrap_or(Err(Error::Timeout))?;
        match response.status() {
            StatusCode::UNAUTHORIZED => Ok(!refuses_token(response.headers())),
            StatusCode::OK => {
                let settings = timeout(SIGN_IN_TIMEOUT, response.into_body().whole(SETTINGS)).await;
                match settings.unwrap_or(Err(Error::Timeout)) {
                    Ok(settings) => Ok(!is_anonymous(&settings)),
                    // Too large for a response of another server.
                    Err(Error::Unexpected(_)) => Ok(true),
                    Err(error) => Err(error),
                }
            }
            _ => Ok(true),
        }
    }

    /// Checks anew whether the upstream accepts our credentials. This signs in at start, and renews
    /// a token that no request uses.
    pub(super) async fn check_account(&self) {
        let Some(account) = &self.0.account else {
            return;
        };
        // A refusal is logged where it is found.
        if let Ok(shown) = self.shown(account).await {
            let _ = self.another(Some(shown), Why::Refused).await;
        }
    }

    /// Signs in, or reads the file again.
    async fn obtain(
        &self,
        means: config::Account,
        current: Option<&Bearer>,
    ) -> Result<Bearer, Failure> {
        let file = match means {
            config::Account::User(means) => return self.sign_in(&means).await,
            config::Account::Token { file, .. } => file,
        };
        let read = tokio::task::spawn_blocking(move || token_in(&file)).await;
        let bearer = read
            .ok()
            .flatten()
            .and_then(|token| Bearer::new(token, None));
        bearer
            .filter(|bearer| current.is_none_or(|current| current.header() != bearer.header()))
            .ok_or(Failure::Token)
    }

    /// Records whether the upstream accepts our credentials; a change is logged.
    fn accept(&self, account: &Account, yes: bool, why: &str) {
        let now = if yes { YES } else { NO };
        let before = account.accepted.swap(now, Ordering::Relaxed);
        if before != now {
            self.0.metrics.authorized(yes);
            if yes {
                tracing::info!(upstream = ?self, "the upstream accepts the gateway's account");
            } else {
                let sentence = "the upstream does not accept the gateway's account";
                tracing::error!(upstream = ?self, why, "{sentence}: see user or token_file in [upstream]");
            }
        }
    }

    pub(super) fn counted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.inspect_err(|error| {
            if let Some(kind) = error.fault() {
                self.0.metrics.fault(kind);
            }
        })
    }
}

impl Account {
    pub(super) fn new(means: config::Account) -> Self {
        Self {
            current: ArcSwapOption::new(Bearer::at_once(&means)),
            turn: Mutex::new(Turn::new(means)),
            begun: AtomicU64::new(0),
            renewing: AtomicBool::new(false),
            accepted: AtomicU8::new(UNKNOWN),
        }
    }
}

impl Turn {
    fn new(means: config::Account) -> Self {
        Self {
            means: Some(means),
            earliest: None,
            failures: 0,
            strikes: 0,
            last: None,
        }
    }

    /// The token was refused. The first young one may have been lost with the upstream's sessions;
    /// with more of them something else is wrong.
    fn strike(&mut self, bearer: &Bearer) {
        match bearer.strike() {
            None => return,
            Some(age) if age >= YOUNG => self.strikes = 0,
            Some(_) => self.strikes = self.strikes.saturating_add(1),
        }
        if let Some(before) = self.strikes.checked_sub(2) {
            let at = bearer.since() + wait(before);
            self.earliest = Some(self.earliest.map_or(at, |earliest| earliest.max(at)));
        }
    }

    fn succeeded(&mut self) {
        (self.earliest, self.failures, self.last) = (None, 0, None);
    }

    fn failed(&mut self, failure: Failure) {
        let pause = match &failure {
            // Nothing was sent: the next request finds out as soon as it is back.
            Failure::Failed(
                Error::Unreachable(_)
                | Error::NotListening(_)
                | Error::ConnectTimeout
                | Error::Busy,
            ) => Duration::ZERO,
            Failure::Failed(_) | Failure::Status(_) => wait(self.failures),
            Failure::Token => FIRST_WAIT,
            Failure::Refused(_) => REFUSED_WAIT,
            Failure::Throttled(asked) => asked.unwrap_or(REFUSED_WAIT),
        };
        self.failures = self.failures.saturating_add(1);
        self.earliest = Some(Instant::now() + pause);
        self.last = Some(failure);
    }

    /// Why there is no token, for one more who needs it.
    fn error(&self) -> Error {
        match &self.last {
            Some(Failure::Failed(Error::Unreachable(error))) => {
                Error::Unreachable(error.kind().into())
            }
            Some(Failure::Failed(Error::NotListening(error))) => {
                Error::NotListening(error.kind().into())
            }
            Some(Failure::Failed(Error::ConnectTimeout)) => Error::ConnectTimeout,
            Some(Failure::Failed(Error::Timeout)) => Error::Timeout,
            Some(Failure::Failed(Error::Busy)) => Error::Busy,
            _ => Error::SignedOut,
        }
    }
}

/// Returns whether these are an anonymous user's settings: a Node-RED with a `default` user treats
/// a bad token as that user's (docs/reference/node-red-admin-api.md §1.6).
fn is_anonymous(settings: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Settings {
        user: Option<User>,
    }
    #[derive(Deserialize)]
    struct User {
        #[serde(default)]
        anonymous: bool,
    }
    let settings = serde_json::from_slice::<Settings>(settings).ok();
    settings
        .and_then(|settings| settings.user)
        .is_some_and(|user| user.anonymous)
}

/// The wait after this number of earlier failures.
fn wait(failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    FIRST_WAIT.saturating_mul(factor).min(MAX_WAIT)
}
