//! The settings of a `gateway.toml` as they are written, for people: each with its value, unless it
//! may be a secret.
//!
//! Closed by default: a value is shown only if its setting is in [`PUBLIC`]; of one in [`ORIGINS`]
//! scheme, host and port are. `${NAME}` stays as it is written.

use crypto::{Secret, hex, sha256};
use std::collections::HashSet;
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// A setting of a file.
#[derive(Debug, Clone)]
pub struct WrittenSetting {
    /// Its key with its tables, those of a list by name or number: `auth.user.ann.permissions`.
    pub key: String,
    /// The same without names and numbers: `auth.user.permissions`.
    pub kind: String,
    /// The line in the file, from 1.
    pub line: usize,
    /// Its value; `None`: it may be a secret.
    pub value: Option<serde_json::Value>,
    /// The digest of its value, to compare values that are not shown.
    digest: Secret,
}

/// A setting that differs between two files.
#[derive(Debug)]
pub struct SettingChange<'f> {
    /// The setting before; `None`: it was not there.
    pub before: Option<&'f WrittenSetting>,
    /// The setting after; `None`: it is not there any more.
    pub after: Option<&'f WrittenSetting>,
}

impl WrittenSetting {
    /// Returns whether both have the same value.
    pub fn has_value_of(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// The settings of a file, in its order; none if it is no TOML.
pub fn written(text: &str) -> Vec<WrittenSetting> {
    let Ok(tree) = DeTable::parse(text) else {
        return Vec::new();
    };
    let mut walk = Walk {
        text,
        found: Vec::new(),
    };
    walk.table(tree.get_ref(), "", "");
    walk.found.sort_by_key(|(begin, _)| *begin);
    walk.found.into_iter().map(|(_, setting)| setting).collect()
}

/// The settings in which two files differ: those of the second in its order, then those that only
/// the first has.
pub fn changes<'f>(
    before: &'f [WrittenSetting],
    after: &'f [WrittenSetting],
) -> Vec<SettingChange<'f>> {
    let find = |list: &'f [WrittenSetting], key: &str| list.iter().find(|one| one.key == key);
    let new = after.iter().map(|one| SettingChange {
        before: find(before, &one.key),
        after: Some(one),
    });
    let gone = before
        .iter()
        .filter(|one| find(after, &one.key).is_none())
        .map(|one| SettingChange {
            before: Some(one),
            after: None,
        });
    new.filter(|change| {
        change
            .before
            .zip(change.after)
            .is_none_or(|(before, after)| !before.has_value_of(after))
    })
    .chain(gone)
    .collect()
}

struct Walk<'t> {
    text: &'t str,
    /// The settings with their offsets.
    found: Vec<(usize, WrittenSetting)>,
}

impl Walk<'_> {
    fn table(&mut self, table: &DeTable<'_>, key: &str, kind: &str) {
        for (name, value) in table {
            let key = join(key, name.get_ref());
            let kind = join(kind, name.get_ref());
            let is_whole = TABLES.contains(&kind.as_str());
            match value.get_ref() {
                DeValue::Table(table) if !is_whole => self.table(table, &key, &kind),
                DeValue::Array(items) if is_list_of_tables(items) => {
                    let mut names = HashSet::new();
                    for (at, item) in items.iter().enumerate() {
                        let DeValue::Table(table) = item.get_ref() else {
                            continue;
                        };
                        let mut name = name_of(table).unwrap_or_else(|| (at + 1).to_string());
                        if !names.insert(name.clone()) {
                            name = format!("{name}#{}", at + 1);
                        }
                        self.table(table, &join(&key, &name), &kind);
                    }
                }
                _ => self.leaf(key, kind, name.span().start, value.span()),
            }
        }
    }

    fn leaf(&mut self, key: String, kind: String, begin: usize, span: Range<usize>) {
        let written = self.text.get(span).unwrap_or_default();
        let parsed = format!("value = {written}").parse::<Table>().ok();
        let value = parsed.and_then(|mut table| table.remove("value"));
        let line = self.text.get(..begin).unwrap_or_default();
        let setting = WrittenSetting {
            line: line.matches('\n').count() + 1,
            digest: Secret::new(hex(&sha256(format!("{value:?}").as_bytes()))),
            value: value.and_then(|value| shown(&kind, &value)),
            key,
            kind,
        };
        self.found.push((begin, setting));
    }
}

