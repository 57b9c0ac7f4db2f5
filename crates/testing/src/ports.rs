//! Ports that a test names before a listener is bound to them, or after.
//!
//! They lie below the ephemeral ports (Linux: from 32768), so that no other program of this machine takes them
//! meanwhile. Each process has a thousand of its own.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 20_000;
const PROCESSES: u32 = 12;
const EACH: u32 = 1000;

static GIVEN: AtomicU32 = AtomicU32::new(0);

/// A port without a listener.
pub fn free() -> u16 {
    let own = FIRST + std::process::id() % PROCESSES * EACH;
    loop {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed);
        assert!(given < EACH, "all ports were given");
        let port = u16::try_from(own + given).unwrap();
        let here = (Ipv4Addr::LOCALHOST, port);
        if TcpListener::bind(here).is_ok() && UdpSocket::bind(here).is_ok() {
            return port;
        }
    }
}
