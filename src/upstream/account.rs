//! Who we are to the upstream: the token that our requests show, signed in for when it is needed and renewed before it
//! ends or when it is refused.
//!
//! One sign-in at a time, whoever needs it, and never many of them: runtimes lock an account out that fails often.
//! Knows when to sign in; [`super::sign_in`] knows how.

use super::sign_in::Failure;
use super::{Answer, Error, Outgoing, Upstream};
use crate::config::{self, is_token, token_in};
use crate::secret::Secret;
use arc_swap::ArcSwapOption;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// The first wait after a failure; each further one doubles it. Our choice.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest such wait. Our choice.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// The wait after a refused password: four sign-ins in the ten minutes in which Node-RED allows five, locked out or not.
const REFUSED_WAIT: Duration = Duration::from_mins(3);
/// A token refused before it is so old counts as a failure, and a refusal that does not say why counts only for older
/// ones: else an account that lacks a permission would sign in at every request. Our choice.
const YOUNG: Duration = Duration::from_mins(1);
/// The shortest life that is believed of a token. Our choice.
const SHORTEST_LIFE: Duration = Duration::from_secs(2);

/// The upstream's account of ours.
pub(super) struct Account {
    current: ArcSwapOption<Bearer>,
    turn: Mutex<Turn>,
    /// Sign-ins that have ended, well or not.
    ended: AtomicU64,
    /// Whether somebody renews a token that is still good.
    renewing: AtomicBool,
    /// Whether the upstream takes us for who we are: [`UNKNOWN`], [`YES`] or [`NO`].
    accepted: AtomicU8,
}

const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

/// A token of the upstream's.
pub struct Bearer {
    header: HeaderValue,
    token: Secret,
    since: Instant,
    /// When it is to be renewed, and when it ends; `None`: nobody knows.
    ends: Option<(Instant, Instant)>,
    /// Whether it has been refused.
    struck: AtomicBool,
}

