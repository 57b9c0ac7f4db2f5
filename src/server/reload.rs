//! Applies a config that is read again to the running gateway: users, routes, hosts and
//! certificates; detects when to reload.
//!
//! Parts that cannot be used stay as they were, which is logged and audited. Never touches a
//! connection.

use super::config_watcher::Watch;
#[cfg(feature = "engine")]
use super::fail_over::MemberTls;
use super::tell;
use super::tls::Tls;
use crate::audit::{Actor, Event};
use crate::config::{self, Config};
use crate::gateway::Gateway;
use crate::http::unix_time;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use std::sync::Arc;

/// The way to reload one gateway.
pub(super) struct Reload {
    pub(super) gateway: Arc<Gateway>,
    tls: Option<Arc<Tls>>,
    #[cfg(feature = "engine")]
    members: Option<MemberTls>,
    /// SHA-256 of the config that was taken over last.
    sha256: Mutex<String>,
    /// The files that it was read from.
    watch: Mutex<Watch>,
}

/// Why a reload is not complete.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The file has a mistake: everything stays as it was.
    #[error("{0}")]
    Config(#[from] config::Error),
    /// Some of it could not be used; the log has the details.
    #[error("some of it could not be used and stays as it was; the log says what")]
    Incomplete,
}

impl Reload {
    pub(super) fn new(gateway: Arc<Gateway>, tls: Option<Arc<Tls>>) -> Self {
        let sha256 = Mutex::new(gateway.config.sha256.clone());
        let watch = Mutex::new(Watch::new(gateway.config.sources()));
        Self {
            gateway,
            tls,
            #[cfg(feature = "engine")]
            members: None,
            sha256,
            watch,
        }
    }

    /// With the certificates of the members of a cluster.
    #[cfg(feature = "engine")]
    pub(super) fn with_members(self, members: Option<MemberTls>) -> Self {
        Self { members, ..self }
    }

    /// Returns whether a file has changed since it was read, whatever caused that reading; true
    /// once per change.
    pub(super) fn files_have_changed(&self) -> bool {
        self.watch().have_changed()
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock()
    }

    /// Reads the gateway's own file again; `asked` are the facts about who asked for it.
    pub(super) async fn read_again(&self, asked: Value) -> Result<(), Error> {
        self.watch().begin_reading();
        match Config::load(self.gateway.config.file.as_deref()) {
            Ok(config) => {
                self.watch().follow(config.sources());
                Box::pin(self.take_over(config, asked)).await
            }
            Err(error) => {
                tracing::error!(%error, "not reloaded: everything stays as it was");
                self.record(Event::ReloadFail, asked, json!({ "reason": "config" }));
                Err(error.into())
            }
        }
    }

    /// Takes over another config.
    pub(super) async fn take_over(&self, config: Config, asked: Value) -> Result<(), Error> {
        let mut failed = Vec::new();
        for warning in config.warnings() {
            tracing::warn!("{warning}");
        }
        if let Some(tls) = &self.tls {
            match tls.reload(&config.tls, unix_time()) {
                Ok(found) => {
                    tell(&found, &self.gateway.metrics);
                    self.gateway.hosts.certify(&found.names);
                }
                Err(error) => {
                    failed.push("certificates");
                    tracing::error!(%error, "certificates not reloaded: the old ones stay");
                }
            }
        }
        #[cfg(feature = "engine")]
        if let (Some(members), Some(cluster)) = (&self.members, &config.cluster)
            && let Err(error) = members.read_again(cluster)
        {
            failed.push("certificates of members");
            tracing::error!(%error, "certificates of members not reloaded: the old ones stay");
        }
        self.tell_change(&config);
        if let Err(error) = self.gateway.reload(config).await {
            failed.push("users");
            tracing::error!(%error, "users and routes not reloaded: the old ones stay");
        }
        if failed.is_empty() {
            tracing::info!(
                "reloaded users, routes, certificates, hosts and the account at the upstream; other settings need a restart"
            );
            self.record(Event::Reload, asked, json!({}));
            Ok(())
        } else {
            self.record(
                Event::ReloadFail,
                asked,
                json!({ "reason": failed.join(", ") }),
            );
            Err(Error::Incomplete)
        }
    }

    fn tell_change(&self, config: &Config) {
        let mut sha256 = self.sha256.lock();
        if *sha256 == config.sha256 {
            return;
        }
        let facts = json!({
            "config": config.file, "sha256": config.sha256, "before": *sha256,
        });
        self.record(Event::ConfigChange, json!({}), facts);
        sha256.clone_from(&config.sha256);
    }

    fn record(&self, event: Event, mut asked: Value, facts: Value) {
        if let (Some(asked), Value::Object(facts)) = (asked.as_object_mut(), facts) {
            asked.extend(facts);
        }
        let now = unix_time().as_secs();
        self.gateway
            .audit
            .record(event, &Actor::program(), now, asked);
    }
}
