//! A worker: one thread, its own runtime, its own sockets, its own connections.

use super::conn_context::{ConnContext, refused};
use super::conn_io::Counted;
use super::connection::{self, Accepted};
use super::engine_socket;
use super::listen::Listeners;
use super::tls::{Acceptor, Tls};
use crate::allocator;
use crate::gateway::Gateway;
use crate::http::Peer;
use crate::metrics::{Metrics, Refused};
use limits::conn_limit::{ConnLimit, Permit};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::process;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Before the next try when the system has no descriptors or memory for a connection.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// A worker.
pub(super) struct Worker {
    pub(super) context: Arc<ConnContext>,
    conn_limit: Arc<ConnLimit>,
    tls: Option<Arc<Tls>>,
    runtime: OnceLock<Handle>,
}

impl Worker {
    pub(super) fn new(
        gateway: &Arc<Gateway>,
        metrics: &Arc<Metrics>,
        conn_limit: &Arc<ConnLimit>,
        tls: Option<&Arc<Tls>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            context: Arc::new(ConnContext::new(gateway, metrics)),
            conn_limit: Arc::clone(conn_limit),
            tls: tls.cloned(),
            runtime: OnceLock::new(),
        })
    }

    /// The runtime of its tasks, once it has started.
    pub(super) fn runtime(&self) -> Option<Handle> {
        self.runtime.get().cloned()
    }

    /// Starts the thread; `alive` is dropped when it has ended. A worker that dies takes the
    /// process with it: half a gateway would be worse than one that is started again.
    pub(super) fn start(
        self: &Arc<Self>,
        listeners: Listeners,
        alive: Sender<Infallible>,
    ) -> io::Result<()> {
        let worker = Arc::clone(self);
        let body = move || {
            let fuse = AbortOnDrop;
            if let Err(error) = worker.run(listeners) {
                tracing::error!(%error, "a worker has died");
                return;
            }
            std::mem::forget(fuse);
            drop(alive);
        };
        thread::Builder::new()
            .name("worker".to_owned())
            .spawn(body)
            .map(|_| ())
    }

    fn run(self: Arc<Self>, listeners: Listeners) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let _ = self.runtime.set(runtime.handle().clone());
        runtime.block_on(async {
            tokio::spawn(allocator::give_back_free_memory());
            let (alive, mut gone) = channel(1);
            let mut accepting = JoinSet::new();
            let secure = listeners.secure.into_iter();
            let secure = secure.map(|listener| (listener, self.tls.clone()));
            let plain = listeners.plain.map(|listener| (listener, None));
            for (listener, tls) in secure.chain(plain) {
                let listener = Listener::Tcp(TcpListener::from_std(listener)?, tls);
                accepting.spawn(Arc::clone(&self).accept(listener, alive.clone()));
            }
            if let Some(listener) = listeners.gateway {
                let listener = Listener::Gateway(UnixListener::from_std(listener)?);
                accepting.spawn(Arc::clone(&self).accept(listener, alive.clone()));
            }
            drop(alive);
            while let Some(ended) = accepting.join_next().await {
                ended?;
            }
            let drain_timeout = self.context.drain.begun().await;
            if timeout(drain_timeout, gone.recv()).await.is_err() {
                tracing::warn!("some connections were not finished in time and are cut off");
            }
            Ok(())
        })
    }

    /// Accepts connections until the drain. Those in the system's queue at that time are still
    /// served.
    async fn accept(self: Arc<Self>, listener: Listener, alive: Sender<Infallible>) {
        let mut drain = pin!(self.context.drain.begun());
        let mut complained = false;
        loop {
            let accepted = tokio::select! {
                biased;
                accepted = listener.accept() => accepted,
                _ = &mut drain => return,
            };
            match accepted {
                Ok(stream) => {
                    complained = false;
                    match stream {
                        New::Tcp(tcp, address, tls) => self.welcome(tcp, address, tls, &alive),
                        New::Gateway(unix) => self.welcome_gateway(unix, &alive),
                    }
                }
                Err(error) if left_already(&error) => {}
                Err(error) => {
                    if !complained {
                        tracing::error!(%error, "cannot accept connections for now; see `ulimit -n` and [limits] connections");
                    }
                    complained = true;
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    fn welcome(
        self: &Arc<Self>,
        tcp: TcpStream,
        address: SocketAddr,
        tls: Option<Acceptor>,
        alive: &Sender<Infallible>,
    ) {
        let trusted = self.context.trusts(address.ip());
        let permit = match self.admit(address.ip(), trusted) {
            Ok(permit) => permit,
            Err(reason) => return self.context.metrics.refused(reason),
        };
        let counted = self.counted(permit, alive);
        let peer = Peer {
            address,
            secure: tls.is_some(),
            trusted,
            is_gateway: false,
            certificate: None,
        };
        let accepted = Accepted {
            tcp,
            peer,
            tls,
            counted,
        };
        tokio::spawn(connection::serve(Arc::clone(&self.context), accepted));
    }

    /// Takes a connection of the gateway in front, which brings many clients: it counts for no
    /// address.
    fn welcome_gateway(self: &Arc<Self>, unix: UnixStream, alive: &Sender<Infallible>) {
        if !engine_socket::admits(&self.context.gateway.config, &unix) {
            return self.context.metrics.refused(Refused::Untrusted);
        }
        match self.conn_limit.admit() {
            Ok(permit) => {
                let counted = self.counted(permit, alive);
                tokio::spawn(connection::serve_gateway(
                    Arc::clone(&self.context),
                    unix,
                    counted,
                ));
            }
            Err(full) => self.context.metrics.refused(refused(full)),
        }
    }

    fn counted(&self, permit: Permit, alive: &Sender<Infallible>) -> Counted {
        Counted {
            permit,
            _open: self.context.metrics.connection(),
            _alive: alive.clone(),
        }
    }

    /// Admits a connection. A proxy's counts for no address: it brings many clients.
    fn admit(&self, address: IpAddr, trusted: bool) -> Result<Permit, Refused> {
        match (trusted, self.context.gateway.config.server.proxy_protocol) {
            (true, _) => self.conn_limit.admit().map_err(refused),
            (false, false) => {
                let permit = self
                    .conn_limit
                    .admit()
                    .and_then(|permit| permit.of(address));
                permit.map_err(refused)
            }
            // Its PROXY header could name any client.
            (false, true) => Err(Refused::Untrusted),
        }
    }
}

/// A socket on which connections are accepted.
enum Listener {
    /// With TLS or without.
    Tcp(TcpListener, Option<Arc<Tls>>),
    /// The one of an engine that runs apart.
    Gateway(UnixListener),
}

/// A connection just accepted.
enum New {
    Tcp(TcpStream, SocketAddr, Option<Acceptor>),
    Gateway(UnixStream),
}

impl Listener {
    async fn accept(&self) -> io::Result<New> {
        match self {
            Self::Tcp(listener, tls) => {
                let (tcp, address) = listener.accept().await?;
                let tls = tls.as_ref().map(|tls| tls.acceptor());
                Ok(New::Tcp(tcp, address, tls))
            }
            Self::Gateway(listener) => {
                let (unix, _) = listener.accept().await?;
                Ok(New::Gateway(unix))
            }
        }
    }
}

/// Ends the process when it is dropped: the worker it belongs to has not ended as it should.
struct AbortOnDrop;

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        process::exit(1);
    }
}

/// Returns whether only this one connection is lost (accept(2): the peer was gone before it was
/// accepted).
fn left_already(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}
