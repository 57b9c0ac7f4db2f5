//! `[engine]`: the runtime of our own.
//!
//! Knows the bounds of the numbers; nothing of flows.

use super::Engine;
use super::context;
use super::engine_listen::{self, GROUP, USER, group_id, user_id};
use super::error::SpannedError;
use super::installs::{Installs, installs};
use super::isolation::EngineProcess;
use super::raw;
use super::route;
use super::setting::{Source, flag, is_variable, number};
use flows::HiddenVariables;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::{Spanned, Value};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Threads that share the flows, at most. Our choice: more than the machines have on which flows
/// run.
const MAX_THREADS: usize = 64;

/// `[engine.node_host]`: the process that runs nodes of npm packages.
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
    /// The directory of the sockets on which it serves what packages serve.
    pub sockets: PathBuf,
    /// The directory of what the gateway keeps about it.
    pub state: PathBuf,
    /// The socket at which it connects if it is a service of its own; `None`: flowgate starts it.
    pub socket: Option<HostSocket>,
    /// True if function nodes run there whose modules the engine cannot load.
    pub functions: bool,
    /// The program that starts it (`flowgate node-host`); `None`: it is started without, and may
    /// outlive the gateway if it hangs.
    pub launcher: Option<PathBuf>,
    /// The node sets that users have disabled, as `package/set`; known at start.
    pub disabled: Vec<String>,
    /// The packages that users may install.
    pub installs: Installs,
}

/// The socket of a node host that is a service of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSocket {
    /// Its path; the service makes its own sockets in the same directory.
    pub path: PathBuf,
    /// The id of the group that reaches it; `None`: the service has flowgate's user.
    pub group: Option<u32>,
    /// The ids of the users whose processes may connect, beside flowgate's own.
    pub users: Vec<u32>,
}

/// The name of a variable, perhaps with a `*` at its end.
fn variables(text: &str) -> Option<String> {
    let name = text.strip_suffix('*').unwrap_or(text);
    is_variable(name).then(|| text.to_owned())
}

/// The table, complete.
pub(super) fn engine(
    raw: raw::Engine,
    process: Option<EngineProcess>,
    has_members: bool,
    data: &Path,
    source: &Source<'_>,
) -> Result<Engine, SpannedError> {
    let threads: usize = number(raw.threads, 1, 1..=MAX_THREADS)?;
    // The threads share these out.
    let for_each = |least: u64| least * threads as u64;
    Ok(Engine {
        threads,
        close_timeout: source.duration(raw.close_timeout, 15 * SECOND, MS..=HOUR)?,
        script_memory: source.size(raw.script_memory, 1 << 30, for_each(8 * MIB)..=64 * GIB)?,
        script_timeout: source.duration(raw.script_timeout, 5 * SECOND, MS..=HOUR)?,
        modules: data.to_owned(),
        debug_length: number(raw.debug_length, 1000, 1..=1_000_000)?,
        message_buffer: number(raw.message_buffer, 0, 0..=1_000_000_000)?,
        queue_messages: number(raw.queue_messages, 100_000, 1..=1_000_000_000)?,
        queue_bytes: source.size(raw.queue_bytes, 24 << 20, MIB..=64 * GIB)?,
        memory: memory(raw.memory, source)?,
        http_node_root: http_node_root(raw.http_node_root, source)?,
        start_attempts: number(raw.start_attempts, 3, 0..=1000)?,
        settle: source.duration(raw.settle, 60 * SECOND, MS..=HOUR)?,
        safe: false,
        request_timeout: source.duration(raw.request_timeout, 120 * SECOND, MS..=HOUR)?,
        socket_reconnect: source.duration(raw.socket_reconnect, 10 * SECOND, MS..=HOUR)?,
        socket_timeout: socket_timeout(raw.socket_timeout, source)?,
        tcp_buffers: source.size(raw.tcp_buffers, 256 << 20, for_each(MIB)..=64 * GIB)?,
        socket_queue: number(raw.socket_queue, 1000, 1..=1_000_000)?,
        mqtt_reconnect: source.duration(raw.mqtt_reconnect, 5 * SECOND, MS..=HOUR)?,
        jsonp: flag(raw.jsonp, false)?,
        hide_env: HiddenVariables::new(
            source
                .list(
                    raw.hide_env,
                    "the name of an environment variable, such as \"DATABASE_PASSWORD\" or \"AWS_*\"",
                    variables,
                )?
                .unwrap_or_default(),
        ),
        context: context::contexts(raw.context, data, has_members, source)?,
        node_host: raw
            .node_host
            .map(|table| node_host(table, data, source))
            .transpose()?,
        inaccessible_paths: match &raw.listen {
            Some(table) => engine_listen::inaccessible_paths(table, source)?,
            None => Vec::new(),
        },
        accessible_paths: Vec::new(),
        process,
        shard: None,
        listen: raw
            .listen
            .map(|table| engine_listen::listen(table, source))
            .transpose()?,
    })
}

