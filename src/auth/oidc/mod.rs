//! Users who sign in with a provider of OpenID Connect: authorization code with PKCE (OpenID
//! Connect Core 1.0 §3.1, RFC 7636), and their sessions, for as long as the provider stands by
//! them.
//!
//! A sign-in: [`Auth::begin_oidc`] makes the way to the provider and a cookie ([`sealed`]),
//! [`Auth::finish_oidc`] takes the response and asks the provider for tokens ([`provider`]),
//! [`Auth::admit_oidc`] begins a session ([`sessions`]). [`refresh`] asks again and again,
//! [`logout`] ends sessions that the provider ends. Knows no path of the gateway's.

mod error;
mod logout;
mod metadata;
mod provider;
mod refresh;
mod sealed;
mod second_factor;
mod sessions;
mod state;

pub use error::OidcError;
pub use logout::LogoutOf;
pub use sealed::{PendingSignIn, SignInApp};

use super::federated::FederatedPermissions;
use super::jwt::verify::Claims;
use super::seal::Seal;
use super::session::Key;
use super::{Auth, SendToProvider};
use crate::config::{self, ProviderUrl};
use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crypto::{Secret, constant_time_eq, random, sha256};
use metadata::Metadata;
use parking_lot::{Mutex, MutexGuard};
use provider::{Provider, Tokens};
use sessions::OidcSession;
use smol_str::SmolStr;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The prefix of the names of a provider's users; no local user's name has it.
const PREFIX: &str = "oidc:";

/// Sign-ins remembered as finished. Our choice: about 1 MiB.
const MAX_USED: usize = 10_000;

/// The providers, and what is known of their sessions.
pub(super) struct Providers {
    all: ArcSwap<Vec<Arc<Provider>>>,
    seal: Seal,
    /// Sign-ins that were finished, by hash, until they would have expired.
    used: Mutex<HashMap<[u8; 32], u64>>,
    sessions: Mutex<HashMap<Key, Arc<OidcSession>>>,
    /// Places for questions whether sessions still count.
    asking: Arc<Semaphore>,
}

/// A provider as the sign-in page shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderLabel {
    /// Its name in paths.
    pub name: String,
    /// Its name for users.
    pub label: String,
}

/// A sign-in that begins.
#[derive(Debug)]
pub struct Begun {
    /// The URL at the provider to lead the browser to.
    pub location: String,
    /// The cookie to set.
    pub cookie: Secret,
    /// How long the cookie is good.
    pub lifetime: Duration,
}

/// The provider's response that the browser brings (RFC 6749 §4.1.2).
#[derive(Debug, Default)]
pub struct ProviderReturn {
    /// `code`.
    pub code: Option<Secret>,
    /// `state`.
    pub state: Option<String>,
    /// `iss` (RFC 9207).
    pub issuer: Option<String>,
    /// `error`.
    pub error: Option<String>,
}

/// Where a session is to be.
#[derive(Debug, Clone)]
pub struct OidcClient {
    /// The client, as in other sessions.
    pub client: String,
    /// `User-Agent`, as it may be shown.
    pub agent: String,
    /// The client's address.
    pub address: IpAddr,
}

/// A user whom a provider vouches for, and who has no session yet.
pub struct OidcUser {
    provider: Arc<Provider>,
    user: SmolStr,
    subject: String,
    /// The session at the provider.
    session: Option<String>,
    claims: Claims,
    permissions: FederatedPermissions,
    /// When the user gave a second factor at the provider, seconds since 1970.
    factor: Option<u64>,
    tokens: Tokens,
    key: [u8; 32],
}

impl OidcUser {
    /// `oidc:`, the provider's name in the configuration, and the claim that names the user.
    pub fn user(&self) -> &str {
        &self.user
    }
}

impl Auth {
    /// The providers, in the order of the configuration.
    pub fn providers(&self) -> Vec<ProviderLabel> {
        let all = self.0.oidc.all.load();
        let label = |provider: &Arc<Provider>| ProviderLabel {
            name: provider.config.name.clone(),
            label: provider.config.label.clone(),
        };
        all.iter().map(label).collect()
    }

    /// Returns whether users can sign in with a provider.
    pub fn has_providers(&self) -> bool {
        !self.0.oidc.all.load().is_empty()
    }

    /// The address to which a provider sends browsers back, if it is configured.
    pub fn redirect_url(&self, provider: &str) -> Option<ProviderUrl> {
        let provider = self.0.oidc.find(provider)?;
        provider.config.redirect_url.clone()
    }

