//! One order for a certificate: account, authorizations, challenges, issuance (RFC 8555 §7).

use super::challenge::{self, Challenges};
use super::client::Client;
use super::files;
use crate::config;
use crate::server::certificate;
use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, ExternalAccountKey, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// The time for the validation, and for the issuance.
const POLL_TIMEOUT: Duration = Duration::from_mins(2);

/// Orders that begin again because of a nonce. Our choice: an authority that has lost its nonces
/// gives new ones at once.
const NONCE_RETRIES: usize = 5;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(in crate::server) enum Error {
    /// The authority refuses, cannot be reached, or breaks the protocol.
    #[error("{0}")]
    Authority(#[from] instant_acme::Error),
    /// The authority could not validate a name.
    #[error("the authority could not validate every name: {0}")]
    Invalid(String),
    /// There is no challenge for us.
    #[error("the authority offers no TLS-ALPN-01 challenge for {0}")]
    NoChallenge(String),
    /// A challenge cannot be answered.
    #[error(transparent)]
    Challenge(#[from] challenge::Error),
    /// The library refuses.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// Files.
    #[error(transparent)]
    Files(#[from] certificate::Error),
    /// The file of the account is damaged.
    #[error("the file account.json of the authority is damaged: remove it, or restore it ({0})")]
    Account(serde_json::Error),
    /// It takes too long.
    #[error("the authority has not issued it within the time for an order")]
    Timeout,
}

impl Error {
    fn is_bad_nonce(&self) -> bool {
        self.is_problem("badNonce")
    }

    /// Returns whether the authority answers with this problem (RFC 8555 §6.7).
    fn is_problem(&self, name: &str) -> bool {
        let Self::Authority(instant_acme::Error::Api(problem)) = self else {
            return false;
        };
        let kind = problem.r#type.as_deref().unwrap_or_default();
        kind.strip_prefix("urn:ietf:params:acme:error:") == Some(name)
    }
}

/// Orders a certificate, and keeps it in its file. `offer` answers validations from then on. An
/// authority may refuse any nonce (RFC 8555 §6.5), also those with which the library repeats a
/// request: then the order begins again. The same if the authority has no such account (any more):
/// then with a new account, once.
pub(in crate::server) async fn order(
    acme: &config::Acme,
    directory: &Path,
    provider: &Arc<CryptoProvider>,
    offer: &(dyn Fn(Option<ServerConfig>) + Sync),
) -> Result<(), Error> {
    let mut is_new = false;
    for _ in 0..NONCE_RETRIES {
        match attempt(acme, directory, provider, offer).await {
            Err(error) if error.is_bad_nonce() => tracing::debug!(%error, "the order begins again"),
            Err(error) if error.is_problem("accountDoesNotExist") && !is_new => {
                let kept = files::set_account_aside(directory, acme)?;
                let kept = kept.display();
                tracing::warn!(%error, %kept, "the authority does not know the account: a new one is made");
                is_new = true;
            }
            ended => return ended,
        }
    }
    attempt(acme, directory, provider, offer).await
}

async fn attempt(
    acme: &config::Acme,
    directory: &Path,
    provider: &Arc<CryptoProvider>,
    offer: &(dyn Fn(Option<ServerConfig>) + Sync),
) -> Result<(), Error> {
    let account = account(acme, directory).await?;
    let names = acme.domains.iter().cloned().map(Identifier::Dns);
    let names: Vec<Identifier> = names.collect();
    let mut order = account.new_order(&NewOrder::new(&names)).await?;
    let polls = RetryPolicy::new().timeout(POLL_TIMEOUT);
    if let Err(error) = validate(&mut order, &polls, provider, offer).await {
        return Err(match reasons(&mut order).await {
            Ok(reasons) if !reasons.is_empty() => Error::Invalid(reasons),
            Err(refused) if refused.is_bad_nonce() => refused,
            _ => error,
        });
    }
    let key = Zeroizing::new(order.finalize().await?);
    let chain = order.poll_certificate(&polls).await?;
    let pem = Zeroizing::new(format!("{}\n{}", chain.trim_end(), key.as_str()));
    Ok(files::write_certificate(directory, acme, &pem, provider)?)
}

/// The account in its file, or a new one.
async fn account(acme: &config::Acme, directory: &Path) -> Result<Account, Error> {
    let client = Client {
        ca_file: acme.ca_file.clone(),
    };
    let builder = Account::builder_with_http(Box::new(client));
    if let Some(kept) = files::account(directory, acme)? {
        let kept = Zeroizing::new(kept);
        let credentials = serde_json::from_slice(&kept).map_err(Error::Account)?;
        return Ok(builder.from_credentials(credentials).await?);
    }
    let contact: Vec<&str> = acme.contact.iter().map(String::as_str).collect();
    let wanted = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let external = acme.external_account.as_ref();
    let external = external.map(|external| {
        let key = Zeroizing::new(external.hmac_key());
        ExternalAccountKey::new(external.key_id.clone(), &key)
    });
    let url = acme.directory.to_string();
    let (account, credentials) = builder.create(&wanted, url, external.as_ref()).await?;
    let text = serde_json::to_string(&credentials).map_err(Error::Account)?;
    files::write_account(directory, acme, &Zeroizing::new(text))?;
    Ok(account)
}

/// Shows the authority that the names are ours, and waits until it has seen it. The answer to a
/// challenge may already have the problem that it ends with.
async fn validate(
    order: &mut Order,
    polls: &RetryPolicy,
    provider: &Arc<CryptoProvider>,
    offer: &(dyn Fn(Option<ServerConfig>) + Sync),
) -> Result<(), Error> {
    answer_challenges(order, provider, offer).await?;
    match order.poll_ready(polls).await? {
        OrderStatus::Ready => Ok(()),
        _ => Err(Error::Invalid("it gives no reason".to_owned())),
    }
}

async fn answer_challenges(
    order: &mut Order,
    provider: &Arc<CryptoProvider>,
    offer: &(dyn Fn(Option<ServerConfig>) + Sync),
) -> Result<(), Error> {
    let mut challenges = Challenges::default();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let name = authorization.identifier().to_string();
        let challenge = authorization
            .challenge(ChallengeType::TlsAlpn01)
            .ok_or_else(|| Error::NoChallenge(name.clone()))?;
        let digest = challenge.key_authorization().digest();
        challenges.add(&name, digest.as_ref(), provider)?;
    }
    offer(Some(challenges.server(provider)?));
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        if let Some(mut challenge) = authorization.challenge(ChallengeType::TlsAlpn01) {
            challenge.set_ready().await?;
        }
    }
    Ok(())
}

/// The problems that the authority had with the names.
async fn reasons(order: &mut Order) -> Result<String, Error> {
    let mut reasons = String::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        let name = authorization.identifier().to_string();
        let state = authorization.refresh().await?;
        let problems = state.challenges.iter().filter_map(|c| c.error.as_ref());
        for problem in problems {
            // Text takes all of it.
            let _ = write!(reasons, "{name}: {problem}; ");
        }
    }
    Ok(reasons.trim_end_matches("; ").to_owned())
}