fn join(before: &str, name: &str) -> String {
    if before.is_empty() {
        name.to_owned()
    } else {
        format!("{before}.{name}")
    }
}

fn is_list_of_tables(items: &toml::de::DeArray<'_>) -> bool {
    !items.is_empty() && items.iter().all(|item| item.get_ref().is_table())
}

/// What a table of a list is known by.
fn name_of(table: &DeTable<'_>) -> Option<String> {
    ["name", "path", "type", "cert"]
        .into_iter()
        .find_map(|key| {
            let value = table.iter().find(|(name, _)| name.get_ref() == key)?.1;
            value.get_ref().as_str().map(str::to_owned)
        })
}

fn shown(kind: &str, value: &Value) -> Option<serde_json::Value> {
    let is_public = PUBLIC.contains(&kind) && is_plain(value);
    if is_public || TABLES.contains(&kind) {
        return serde_json::to_value(value).ok();
    }
    let url = ORIGINS.contains(&kind).then(|| value.as_str()).flatten()?;
    Some(origin(url).into())
}

/// Returns whether it has no tables, in which other settings could stand.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Table(_) => false,
        Value::Array(items) => items.iter().all(is_plain),
        _ => true,
    }
}

/// Scheme, host and port of a URL: what follows, and an account before the host, may be secrets.
fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let more = if matches!(rest, "" | "/") { "" } else { "/…" };
    format!("{scheme}://{host}{more}")
}

/// Tables that are settings: the names in them are the operator's, and none is a secret.
#[rustfmt::skip]
const TABLES: &[&str] = &["auth.permission_networks", "auth.jwt.grant.claims", "auth.oidc.grant.claims", "upstream.permissions",
    "cluster.place", "cluster.operations"];

/// Settings whose URLs are shown up to the host.
#[rustfmt::skip]
const ORIGINS: &[&str] = &["upstream.url", "audit.sink.url", "traces.url", "policy.health.url", "upstream.policy.health.url",
    "engine.node_host.install.registry"];

