//! Sockets that listen: one for each worker at the same address, and none where somebody else listens.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Connections that may wait to be accepted; the system caps it at `net.core.somaxconn` (4096 since Linux 5.4).
const BACKLOG: i32 = 4096;

/// Binds `count` sockets to one address; port 0 lets the system choose one for all.
///
/// `SO_REUSEPORT` alone would share the port with another gateway that runs already, so the first bind does
/// without it.
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

fn listening(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
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
        assert!(addresses.iter().all(|a| *a == addresses[0] && a.port() != 0));
    }

    #[test]
    fn a_port_in_use_is_an_error_even_if_its_owner_would_share() {
        let ours = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let error = bind(ours[0].local_addr().unwrap(), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
