//! The settings of the engine. The program that embeds it reads them from its own configuration.

use flows::HiddenVariables;
use smol_str::SmolStr;
use std::path::PathBuf;
use std::time::Duration;

/// The settings of the engine; the default ones are Node-RED's, as far as it has them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The threads that share the flows; at least one.
    pub threads: usize,
    /// The time-out for closing a node (15 s, as in Node-RED).
    pub close_timeout: Duration,
    /// Memory of all function nodes together, bytes. The work of another node on one message may
    /// make a quarter of it.
    pub script_memory: usize,
    /// Longest run of a function node's synchronous code when the node sets no limit of its own,
    /// and of another node's work on one message.
    pub script_timeout: Duration,
    /// Directory with the `node_modules` of function nodes: that of the flows, as in Node-RED.
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
    /// Variables of the process that flows do not see.
    pub hide_env: HiddenVariables,
    /// Called on each thread, in its runtime, when it starts.
    pub started: fn(),
    /// Context stores, the one for unnamed use first; empty: one in memory.
    pub context: Vec<ContextStore>,
    /// The process that runs nodes of npm packages; `None`: there is none.
    pub node_host: Option<NodeHost>,
}

/// The process that runs nodes of npm packages.
#[derive(Debug, Clone)]
pub struct NodeHost {
    /// The directory whose `node_modules` has Node-RED's runtime and the packages.
    pub directory: PathBuf,
    /// Node.js: a path, or a name that is found in PATH.
    pub node: PathBuf,
    /// The heap of Node.js, bytes.
    pub memory: u64,
    /// The time-out for loading all packages, and for the host's part of a deployment.
    pub start_timeout: Duration,
    /// The directory of the Unix sockets on which it serves what packages serve: made for its owner
    /// only.
    pub sockets: PathBuf,
    /// The socket at which the process connects that is a service of its own; `None`: the engine
    /// starts it.
    pub socket: Option<HostSocket>,
    /// True if function nodes run there whose modules the engine cannot load.
    pub functions: bool,
    /// The program that starts it, with the arguments `node-host`, our process id and the command;
    /// it must let the system kill that when we end. `None`: it is started without, and may outlive
    /// us if it hangs.
    pub launcher: Option<PathBuf>,
    /// The node sets that are not loaded, as `package/set`.
    pub disabled: Vec<String>,
}

/// The socket of a node host that is a service of its own.
#[derive(Debug, Clone)]
pub struct HostSocket {
    /// Its path. The process makes its sockets in the same directory.
    pub path: PathBuf,
    /// The group of both processes; `None`: they have the same user.
    pub group: Option<u32>,
    /// The users whose processes may connect, beside our own.
    pub users: Vec<u32>,
}

impl NodeHost {
    /// The mode of the sockets that the process makes.
    pub(crate) fn socket_mode(&self) -> u32 {
        let group = self.socket.as_ref().and_then(|socket| socket.group);
        if group.is_some() { 0o660 } else { 0o600 }
    }
}

/// The socket in `NodeHost::sockets` for endpoints (`RED.httpNode`) and upgrades (`RED.server`).
pub const ENDPOINTS_SOCKET: &str = "endpoints.sock";
/// The socket in `NodeHost::sockets` for routes of the admin API (`RED.httpAdmin`).
pub const ADMIN_SOCKET: &str = "admin.sock";

impl Default for Settings {
    fn default() -> Self {
        Self {
            threads: 1,
            close_timeout: Duration::from_secs(15),
            script_memory: 1 << 30,
            script_timeout: Duration::from_secs(5),
            modules: PathBuf::new(),
            debug_length: 1000,
            message_buffer: 0,
            queue_messages: 100_000,
            queue_bytes: 24 << 20,
            memory: None,
            http_node_root: "/".to_owned(),
            request_timeout: Duration::from_mins(2),
            socket_reconnect: Duration::from_secs(10),
            socket_timeout: None,
            tcp_buffers: 256 << 20,
            socket_queue: 1000,
            mqtt_reconnect: Duration::from_secs(5),
            jsonp: false,
            hide_env: HiddenVariables::default(),
            started: || {},
            context: Vec::new(),
            node_host: None,
        }
    }
}

/// The name of the context store that there is when none is configured, as in Node-RED.
pub const MEMORY: &str = "memory";

/// A store for what flows remember.
#[derive(Debug, Clone)]
pub struct ContextStore {
    /// Its name in flows.
    pub name: SmolStr,
    /// Its files; `None`: in memory only.
    pub files: Option<ContextFiles>,
}

/// The files of a context store of module `localfilesystem`.
#[derive(Debug, Clone)]
pub struct ContextFiles {
    /// Their directory.
    pub directory: PathBuf,
    /// The maximum delay until a change is written (30 s, as in Node-RED).
    pub flush: Duration,
    /// A context of more bytes is neither read nor written.
    pub file_limit: usize,
}
