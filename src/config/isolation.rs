//! `[engine] isolation`: the engine in a process of its own, which the gateway starts and
//! supervises.
//!
//! The gateway's configuration gets an upstream on a socket in the data directory. The process gets
//! the part of the file that is the engine's ([`super::Handover`]), with the paths of what is the
//! gateway's, which it must not open.

use super::Config;
use super::context;
use super::error::SpannedError;
use super::raw;
use super::setting::{Source, Span, is_variable};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;
use toml::{Spanned, Table, Value};

const ISOLATION: &str = "\"none\", \"process\" or \"process-unconfined\"";

/// The name of the upstream.
const NAME: &str = "engine";
/// The directory of the engine's files in the data directory.
pub const ENGINE_DIRECTORY: &str = "engine";
/// The socket's file in the data directory.
const SOCKET: &str = "engine.sock";
/// The longest path of a socket, in bytes (unix(7)).
const MAX_PATH: usize = 107;

/// The flow sets that the process keeps for its recovery, at most; the history for users is the
/// gateway's. Our choice.
const HISTORY: i64 = 10;

/// The least memory limit, in bytes: an engine without flows has some 45 MiB of data. Our choice.
const LEAST_LIMIT: u64 = 128 << 20;
/// The least memory budget, as of `[engine] memory`.
const LEAST_BUDGET: u64 = 64 << 20;

/// The gateway waits this much longer for a response than the engine for its flows, so that the
/// engine's error arrives.
const MARGIN: Duration = Duration::from_secs(5);

/// The tables of the file that are the engine's, wholly or in part; without those of connections
/// and collectors that the gateway has.
const TABLES: [&str; 10] = [
    "operations_hosts",
    "timeouts",
    "limits",
    "comms",
    "engine",
    "editor",
    "storage",
    "log",
    "server",
    "admin_route",
];
/// The keys of `[server]` among them; the last one needs the one before.
const SERVER: [&str; 4] = [
    "workers",
    "drain",
    "trusted_proxies",
    "trusted_proxy_headers",
];

/// The process of the engine that the gateway starts.
#[derive(Debug, Clone)]
pub struct EngineProcess {
    /// True if files of the gateway are taken from it (Landlock).
    pub confined: bool,
    /// The directory of its files.
    pub directory: PathBuf,
    /// The socket on which it serves the gateway.
    pub socket: PathBuf,
    /// The bytes of data that it may have (`RLIMIT_DATA`); `None`: any number.
    pub memory_limit: Option<u64>,
    /// The address of its operations listener; `None`: there is none.
    operations: Option<SocketAddr>,
    /// Its part of the file, as TOML.
    pub(super) settings: String,
    /// The variables in it, with their values.
    pub(super) variables: BTreeMap<String, crypto::Secret>,
}

/// Reads the settings; if there is a process, it becomes the upstream.
pub(super) fn isolation(
    engine: &mut raw::Engine,
    upstream: &mut Option<Spanned<raw::Upstreams>>,
    data: &Path,
    source: &Source<'_>,
) -> Result<Option<EngineProcess>, SpannedError> {
    let limit = engine.memory_limit.take();
    let operations = engine.operations.take();
    let entry = engine.isolation.take();
    let is_confined = match &entry {
        Some(entry) => source.parsed(entry, ISOLATION, kind)?,
        None => None,
    };
    let span = entry.map(|entry| entry.span()).unwrap_or_default();
    let Some(confined) = is_confined else {
        return limit.or(operations).map_or(Ok(None), |entry| {
            let sentence =
                "this is for an engine in a process of its own: set isolation = \"process\"";
            Err(SpannedError::rule(entry.span(), sentence))
        });
    };
    if cfg!(not(feature = "engine")) {
        let sentence = "this flowgate was built without its engine";
        return Err(SpannedError::rule(span, sentence));
    }
    if upstream.is_some() {
        let sentence = "isolation is for flowgate's own engine, and an [upstream] runs the flows";
        return Err(SpannedError::rule(span, sentence));
    }
    if engine.listen.is_some() {
        let sentence = "[engine.listen] makes this the file of an engine that runs apart: isolation belongs in the file of a gateway";
        return Err(SpannedError::rule(span, sentence));
    }
    let data = absolute(data).unwrap_or_else(|_| data.to_owned());
    let socket = short(data.join(SOCKET), &span)?;
    let table = raw::upstream(&upstream_table(&socket))?;
    *upstream = Some(Spanned::new(span, raw::Upstreams::One(Box::new(table))));
    let operations = operations.map(|entry| source.address_or_off(&entry));
    let memory_limit = limit.map(|limit| source.size(Some(limit), 0, LEAST_LIMIT..=1 << 40));
    Ok(Some(EngineProcess {
        confined,
        directory: data.join(ENGINE_DIRECTORY),
        socket,
        memory_limit: memory_limit.transpose()?,
        operations: operations.transpose()?.flatten(),
        settings: String::new(),
        variables: BTreeMap::new(),
    }))
}

/// A path that a socket can have.
fn short(path: PathBuf, span: &Span) -> Result<PathBuf, SpannedError> {
    if path.as_os_str().len() <= MAX_PATH {
        return Ok(path);
    }
    let sentence = format!(
        "the path of the engine's socket, {}, has more than {MAX_PATH} bytes: choose a [storage] directory with a shorter path",
        path.display()
    );
    Err(SpannedError::rule(span.clone(), sentence))
}

