//! `gateway.toml` as it is written: every key that may stand there, each optional, with its place
//! in the file.
//!
//! Knows names and nesting; nothing of values, bounds or defaults.

mod acme;
mod audit;
mod cluster;
mod engine;
mod federated;
mod storage;
mod traces;

pub(super) use acme::Acme;
pub(super) use audit::{Audit, AuditSink};
pub(super) use cluster::Cluster;
pub(super) use engine::{ContextStore, Engine, EngineListen, Install, NodeHost};
pub(super) use federated::{ClaimGrant, Jwt, Oidc};
pub(super) use storage::Storage;
pub(super) use traces::Traces;

use super::error::{Problem, SpannedError};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use toml::{Spanned, Value};

/// The value of a key, if the key is there.
pub(super) type Entry = Option<Spanned<Value>>;
/// A list of values, if the key is there.
pub(super) type List = Option<Spanned<Vec<Spanned<Value>>>>;

/// Names with a list of values each, if the key is there.
pub(super) type Lists = Option<Spanned<BTreeMap<Spanned<String>, Spanned<Vec<Spanned<Value>>>>>>;

/// Reads the text; every key is known afterwards.
pub(super) fn parse(text: &str) -> Result<Root, SpannedError> {
    let root: Root = read(text)?;
    if root.engine.listen.is_some() {
        read::<engine::EngineFile>(text)?;
    }
    Ok(root)
}

/// Reads the table of one upstream.
pub(super) fn upstream(text: &str) -> Result<Upstream, SpannedError> {
    read(text)
}

fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, SpannedError> {
    let file = toml::Deserializer::parse(text).map_err(|error| SpannedError {
        span: error.span().unwrap_or_default(),
        problem: Problem::Syntax(error.message().to_owned()),
    })?;
    T::deserialize(file).map_err(|error| shape(&error))
}

/// A misplaced or unknown key. serde gives names and kinds only in its message, which also quotes
/// values that may be secrets: so the names are taken out and the values left behind.
fn shape(error: &toml::de::Error) -> SpannedError {
    let span = error.span().unwrap_or_default();
    let message = error.message();
    if let Some(names) = message.strip_prefix("unknown field ") {
        let known = names.split('`').skip(1).step_by(2).skip(1);
        return SpannedError::unknown_key(span, known.map(str::to_owned).collect());
    }
    match message.split_once(", expected ") {
        // serde's word for what TOML calls an array and this program's messages a list.
        Some((_, expected)) => SpannedError::value(span, expected.replace("a sequence", "a list")),
        None => SpannedError::rule(span, message.lines().next().unwrap_or_default()),
    }
}

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct Root {
    pub(super) operations: Entry,
    pub(super) operations_hosts: List,
    pub(super) auth: Option<Spanned<AuthChoice>>,
    #[serde(default)]
    pub(super) server: Server,
    #[serde(default)]
    pub(super) tls: Tls,
    #[serde(default)]
    pub(super) timeouts: Timeouts,
    #[serde(default)]
    pub(super) limits: Limits,
    #[serde(default)]
    pub(super) headers: Headers,
    pub(super) upstream: Option<Spanned<Upstreams>>,
    #[serde(default)]
    pub(super) identity: Identity,
    #[serde(default)]
    pub(super) policy: Policy,
    #[serde(default)]
    pub(super) comms: Comms,
    #[serde(default)]
    pub(super) console: Console,
    #[serde(default)]
    pub(super) engine: Engine,
    #[serde(default)]
    pub(super) editor: Editor,
    #[serde(default)]
    pub(super) storage: Storage,
    pub(super) cluster: Option<Spanned<Cluster>>,
    #[serde(default)]
    pub(super) log: Log,
    #[serde(default)]
    pub(super) audit: Audit,
    #[serde(default)]
    pub(super) traces: Traces,
    #[serde(default)]
    pub(super) route: Vec<Spanned<Route>>,
    #[serde(default)]
    pub(super) admin_route: Vec<Spanned<AdminRoute>>,
}

/// `auth = "off"` or `[auth]`.
pub(super) enum AuthChoice {
    Text(String),
    Table(Box<Auth>),
}

impl<'de> Deserialize<'de> for AuthChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AuthVisitor)
    }
}

struct AuthVisitor;

