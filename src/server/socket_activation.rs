//! Sockets that were opened before we started (systemd's socket activation, `sd_listen_fds(3)`): while we are away,
//! connections wait in them. They stand in for the addresses of the config.
//!
//! Knows what each is for by its name, `FileDescriptorName=` of its unit: `plain`, `operations`, and TLS for all else.

use crate::config::Config;
use listenfd::ListenFd;
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Listening sockets with their addresses.
#[derive(Debug, Default)]
pub struct Inherited(Vec<(SocketAddr, TcpListener)>);

/// A socket that we were given cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is none that listens for TCP.
    #[error(
        "socket activation: socket {number} is not for us: {source}; a unit with ListenStream= and a port has one"
    )]
    Kind {
        /// Its place among those given.
        number: usize,
        /// Why.
        source: io::Error,
    },
    /// Other machines reach it, and it has no TLS or needs no sign-in.
    #[error(
        "socket activation: {address} is reached from elsewhere, and {why}: give it a loopback address"
    )]
    Open {
        /// Its address.
        address: SocketAddr,
        /// Why it must not be.
        why: &'static str,
    },
    /// There may be one of this name only.
    #[error("socket activation: there are two sockets named {0}")]
    Twice(&'static str),
}

impl Inherited {
    /// Takes the sockets, and puts their addresses into the config. Must run before the first thread: it removes the
    /// environment variables that name them, so that no program started by a flow takes them for its own.
    pub fn take(config: &mut Config) -> Result<Self, Error> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut given = ListenFd::from_env();
        let open_to_all =
            config.auth.is_none() && config.server.listen.iter().all(|a| a.ip().is_loopback());
        let (mut sockets, mut tls) = (Vec::new(), Vec::new());
        let (mut plain, mut operations) = (None, None);
        for number in 0..given.len() {
            let kind = |source| Error::Kind { number, source };
            let socket = given.take_tcp_listener(number).map_err(kind)?;
            let Some(socket) = socket else { continue };
            let address = socket.local_addr().map_err(kind)?;
            let refuse = |refused: bool, why| {
                let open = refused && !address.ip().is_loopback();
                if open {
                    Err(Error::Open { address, why })
                } else {
                    Ok(())
                }
            };
            let name = names.next().unwrap_or_default();
            refuse(open_to_all, "everybody may replace the flows")?;
            match name {
                "plain" => {
                    refuse(true, "has no TLS")?;
                    once(&mut plain, address, "plain")?;
                }
                "operations" => once(&mut operations, address, "operations")?,
                _ => tls.push(address),
            }
            sockets.push((address, socket));
        }
        if !tls.is_empty() {
            config.server.listen = tls;
        }
        config.server.plain = plain.or(config.server.plain);
        config.operations = operations.or(config.operations);
        Ok(Self(sockets))
    }

    /// The socket of an address.
    pub(super) fn at(&self, address: SocketAddr) -> Option<&TcpListener> {
        let mut sockets = self.0.iter();
        sockets.find_map(|(its, socket)| (*its == address).then_some(socket))
    }
}

fn once(
    place: &mut Option<SocketAddr>,
    address: SocketAddr,
    name: &'static str,
) -> Result<(), Error> {
    match place.replace(address) {
        Some(_) => Err(Error::Twice(name)),
        None => Ok(()),
    }
}
