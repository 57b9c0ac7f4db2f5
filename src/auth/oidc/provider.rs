//! One provider: its metadata and keys, and the requests that are sent to it.

use super::error::OidcError;
use super::metadata::{FRESH, Metadata};
use crate::auth::InvalidJwt;
use crate::auth::jwt::key_cache::KeyCache;
use crate::auth::jwt::verify::{Claims, Rules, Verified, read};
use crate::auth::provider_client::{
    ProviderOutcome, ProviderRequest, ProviderResponse, SendToProvider,
};
use crate::config::{Oidc, ProviderUrl};
use arc_swap::ArcSwapOption;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto::Secret;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest life of an ID token or logout token. Our choice: they are used at once, but some
/// providers give them a day.
const MAX_LIFETIME: Duration = Duration::from_hours(48);

/// Seconds for which a provider that could not be reached is not asked again. Our choice: it is
/// noticed soon when it is back, and sessions do not wait for one time-out after the other.
const AWAY: u64 = 3;

/// A provider.
pub(super) struct Provider {
    pub(super) config: Oidc,
    keys: KeyCache,
    metadata: ArcSwapOption<Metadata>,
    /// Before this time it is not asked again, because it could not be reached; seconds since 1970.
    away_until: AtomicU64,
}

/// The provider's response to a code or a refresh token.
pub(super) struct Tokens {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    pub(super) id: Option<Secret>,
}

/// The same as it is sent (RFC 6749 §5.1).
#[derive(Deserialize)]
struct RawTokens {
    #[serde(rename = "access_token")]
    access: String,
    #[serde(rename = "refresh_token")]
    refresh: Option<String>,
    #[serde(rename = "id_token")]
    id: Option<String>,
}

/// An error of the provider (RFC 6749 §5.2).
#[derive(Deserialize, Default)]
struct Refusal {
    #[serde(default)]
    error: String,
}

impl Tokens {
    fn read(body: &[u8]) -> Result<Self, OidcError> {
        let raw: RawTokens = serde_json::from_slice(body)
            .map_err(|_| OidcError::Invalid("it hands out no tokens"))?;
        Ok(Self {
            access: Secret::new(raw.access),
            refresh: raw.refresh.map(Secret::new),
            id: raw.id.map(Secret::new),
        })
    }
}

impl Provider {
    pub(super) fn new(config: &Oidc) -> Self {
        Self {
            config: config.clone(),
            keys: KeyCache::new(),
            metadata: ArcSwapOption::empty(),
            away_until: AtomicU64::new(0),
        }
    }

    /// An error while the provider is away: those who wait for it would only wait longer.
    fn is_there(&self, now: u64) -> Result<(), OidcError> {
        if now < self.away_until.load(Ordering::Relaxed) {
            return Err(OidcError::Unreachable("it was not a moment ago".to_owned()));
        }
        Ok(())
    }

    /// The same error, after which the provider is not asked for a moment.
    fn noted<T>(&self, result: Result<T, OidcError>, now: u64) -> Result<T, OidcError> {
        if let Err(OidcError::Unreachable(_)) = &result {
            let until = now.saturating_add(AWAY);
            self.away_until.store(until, Ordering::Relaxed);
        }
        result
    }

    /// The metadata as far as it is known.
    pub(super) fn known_metadata(&self) -> Option<Arc<Metadata>> {
        self.metadata.load_full()
    }

    /// The metadata; while the provider cannot be reached, as it was.
    pub(super) async fn metadata(
        &self,
        send: SendToProvider,
        now: u64,
    ) -> Result<Arc<Metadata>, OidcError> {
        let known = self.metadata.load_full();
        if let Some(known) = &known
            && now < known.fetched.saturating_add(FRESH)
        {
            return Ok(Arc::clone(known));
        }
        let fetched = match self.is_there(now) {
            Ok(()) => self.noted(self.fetch_metadata(send, now).await, now),
            Err(error) => Err(error),
        };
        match (fetched, known) {
            (Ok(fetched), _) => {
                let fetched = Arc::new(fetched);
                self.metadata.store(Some(Arc::clone(&fetched)));
                Ok(fetched)
            }
            (Err(_), Some(known)) => Ok(known),
            (Err(error), None) => Err(error),
        }
    }

    async fn fetch_metadata(&self, send: SendToProvider, now: u64) -> Result<Metadata, OidcError> {
        let response = asked(send, self.get(&self.config.metadata)).await?;
        if response.outcome != ProviderOutcome::Success {
            return Err(OidcError::Unreachable("it has no metadata".to_owned()));
        }
        Metadata::read(&self.config, &response.body, now).map_err(OidcError::Invalid)
    }

    /// Sends a form to the token endpoint, with the gateway's secret.
    pub(super) async fn tokens(
        &self,
        send: SendToProvider,
        metadata: &Metadata,
        fields: &[(&str, &str)],
        now: u64,
    ) -> Result<Tokens, OidcError> {
        self.is_there(now)?;
        let tokens = self.ask_for_tokens(send, metadata, fields).await;
        self.noted(tokens, now)
    }

