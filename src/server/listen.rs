//! Listening sockets: one for each worker at the same address, and none where another process
//! listens. [`super::engine_socket`] has the one of an engine that runs apart.

use super::{Addresses, Error, Inherited, engine_socket};
use crate::config::{Config, EngineListen};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// Connections that may wait to be accepted; the system caps it at `net.core.somaxconn` (4096 since
/// Linux 5.4).
const BACKLOG: i32 = 4096;

/// The idle time before the system sends TCP keep-alive probes: long-lived connections have no
/// other limit. Our choice, as towards the upstream.
const KEEPALIVE: Duration = Duration::from_mins(1);
/// Between two such questions; after nine the peer is dead (tcp(7)). Our choice.
const PROBE: Duration = Duration::from_secs(15);

/// All sockets of a gateway.
pub(super) struct Sockets {
    /// Those of each worker.
    pub(super) workers: Vec<Listeners>,
    pub(super) operations: Option<TcpListener>,
}

/// The sockets of one worker.
#[derive(Default)]
pub(super) struct Listeners {
    /// One for each TLS address.
    pub(super) secure: Vec<TcpListener>,
    /// For plain HTTP, if it is configured.
    pub(super) plain: Option<TcpListener>,
    /// For the gateway in front of an engine that runs apart.
    pub(super) gateway: Option<UnixListener>,
}

impl Sockets {
    /// Binds everything that is configured and was not inherited.
    pub(super) fn bind(config: &Config, inherited: &Inherited) -> Result<(Self, Addresses), Error> {
        let workers = config.server.workers;
        let mut sockets = Self {
            workers: (0..workers).map(|_| Listeners::default()).collect(),
            operations: None,
        };
        let mut addresses = Addresses::default();
        for &address in &config.server.listen {
            let (listeners, address) = at(address, workers, inherited, "[server] listen")?;
            let each = sockets.workers.iter_mut().zip(listeners);
            each.for_each(|(worker, listener)| worker.secure.push(listener));
            addresses.tls.push(address);
        }
        if let Some(address) = config.server.plain {
            let (listeners, address) = at(address, workers, inherited, "[server] plain")?;
            let each = sockets.workers.iter_mut().zip(listeners);
            each.for_each(|(worker, listener)| worker.plain = Some(listener));
            addresses.plain = Some(address);
        }
        if let Some(EngineListen::Unix(socket)) = &config.engine.listen {
            let opened = engine_socket::open(socket, inherited.unix())?;
            let ours = SockRef::from(&opened);
            ours.listen(BACKLOG).map_err(Error::Threads)?;
            for worker in &mut sockets.workers {
                let shared = opened.try_clone().map_err(Error::Threads)?;
                worker.gateway = Some(shared);
            }
            addresses.unix = Some(socket.path.clone());
        }
        if let Some(address) = config.operations {
            let (listeners, address) = at(address, 1, inherited, "operations")?;
            sockets.operations = listeners.into_iter().next();
            addresses.operations = Some(address);
        }
        Ok((sockets, addresses))
    }
}

fn at(
    address: SocketAddr,
    count: usize,
    inherited: &Inherited,
    key: &'static str,
) -> Result<(Vec<TcpListener>, SocketAddr), Error> {
    let refused = |source: io::Error| Error::Listen {
        address,
        key,
        advice: advice(&source, address),
        source,
    };
    let listeners = match inherited.at(address) {
        Some(socket) => share(socket, count),
        None => bind(address, count),
    };
    let listeners = listeners.map_err(refused)?;
    let actual = listeners
        .first()
        .map_or(Ok(address), TcpListener::local_addr)
        .map_err(refused)?;
    Ok((listeners, actual))
}

/// Advice for the operator.
fn advice(error: &io::Error, address: SocketAddr) -> String {
    let port = address.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("end the program that uses the port (`ss -ltnp sport = :{port}` shows it) or choose another one")
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE; choose a higher one or grant it".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address; choose one of `ip addr`".to_owned(),
        _ => "choose another address".to_owned(),
    }
}

/// Binds `count` sockets to one address; port 0 lets the system choose one for all.
///
/// `SO_REUSEPORT` alone would share the port with another gateway that runs already, so the first
/// bind does without it.
pub(super) fn bind(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    if address.port() != 0 {
        listening(address, false)?;
    }
    let first = listening(address, true)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    while listeners.len() < count {
        listeners.push(listening(address, true)?);
    }
    Ok(listeners)
}

/// One socket for all: the system wakes one worker or another.
fn share(socket: &TcpListener, count: usize) -> io::Result<Vec<TcpListener>> {
    let as_ours = SockRef::from(socket);
    as_ours.set_nonblocking(true)?;
    as_ours.set_tcp_keepalive(&keepalive())?;
    as_ours.listen(BACKLOG)?;
    (0..count).map(|_| socket.try_clone()).collect()
}

fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(PROBE)
}

fn listening(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    // Every connection accepted here inherits it (tcp(7)), so it costs none of them a call.
    socket.set_tcp_keepalive(&keepalive())?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn all_workers_listen_at_one_address() {
        let listeners = bind("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let addresses: Vec<_> = listeners.iter().map(|l| l.local_addr().unwrap()).collect();
        assert_eq!(addresses.len(), 3);
        assert!(
            addresses
                .iter()
                .all(|a| *a == addresses[0] && a.port() != 0)
        );
    }

    #[test]
    fn a_port_in_use_is_an_error_even_if_its_owner_would_share() {
        let ours = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let error = bind(ours[0].local_addr().unwrap(), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn the_error_names_the_address_the_setting_and_the_remedy() {
        let ours = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = ours[0].local_addr().unwrap();
        let error = at(address, 1, &Inherited::default(), "operations")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&address.to_string()) && error.contains("(operations in gateway.toml)"),
            "{error}"
        );
        assert!(
            error.contains("end the program that uses the port"),
            "{error}"
        );
    }
}