impl EngineProcess {
    /// The process of a shard, with files of its own; its settings are still to be made.
    pub(super) fn of_shard(
        &self,
        shard: &str,
        operations: Option<SocketAddr>,
        span: &Span,
    ) -> Result<Self, SpannedError> {
        let beside = |path: &Path, name: String| path.with_file_name(name);
        Ok(Self {
            directory: beside(&self.directory, format!("{ENGINE_DIRECTORY}-{shard}")),
            socket: short(beside(&self.socket, format!("engine-{shard}.sock")), span)?,
            operations,
            ..self.clone()
        })
    }
}

/// Whether there is a process, and whether it is confined.
#[allow(clippy::option_option, reason = "parsers return an option")]
fn kind(text: &str) -> Option<Option<bool>> {
    match text {
        "none" => Some(None),
        "process" => Some(Some(true)),
        "process-unconfined" => Some(Some(false)),
        _ => None,
    }
}

fn upstream_table(socket: &Path) -> String {
    // A dollar sign begins a variable.
    let url = format!("unix:{}", socket.display()).replace('$', "$$");
    let mut table = Table::new();
    table.insert("name".to_owned(), NAME.into());
    table.insert("url".to_owned(), url.into());
    table.insert("identity_headers".to_owned(), true.into());
    table.to_string()
}

/// The configuration of a gateway with such a process, complete. `text`: its file.
pub(super) fn complete(config: &mut Config, text: &str, source: &Source<'_>) {
    let Some(process) = &mut config.engine.process else {
        return;
    };
    let shards = config.cluster.as_mut();
    let shards = shards
        .into_iter()
        .flat_map(|cluster| cluster.shards.values_mut());
    for upstream in &mut config.upstreams {
        let least = config.timeouts.endpoint.max(config.engine.close_timeout) + MARGIN;
        upstream.first_byte = upstream.first_byte.max(least);
    }
    let file: Table = text.parse().unwrap_or_default();
    for process in shards.chain([process]) {
        let mut file = file.clone();
        engine_file(&mut file, process);
        let mut names = Vec::new();
        variables(&Value::Table(file.clone()), &mut names);
        let values = names.into_iter().filter_map(|name| {
            let value = (source.variable)(&name)?;
            Some((name, crypto::Secret::new(value)))
        });
        process.variables = values.collect();
        process.settings = file.to_string();
    }
}

/// Makes the file of the engine of the gateway's.
fn engine_file(file: &mut Table, process: &EngineProcess) {
    file.retain(|name, _| TABLES.contains(&name));
    let operations = process.operations.map(|address| address.to_string());
    let operations = operations.unwrap_or_else(|| "off".to_owned());
    file.insert("operations".to_owned(), operations.into());
    let path = |path: &Path| path.display().to_string().replace('$', "$$");
    let table = |file: &mut Table, name: &str, change: &dyn Fn(&mut Table)| {
        let value = file.entry(name).or_insert_with(|| Table::new().into());
        if let Value::Table(table) = value {
            change(table);
        }
    };
    table(file, "server", &|server| {
        server.retain(|name, _| SERVER.contains(&name));
        if !server.contains_key("trusted_proxy_headers") {
            server.remove("trusted_proxies");
        }
        server.insert("watch".to_owned(), "off".into());
    });
    table(file, "engine", &|engine| {
        engine.remove("isolation");
        if let Some(stores) = engine.get_mut("context") {
            context::for_process(stores, &process.directory);
        }
        engine.remove("operations");
        let limit = engine.remove("memory_limit");
        if let (Some(_), Some(bytes)) = (limit, process.memory_limit) {
            // Below the limit, so that flows are stopped before the process ends.
            let budget = (bytes - bytes / 4).max(LEAST_BUDGET);
            let budget = i64::try_from(budget).unwrap_or(i64::MAX);
            engine.entry("memory").or_insert_with(|| budget.into());
        }
        let mut listen = Table::new();
        let address = format!("unix:{}", path(&process.socket));
        listen.insert("address".to_owned(), address.into());
        engine.insert("listen".to_owned(), listen.into());
    });
    table(file, "storage", &|storage| {
        storage.remove("credential_secret");
        storage.remove("credential_secret_file");
        for of_gateway in ["url", "url_file", "ca_file", "grace"] {
            storage.remove(of_gateway);
        }
        storage.insert("directory".to_owned(), path(&process.directory).into());
        let history = storage.get("history").and_then(Value::as_integer);
        let history = history.map_or(HISTORY, |history| history.min(HISTORY));
        storage.insert("history".to_owned(), history.into());
    });
    table(file, "log", &|log| {
        log.insert("format".to_owned(), "json".into());
        log.insert("access".to_owned(), false.into());
    });
}

/// Collects the names of the variables in all texts.
fn variables(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let parts = text.split("${").skip(1);
            let within = parts.filter_map(|part| Some(part.split_once('}')?.0));
            names.extend(within.filter(|name| is_variable(name)).map(str::to_owned));
        }
        Value::Array(values) => values.iter().for_each(|value| variables(value, names)),
        Value::Table(table) => table.values().for_each(|value| variables(value, names)),
        _ => {}
    }
}
