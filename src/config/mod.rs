//! `gateway.toml` becomes a [`Config`]: parsed, complete, and never invalid.
//!
//! All values have been checked: addresses are addresses, hashes are hashes, numbers are in their
//! bounds. Reads files and the environment; never opens a socket, never changes after it was
//! parsed.
//!
//! The steps: text → `raw` (serde: every key, as written) → `tables` (one conversion per table,
//! with the help of `setting` for single values and `route` for `[[route]]`) → [`Config`]. Mistakes
//! become an [`Error`].

mod acme;
mod admin_route;
mod approval;
mod audit;
mod audit_sink;
mod claims;
mod cluster;
mod comms;
mod conditions;
mod context;
mod engine;
mod engine_listen;
mod error;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod handover;
mod headers;
mod health;
mod hosts;
mod identity;
mod installs;
mod isolation;
mod jwt;
mod mount;
mod networks;
mod oidc;
mod packages;
mod page_sandbox;
mod parse;
mod password_hash;
mod path_key;
mod permissions;
mod policy;
mod provider_url;
mod proxy_headers;
mod rate_limit;
mod raw;
mod route;
mod setting;
mod shared_store;
mod tables;
mod tls;
mod traces;
mod upstream;
mod upstream_url;
mod users;
mod warnings;
mod written;

pub use acme::{Acme, ExternalAccount};
pub use approval::Approval;
pub use audit_sink::{AuditSink, SinkKind};
pub use claims::{Claim, ClaimGrant};
pub use cluster::Cluster;
pub use comms::Origin;
pub use conditions::Conditions;
pub use context::{ContextFiles, ContextStore, SHARED_CONTEXTS};
pub use engine::{HostSocket, NodeHost};
pub use engine_listen::{EngineListen, EngineSocket};
pub use error::{Diagnostic, Error, Problem};
pub use handover::{Handover, Shard};
pub use headers::RESOURCE_POLICY;
pub use health::Health;
pub use hosts::{Host, Hosts};
pub use identity::IdentityTokens;
pub use installs::Installs;
pub use isolation::{ENGINE_DIRECTORY, EngineProcess};
pub use jwt::{Jwt, KeySource};
pub use networks::{Networks, is_network};
pub use oidc::Oidc;
pub use path_key::{leading, path_key, percent_decoded};
pub use permissions::{PERMISSIONS, permission_hint, writes_some_flows_only};
pub use policy::{FreezeWindow, Policy, is_reason};
pub use provider_url::ProviderUrl;
pub use rate_limit::{EXPECTED as RATE_LIMIT, RateLimit};
pub use route::{AdminPaths, AmbientCredentials, Authorization, PathRules, RESERVED, Route};
pub use setting::{is_variable, parse_duration};
pub use shared_store::SharedStore;
pub use tls::CertificateName;
pub use traces::{Ratio, Traces};
pub use upstream::{is_token, token_in};
pub use users::{Totp, UNKNOWN_USER};
pub use written::{SettingChange, WrittenSetting, changes as setting_changes, written};

use crypto::Secret;
use hyper::header::{HeaderName, HeaderValue};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The `gateway.toml` of the repository: the documented defaults, used when there is no other.
pub const DEFAULT: &str = include_str!("../../gateway.toml");

/// The file that is read when none is named, from the working directory.
const FILE: &str = "gateway.toml";

