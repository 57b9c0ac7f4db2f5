//! Starts the flow engine of this program with the settings of `[engine]`.

use super::{Error, Runtime};
use crate::allocator;
use crate::config::{self, Config};
use crate::metrics::Metrics;
use engine::Engine;
use engine::settings::{ContextFiles, ContextStore, HostSocket, NodeHost, Settings};
use std::sync::Arc;

/// Starts the engine; nothing runs in it yet.
pub(super) fn start(config: &Config, metrics: &Arc<Metrics>) -> Result<Runtime, Error> {
    let metrics = Arc::clone(metrics);
    Engine::start(settings(&config.engine), metrics)
        .map(Runtime::Own)
        .map_err(Error::Engine)
}

fn settings(config: &config::Engine) -> Settings {
    Settings {
        threads: config.threads,
        close_timeout: config.close_timeout,
        script_memory: config.script_memory,
        script_timeout: config.script_timeout,
        modules: config.modules.clone(),
        debug_length: config.debug_length,
        message_buffer: config.message_buffer,
        queue_messages: config.queue_messages,
        queue_bytes: config.queue_bytes,
        memory: config.memory,
        http_node_root: config.http_node_root.clone(),
        request_timeout: config.request_timeout,
        socket_reconnect: config.socket_reconnect,
        socket_timeout: config.socket_timeout,
        tcp_buffers: config.tcp_buffers,
        socket_queue: config.socket_queue,
        mqtt_reconnect: config.mqtt_reconnect,
        jsonp: config.jsonp,
        hide_env: config.hide_env.clone(),
        started: || drop(tokio::spawn(allocator::give_back_free_memory())),
        context: config.context.iter().map(store).collect(),
        node_host: config.node_host.as_ref().map(node_host),
    }
}

fn node_host(config: &config::NodeHost) -> NodeHost {
    NodeHost {
        directory: config.directory.clone(),
        node: config.node.clone(),
        memory: config.memory,
        start_timeout: config.start_timeout,
        sockets: config.sockets.clone(),
        socket: config.socket.as_ref().map(|socket| HostSocket {
            path: socket.path.clone(),
            group: socket.group,
            users: socket.users.clone(),
        }),
        functions: config.functions,
        launcher: config.launcher.clone(),
        disabled: config.disabled.clone(),
    }
}

fn store(config: &config::ContextStore) -> ContextStore {
    let files = |files: &config::ContextFiles| ContextFiles {
        directory: files.directory.clone(),
        flush: files.flush,
        file_limit: files.file_limit,
    };
    ContextStore {
        name: config.name.clone(),
        files: config.files.as_ref().map(files),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So that an engine that is used without this program behaves alike.
    #[test]
    fn the_defaults_of_the_file_are_those_of_the_engine() {
        let config = Config::parse(config::DEFAULT, "default", "".as_ref()).expect("a config");
        let given = settings(&config.engine);
        let own = Settings {
            modules: given.modules.clone(),
            hide_env: given.hide_env.clone(),
            started: given.started,
            ..Settings::default()
        };
        assert_eq!(format!("{given:?}"), format!("{own:?}"));
    }
}
