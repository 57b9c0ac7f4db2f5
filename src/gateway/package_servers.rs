//! What npm packages serve over HTTP: the two Unix sockets of the node host, as upstreams.

use super::Error;
use crate::config::{self, Config, Dialect, Mount};
use crate::metrics::Upstream as UpstreamMetrics;
use crate::upstream::Upstream;
use engine::settings::{ADMIN_SOCKET, ENDPOINTS_SOCKET};
use std::path::PathBuf;
use std::time::Duration;

/// The time-out of a connection, and the time for which it is kept: the host is on this machine,
/// and Node.js closes connections without a request after 5 s.
const CONNECT: Duration = Duration::from_secs(5);
const KEEP_ALIVE: Duration = Duration::from_secs(4);
/// Between two pieces of a response. The default of `[upstream] idle`.
const IDLE: Duration = Duration::from_mins(1);
/// Connections kept by each worker. Our choice: those of some browsers; more are made as they are
/// needed.
const POOL: usize = 16;

/// The servers of the node host.
pub struct PackageServers {
    /// For endpoints and `WebSockets`.
    pub endpoints: Upstream,
    /// For routes of the admin API.
    pub admin: Upstream,
}

impl PackageServers {
    /// Prepares connections; `None`: there is no node host.
    pub(super) fn open(config: &Config) -> Result<Option<Self>, Error> {
        let Some(host) = &config.engine.node_host else {
            return Ok(None);
        };
        let open = |name: &str| {
            let settings = settings(config, host.sockets.join(name));
            // Requests are counted by their route; what else is counted of upstreams is of other
            // machines.
            Upstream::with_metrics(settings, UpstreamMetrics::unexported())
        };
        Ok(Some(Self {
            endpoints: open(ENDPOINTS_SOCKET)?,
            admin: open(ADMIN_SOCKET)?,
        }))
    }
}

fn settings(config: &Config, socket: PathBuf) -> config::Upstream {
    let limits = &config.limits;
    // A service makes its sockets in a directory where it may put a link to the socket of another
    // program, which takes what flowgate sends for flowgate's.
    let host = config.engine.node_host.as_ref();
    let service = host.and_then(|host| host.socket.as_ref());
    let users = service.map(|service| service.users.clone());
    let users = users.unwrap_or_default();
    config::Upstream {
        mount: Mount {
            name: "node-host".to_owned(),
            ..Mount::default()
        },
        root: String::new(),
        socket: Some(socket),
        socket_users: users,
        secure: false,
        host: "localhost".to_owned(),
        port: 80,
        server_name: None,
        ca_file: None,
        certificate: None,
        dialect: Dialect::NodeRed,
        account: None,
        identity_headers: true,
        reload: false,
        connect: CONNECT,
        first_byte: config.timeouts.endpoint,
        idle: IDLE,
        keep_alive: KEEP_ALIVE,
        pool: POOL,
        max_in_flight: limits.connections,
        max_in_flight_per_address: limits.connections_per_address,
        max_tunnels: limits.connections,
        max_tunnels_per_address: limits.connections_per_address,
        health: CONNECT,
    }
}
