//! Sign-out at either side: the provider ends sessions here (OpenID Connect Back-Channel Logout
//! 1.0, Front-Channel Logout 1.0), and a user who signs out here is led to the sign-out there
//! (RP-Initiated Logout 1.0).

use super::error::OidcError;
use super::sessions::OidcSession;
use super::{text, used_key, with_query};
use crate::auth::{Auth, InvalidJwt};
use crate::store;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::sync::Arc;

/// The event of a logout token (Back-Channel Logout 1.0 §2.4).
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// Seconds for which a used logout token is remembered beyond its own time. Our choice.
const REMEMBERED: u64 = 600;

/// The sessions that a provider ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutOf {
    /// `sub`: all sessions of the user.
    pub subject: Option<String>,
    /// `sid`: those of one session at the provider.
    pub session: Option<String>,
}

impl LogoutOf {
    fn is(&self, known: &OidcSession) -> bool {
        let subject = self.subject.as_ref();
        let session = self.session.as_ref();
        subject.is_none_or(|subject| *subject == known.subject)
            && session.is_none_or(|session| Some(session) == known.session.as_ref())
            && (subject.is_some() || session.is_some())
    }
}

impl Auth {
    /// Verifies a logout token; it counts once, at one gateway. Then all sessions are known that it
    /// may be about.
    pub async fn verify_logout(
        &self,
        provider: &str,
        token: &str,
        now: u64,
    ) -> Result<LogoutOf, OidcError> {
        let provider = self.0.oidc.find(provider).ok_or(OidcError::NoProvider)?;
        let send = self.send_to_provider()?;
        let metadata = provider.metadata(send, now).await?;
        let types = ["logout+jwt", "jwt"];
        let verified = provider.verify(send, &metadata, token, &types, now).await?;
        let claims = &verified.claims;
        let events = claims.get("events").and_then(Json::as_object);
        let is_logout = events.is_some_and(|events| events.contains_key(EVENT));
        // An ID token has a nonce, and must not end sessions (§2.6).
        if !is_logout || claims.contains_key("nonce") {
            return Err(InvalidJwt::Type.into());
        }
        let of = LogoutOf {
            subject: text(claims, "sub"),
            session: text(claims, "sid"),
        };
        if of.subject.is_none() && of.session.is_none() {
            return Err(InvalidJwt::Subject.into());
        }
        let id = text(claims, "jti").ok_or(OidcError::Invalid("its logout token has no jti"))?;
        let id = format!("{} {id}", provider.config.name);
        let until = verified.expires.saturating_add(REMEMBERED);
        // Before it is used: after an error the provider may send it again.
        self.know_all_oidc(now).await?;
        let key = used_key(b"jti", id.as_bytes());
        let is_new = self.0.store.use_once(key, until, now).await?;
        is_new.then_some(of).ok_or(OidcError::Replayed)
    }

    /// Returns whether a provider has this issuer.
    pub fn is_issuer_of(&self, provider: &str, issuer: &str) -> bool {
        let provider = self.0.oidc.find(provider);
        provider.is_some_and(|provider| provider.config.issuer == issuer)
    }

    /// Ends sessions of a provider, and all that is open for them, at all gateways; gives the
    /// users. After an error they have ended here, and are to end elsewhere still.
    pub async fn end_oidc(
        &self,
        provider: &str,
        of: &LogoutOf,
    ) -> (Vec<SmolStr>, Result<(), store::Error>) {
        let known: Vec<Arc<OidcSession>> = {
            let mut sessions = self.0.oidc.sessions();
            let gone = sessions
                .extract_if(|_, known| known.provider.config.name == provider && of.is(known));
            gone.map(|(_, known)| known).collect()
        };
        let sessions = self.0.registry.sessions();
        let users = known.iter().filter_map(|known| {
            let user = sessions.find(&known.key)?.user.clone();
            sessions.end_one(&known.key).then_some(user)
        });
        let users = users.collect();
        let forgotten = self.forget(known.iter().map(|known| known.key)).await;
        (users, forgotten)
    }

    /// Where the user of a session, by its key, signs out at the provider, if it has such a place.
    /// `back`: an address that the provider knows and leads back to.
    pub async fn sign_out_at_provider(
        &self,
        session: [u8; 32],
        back: Option<String>,
        now: u64,
    ) -> Option<String> {
        let known = self.0.oidc.sessions().get(&session).cloned()?;
        let provider = &known.provider;
        let metadata = match provider.known_metadata() {
            Some(metadata) => metadata,
            // Another gateway has begun the session.
            None => provider
                .metadata(self.send_to_provider().ok()?, now)
                .await
                .ok()?,
        };
        let url = metadata.end_session.as_ref()?;
        let hint = known.lock().tokens.id.clone();
        let mut pairs = vec![("client_id", provider.config.client_id.as_str())];
        pairs.extend(hint.as_ref().map(|hint| ("id_token_hint", hint.reveal())));
        pairs.extend(
            back.as_deref()
                .map(|back| ("post_logout_redirect_uri", back)),
        );
        Some(with_query(url, &pairs))
    }
}