/// Everything that an operator decides. Built only by [`Config::load`], [`Config::parse`] or from
/// the embedded defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file that this was read from; `None`: the embedded default.
    pub file: Option<PathBuf>,
    /// SHA-256 of its text, hexadecimal.
    pub sha256: String,
    /// Its settings as they are written, without secrets.
    pub written: Arc<[WrittenSetting]>,
    /// The files that it names and that were read too.
    pub secrets: Vec<PathBuf>,
    /// The listeners for clients.
    pub server: Server,
    /// Certificates and versions.
    pub tls: Tls,
    /// The time-outs of each phase of a connection.
    pub timeouts: Timeouts,
    /// The limits on the resources that one client may use.
    pub limits: Limits,
    /// The response headers for browsers.
    pub headers: Headers,
    /// Users and sign-in; `None` when `auth = "off"` is written out or no `[auth]` table exists.
    pub auth: Option<Auth>,
    /// The runtimes behind us; none: our own engine runs the flows.
    pub upstreams: Vec<Upstream>,
    /// The keys that sign who a caller is.
    pub identity: IdentityTokens,
    /// The rules for deployments to our own engine; each upstream has its own.
    pub policy: Policy,
    /// The channel that reports events to editors.
    pub comms: Comms,
    /// The console.
    pub console: Console,
    /// Our own flow engine.
    pub engine: Engine,
    /// The stock editor on our own engine.
    pub editor: Editor,
    /// The persistent storage.
    pub storage: Storage,
    /// The other gateways that can run the engine; `None`: there are none.
    pub cluster: Option<Box<Cluster>>,
    /// The listener of `/metrics`, `/healthz` and `/readyz`; `None` switches it off.
    pub operations: Option<SocketAddr>,
    /// Hosts under which that listener answers, beside addresses and the machine's own names.
    pub operations_hosts: Hosts,
    /// The settings of the log.
    pub log: Log,
    /// The audit log.
    pub audit: Audit,
    /// The collector of traces; `None`: nothing is traced.
    pub traces: Option<Box<Traces>>,
    /// `[[route]]`: permissions of endpoints made by flows.
    pub routes: Vec<Route>,
    /// `[[admin_route]]`: permissions of what node packages add to an upstream's admin API.
    pub admin_routes: Vec<Route>,
}

impl Config {
    /// Reads `file`; without one `gateway.toml` in the working directory, and if there is none the
    /// embedded default.
    pub fn load(file: Option<&Path>) -> Result<Self, Error> {
        let file = match file {
            Some(file) => file,
            None if Path::new(FILE).exists() => Path::new(FILE),
            None => {
                let embedded = Self::parse(DEFAULT, "gateway.toml (embedded)", Path::new(""))?;
                return Ok(Self {
                    file: None,
                    ..embedded
                });
            }
        };
        let text = std::fs::read_to_string(file).map_err(|source| Error::Unreadable {
            file: file.into(),
            source,
        })?;
        if text
            .parse::<toml::Table>()
            .is_ok_and(|table| table.is_empty())
        {
            return Err(Error::Empty(file.into()));
        }
        let base = file.parent().unwrap_or(Path::new(""));
        let config = Self::parse(&text, &file.to_string_lossy(), base)?;
        Ok(Self {
            file: Some(file.into()),
            ..config
        })
    }

    /// Parses `text`; `file` is its name in errors, and paths in it are relative to the directory
    /// `base`. Reads the environment for `${NAME}` and the files that hold secrets.
    pub fn parse(text: &str, file: &str, base: &Path) -> Result<Self, Error> {
        parse::parse(text, file, base, &|name| std::env::var(name).ok())
    }
}

/// Returns whether this is spelled as a permission.
pub fn is_permission(text: &str) -> bool {
    route::permission(text).is_some()
}

/// `[server]`.
#[derive(Debug, Clone)]
pub struct Server {
    /// TLS listeners.
    pub listen: Vec<SocketAddr>,
    /// An optional plain-HTTP listener; loopback only.
    pub plain: Option<SocketAddr>,
    /// Worker threads; the number of cores unless set.
    pub workers: usize,
    /// The time-out of a drain.
    pub drain: Duration,
    /// The interval between checks of the configuration's files; `None`: they are read on a signal
    /// only.
    pub watch: Option<Duration>,
    /// Trusted proxies in front of the gateway; their information about clients is used.
    pub trusted_proxies: Networks,
    /// Header fields that are forwarded from trusted proxies only, lower-case.
    pub trusted_proxy_headers: Vec<HeaderName>,
    /// True if connections begin with a PROXY header; only trusted proxies may connect then.
    pub proxy_protocol: bool,
    /// The hosts that are answered, beside those of upstreams; `None`: all, but only own ones
    /// without a token.
    pub hosts: Option<Hosts>,
    /// The hosts under which endpoints are answered, and nothing else; `None`: all have the same
    /// hosts.
    pub endpoint_hosts: Option<Hosts>,
}

