//! Before the engine's process, and before the gateway opens its files: whether the process can be
//! isolated, the files of the flows in their place, and the listening socket.

use super::super::{Error, inaccessible_paths};
use crate::config::{Config, ENGINE_DIRECTORY};
use crate::gateway;
use crate::store::{self, has_flows_to_move, move_flow_files};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Whether the process can be isolated as the config wants it.
pub(in crate::server) fn check(config: &Config) -> Result<(), Error> {
    let process = config.engine.process.as_ref();
    if !process.is_some_and(|process| process.confined) {
        return Ok(());
    }
    inaccessible_paths::check().map_err(|error| {
        Error::Isolation(format!(
            "{error}. Or let engine and gateway have two users (docs/separation.md), or set \"process-unconfined\": \
             flows can then open the files of the gateway"
        ))
    })
}

/// Moves the files of the flows to where the engine has them. If it has a process of its own: what
/// only that uses is taken from the config, and its listening socket is there before the gateway
/// connects.
pub(in crate::server) fn prepare(
    mut config: Config,
) -> Result<(Config, Option<UnixListener>), Error> {
    check(&config)?;
    let data = config.storage.directory.clone();
    let locked = || store::lock(&data).map_err(gateway::Error::Store);
    let Some(process) = &config.engine.process else {
        let from = data.join(ENGINE_DIRECTORY);
        if config.upstreams.is_empty() && has_flows_to_move(&from, &data) {
            move_flow_files(&locked()?, &from, &data).map_err(gateway::Error::Store)?;
        }
        return Ok((config, None));
    };
    let locked = locked()?;
    move_flow_files(&locked, &data, &process.directory).map_err(gateway::Error::Store)?;
    let socket = &process.socket;
    let failed = |error| Error::Isolation(format!("{}: {error}", socket.display()));
    // It may never run here if another gateway can.
    let is_first = config.cluster.is_none();
    let listener = is_first.then(|| bind(socket).map_err(failed)).transpose()?;
    config.engine.node_host = None;
    config.editor.modules = None;
    Ok((config, listener))
}

/// Listens in the place of the process before, in the data directory, which is this gateway's
/// alone.
pub(super) fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}
