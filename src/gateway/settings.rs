//! The settings that count now: those of the start, except for what reloads have replaced since.

use super::Gateway;
use crate::config::{Config, WrittenSetting};

/// Says whether a gateway could start with the files that a configuration names; the error is a
/// sentence.
pub type ConfigCheck = fn(&Config) -> Result<(), String>;

/// Settings that a reload takes over: tables with all that is in them, and single settings.
const RELOADED: &[&str] = &[
    "admin_route",
    "auth",
    "cluster.ca_file",
    "cluster.cert",
    "cluster.key",
    "identity",
    "policy",
    "route",
    "server.endpoint_hosts",
    "server.hosts",
    "tls.certificate",
    "tls.client_ca",
    "tls.client_certificates",
    "tls.client_crl",
    "tls.tls12",
    "upstream.client_id",
    "upstream.password",
    "upstream.password_file",
    "upstream.permissions",
    "upstream.policy",
    "upstream.scope",
    "upstream.token_file",
    "upstream.user",
];

/// Returns whether a reload takes over a setting of this kind (`auth.user.permissions`).
pub fn is_reloaded(kind: &str) -> bool {
    RELOADED.iter().any(|taken| {
        let rest = kind.strip_prefix(taken);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

impl Gateway {
    /// The settings that count now, in the order of the file that was read last.
    pub fn settings(&self) -> Vec<WrittenSetting> {
        let last = self.reloaded.load();
        let Some(last) = last.as_ref() else {
            return self.config.written.to_vec();
        };
        let reloaded = last.iter().filter(|one| is_reloaded(&one.kind));
        let kept = self
            .config
            .written
            .iter()
            .filter(|one| !is_reloaded(&one.kind));
        let mut settings: Vec<_> = reloaded.chain(kept).cloned().collect();
        settings.sort_by_key(|one| one.line);
        settings
    }
}
