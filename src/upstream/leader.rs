//! The members of a cluster, of which one, the leader, runs the engine: connections go to its
//! process here, or to the member that leads, over TLS on which both show certificates.

use super::KEEPALIVE;
use super::client_tls::{OpenError, client_tls};
use crate::config;
use arc_swap::ArcSwap;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
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

impl fmt::Display for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "none",
            Self::Here => "here",
            Self::At(address) => address,
        })
    }
}

/// The way to the leader.
pub(super) struct Members {
    /// The shard of the engine; `None`: the main one.
    shard: Option<String>,
    tls: ArcSwap<ClientConfig>,
    leader: watch::Sender<Leader>,
}

impl Members {
    pub(super) fn new(cluster: &config::Cluster, shard: Option<&str>) -> Result<Self, OpenError> {
        Ok(Self {
            shard: shard.map(str::to_owned),
            tls: ArcSwap::from_pointee(tls(cluster, shard)?),
            leader: watch::Sender::new(Leader::Nobody),
        })
    }

    /// Reads the certificates again, for new connections.
    pub(super) fn read_again(&self, cluster: &config::Cluster) -> Result<(), OpenError> {
        let tls = tls(cluster, self.shard.as_deref())?;
        self.tls.store(Arc::new(tls));
        Ok(())
    }

    /// Sets the leader; whether it is another one.
    pub(super) fn follow(&self, leader: Leader) -> bool {
        self.leader.send_if_modified(|before| {
            let is_other = *before != leader;
            *before = leader;
            is_other
        })
    }

    /// Who leads.
    pub(super) fn leader(&self) -> Leader {
        self.leader.borrow().clone()
    }

    /// Connects to another member that leads; `None`: this one does.
    pub(super) async fn connect(&self) -> io::Result<Option<ToLeader>> {
        let mut leader = self.leader.subscribe();
        let address = match &*leader.borrow_and_update() {
            Leader::Here => return Ok(None),
            Leader::Nobody => return Err(ErrorKind::ConnectionRefused.into()),
            Leader::At(address) => address.clone(),
        };
        let (host, _) = address.rsplit_once(':').ok_or(ErrorKind::InvalidInput)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connect = async {
            let tcp = TcpStream::connect(address).await?;
            tcp.set_nodelay(true)?;
            let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE);
            socket2::SockRef::from(&tcp).set_tcp_keepalive(&keepalive)?;
            let tls = TlsConnector::from(self.tls.load_full());
            tls.connect(name, tcp).await
        };
        let stream = tokio::select! {
            connected = connect => connected?,
            _ = leader.changed() => return Err(ErrorKind::ConnectionRefused.into()),
        };
        Ok(Some(ToLeader {
            stream,
            leads: Some(Box::pin(async move {
                // An error: the gateway ends.
                let _ = leader.changed().await;
            })),
        }))
    }
}

fn tls(cluster: &config::Cluster, shard: Option<&str>) -> Result<ClientConfig, OpenError> {
    let mut tls = client_tls(Some(&cluster.ca_file), Some(&cluster.certificate))?;
    // HTTP/1.1 does without (RFC 7301): the name says which of the member's engines is meant.
    tls.alpn_protocols = shard
        .map(|shard| shard.as_bytes().to_vec())
        .into_iter()
        .collect();
    Ok(tls)
}

/// A connection to another member. It ends when that leads no more: a member that was stopped
/// answers nothing, and closes nothing.
pub(super) struct ToLeader {
    stream: TlsStream<TcpStream>,
    /// Ready when it leads no more; `None`: it was.
    leads: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl AsyncRead for ToLeader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        if read.is_ready() {
            return read;
        }
        let leads = this.leads.as_mut();
        if leads.is_some_and(|leads| leads.as_mut().poll(cx).is_pending()) {
            return Poll::Pending;
        }
        this.leads = None;
        Poll::Ready(Err(ErrorKind::ConnectionReset.into()))
    }
}

impl AsyncWrite for ToLeader {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