impl<'de> Visitor<'de> for AuthVisitor {
    type Value = AuthChoice;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#""off" or a table [auth]"#)
    }

    fn visit_str<E>(self, text: &str) -> Result<AuthChoice, E> {
        Ok(AuthChoice::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AuthChoice, A::Error> {
        Auth::deserialize(MapAccessDeserializer::new(map))
            .map(|auth| AuthChoice::Table(Box::new(auth)))
    }
}

/// `[server]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [server]")]
pub(super) struct Server {
    pub(super) listen: List,
    pub(super) plain: Entry,
    pub(super) workers: Entry,
    pub(super) drain: Entry,
    pub(super) watch: Entry,
    pub(super) trusted_proxies: List,
    pub(super) trusted_proxy_headers: List,
    pub(super) proxy_protocol: Entry,
    pub(super) hosts: List,
    pub(super) endpoint_hosts: List,
}

/// `[tls]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [tls]")]
pub(super) struct Tls {
    pub(super) directory: Entry,
    pub(super) tls12: Entry,
    pub(super) client_ca: Entry,
    pub(super) client_crl: Entry,
    pub(super) client_certificates: Entry,
    #[serde(default)]
    pub(super) certificate: Vec<Spanned<Certificate>>,
    pub(super) acme: Option<Spanned<Acme>>,
}

/// `[[tls.certificate]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[tls.certificate]]")]
pub(super) struct Certificate {
    pub(super) cert: Entry,
    pub(super) key: Entry,
}

/// `[timeouts]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [timeouts]")]
pub(super) struct Timeouts {
    pub(super) handshake: Entry,
    pub(super) header: Entry,
    pub(super) body_idle: Entry,
    pub(super) keep_alive: Entry,
    pub(super) endpoint: Entry,
    pub(super) sign_in_body: Entry,
    pub(super) body_grace: Entry,
}

/// `[limits]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [limits]")]
pub(super) struct Limits {
    pub(super) connections: Entry,
    pub(super) connections_per_address: Entry,
    pub(super) header_bytes: Entry,
    pub(super) headers: Entry,
    pub(super) body: Entry,
    pub(super) sign_in_body: Entry,
    pub(super) body_rate: Entry,
    pub(super) unauthenticated_bytes: Entry,
    pub(super) unauthenticated_bytes_per_address: Entry,
    pub(super) user_bytes: Entry,
    pub(super) bytes_per_user: Entry,
    pub(super) h2_streams: Entry,
    pub(super) h2_window: Entry,
    pub(super) h2_resets: Entry,
    pub(super) hashing: Entry,
}

/// `[headers]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [headers]")]
pub(super) struct Headers {
    pub(super) hsts: Entry,
    pub(super) content_security_policy: Entry,
    pub(super) frame_options: Entry,
    pub(super) referrer_policy: Entry,
    pub(super) resource_policy: Entry,
    pub(super) everywhere: Entry,
    pub(super) cors_origins: List,
}

/// `[auth]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [auth]")]
pub(super) struct Auth {
    pub(super) lifetime: Entry,
    pub(super) idle: Entry,
    pub(super) sessions_per_user: Entry,
    pub(super) sign_in_page: Entry,
    pub(super) passkeys: Entry,
    pub(super) anonymous: List,
    pub(super) step_up: List,
    pub(super) step_up_after: Entry,
    pub(super) permission_networks: Lists,
    #[serde(default)]
    pub(super) throttle: Throttle,
    #[serde(default)]
    pub(super) user: Vec<Spanned<User>>,
    #[serde(default)]
    pub(super) jwt: Vec<Spanned<Jwt>>,
    #[serde(default)]
    pub(super) oidc: Vec<Spanned<Oidc>>,
}

/// `[auth.throttle]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [auth.throttle]")]
pub(super) struct Throttle {
    pub(super) per_user_and_address: Entry,
    pub(super) per_address: Entry,
    pub(super) per_user: Entry,
    pub(super) bad_tokens_per_address: Entry,
    pub(super) window: Entry,
}

/// `[[auth.user]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[auth.user]]")]
pub(super) struct User {
    pub(super) name: Entry,
    pub(super) password_hash: Entry,
    pub(super) password_hash_file: Entry,
    pub(super) certificates: List,
    pub(super) rate_limit: Entry,
    pub(super) totp_secret: Entry,
    pub(super) totp_secret_file: Entry,
    pub(super) recovery_codes: List,
    pub(super) networks: List,
    pub(super) permissions: List,
}

/// `[upstream]`, or several `[[upstream]]`.
pub(super) enum Upstreams {
    One(Box<Upstream>),
    Several(Vec<Spanned<Upstream>>),
}

impl<'de> Deserialize<'de> for Upstreams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UpstreamsVisitor)
    }
}

struct UpstreamsVisitor;

impl<'de> Visitor<'de> for UpstreamsVisitor {
    type Value = Upstreams;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table [upstream], or several [[upstream]]")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Upstreams, A::Error> {
        Upstream::deserialize(MapAccessDeserializer::new(map))
            .map(|upstream| Upstreams::One(Box::new(upstream)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Upstreams, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Upstreams::Several)
    }
}