/// What only one has at a time: the right to sign in.
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
    /// Sends a request that shows who we are, and waits for the head of its answer. A refused token is renewed, and the
    /// request repeated once, unless its body came from a client piece by piece: what was refused has changed nothing.
    pub async fn send(
        &self,
        head: impl Fn() -> Request<()>,
        body: Outgoing,
    ) -> Result<Response<Answer>, Error> {
        let Some(account) = &self.0.account else {
            return self.send_bare(head, body).await;
        };
        let shown = self.counted(self.shown(account).await)?;
        let again = body.again();
        let response = self.send_bare(|| sign(head(), &shown), body).await?;
        if !account.is_refused(&response, &shown) {
            return Ok(response);
        }
        drop(response);
        let fresh = self.counted(self.another(Some(shown), Why::Refused).await)?;
        let Some(body) = again else {
            return Err(self.refused());
        };
        let response = self.send_bare(|| sign(head(), &fresh), body).await?;
        if account.is_refused(&response, &fresh) {
            self.accept(account, false, "a fresh token is refused");
        }
        Ok(response)
    }

    /// A token that is good now, for what is no request; `None`: the upstream is open.
    pub async fn token(&self) -> Result<Option<Arc<Bearer>>, Error> {
        let Some(account) = &self.0.account else {
            return Ok(None);
        };
        self.shown(account).await?;
        Ok(account.current.load_full())
    }

    /// Another token than this one, which was refused.
    pub async fn renew(&self, refused: &Bearer) -> Result<Option<Arc<Bearer>>, Error> {
        let Some(account) = &self.0.account else {
            return Ok(None);
        };
        let refused = refused.header.clone();
        self.another(Some(refused), Why::Refused).await?;
        Ok(account.current.load_full())
    }

    /// Whether the upstream takes us for who we are; an open one always does.
    pub fn authorized(&self) -> bool {
        let account = self.0.account.as_ref();
        account.is_none_or(|account| account.accepted.load(Ordering::Relaxed) == YES)
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
        let means = account.turn.lock().await.means.take();
        if let (Some(config::Account::User(_)), Some(bearer)) = (means, account.current.swap(None))
        {
            self.revoke(&bearer).await;
        }
    }

    /// The value of `Authorization`, at once if the token is good.
    async fn shown(&self, account: &Account) -> Result<HeaderValue, Error> {
        let now = Instant::now();
        let current = account.current.load();
        let Some(bearer) = current.as_ref().filter(|bearer| bearer.is_good(now)) else {
            let old = current.as_ref().map(|bearer| bearer.header.clone());
            drop(current);
            return self.another(old, Why::Due).await;
        };
        let header = bearer.header.clone();
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

    /// Another token than `old`. A task of its own, so that a client that leaves neither stops it nor makes us sign in
    /// again and again.
    async fn another(&self, old: Option<HeaderValue>, why: Why) -> Result<HeaderValue, Error> {
        let Some(account) = &self.0.account else {
            return Err(Error::Unauthorized);
        };
        let seen = account.ended.load(Ordering::Acquire);
        let upstream = self.clone();
        let task = tokio::spawn(async move { upstream.in_turn(old, why, seen).await });
        task.await.unwrap_or(Err(Error::Unauthorized))
    }

    async fn in_turn(
        self,
        old: Option<HeaderValue>,
        why: Why,
        seen: u64,
    ) -> Result<HeaderValue, Error> {
        let Some(account) = &self.0.account else {
            return Err(Error::Unauthorized);
        };
        let mut turn = account.turn.lock().await;
        let current = account.current.load_full();
        if let Some(bearer) = current.as_ref().filter(|b| Some(&b.header) != old.as_ref()) {
            return Ok(bearer.header.clone());
        }
        if why == Why::Refused {
            current.as_deref().inspect(|bearer| turn.strike(bearer));
        }
        let missed = account.ended.load(Ordering::Acquire) != seen;
        let early = turn.earliest.is_some_and(|at| Instant::now() < at);
        let Some(means) = turn.means.clone().filter(|_| !missed && !early) else {
            return Err(turn.error());
        };
        let result = self.obtain(means, current.as_deref()).await;
        account.ended.fetch_add(1, Ordering::Release);
        match result {
            Ok(bearer) => {
                turn.succeeded();
                if turn.strikes == 0 {
                    self.accept(account, true, "");
                }
                let header = bearer.header.clone();
                account.current.store(Some(Arc::new(bearer)));
                Ok(header)
            }
            Err(failure) => {
                if failure.is_refusal() {
                    self.accept(account, false, &failure.to_string());
                }
                turn.failed(failure);
                Err(turn.error())
            }
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
            .filter(|bearer| current.is_none_or(|current| current.header != bearer.header))
            .ok_or(Failure::Token)
    }

    /// Whether the upstream takes us for who we are; told when it changes.
    pub(super) fn accept(&self, account: &Account, yes: bool, why: &str) {
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

    fn counted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.inspect_err(|error| {
            let kind = error.fault();
            kind.into_iter().for_each(|kind| self.0.metrics.fault(kind));
        })
    }
}

/// Shows the token with a request.
pub(super) fn sign(mut request: Request<()>, shown: &HeaderValue) -> Request<()> {
    request.headers_mut().insert(AUTHORIZATION, shown.clone());
    request
}

impl Account {
    pub(super) fn new(means: config::Account) -> Self {
        Self {
            current: ArcSwapOption::new(Bearer::at_once(&means)),
            turn: Mutex::new(Turn::new(means)),
            ended: AtomicU64::new(0),
            renewing: AtomicBool::new(false),
            accepted: AtomicU8::new(UNKNOWN),
        }
    }

    /// Whether an answer is a refusal of the token that was shown. Node-RED says nothing when only a permission is
    /// missing (facts admin API §1.5), others perhaps nothing in any case.
    fn is_refused<B>(&self, response: &Response<B>, shown: &HeaderValue) -> bool {
        if response.status() != StatusCode::UNAUTHORIZED {
            return false;
        }
        refuses_token(response.headers()).unwrap_or_else(|| {
            let current = self.current.load();
            let current = current.as_ref().filter(|bearer| bearer.header == *shown);
            current.is_some_and(|bearer| bearer.since.elapsed() >= YOUNG)
        })
    }
}

/// Whether a 401 says that the token is not good, rather than what it may do (RFC 6750 §3.1); `None`: it says nothing.
pub(super) fn refuses_token(headers: &HeaderMap) -> Option<bool> {
    let mut challenges = headers.get_all(WWW_AUTHENTICATE).iter().peekable();
    challenges.peek()?;
    Some(
        challenges
            .filter_map(|value| value.to_str().ok())
            .any(|value| {
                let scheme = value.split(' ').next().unwrap_or(value);
                scheme.eq_ignore_ascii_case("bearer") && !value.contains("insufficient_scope")
            }),
    )
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

    /// The token was refused. The first young one may have been lost with the upstream's sessions; with more of them
    /// something else is wrong.
    fn strike(&mut self, bearer: &Bearer) {
        if bearer.struck.swap(true, Ordering::Relaxed) {
            return;
        }
        if bearer.since.elapsed() >= YOUNG {
            self.strikes = 0;
            return;
        }
        self.strikes = self.strikes.saturating_add(1);
        if let Some(before) = self.strikes.checked_sub(2) {
            let at = bearer.since + wait(before);
            self.earliest = Some(self.earliest.map_or(at, |earliest| earliest.max(at)));
        }
    }

    fn succeeded(&mut self) {
        (self.earliest, self.failures, self.last) = (None, 0, None);
    }

    fn failed(&mut self, failure: Failure) {
        let pause = match &failure {
            // Nothing was sent: the next request finds out as soon as it is back.
            Failure::Failed(Error::Unreachable(_) | Error::ConnectTimeout | Error::Busy) => {
                Duration::ZERO
            }
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
            Some(Failure::Failed(Error::ConnectTimeout)) => Error::ConnectTimeout,
            Some(Failure::Failed(Error::Timeout)) => Error::Timeout,
            Some(Failure::Failed(Error::Busy)) => Error::Busy,
            _ => Error::Unauthorized,
        }
    }
}

/// The wait after so many failures before this one.
fn wait(failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT)
}