/// The path below which endpoints are.
fn http_node_root(entry: raw::Entry, source: &Source<'_>) -> Result<String, SpannedError> {
    let Some(entry) = entry else {
        return Ok("/".to_owned());
    };
    let expected = "a path such as \"/\" or \"/api\", not one of the admin API";
    source.parsed(&entry, expected, |text| {
        route::canonical(text).filter(|path| !route::is_reserved(path))
    })
}

/// The idle time-out of connections to tcp nodes that listen; `None`: none.
fn socket_timeout(
    entry: raw::Entry,
    source: &Source<'_>,
) -> Result<Option<Duration>, SpannedError> {
    match entry {
        Some(entry) if entry.get_ref().as_str() != Some("off") => {
            source.duration(Some(entry), HOUR, MS..=HOUR * 24).map(Some)
        }
        _ => Ok(None),
    }
}

/// The memory budget; `None`: half of what there is.
fn memory(entry: raw::Entry, source: &Source<'_>) -> Result<Option<u64>, SpannedError> {
    match entry {
        Some(entry) if entry.get_ref().as_str() != Some("auto") => {
            let span = entry.span();
            let size = source.size(Some(entry), 0, 64 * MIB..=1024 * GIB);
            let expected = "\"auto\", a size from \"64MiB\" to \"1024GiB\" (units: B, KiB, MiB, GiB), or a number of bytes";
            size.map(Some)
                .map_err(|_| SpannedError::value(span, expected))
        }
        _ => Ok(None),
    }
}

/// The node host; its directory must be written.
fn node_host(
    table: Spanned<raw::NodeHost>,
    data: &Path,
    source: &Source<'_>,
) -> Result<NodeHost, SpannedError> {
    let span = table.span();
    let raw = table.into_inner();
    let Some(directory) = &raw.directory else {
        let sentence = "[engine.node_host] needs directory: its node_modules has @node-red/runtime and the packages";
        return Err(SpannedError::rule(span, sentence));
    };
    let is_own = raw.node.is_some() || raw.memory.is_some() || raw.install.is_some();
    let socket = host_socket(raw.socket.as_ref(), raw.group.as_ref(), raw.users, source)?;
    if is_own && socket.is_some() {
        let sentence = "node, memory and install are for a node host that flowgate starts: with socket it is a service of its own, which gets the first two as arguments";
        return Err(SpannedError::rule(span, sentence));
    }
    let own = data.join("node-host");
    let sockets = socket.as_ref().and_then(|socket| socket.path.parent());
    Ok(NodeHost {
        directory: source.path(directory)?,
        node: source.program(raw.node.as_ref(), "node")?,
        memory: source.size(raw.memory, 512 * MIB, 64 * MIB..=64 * GIB)?,
        start_timeout: source.duration(raw.start_timeout, 30 * SECOND, SECOND..=HOUR)?,
        sockets: sockets.map_or_else(|| own.clone(), Path::to_owned),
        state: own,
        socket,
        functions: functions(raw.functions.as_ref(), source)?,
        launcher: None,
        disabled: Vec::new(),
        installs: installs(raw.install.unwrap_or_default(), source)?,
    })
}

fn host_socket(
    entry: Option<&Spanned<Value>>,
    group: Option<&Spanned<Value>>,
    users: raw::List,
    source: &Source<'_>,
) -> Result<Option<HostSocket>, SpannedError> {
    let group = group.map(|entry| source.parsed(entry, GROUP, group_id));
    let (group, users) = (group.transpose()?, source.list(users, USER, user_id)?);
    let socket = |entry| {
        Ok(HostSocket {
            path: source.path(entry)?,
            group,
            users: users.unwrap_or_default(),
        })
    };
    entry.map(socket).transpose()
}

/// Which function nodes the node host runs: none, if it is not written.
fn functions(entry: Option<&Spanned<Value>>, source: &Source<'_>) -> Result<bool, SpannedError> {
    let Some(entry) = entry else { return Ok(false) };
    source.parsed(entry, "\"never\" or \"when needed\"", |text| match text {
        "never" => Some(false),
        "when needed" => Some(true),
        _ => None,
    })
}
