//! The listener for the other members of a cluster: joins their connections to the engine's socket,
//! while the engine runs here. A connection to a shard of flows names it as its protocol (ALPN, RFC
//! 7301). Both sides show certificates of the members' authority; who has none gets no further than
//! the handshake.

use super::super::certificate;
use super::super::client_certificate;
use crate::config::{ClientCertificates, Cluster, Config};
use crate::server::Error;
use crate::upstream::Upstream;
use arc_swap::ArcSwap;
use limits::conn_limit::ConnLimit;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Handshakes at a time: no client is known before the handshake has ended. Our choice: members
/// keep their connections.
const HANDSHAKES: usize = 256;
/// The same of one address. Our choice: a quarter, so that no address has all.
const HANDSHAKES_PER_ADDRESS: usize = HANDSHAKES / 4;
/// A handshake. Our choice, as the default of `timeouts.handshake`.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time between two attempts to accept when the system refuses. Our choice.
const RETRY: Duration = Duration::from_millis(100);

/// Says whether the certificates of the config can be used.
pub(in crate::server) fn check(config: &Config) -> Result<(), Error> {
    let Some(cluster) = &config.cluster else {
        return Ok(());
    };
    tls(cluster, &[]).map(drop)
}

/// The way to the engine of a shard.
pub(super) struct Door {
    /// The name of the shard; empty: the main one.
    shard: String,
    upstream: Upstream,
    socket: PathBuf,
    leads: watch::Receiver<bool>,
}

impl Door {
    pub(super) fn new(
        shard: &str,
        upstream: &Upstream,
        socket: &Path,
        leads: watch::Receiver<bool>,
    ) -> Self {
        Self {
            shard: shard.to_owned(),
            upstream: upstream.clone(),
            socket: socket.to_owned(),
            leads,
        }
    }
}

/// The TLS of connections to other members and from them.
pub(in crate::server) struct MemberTls {
    acceptor: Arc<ArcSwap<ServerConfig>>,
    doors: Arc<[Door]>,
}

impl MemberTls {
    /// Reads the certificates again, for new connections. If one of them cannot be used, all stay.
    pub(in crate::server) fn read_again(&self, cluster: &Cluster) -> Result<(), Error> {
        let server = tls(cluster, &self.doors)?;
        for door in &*self.doors {
            let read = door.upstream.read_certificates_again(cluster);
            read.map_err(|error| Error::Cluster(error.to_string()))?;
        }
        self.acceptor.store(Arc::new(server));
        Ok(())
    }
}

/// Listens from now on for connections to these engines. Called inside the runtime that serves.
pub(super) fn start(cluster: &Cluster, doors: Vec<Door>) -> Result<MemberTls, Error> {
    let address = cluster.listen;
    let failed = |source| Error::Listen {
        address,
        key: "[cluster] listen",
        source,
        advice: "it must be an address of this machine that is free".to_owned(),
    };
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = TcpListener::from_std(listener).map_err(failed)?;
    let acceptor = Arc::new(ArcSwap::from_pointee(tls(cluster, &doors)?));
    let doors: Arc<[Door]> = doors.into();
    tokio::spawn(listen(listener, Arc::clone(&acceptor), Arc::clone(&doors)));
    Ok(MemberTls { acceptor, doors })
}

fn tls(cluster: &Cluster, doors: &[Door]) -> Result<ServerConfig, Error> {
    let wrong = |error: String| Error::Cluster(error);
    let provider = Arc::new(aws_lc_rs::default_provider());
    let given = &cluster.certificate;
    let own = certificate::read(&given.cert, &given.key, &provider);
    let own = own.map_err(|error| wrong(error.to_string()))?;
    let members = ClientCertificates {
        ca: cluster.ca_file.clone(),
        crl: None,
        required: true,
    };
    let verifier = client_certificate::verifier(Some(&members), &provider);
    let verifier = verifier.map_err(|error| wrong(error.to_string()))?;
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| wrong(error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(own.key)));
    // A resumed session would bring a certificate that is not checked again.
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    // A client that names none is for the main engine.
    let shards = doors.iter().map(|door| door.shard.clone().into_bytes());
    server.alpn_protocols = shards.filter(|shard| !shard.is_empty()).collect();
    Ok(server)
}

async fn listen(listener: TcpListener, acceptor: Arc<ArcSwap<ServerConfig>>, doors: Arc<[Door]>) {
    let handshakes = ConnLimit::new(HANDSHAKES, HANDSHAKES_PER_ADDRESS);
    loop {
        let Ok((tcp, address)) = listener.accept().await else {
            sleep(RETRY).await;
            continue;
        };
        let permit = handshakes.admit();
        let Ok(permit) = permit.and_then(|permit| permit.of(address.ip())) else {
            continue;
        };
        let acceptor = TlsAcceptor::from(acceptor.load_full());
        let doors = Arc::clone(&doors);
        tokio::spawn(async move {
            let accepted = timeout(HANDSHAKE, acceptor.accept(tcp)).await;
            drop(permit);
            let joined = match accepted {
                Ok(Ok(tls)) => join(tls, &doors).await,
                Ok(Err(error)) => Err(error),
                Err(late) => Err(late.into()),
            };
            if let Err(error) = joined {
                tracing::debug!(%error, client = %address, "the connection of a member has ended");
            }
        });
    }
}

/// Joins the connection of a member to the socket of the engine that it is for until one of them
/// ends, or that engine does not run here any more.
async fn join(
    mut member: tokio_rustls::server::TlsStream<TcpStream>,
    doors: &[Door],
) -> io::Result<()> {
    let shard = member.get_ref().1.alpn_protocol().unwrap_or_default();
    let Some(door) = doors.iter().find(|door| door.shard.as_bytes() == shard) else {
        return Ok(());
    };
    let mut leads = door.leads.clone();
    if !*leads.borrow_and_update() {
        return Ok(());
    }
    member.get_ref().0.set_nodelay(true)?;
    let mut engine = UnixStream::connect(&door.socket).await?;
    tokio::select! {
        joined = copy_bidirectional(&mut member, &mut engine) => joined.map(drop),
        _ = leads.changed() => Ok(()),
    }
}