    async fn ask_for_tokens(
        &self,
        send: SendToProvider,
        metadata: &Metadata,
        fields: &[(&str, &str)],
    ) -> Result<Tokens, OidcError> {
        let (form, authorization) = self.token_request(metadata, fields);
        let request = ProviderRequest {
            form: Some(form),
            authorization,
            ..self.get(&metadata.token)
        };
        let response = asked(send, request).await?;
        match response.outcome {
            ProviderOutcome::Success => Tokens::read(&response.body),
            ProviderOutcome::Refused => {
                let refusal: Refusal = serde_json::from_slice(&response.body).unwrap_or_default();
                Err(OidcError::Refused(plain(&refusal.error)))
            }
            ProviderOutcome::Failed => Err(OidcError::Unreachable("it is not well".to_owned())),
        }
    }

    /// The form of a request for tokens, and its `Authorization`.
    fn token_request(
        &self,
        metadata: &Metadata,
        fields: &[(&str, &str)],
    ) -> (Secret, Option<Secret>) {
        let config = &self.config;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let secret = config.client_secret.as_ref();
        if let Some(secret) = secret.filter(|_| !metadata.secret_in_form) {
            let authorization = basic(&config.client_id, secret);
            return (Secret::new(form.finish()), Some(authorization));
        }
        form.append_pair("client_id", &config.client_id);
        if let Some(secret) = secret {
            form.append_pair("client_secret", secret.reveal());
        }
        (Secret::new(form.finish()), None)
    }

    /// What the provider says now of the user of an access token.
    pub(super) async fn user_info(
        &self,
        send: SendToProvider,
        url: &ProviderUrl,
        access_token: &Secret,
        now: u64,
    ) -> Result<Claims, OidcError> {
        self.is_there(now)?;
        let info = self.ask_for_user_info(send, url, access_token).await;
        self.noted(info, now)
    }

    async fn ask_for_user_info(
        &self,
        send: SendToProvider,
        url: &ProviderUrl,
        access_token: &Secret,
    ) -> Result<Claims, OidcError> {
        let bearer = Secret::new(format!("Bearer {}", access_token.reveal()));
        let request = ProviderRequest {
            authorization: Some(bearer),
            ..self.get(url)
        };
        let response = asked(send, request).await?;
        match response.outcome {
            ProviderOutcome::Success => serde_json::from_slice(&response.body)
                .map_err(|_| OidcError::Invalid("its user info is not understood")),
            ProviderOutcome::Refused => Err(OidcError::Refused("the access token".to_owned())),
            ProviderOutcome::Failed => Err(OidcError::Unreachable("it is not well".to_owned())),
        }
    }

    /// Verifies an ID token or a logout token; fetches the keys if its key is not known.
    pub(super) async fn verify(
        &self,
        send: SendToProvider,
        metadata: &Metadata,
        token: &str,
        types: &[&str],
        now: u64,
    ) -> Result<Verified, OidcError> {
        let first = self.verified(token, types, now);
        if !matches!(first, Err(InvalidJwt::UnknownKey | InvalidJwt::NoKeys)) {
            return Ok(first?);
        }
        self.keys.fetch(send, self.get(&metadata.keys), now).await;
        Ok(self.verified(token, types, now)?)
    }

    fn verified(&self, token: &str, types: &[&str], now: u64) -> Result<Verified, InvalidJwt> {
        let config = &self.config;
        let keys = self
            .keys
            .keys(config.max_stale, now)
            .ok_or(InvalidJwt::NoKeys)?;
        let audience = [config.client_id.clone()];
        let rules = Rules {
            algorithms: &config.algorithms,
            issuer: &config.issuer,
            audience: &audience,
            clock_skew: config.clock_skew,
            max_lifetime: MAX_LIFETIME,
            types,
        };
        let verified = read(token)?.verify(token, &rules, &keys, now)?;
        // Made for several programs, or by the order of another one (OpenID Connect Core 1.0
        // §3.1.3.7).
        let party = verified
            .claims
            .get("azp")
            .map(|party| *party == config.client_id);
        let several = verified
            .claims
            .get("aud")
            .is_some_and(|aud| aud.as_array().is_some_and(|all| all.len() > 1));
        if party == Some(false) || (several && party.is_none()) {
            return Err(InvalidJwt::Audience);
        }
        Ok(verified)
    }

    fn get(&self, url: &ProviderUrl) -> ProviderRequest {
        ProviderRequest::get(url, self.config.ca_file.as_ref())
    }
}

async fn asked(
    send: SendToProvider,
    request: ProviderRequest,
) -> Result<ProviderResponse, OidcError> {
    let response = send(request).await;
    response.map_err(|error| OidcError::Unreachable(error.to_string()))
}

/// `client_secret_basic`: both are encoded as in a form first (RFC 6749 §2.3.1).
fn basic(id: &str, secret: &Secret) -> Secret {
    let encoded =
        |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let pair = format!("{}:{}", encoded(id), encoded(secret.reveal()));
    Secret::new(format!("Basic {}", STANDARD.encode(pair)))
}

/// An error code of a provider, as it may be logged.
pub(super) fn plain(text: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_' || *c == '.';
    text.chars().filter(plain).take(60).collect()
}