/// Settings that are never secrets. Those that are missing here and in [`ORIGINS`] are not shown.
#[rustfmt::skip]
const PUBLIC: &[&str] = &[
    "operations", "operations_hosts", "auth",
    "server.listen", "server.plain", "server.workers", "server.drain", "server.watch", "server.trusted_proxies",
    "server.trusted_proxy_headers", "server.proxy_protocol", "server.hosts", "server.endpoint_hosts",
    "tls.directory", "tls.tls12", "tls.client_ca", "tls.client_crl", "tls.client_certificates",
    "tls.certificate.cert", "tls.certificate.key",
    "tls.acme.domains", "tls.acme.contact", "tls.acme.directory", "tls.acme.ca_file", "tls.acme.accept_terms",
    "tls.acme.eab_key_id", "tls.acme.eab_hmac_key_file",
    "timeouts.handshake", "timeouts.header", "timeouts.body_idle", "timeouts.keep_alive", "timeouts.endpoint",
    "timeouts.sign_in_body", "timeouts.body_grace",
    "limits.connections", "limits.connections_per_address", "limits.header_bytes", "limits.headers", "limits.body",
    "limits.sign_in_body", "limits.body_rate", "limits.unauthenticated_bytes", "limits.unauthenticated_bytes_per_address",
    "limits.user_bytes", "limits.bytes_per_user",
    "limits.h2_streams", "limits.h2_window", "limits.h2_resets", "limits.hashing",
    "headers.hsts", "headers.content_security_policy", "headers.frame_options", "headers.referrer_policy",
    "headers.resource_policy", "headers.everywhere", "headers.cors_origins",
    "auth.lifetime", "auth.idle", "auth.sessions_per_user", "auth.sign_in_page", "auth.passkeys", "auth.anonymous", "auth.step_up",
    "auth.step_up_after",
    "auth.throttle.per_user_and_address", "auth.throttle.per_address", "auth.throttle.per_user",
    "auth.throttle.bad_tokens_per_address", "auth.throttle.window",
    "auth.user.name", "auth.user.password_hash_file", "auth.user.certificates", "auth.user.rate_limit",
    "auth.user.totp_secret_file", "auth.user.networks", "auth.user.permissions",
    "auth.jwt.name", "auth.jwt.issuer", "auth.jwt.audience", "auth.jwt.jwks_url", "auth.jwt.jwks_file", "auth.jwt.ca_file",
    "auth.jwt.max_stale", "auth.jwt.algorithms", "auth.jwt.user_claim", "auth.jwt.clock_skew", "auth.jwt.max_lifetime",
    "auth.jwt.networks", "auth.jwt.rate_limit", "auth.jwt.grant.upstream",
    "auth.jwt.grant.permissions",
    "auth.oidc.name", "auth.oidc.label", "auth.oidc.issuer", "auth.oidc.ca_file", "auth.oidc.client_id",
    "auth.oidc.client_secret_file", "auth.oidc.redirect_url", "auth.oidc.scopes", "auth.oidc.user_claim",
    "auth.oidc.algorithms", "auth.oidc.clock_skew", "auth.oidc.refresh", "auth.oidc.max_stale", "auth.oidc.networks",
    "auth.oidc.rate_limit", "auth.oidc.second_factor", "auth.oidc.acr_values", "auth.oidc.grant.upstream",
    "auth.oidc.grant.permissions",
    "upstream.name", "upstream.host", "upstream.path", "upstream.strip", "upstream.admin_root",
    "upstream.server_name", "upstream.ca_file", "upstream.cert", "upstream.key", "upstream.dialect", "upstream.token_file",
    "upstream.user", "upstream.password_file", "upstream.client_id", "upstream.scope", "upstream.identity_headers",
    "upstream.reload", "upstream.connect", "upstream.first_byte", "upstream.idle", "upstream.keep_alive", "upstream.pool",
    "upstream.max_in_flight", "upstream.max_in_flight_per_address", "upstream.max_tunnels",
    "upstream.max_tunnels_per_address", "upstream.health",
    "identity.keys", "identity.issuer", "identity.lifetime", "identity.audiences",
    "policy.read_only", "policy.require_rev", "policy.forced", "policy.require_types", "policy.forbid_types",
    "policy.restrict_types", "policy.max_nodes", "policy.max_bytes", "policy.approve", "policy.proposal_lifetime",
    "policy.max_proposals", "policy.max_proposals_per_user", "policy.max_proposal_bytes",
    "policy.max_proposal_bytes_per_user", "policy.freeze.cron", "policy.freeze.duration", "policy.freeze.time_zone",
    "policy.freeze.reason", "policy.health.endpoint", "policy.health.max_error_rate", "policy.health.max_lateness",
    "policy.health.seconds",
    "upstream.policy.read_only", "upstream.policy.require_rev", "upstream.policy.forced", "upstream.policy.require_types",
    "upstream.policy.forbid_types", "upstream.policy.restrict_types", "upstream.policy.max_nodes",
    "upstream.policy.max_bytes", "upstream.policy.approve", "upstream.policy.proposal_lifetime",
    "upstream.policy.max_proposals", "upstream.policy.max_proposals_per_user", "upstream.policy.max_proposal_bytes",
    "upstream.policy.max_proposal_bytes_per_user", "upstream.policy.freeze.cron", "upstream.policy.freeze.duration",
    "upstream.policy.freeze.time_zone", "upstream.policy.freeze.reason", "upstream.policy.health.endpoint",
    "upstream.policy.health.max_error_rate", "upstream.policy.health.max_lateness", "upstream.policy.health.seconds",
    "comms.origins", "comms.sign_in", "comms.waiting", "comms.waiting_per_address", "comms.heartbeat", "comms.frame",
    "comms.frames", "comms.queue", "comms.backlog", "comms.upstream_frame", "comms.upstream_away",
    "console.enabled", "editor.modules",
    "cluster.advertise", "cluster.listen", "cluster.cert", "cluster.key", "cluster.ca_file",
    "cluster.name", "cluster.own_global_context",
    "engine.threads", "engine.close_timeout", "engine.script_memory", "engine.script_timeout", "engine.debug_length",
    "engine.message_buffer", "engine.queue_messages", "engine.queue_bytes", "engine.memory", "engine.http_node_root",
    "engine.start_attempts", "engine.settle", "engine.request_timeout", "engine.socket_reconnect",
    "engine.socket_timeout", "engine.tcp_buffers", "engine.socket_queue", "engine.mqtt_reconnect", "engine.jsonp",
    "engine.hide_env", "engine.context.name", "engine.context.module", "engine.context.directory",
    "engine.context.flush", "engine.context.file_limit", "engine.node_host.directory", "engine.node_host.node",
    "engine.node_host.memory", "engine.node_host.start_timeout", "engine.node_host.functions",
    "engine.node_host.socket", "engine.node_host.group", "engine.node_host.users", "engine.node_host.install.allow",
    "engine.node_host.install.deny", "engine.node_host.install.scripts", "engine.node_host.install.npm",
    "engine.node_host.install.timeout", "engine.listen.address", "engine.listen.mode", "engine.listen.group",
    "engine.listen.users", "engine.listen.inaccessible_paths", "engine.isolation", "engine.memory_limit", "engine.operations",
    "storage.directory", "storage.history", "storage.history_age", "storage.history_bytes",
    "storage.credential_secret_file", "storage.url_file", "storage.ca_file", "storage.grace",
    "log.level", "log.format", "log.access",
    "audit.to", "audit.rotate_size", "audit.rotate_age", "audit.keep", "audit.keep_for", "audit.max_size",
    "audit.on_failure", "audit.signing_key", "audit.checkpoint", "audit.sink.type", "audit.sink.name", "audit.sink.plain",
    "audit.sink.ca_file", "audit.sink.cert", "audit.sink.key", "audit.sink.secret_file", "audit.sink.token_file",
    "audit.sink.max_lag", "audit.sink.timeout",
    "traces.plain", "traces.token_file", "traces.ca_file", "traces.cert", "traces.key", "traces.ratio", "traces.max_per_second",
    "traces.users", "traces.interval", "traces.timeout",
    "route.path", "route.upstream", "route.prefix", "route.methods", "route.public", "route.pass_authorization",
    "route.account", "route.permission", "route.sign_in", "route.basic", "route.networks", "route.rate_limit",
    "route.same_origin",
    "admin_route.path", "admin_route.upstream", "admin_route.prefix", "admin_route.methods", "admin_route.public",
    "admin_route.permission", "admin_route.same_origin",
];

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::config::DEFAULT;
    use serde_json::json;
    use std::collections::BTreeSet;

    /// Settings that are not shown.
    const SECRETS: [&str; 10] = [
        "auth.oidc.client_secret",
        "engine.node_host.install.catalogues",
        "auth.user.password_hash",
        "auth.user.recovery_codes",
        "auth.user.totp_secret",
        "audit.sink.secret",
        "policy.health",
        "storage.credential_secret",
        "storage.url",
        "upstream.password",
    ];

    fn is_shown(kind: &str) -> bool {
        [PUBLIC, ORIGINS, TABLES]
            .iter()
            .any(|list| list.contains(&kind))
    }

    /// Every setting that the documented default has, switched on or off.
    fn documented() -> BTreeSet<String> {
        let mut table = String::new();
        let mut found = BTreeSet::new();
        for line in DEFAULT.lines() {
            let line = line.strip_prefix('#').unwrap_or(line);
            if line.starts_with('[') && line.ends_with(']') {
                table = line.trim_matches(['[', ']']).to_owned();
            } else if let Some((key, _)) = line.split_once(" = ")
                && key
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
            {
                found.insert(join(&table, key));
            }
        }
        found
    }

    #[test]
    fn of_every_setting_it_is_decided_whether_it_is_a_secret() {
        let documented = documented();
        assert!(documented.len() > 200, "{}", documented.len());
        let decided = |key: &&String| is_shown(key) || SECRETS.contains(&key.as_str());
        let missing: Vec<_> = documented.iter().filter(|key| !decided(key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        for secret in SECRETS {
            assert!(!is_shown(secret), "{secret}");
        }
    }

    #[test]
    fn no_secret_is_shown_wherever_it_stands() {
        let text = r#"
            unknown = "hidden"
            [[auth.user]]
            name = "ann"
            password_hash = "hidden"
            totp_secret = "hidden"
            recovery_codes = ["hidden"]
            pasword_hash = "hidden"
            [[auth.oidc]]
            client_secret = "hidden"
            [[upstream]]
            url = "https://hidden:hidden@example.org/hidden?hidden#hidden"
            password = "hidden"
            [storage]
            credential_secret = "hidden"
            [policy.health]
            url = "http://127.0.0.1:1880/hidden"
            [[audit.sink]]
            url = "https://siem.example.org/hidden"
            secret = "hidden"
            [limits]
            body = { hidden = "hidden" }
            [mine]
            password = "hidden"
        "#;
        let found = written(text);
        assert!(found.len() >= 13);
        let values: Vec<_> = found.iter().filter_map(|one| one.value.clone()).collect();
        assert_eq!(values[..2], [json!("ann"), json!("https://example.org/…")]);
        for setting in &found {
            let shown = format!("{:?}", setting.value);
            assert!(!shown.contains("hidden"), "{setting:?}");
        }
    }

    #[test]
    fn settings_have_their_lines_and_names_and_are_compared_also_when_they_are_secret() {
        let file = |hash: &str, body: &str| {
            format!(
                "[limits]\nbody = \"{body}\"\n[[auth.user]]\nname = \"ann\"\npassword_hash = \"{hash}\"\n[[auth.user]]\nname = \"ann\"\n[[route]]\npath = \"/a\"\n"
            )
        };
        let before = written(&file("hash-1", "1MiB"));
        let keys: Vec<_> = before
            .iter()
            .map(|one| (one.key.as_str(), one.line))
            .collect();
        assert_eq!(
            keys,
            [
                ("limits.body", 2),
                ("auth.user.ann.name", 4),
                ("auth.user.ann.password_hash", 5),
                ("auth.user.ann#2.name", 7),
                ("route./a.path", 9),
            ]
        );
        assert_eq!(changes(&before, &before).len(), 0);
        let after = written(&file("hash-2", "2MiB").replace("[[route]]\npath = \"/a\"\n", ""));
        let changed = changes(&before, &after);
        let keys: Vec<_> = changed
            .iter()
            .map(|change| change.after.or(change.before).unwrap().key.as_str())
            .collect();
        assert_eq!(
            keys,
            [
                "limits.body",
                "auth.user.ann.password_hash",
                "route./a.path"
            ]
        );
        assert!(changed[2].after.is_none());
        assert!(!format!("{before:?}").contains("hash-1"));
        assert!(written("= no toml").is_empty());
    }
}