/// `[tls]`.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Directory of the certificate made at the first start.
    pub directory: PathBuf,
    /// Certificates given by the operator, chosen by SNI; empty: the self-signed one.
    pub certificates: Vec<Certificate>,
    /// The certificate ordered by ACME; `None`: none is.
    pub acme: Option<Box<Acme>>,
    /// True if TLS 1.2 is offered beside 1.3.
    pub tls12: bool,
    /// The client certificates accepted; `None`: none are requested.
    pub clients: Option<ClientCertificates>,
}

/// The client certificates accepted.
#[derive(Debug, Clone)]
pub struct ClientCertificates {
    /// PEM file of the authorities whose certificates are accepted.
    pub ca: PathBuf,
    /// PEM file of what these authorities have revoked.
    pub crl: Option<PathBuf>,
    /// True if every client must present one.
    pub required: bool,
}

/// One `[[tls.certificate]]`.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// PEM file of the chain, leaf first.
    pub cert: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
}

/// `[timeouts]`.
#[derive(Debug, Clone)]
pub struct Timeouts {
    /// A TLS handshake, from accept.
    pub handshake: Duration,
    /// A request's head, from its first byte (and the first request, from the handshake).
    pub header: Duration,
    /// Between two pieces of a body.
    pub body_idle: Duration,
    /// A connection without a request.
    pub keep_alive: Duration,
    /// An endpoint made by a flow, until it answers.
    pub endpoint: Duration,
    /// The whole body of a sign-in.
    pub sign_in_body: Duration,
    /// The grace period of a request body before the minimum rate counts.
    pub body_grace: Duration,
}

/// `[limits]`.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections in all.
    pub connections: usize,
    /// Open connections of one address (IPv6: one /64).
    pub connections_per_address: usize,
    /// Bytes of a request's head, h1 and h2.
    pub header_bytes: usize,
    /// Header fields of a request.
    pub headers: usize,
    /// Bytes of a body: a deployment, or a request to an endpoint of a flow.
    pub body: usize,
    /// Bytes of a sign-in form.
    pub sign_in_body: usize,
    /// The minimum rate of a request body after the grace period, bytes a second; 0: none.
    pub body_rate: u64,
    /// Bytes held in memory for unauthenticated callers, in total.
    pub unauthenticated_bytes: usize,
    /// The same for one address (IPv6: one /64).
    pub unauthenticated_bytes_per_address: usize,
    /// Bytes held in memory for users, in total.
    pub user_bytes: usize,
    /// The same for one user.
    pub bytes_per_user: usize,
    /// Streams at a time on one HTTP/2 connection.
    pub h2_streams: u32,
    /// Bytes of an HTTP/2 stream's receive window.
    pub h2_window: u32,
    /// Resets that a client may send on streams not yet answered before its connection is closed.
    pub h2_resets: usize,
    /// The maximum number of passwords hashed at a time.
    pub hashing: usize,
}

/// `[headers]`.
#[derive(Debug, Clone)]
pub struct Headers {
    /// `Strict-Transport-Security`, if it is sent.
    pub hsts: Option<HeaderValue>,
    /// The headers of responses that the gateway makes itself.
    pub own: Vec<(HeaderName, HeaderValue)>,
    /// The headers of all others, unless they have them already.
    pub others: Vec<(HeaderName, HeaderValue)>,
    /// `Cross-Origin-Resource-Policy` of all others that are not public, unless they have it
    /// already.
    pub resource_policy: Option<HeaderValue>,
    /// True if the others have `hsts` too.
    pub everywhere: bool,
    /// Web pages that may read answers.
    pub cors_origins: Vec<Origin>,
}

