//! Ports that a test names before a listener is bound to them, or after.
//!
//! They lie below the ephemeral ports (Linux: from 32768), so that no other program of this machine
//! takes them meanwhile. Each process has a thousand of its own: it listens on the first of them,
//! so that no other process of tests takes the same thousand.

use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 20_000;
const PROCESSES: u32 = 12;
const EACH: u32 = 1000;

static OWN: LazyLock<(TcpListener, u16)> = LazyLock::new(|| {
    let first = |n| u16::try_from(FIRST + (std::process::id() + n) % PROCESSES * EACH).unwrap();
    let own = (0..PROCESSES).map(first).find_map(|first| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).ok()?;
        Some((listener, first))
    });
    own.expect("other processes of tests have all ports")
});

static GIVEN: AtomicU32 = AtomicU32::new(1);

/// A port without a listener.
pub fn free() -> u16 {
    let own = OWN.1;
    loop {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed);
        assert!(given < EACH, "all ports were given");
        let port = own + u16::try_from(given).unwrap();
        if is_free(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
            return port;
        }
    }
}

/// Returns whether there is no listener. The socket that tries it does not listen: a child that
/// another test starts meanwhile has a copy of it until it executes its program, and would occupy
/// the port.
fn is_free(address: SocketAddr) -> bool {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&address.into()).is_ok()
}