/// One upstream.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [upstream]")]
pub(super) struct Upstream {
    pub(super) name: Entry,
    pub(super) host: List,
    pub(super) path: Entry,
    pub(super) strip: Entry,
    pub(super) admin_root: Entry,
    pub(super) permissions: Lists,
    pub(super) url: Entry,
    pub(super) server_name: Entry,
    pub(super) ca_file: Entry,
    pub(super) cert: Entry,
    pub(super) key: Entry,
    pub(super) dialect: Entry,
    pub(super) token_file: Entry,
    pub(super) user: Entry,
    pub(super) password: Entry,
    pub(super) password_file: Entry,
    pub(super) client_id: Entry,
    pub(super) scope: Entry,
    pub(super) identity_headers: Entry,
    pub(super) reload: Entry,
    pub(super) connect: Entry,
    pub(super) first_byte: Entry,
    pub(super) idle: Entry,
    pub(super) keep_alive: Entry,
    pub(super) pool: Entry,
    pub(super) max_in_flight: Entry,
    pub(super) max_in_flight_per_address: Entry,
    pub(super) max_tunnels: Entry,
    pub(super) max_tunnels_per_address: Entry,
    pub(super) health: Entry,
    #[serde(default)]
    pub(super) policy: Policy,
}

/// `[identity]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [identity]")]
pub(super) struct Identity {
    pub(super) keys: List,
    pub(super) issuer: Entry,
    pub(super) lifetime: Entry,
    pub(super) audiences: List,
}

/// `[policy]`, or `[upstream.policy]`.
#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, expecting = "a table [policy]")]
pub(super) struct Policy {
    pub(super) read_only: Entry,
    #[serde(default)]
    pub(super) freeze: Vec<Spanned<Freeze>>,
    pub(super) require_rev: Entry,
    pub(super) forced: List,
    pub(super) require_types: Entry,
    pub(super) forbid_types: List,
    pub(super) restrict_types: List,
    pub(super) max_nodes: Entry,
    pub(super) max_bytes: Entry,
    pub(super) approve: List,
    pub(super) proposal_lifetime: Entry,
    pub(super) max_proposals: Entry,
    pub(super) max_proposals_per_user: Entry,
    pub(super) max_proposal_bytes: Entry,
    pub(super) max_proposal_bytes_per_user: Entry,
    pub(super) health: Option<Health>,
}

/// `[policy.health]`.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, expecting = "a table [policy.health]")]
pub(super) struct Health {
    pub(super) url: Entry,
    pub(super) endpoint: Entry,
    pub(super) max_error_rate: Entry,
    pub(super) max_lateness: Entry,
    pub(super) seconds: Entry,
}

/// `[[policy.freeze]]`.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, expecting = "a table [[policy.freeze]]")]
pub(super) struct Freeze {
    pub(super) cron: Entry,
    pub(super) duration: Entry,
    pub(super) time_zone: Entry,
    pub(super) reason: Entry,
}

/// `[comms]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [comms]")]
pub(super) struct Comms {
    pub(super) origins: List,
    pub(super) sign_in: Entry,
    pub(super) waiting: Entry,
    pub(super) waiting_per_address: Entry,
    pub(super) heartbeat: Entry,
    pub(super) frame: Entry,
    pub(super) frames: Entry,
    pub(super) queue: Entry,
    pub(super) backlog: Entry,
    pub(super) upstream_frame: Entry,
    pub(super) upstream_away: Entry,
}

/// `[console]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [console]")]
pub(super) struct Console {
    pub(super) enabled: Entry,
}

/// `[editor]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [editor]")]
pub(super) struct Editor {
    pub(super) modules: Entry,
}

/// `[log]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [log]")]
pub(super) struct Log {
    pub(super) level: Entry,
    pub(super) format: Entry,
    pub(super) access: Entry,
}

/// `[[route]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[route]]")]
pub(super) struct Route {
    pub(super) path: Entry,
    pub(super) upstream: Entry,
    pub(super) prefix: Entry,
    pub(super) methods: List,
    pub(super) public: Entry,
    pub(super) pass_authorization: Entry,
    pub(super) account: Entry,
    pub(super) permission: Entry,
    pub(super) sign_in: Entry,
    pub(super) basic: Entry,
    pub(super) networks: List,
    pub(super) rate_limit: Entry,
    pub(super) same_origin: Entry,
}

/// `[[admin_route]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[admin_route]]")]
pub(super) struct AdminRoute {
    pub(super) path: Entry,
    pub(super) upstream: Entry,
    pub(super) prefix: Entry,
    pub(super) methods: List,
    pub(super) public: Entry,
    pub(super) permission: Entry,
    pub(super) same_origin: Entry,
}