impl Bearer {
    /// `None`: this cannot be a token.
    pub(super) fn new(token: Secret, life: Option<Duration>) -> Option<Self> {
        if !is_token(token.reveal()) {
            return None;
        }
        let mut header = HeaderValue::try_from(format!("Bearer {}", token.reveal())).ok()?;
        header.set_sensitive(true);
        let since = Instant::now();
        let ends = life.and_then(|life| {
            let life = life.max(SHORTEST_LIFE);
            // At 80 % of its life, while it is still good for those under way.
            Some((since.checked_add(life / 5 * 4)?, since.checked_add(life)?))
        });
        Some(Self {
            header,
            token,
            since,
            ends,
            struck: AtomicBool::new(false),
        })
    }

    /// The token itself, for the first frame of a comms link.
    pub fn token(&self) -> &Secret {
        &self.token
    }

    pub(super) fn header(&self) -> &HeaderValue {
        &self.header
    }

    /// What there is without a sign-in.
    fn at_once(means: &config::Account) -> Option<Arc<Self>> {
        match means {
            config::Account::Token { token, .. } => Self::new(token.clone(), None).map(Arc::new),
            config::Account::User(_) => None,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.ends.is_some_and(|(due, _)| now >= due)
    }

    fn is_good(&self, now: Instant) -> bool {
        self.ends.is_none_or(|(_, end)| now < end)
    }
}

impl std::fmt::Debug for Bearer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bearer(***)")
    }
}
