//! Whether browsers get pages of endpoints in a sandbox: settings require it, or a token.

use crate::auth::Auth;
use crate::config::Config;
use std::sync::atomic::{AtomicBool, Ordering};

/// The sandbox of pages of endpoints; a reload begins and ends it.
pub struct PageSandbox {
    /// True if settings require it.
    is_required: AtomicBool,
    /// True if endpoints have hosts of their own, so that it is not needed.
    has_endpoint_hosts: AtomicBool,
    /// True if the log has that a token requires it.
    is_reported: AtomicBool,
}

impl PageSandbox {
    pub(super) fn new(config: &Config) -> Self {
        let new = Self {
            is_required: AtomicBool::new(false),
            has_endpoint_hosts: AtomicBool::new(false),
            is_reported: AtomicBool::new(false),
        };
        new.reload(config);
        new
    }

    pub(super) fn reload(&self, config: &Config) {
        let notice = config.sandbox_notice();
        if let Some(notice) = &notice {
            tracing::info!("{notice}");
        }
        let is_required = notice.is_some();
        self.is_required.store(is_required, Ordering::Release);
        let has_hosts = config.server.endpoint_hosts.is_some();
        self.has_endpoint_hosts.store(has_hosts, Ordering::Release);
    }

    /// Returns whether pages of endpoints are sandboxed now.
    pub fn is_active(&self, auth: Option<&Auth>) -> bool {
        if self.has_endpoint_hosts.load(Ordering::Acquire) {
            return false;
        }
        if self.is_required.load(Ordering::Acquire) {
            return true;
        }
        let by_token = auth.is_some_and(|auth| auth.registry().has_limited_token());
        if by_token && !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "pages of endpoints are sandboxed until the next restart, because a token may change some flows only"
            );
        }
        by_token
    }
}