/// `[auth]`.
#[derive(Debug, Clone)]
pub struct Auth {
    /// Absolute lifetime of a token.
    pub lifetime: Duration,
    /// The idle time-out of a token; `None`: none.
    pub idle: Option<Duration>,
    /// The maximum number of sessions of a user; beyond it the oldest end.
    pub sessions_per_user: usize,
    /// True if browsers may sign in with a page; also where a route has `sign_in = "page"`, with
    /// providers and with passkeys.
    pub sign_in_page: bool,
    /// True if local users may register passkeys and sign in with them.
    pub passkeys: bool,
    /// Accounts; empty: an `admin` is made at the first start.
    pub users: Vec<User>,
    /// Issuers of JWTs that count as bearer tokens.
    pub jwt: Vec<Jwt>,
    /// Providers with which users sign in.
    pub oidc: Vec<Oidc>,
    /// The permissions of a request without a token; `None`: none.
    pub anonymous: Option<Vec<String>>,
    /// The brake on guessed passwords.
    pub throttle: Throttle,
    /// Permissions that may be used under a condition only.
    pub conditions: Conditions,
}

/// One `[[auth.user]]`.
#[derive(Debug, Clone)]
pub struct User {
    /// Exact and case-sensitive.
    pub name: String,
    /// Argon2id PHC string or bcrypt (`$2a$`, `$2b$`, `$2y$`); `None`: the user signs in by
    /// certificate only.
    pub password_hash: Option<Secret>,
    /// The networks that the user's requests must come from; `None`: all.
    pub networks: Option<Arc<Networks>>,
    /// The limit of the user's requests; `None`: none.
    pub rate_limit: Option<RateLimit>,
    /// The user's second factor at the sign-in with a password; `None`: there is none.
    pub totp: Option<Arc<Totp>>,
    /// The user's certificates.
    pub certificates: Vec<CertificateName>,
    /// `*`, `read`, `flows.write` …
    pub permissions: Vec<String>,
}

/// `[auth.throttle]`.
#[derive(Debug, Clone)]
pub struct Throttle {
    /// Failures that one user may have from one address within the window.
    pub per_user_and_address: u32,
    /// Failures that one address may have within the window.
    pub per_address: u32,
    /// Failures that one user may have from all addresses within the window before addresses that
    /// the user has not signed in from have to wait.
    pub per_user: u32,
    /// Bad tokens that one address may show within the window.
    pub bad_tokens_per_address: u32,
    /// The window.
    pub window: Duration,
}

/// The hosts and path of a runtime, and the permissions and rules there.
#[derive(Debug, Clone, Default)]
pub struct Mount {
    /// Its name in logs, metrics and audit; no other has the same.
    pub name: String,
    /// The host names that lead to it, lower-case, without port; empty: all.
    pub hosts: Vec<String>,
    /// The path that leads to it: as a request's path is matched, or empty for the root.
    pub path: String,
    /// That path as the operator spells it, if it stays here when requests are forwarded; else
    /// empty.
    pub prefix: String,
    /// The path, below that one, of the editor and admin API; empty: everywhere.
    pub admin_root: String,
    /// The permissions of these users there, instead of those elsewhere.
    pub permissions: Vec<(String, Vec<String>)>,
    /// The rules for deployments to it.
    pub policy: Policy,
}

/// `[upstream]`, or one of several `[[upstream]]`.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Its hosts and path for clients.
    pub mount: Mount,
    /// The path of its own admin API, spelled as it does; empty for the root.
    pub root: String,
    /// The Unix socket on which it listens; `None`: it listens at `host` and `port`.
    pub socket: Option<PathBuf>,
    /// The users whose processes may listen on the socket; none: any, as its directory decides.
    pub socket_users: Vec<u32>,
    /// True if it is spoken to over TLS.
    pub secure: bool,
    /// Its host: a name, or an address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The name that its certificate must have, if not the host's.
    pub server_name: Option<String>,
    /// PEM file of the certification authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The certificate to present when it requests one.
    pub certificate: Option<Certificate>,
    /// Its spelling of the headers of the admin API.
    pub dialect: Dialect,
    /// The gateway's credentials there; `None`: it is open.
    pub account: Option<Account>,
    /// True if it receives the caller's name and permissions.
    pub identity_headers: bool,
    /// True if it supports the deployment type `reload`.
    pub reload: bool,
    /// Until a connection is there, TLS included.
    pub connect: Duration,
    /// From a request's last byte to the first of its answer.
    pub first_byte: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
    /// The keep-alive time of a connection without a request.
    pub keep_alive: Duration,
    /// Connections without a request kept by each worker.
    pub pool: usize,
    /// The maximum number of requests at a time.
    pub max_in_flight: usize,
    /// Of these, requests of one address (IPv6: one /64).
    pub max_in_flight_per_address: usize,
    /// Tunnels open at a time.
    pub max_tunnels: usize,
    /// Of these, tunnels of one address (IPv6: one /64).
    pub max_tunnels_per_address: usize,
    /// The interval between health checks.
    pub health: Duration,
}

