//! `[engine]` and the tables in it, as written.

use super::{Entry, List};
use serde::Deserialize;
use toml::Spanned;

/// `[engine]`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a table [engine]")]
pub(in crate::config) struct Engine {
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
}

/// `[engine.node_host]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [engine.node_host]")]
pub(in crate::config) struct NodeHost {
    pub(in crate::config) directory: Entry,
    pub(in crate::config) node: Entry,
    pub(in crate::config) memory: Entry,
    pub(in crate::config) start_timeout: Entry,
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