    /// Begins a sign-in: `pending` names the provider and where it leads; its secrets are made
    /// here.
    pub async fn begin_oidc(
        &self,
        mut pending: PendingSignIn,
        now: u64,
    ) -> Result<Begun, OidcError> {
        let provider = self
            .0
            .oidc
            .find(&pending.provider)
            .ok_or(OidcError::NoProvider)?;
        let metadata = provider.metadata(self.send_to_provider()?, now).await?;
        pending.state = unguessable();
        pending.nonce = unguessable();
        pending.verifier = unguessable();
        pending.begun = now;
        let challenge = URL_SAFE_NO_PAD.encode(sha256(pending.verifier.as_bytes()));
        let scopes = provider.config.scopes.join(" ");
        let mut query = vec![
            ("response_type", "code"),
            ("client_id", &provider.config.client_id),
            ("redirect_uri", &pending.redirect_uri),
            ("scope", &scopes),
            ("state", &pending.state),
            ("nonce", &pending.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        let asked = second_factor::asked(&provider.config, &self.0.registry.users().conditions);
        query.extend(asked.iter().map(|(name, value)| (*name, value.as_str())));
        let location = with_query(&metadata.authorization, &query);
        let cookie = self.0.oidc.seal.seal(sealed::PURPOSE, &pending);
        Ok(Begun {
            location,
            cookie: Secret::new(cookie.ok_or(OidcError::Invalid("the cookie cannot be sealed"))?),
            lifetime: Duration::from_secs(sealed::LIFETIME),
        })
    }

    /// The sign-in that a browser has begun with this provider, by its cookie and `state`. It can
    /// be finished once.
    pub fn pending_oidc(
        &self,
        provider: &str,
        cookie: &str,
        returned: &ProviderReturn,
        now: u64,
    ) -> Result<PendingSignIn, OidcError> {
        let pending = self
            .0
            .oidc
            .seal
            .open::<PendingSignIn>(sealed::PURPOSE, cookie)
            .filter(|pending| pending.lasts(now))
            .ok_or(OidcError::NotBegun)?;
        let state = returned.state.as_deref().unwrap_or_default();
        let is_state = constant_time_eq(state.as_bytes(), pending.state.as_bytes());
        if pending.provider != provider || !is_state {
            return Err(OidcError::NotBegun);
        }
        // At each gateway; the provider takes a code once (RFC 6749 §4.1.2).
        let ends = now.saturating_add(sealed::LIFETIME);
        self.use_once(b"state", pending.state.as_bytes(), ends, now)?;
        Ok(pending)
    }

    /// A sign-in that failed may be tried again: what unauthenticated clients begin is not
    /// remembered.
    pub fn release_oidc(&self, pending: &PendingSignIn) {
        let mut used = self.0.oidc.used.lock();
        used.remove(&used_key(b"state", pending.state.as_bytes()));
    }

    /// Takes the response of a provider, and asks it for the user.
    pub async fn finish_oidc(
        &self,
        pending: &PendingSignIn,
        returned: ProviderReturn,
        now: u64,
    ) -> Result<OidcUser, OidcError> {
        let provider = self
            .0
            .oidc
            .find(&pending.provider)
            .ok_or(OidcError::NoProvider)?;
        let send = self.send_to_provider()?;
        let metadata = provider.metadata(send, now).await?;
        let issuer = returned.issuer.as_deref();
        let is_issuer = issuer.map(|issuer| issuer == provider.config.issuer);
        if !is_issuer.unwrap_or(!metadata.names_itself) {
            return Err(OidcError::MixUp);
        }
        if let Some(error) = returned.error {
            return Err(OidcError::Refused(provider::plain(&error)));
        }
        let code = returned
            .code
            .ok_or(OidcError::Invalid("its response has no code"))?;
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code.reveal()),
            ("redirect_uri", &pending.redirect_uri),
            ("code_verifier", &pending.verifier),
        ];
        let tokens = provider.tokens(send, &metadata, &form, now).await?;
        let token = tokens.id.as_ref();
        let token = token.ok_or(OidcError::Invalid("it hands out no ID token"))?;
        let verified = provider
            .verify(send, &metadata, token.reveal(), &["jwt"], now)
            .await?;
        let nonce = text(&verified.claims, "nonce").unwrap_or_default();
        if !constant_time_eq(nonce.as_bytes(), pending.nonce.as_bytes()) {
            return Err(OidcError::Invalid("its ID token is for another sign-in"));
        }
        let subject = subject(&verified.claims)?;
        // Of the ID token only: the user info is of the user, not of this sign-in.
        let factor = second_factor::given(&provider.config, &verified.claims, now);
        let claims = self
            .with_user_info(&provider, &metadata, &tokens, verified.claims, now)
            .await?;
        let config = &provider.config;
        let permissions = FederatedPermissions::of(&config.grants, &claims);
        Ok(OidcUser {
            user: user(config, &claims)?,
            session: text(&claims, "sid"),
            subject,
            permissions: permissions.ok_or(OidcError::NoGrant)?,
            claims,
            factor,
            key: verified.key,
            tokens,
            provider,
        })
    }