/// The gateway's credentials at a protected upstream.
#[derive(Debug, Clone)]
pub enum Account {
    /// By a token that the operator puts into a file.
    Token {
        /// The file, read again when the token is refused.
        file: PathBuf,
        /// Its content.
        token: Secret,
    },
    /// By signing in with a password.
    User(ServiceAccount),
}

/// A user of the upstream's own that is ours.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceAccount {
    /// Its name.
    pub user: String,
    /// Its password.
    pub password: Secret,
    /// As which client we sign in.
    pub client_id: String,
    /// The scope to request.
    pub scope: String,
}

/// The spelling of the two headers of the admin API in a family of runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `Node-RED-API-Version`, `Node-RED-Deployment-Type`.
    NodeRed,
    /// `Service-API-Version`, `Service-Deployment-Type`.
    Service,
}

/// `[comms]`.
#[derive(Debug, Clone)]
pub struct Comms {
    /// Origins of web pages that may connect, beside the gateway's own.
    pub origins: Vec<Origin>,
    /// From the handshake to the end of the sign-in.
    pub sign_in: Duration,
    /// Channels that have not signed in, in all.
    pub waiting: usize,
    /// The same of one address.
    pub waiting_per_address: usize,
    /// The interval between heartbeats to an editor.
    pub heartbeat: Duration,
    /// Bytes of one frame from an editor.
    pub frame: usize,
    /// Frames from one editor within a second; more wait.
    pub frames: u32,
    /// Bytes that may wait for one editor; a slower one is closed.
    pub queue: usize,
    /// Bytes of the engine's messages that may wait to be sent to editors.
    pub backlog: usize,
    /// Bytes of one frame from the upstream.
    pub upstream_frame: usize,
    /// The time-out of editors while the upstream is unavailable.
    pub upstream_away: Duration,
}

