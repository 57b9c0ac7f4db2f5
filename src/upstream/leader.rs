//! The members of a cluster, of which one, the leader, runs the engine: connections go to its process here, or to the member that
//! leads, over TLS on which both show certificates.

use super::KEEPALIVE;
use super::client_tls::{OpenError, client_tls};
use crate::config;
use arc_swap::ArcSwap;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader {
    /// No member, as far as is known.
    Nobody,
    /// This gateway: its engine listens on its socket.
    Here,
    /// The member that is reached there, `host:port`.
    At(String),
}

/// The way to the leader.
pub(super) struct Members {
    tls: TlsConnector,
    leader: ArcSwap<Leader>,
}

impl Members {
    pub(super) fn new(cluster: &config::Cluster) -> Result<Self, OpenError> {
        let mut tls = client_tls(Some(&cluster.ca_file), Some(&cluster.certificate))?;
        // HTTP/1.1 does without (RFC 7301).
        tls.alpn_protocols.clear();
        Ok(Self {
            tls: TlsConnector::from(Arc::new(tls)),
            leader: ArcSwap::from_pointee(Leader::Nobody),
        })
    }

    /// Sets the leader; whether it is another one.
    pub(super) fn follow(&self, leader: Leader) -> bool {
        let before = self.leader.swap(Arc::new(leader));
        **self.leader.load() != *before
    }

    /// Connects to another member that leads; `None`: this one does.
    pub(super) async fn connect(&self) -> io::Result<Option<TlsStream<TcpStream>>> {
        let leader = self.leader.load_full();
        let address = match &*leader {
            Leader::Here => return Ok(None),
            Leader::Nobody => return Err(io::ErrorKind::ConnectionRefused.into()),
            Leader::At(address) => address,
        };
        let (host, _) = address
            .rsplit_once(':')
            .ok_or(io::ErrorKind::InvalidInput)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let tcp = TcpStream::connect(address.as_str()).await?;
        tcp.set_nodelay(true)?;
        let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE);
        socket2::SockRef::from(&tcp).set_tcp_keepalive(&keepalive)?;
        self.tls.connect(name, tcp).await.map(Some)
    }
}