    /// The claims of the ID token, and those of the user info of the same user, which are newer.
    async fn with_user_info(
        &self,
        provider: &Provider,
        metadata: &Metadata,
        tokens: &Tokens,
        mut claims: Claims,
        now: u64,
    ) -> Result<Claims, OidcError> {
        let Some(url) = &metadata.user_info else {
            return Ok(claims);
        };
        let send = self.send_to_provider()?;
        let info = provider.user_info(send, url, &tokens.access, now).await?;
        // OpenID Connect Core 1.0 §5.3.4.
        if info.get("sub") != claims.get("sub") {
            return Err(OidcError::Invalid("its user info is of another user"));
        }
        claims.extend(info);
        Ok(claims)
    }

    fn send_to_provider(&self) -> Result<SendToProvider, OidcError> {
        let send = self.0.send_to_provider.get().copied();
        send.ok_or(OidcError::Invalid("there is no HTTP client"))
    }

    /// Remembers what counts once, until a time.
    fn use_once(&self, kind: &[u8], text: &[u8], until: u64, now: u64) -> Result<(), OidcError> {
        let mut used = self.0.oidc.used.lock();
        if used.len() >= MAX_USED {
            used.retain(|_, ends| *ends > now);
        }
        let key = used_key(kind, text);
        if used.len() >= MAX_USED || used.contains_key(&key) {
            return Err(OidcError::Replayed);
        }
        used.insert(key, until);
        Ok(())
    }
}

impl Providers {
    /// `secret`: what gateways that share the store have in common.
    pub(super) fn new(config: &[config::Oidc], secret: Option<&Secret>) -> Self {
        let all = config
            .iter()
            .map(|provider| Arc::new(Provider::new(provider)));
        Self {
            all: ArcSwap::from_pointee(all.collect()),
            seal: Seal::new(secret),
            used: Mutex::default(),
            sessions: Mutex::default(),
            asking: Arc::new(Semaphore::new(refresh::AT_A_TIME)),
        }
    }

    fn find(&self, name: &str) -> Option<Arc<Provider>> {
        let all = self.all.load();
        let mut all = all.iter();
        all.find(|provider| provider.config.name == name).cloned()
    }

    fn has(&self, provider: &Arc<Provider>) -> bool {
        self.all
            .load()
            .iter()
            .any(|known| Arc::ptr_eq(known, provider))
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<Key, Arc<OidcSession>>> {
        self.sessions.lock()
    }
}

fn used_key(kind: &[u8], text: &[u8]) -> [u8; 32] {
    sha256(&[kind, b" ", text].concat())
}

/// 256 random bits as text (RFC 7636 §4.1 asks for that of the verifier).
fn unguessable() -> String {
    URL_SAFE_NO_PAD.encode(random::<32>())
}

fn with_query(url: &ProviderUrl, pairs: &[(&str, &str)]) -> String {
    let text = url.to_string();
    let joint = if url.uri().query().is_some() {
        '&'
    } else {
        '?'
    };
    let mut query = form_urlencoded::Serializer::new(String::new());
    format!("{text}{joint}{}", query.extend_pairs(pairs).finish())
}

fn text(claims: &Claims, name: &str) -> Option<String> {
    claims.get(name)?.as_str().map(str::to_owned)
}

fn subject(claims: &Claims) -> Result<String, OidcError> {
    let subject = text(claims, "sub").filter(|subject| !subject.is_empty());
    subject.ok_or(OidcError::Invalid("its ID token names no user"))
}

fn user(config: &config::Oidc, claims: &Claims) -> Result<SmolStr, OidcError> {
    let named = super::jwt::caller_name(&config.user_claim, claims)?;
    Ok(format!("{PREFIX}{}:{named}", config.name).into())
}