/// `[engine]`.
#[derive(Debug, Clone)]
pub struct Engine {
    /// The threads that share the flows.
    pub threads: usize,
    /// The time-out for closing a node (15 s, as in Node-RED).
    pub close_timeout: Duration,
    /// Memory of all function nodes together, bytes. The work of another node on one message may
    /// make a quarter of it.
    pub script_memory: usize,
    /// Longest run of a function node's synchronous code when the node sets no limit of its own,
    /// and of another node's work on one message.
    pub script_timeout: Duration,
    /// Directory with the `node_modules` of function nodes: that of the flows, as in Node-RED; no
    /// setting of the file.
    pub modules: PathBuf,
    /// Longest text shown by a debug node, characters (1000, as in Node-RED).
    pub debug_length: usize,
    /// Messages that a node may hold back (delay, join, sort, batch); 0: any number, as in
    /// Node-RED.
    pub message_buffer: usize,
    /// Messages that may wait for the nodes of joined flows before their sources pause.
    pub queue_messages: usize,
    /// Bytes of these messages, about.
    pub queue_bytes: usize,
    /// Memory that the program may need before sources pause and flows are stopped, bytes; `None`:
    /// half of what the machine has.
    pub memory: Option<u64>,
    /// Path prefix of endpoints made by http-in nodes.
    pub http_node_root: String,
    /// The number of failed starts in a row after which the flow set before is started instead; 0:
    /// no limit.
    pub start_attempts: u32,
    /// The time flows must run for a start to count as successful.
    pub settle: Duration,
    /// Load the flows and do not start them (`run --safe`); no setting of the file.
    pub safe: bool,
    /// The time-out of an http request node for its response (120 s, as in Node-RED).
    pub request_timeout: Duration,
    /// The delay before tcp nodes reconnect (10 s, as in Node-RED).
    pub socket_reconnect: Duration,
    /// The idle time-out of connections to tcp nodes that listen (none, as in Node-RED).
    pub socket_timeout: Option<Duration>,
    /// Bytes that tcp in nodes hold of connections before they are messages; of one address half of
    /// them.
    pub tcp_buffers: usize,
    /// Messages that a tcp request node holds for a connection that is not open yet (1000, as in
    /// Node-RED).
    pub socket_queue: usize,
    /// The delay before mqtt nodes reconnect (5 s, as in Node-RED).
    pub mqtt_reconnect: Duration,
    /// True if http response nodes answer `?callback=name` with a script that calls `name`, as
    /// Node-RED does.
    pub jsonp: bool,
    /// Variables of the process that flows do not see; those that secrets of the file were made of
    /// are among them.
    pub hide_env: flows::HiddenVariables,
    /// Context stores, the one for unnamed use first; empty: one in memory.
    pub context: Vec<ContextStore>,
    /// The process that runs nodes of npm packages; `None`: there is none.
    pub node_host: Option<NodeHost>,
    /// Where it listens if it runs apart from its gateway; `None`: it is the gateway's own.
    pub listen: Option<EngineListen>,
    /// Files and directories that such an engine, and all that its flows start, cannot open.
    pub inaccessible_paths: Vec<PathBuf>,
    /// Directories that it can open although they are within these; no setting of the file.
    pub accessible_paths: Vec<PathBuf>,
    /// The process of its own that the gateway starts for it; `None`: it is a part of the
    /// gateway's.
    pub process: Option<EngineProcess>,
    /// The part of the flows that it runs, if other engines run the others.
    pub shard: Option<Shard>,
}

/// `[console]`.
#[derive(Debug, Clone, Copy)]
pub struct Console {
    /// True if the gateway serves it.
    pub enabled: bool,
}

/// `[editor]`.
#[derive(Debug, Clone)]
pub struct Editor {
    /// The `node_modules` that hold the stock editor; `None`: it is not served.
    pub modules: Option<PathBuf>,
}

/// `[storage]`.
#[derive(Debug, Clone)]
pub struct Storage {
    /// Directory of `flows.json`, `flows_cred.json` and the database.
    pub directory: PathBuf,
    /// Earlier flow sets kept, of each runtime; 0: of an upstream none at all.
    pub history: usize,
    /// How long they are kept.
    pub history_age: Duration,
    /// The most bytes of them, of each runtime.
    pub history_bytes: u64,
    /// The secret of `flows_cred.json`; `None`: the generated one in `.config.runtime.json`.
    pub credential_secret: Option<Secret>,
    /// The database that several gateways share; `None`: a file in the directory.
    pub shared: Option<SharedStore>,
}

/// `[log]`.
#[derive(Debug, Clone)]
pub struct Log {
    /// The least important level that is written.
    pub level: tracing::Level,
    /// JSON lines instead of text.
    pub json: bool,
    /// True if every request is written.
    pub access: bool,
}

/// `[audit]`.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Nothing is recorded: the gateway in front of this engine records.
    pub off: bool,
    /// To standard output instead of files in the data directory.
    pub stdout: bool,
    /// The size in bytes at which a file is followed by another.
    pub rotate_size: u64,
    /// A file whose first line is so old is followed by another.
    pub rotate_age: Duration,
    /// Files kept beside the one that is written; those younger than `keep_for` are kept anyway.
    pub keep: usize,
    /// A file is removed only when all of its records are older than this.
    pub keep_for: Duration,
    /// Bytes of all files; when they are reached and no file may be removed, records are not
    /// written.
    pub max_size: u64,
    /// True if acts that cannot be recorded are refused.
    pub refuse: bool,
    /// The private key that signs checkpoints; `None`: there are none.
    pub signing_key: Option<PathBuf>,
    /// The longest time from a record to the checkpoint that signs it.
    pub checkpoint: Duration,
    /// Where the records are sent beside the file.
    pub sinks: Vec<AuditSink>,
}

#[cfg(test)]
mod tests;
