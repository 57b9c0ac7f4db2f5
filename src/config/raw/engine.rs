//! `[engine]` and the tables in it, as written.

use super::{Entry, List};
use serde::Deserialize;
use toml::{Spanned, Value};

/// `[engine]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [engine]")]
pub(in crate::config) struct Engine {
    pub(in crate::config) isolation: Entry,
    pub(in crate::config) memory_limit: Entry,
    pub(in crate::config) operations: Entry,
    pub(in crate::config) threads: Entry,
    pub(in crate::config) close_timeout: Entry,
    pub(in crate::config) script_memory: Entry,
    pub(in crate::config) script_timeout: Entry,
    pub(in crate::config) debug_length: Entry,
    pub(in crate::config) message_buffer: Entry,
    pub(in crate::config) queue_messages: Entry,
    pub(in crate::config) queue_bytes: Entry,
    pub(in crate::config) memory: Entry,
    pub(in crate::config) http_node_root: Entry,
    pub(in crate::config) start_attempts: Entry,
    pub(in crate::config) settle: Entry,
    pub(in crate::config) request_timeout: Entry,
    pub(in crate::config) socket_reconnect: Entry,
    pub(in crate::config) socket_timeout: Entry,
    pub(in crate::config) tcp_buffers: Entry,
    pub(in crate::config) socket_queue: Entry,
    pub(in crate::config) mqtt_reconnect: Entry,
    pub(in crate::config) jsonp: Entry,
    #[serde(default)]
    pub(in crate::config) hide_env: List,
    #[serde(default)]
    pub(in crate::config) context: Vec<Spanned<ContextStore>>,
    pub(in crate::config) node_host: Option<Spanned<NodeHost>>,
    pub(in crate::config) listen: Option<Spanned<EngineListen>>,
}

/// `[engine.listen]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [engine.listen]")]
pub(in crate::config) struct EngineListen {
    pub(in crate::config) address: Entry,
    pub(in crate::config) mode: Entry,
    pub(in crate::config) group: Entry,
    pub(in crate::config) users: List,
    #[serde(default)]
    pub(in crate::config) inaccessible_paths: List,
}

/// The whole file of an engine that runs apart from its gateway: the keys that it may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
#[allow(
    dead_code,
    reason = "only its keys count; the values are read with the whole file"
)]
pub(super) struct EngineFile {
    operations: Entry,
    operations_hosts: List,
    server: Option<EngineServer>,
    timeouts: Option<Value>,
    limits: Option<Value>,
    comms: Option<Value>,
    engine: Option<Value>,
    editor: Option<Value>,
    storage: Option<Value>,
    log: Option<Value>,
    traces: Option<Value>,
    admin_route: Option<Value>,
}

/// `[server]` of such a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [server]")]
#[allow(
    dead_code,
    reason = "only its keys count; the values are read with the whole file"
)]
struct EngineServer {
    workers: Entry,
    drain: Entry,
    watch: Entry,
    trusted_proxies: List,
    trusted_proxy_headers: List,
    hosts: List,
}

/// `[engine.node_host]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [engine.node_host]")]
pub(in crate::config) struct NodeHost {
    pub(in crate::config) directory: Entry,
    pub(in crate::config) node: Entry,
    pub(in crate::config) memory: Entry,
    pub(in crate::config) start_timeout: Entry,
    pub(in crate::config) functions: Entry,
    pub(in crate::config) socket: Entry,
    pub(in crate::config) group: Entry,
    #[serde(default)]
    pub(in crate::config) users: List,
    pub(in crate::config) install: Option<Install>,
}

/// `[engine.node_host.install]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [engine.node_host.install]")]
pub(in crate::config) struct Install {
    #[serde(default)]
    pub(in crate::config) allow: List,
    #[serde(default)]
    pub(in crate::config) deny: List,
    #[serde(default)]
    pub(in crate::config) scripts: List,
    pub(in crate::config) registry: Entry,
    #[serde(default)]
    pub(in crate::config) catalogues: List,
    pub(in crate::config) npm: Entry,
    pub(in crate::config) timeout: Entry,
}

/// `[[engine.context]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[engine.context]]")]
pub(in crate::config) struct ContextStore {
    pub(in crate::config) name: Entry,
    pub(in crate::config) module: Entry,
    pub(in crate::config) directory: Entry,
    pub(in crate::config) flush: Entry,
    pub(in crate::config) file_limit: Entry,
}
