//! Requests to identity providers. The gateway has the HTTP client; this is what `auth` needs of
//! it.

use crate::config::ProviderUrl;
use bytes::Bytes;
use crypto::Secret;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

/// A request to a provider: `GET`, or `POST` with a form.
#[derive(Debug)]
pub struct ProviderRequest {
    /// The URL.
    pub url: ProviderUrl,
    /// PEM file of the certification authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The form, encoded.
    pub form: Option<Secret>,
    /// The value of `Authorization`.
    pub authorization: Option<Secret>,
}

/// A provider's response; no redirect is followed.
#[derive(Debug)]
pub struct ProviderResponse {
    /// Whether the provider did what was asked.
    pub outcome: ProviderOutcome,
    /// The body, of limited size.
    pub body: Bytes,
    /// How long it may be kept (RFC 9111 §5.2.2.1); `None`: the provider says nothing.
    pub max_age: Option<Duration>,
}

/// What the status of a response means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderOutcome {
    /// It was done.
    Success,
    /// The provider refuses it, and would again.
    Refused,
    /// The provider is not well, or led elsewhere.
    Failed,
}

/// Sends a request, with a time-out.
pub type SendToProvider =
    fn(ProviderRequest) -> Pin<Box<dyn Future<Output = io::Result<ProviderResponse>> + Send>>;

impl ProviderRequest {
    /// A `GET`.
    pub fn get(url: &ProviderUrl, ca_file: Option<&PathBuf>) -> Self {
        Self {
            url: url.clone(),
            ca_file: ca_file.cloned(),
            form: None,
            authorization: None,
        }
    }
}
