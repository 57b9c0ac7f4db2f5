//! Everything that a request may need, put together from the config.

use crate::config::Config;
use crate::metrics::Metrics;
use crate::secret::Secret;
use std::sync::Arc;

/// What a request may need.
pub struct Gateway {
    /// The config.
    pub config: Config,
    /// All metrics.
    pub metrics: Arc<Metrics>,
    /// Where everything that writes runs.
    pub control: tokio::runtime::Handle,
}

/// What the operator must be told after a start.
pub struct Notices {
    /// The password of the admin made at the first start.
    pub admin_password: Option<Secret>,
}

/// The gateway cannot be put together.
#[derive(Debug, thiserror::Error)]
#[error("the gateway cannot be opened")]
pub struct Error;

impl Gateway {
    /// Opens it.
    pub async fn open(config: Config, metrics: Arc<Metrics>, control: tokio::runtime::Handle, _now: u64) -> Result<(Arc<Self>, Notices), Error> {
        Ok((Arc::new(Self { config, metrics, control }), Notices { admin_password: None }))
    }

    /// Takes over users and routes.
    pub async fn reload(&self, _config: Config) -> Result<(), Error> {
        Ok(())
    }

    /// Closes it.
    pub async fn close(&self) {}
}
