//! Sockets that were opened before we started (systemd's socket activation, `sd_listen_fds(3)`):
//! while we are away, connections wait in them. They stand in for the addresses of the config.
//!
//! Knows what each is for by its name, `FileDescriptorName=` of its unit: `plain`, `operations`,
//! and TLS for all else.

use crate::config::{Config, EngineListen};
use listenfd::ListenFd;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;

/// Listening sockets with their addresses, and the one of an engine that runs apart.
#[derive(Debug, Default)]
pub struct Inherited {
    tcp: Vec<(SocketAddr, TcpListener)>,
    unix: Option<UnixListener>,
}

/// A socket that we were given cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is none that listens for TCP, or for an engine that runs apart, on a path.
    #[error(
        "socket activation: socket {number} is not for us: {source}; a unit with ListenStream= and a port has one, and \
         for `flowgate engine` one with ListenStream= and a path"
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
    /// An engine that runs apart listens on one socket.
    #[error("socket activation: there are several sockets, and `flowgate engine` listens on one")]
    Several,
    /// There may be one of this name only.
    #[error("socket activation: there are two sockets named {0}")]
    Twice(&'static str),
}

impl Inherited {
    /// Takes the sockets, and puts their addresses into the config. Must run before the first
    /// thread: it removes the environment variables that name them, so that no program started by a
    /// flow takes them for its own.
    pub fn take(config: &mut Config) -> Result<Self, Error> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut given = ListenFd::from_env();
        if let Some(EngineListen::Unix(_)) = config.engine.listen {
            return Self::one_of_engine(&mut given);
        }
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
        Ok(Self {
            tcp: sockets,
            unix: None,
        })
    }

    /// The socket that an engine has from its gateway.
    #[cfg(feature = "engine")]
    pub(super) fn of_engine(listener: UnixListener) -> Self {
        Self {
            tcp: Vec::new(),
            unix: Some(listener),
        }
    }

    /// The only socket that an engine has that runs apart.
    fn one_of_engine(given: &mut ListenFd) -> Result<Self, Error> {
        if given.len() > 1 {
            return Err(Error::Several);
        }
        let taken = given.take_unix_listener(0);
        let unix = taken.map_err(|source| Error::Kind { number: 0, source })?;
        Ok(Self {
            tcp: Vec::new(),
            unix,
        })
    }

    /// The socket of an engine that runs apart.
    pub(super) fn unix(&self) -> Option<&UnixListener> {
        self.unix.as_ref()
    }

    /// The socket of an address.
    pub(super) fn at(&self, address: SocketAddr) -> Option<&TcpListener> {
        let mut sockets = self.tcp.iter();
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
