//! Opens the audit log, and keeps its end in the database.

use super::Error;
use crate::audit::{Actor, Anchor, Audit, Event, KeyError, SigningKey};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::store::Store;
use serde_json::json;
use std::io;
use std::sync::Arc;

/// Returns whether the key that signs the audit log can be read, if there is one.
pub fn check_signing_key(config: &Config) -> Result<(), KeyError> {
    let path = config.audit.signing_key.as_deref();
    path.map_or(Ok(()), |path| SigningKey::read(path).map(drop))
}

/// Opens the audit log and writes down that the gateway starts.
pub(super) async fn open_audit(
    config: &Config,
    store: &Store,
    metrics: &Arc<Metrics>,
    now: u64,
) -> Result<Audit, Error> {
    check_signing_key(config)?;
    let directory = &config.storage.directory;
    let anchor = store.audit_head().await?;
    let anchor = anchor.as_deref().and_then(Anchor::parse);
    let metrics = Arc::clone(metrics);
    let audit = Audit::open_anchored(&config.audit, directory, metrics, anchor.as_ref(), now);
    let audit = audit.map_err(Error::Audit)?;
    let facts = json!({
        "version": env!("CARGO_PKG_VERSION"), "config": config.file, "sha256": config.sha256,
        "log": audit.id(),
    });
    let program = Actor::program();
    let recorded = audit.durable(Event::Start, &program, now, facts).await;
    recorded.map_err(|unavailable| Error::Audit(io::Error::other(unavailable)))?;
    keep_anchor(&audit, store, &mut None).await;
    Ok(audit)
}

/// Keeps the end of the audit log in the database, unless it is the one that was kept last.
pub(super) async fn keep_anchor(audit: &Audit, store: &Store, last: &mut Option<Anchor>) {
    let anchor = audit.anchor();
    if anchor == *last {
        return;
    }
    let Some(text) = anchor.as_ref().map(Anchor::text) else {
        return;
    };
    if let Err(error) = store.save_audit_head(text).await {
        tracing::warn!(%error, "the end of the audit log cannot be kept in the database");
        return;
    }
    *last = anchor;
}
