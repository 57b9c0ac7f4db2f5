//! One TCP connection of a tcp node: a task sends the node what it reads, and writes what the node
//! gives it.

use crate::node::{Closing, Host, Level, Mailbox, Task};
use crate::nodes::network::connect::{self, Stream};
use crate::nodes::network::tls::Tls;
use crate::nodes::status;
use crate::pressure::{MESSAGE, Source};
use bytes::Bytes;
use indexmap::IndexMap;
use smol_str::SmolStr;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_rustls::TlsAcceptor;
use value::{Failure, Value};

/// Read at once (as Node.js reads sockets).
const BUFFER: usize = 64 * 1024;

/// The time-out for the last writes when a node closes. Our choice.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// An event of the tasks of a tcp node.
pub(super) enum Event {
    /// Of the connection with this id, which is that of the session in messages.
    Connection(SmolStr, ConnectionEvent),
    /// A client has connected.
    Accepted(TcpStream, SocketAddr),
    /// A message asks to reset the connection with this id.
    Reset(SmolStr),
}

/// An event of a connection.
pub(super) enum ConnectionEvent {
    /// It is open, TLS included.
    Open,
    /// Bytes that were read, and the permit for those on their way to the node.
    Data(Bytes, Option<OwnedSemaphorePermit>),
    /// Nothing was read or written for the idle time-out; it closes.
    Idle,
    /// The peer has ended its direction.
    End,
    Failed(Failure),
    /// It is closed. Nothing follows.
    Closed,
}

/// The node of a connection, as the connection's task sees it.
#[derive(Clone)]
pub(super) struct Owner {
    mailbox: Mailbox<Event>,
    /// Reads only while its flow has room; `None`: the node makes no messages of what is read.
    source: Option<Source>,
    /// The last byte of each message, if the data is split.
    newline: Option<u8>,
    /// The idle time-out, if there is one.
    idle: Option<Duration>,
}

enum Order {
    Write(Bytes),
    End,
}

/// A connection, as its owning node holds it. It is cut when this is dropped.
pub(super) struct Socket {
    writer: Writer,
    task: Task,
    /// The other end, if that is known from the start.
    pub(super) peer: Option<SocketAddr>,
}

/// How a node takes connections that clients open.
#[derive(Clone, Default)]
pub(super) struct Acceptor {
    tls: Option<TlsAcceptor>,
    /// The idle time-out, if there is one.
    idle: Option<Duration>,
}

/// Writes to a connection.
#[derive(Clone)]
pub(super) struct Writer(mpsc::UnboundedSender<Order>);

/// All connections of `tcp in` nodes, to be replied to by `tcp out` nodes; by session id.
#[derive(Default)]
pub(super) struct Sessions(RefCell<IndexMap<SmolStr, Session>>);

struct Session {
    writer: Writer,
    /// Whether a message wants it cut.
    cut: Rc<tokio::sync::Notify>,
}

/// The target of a connection.
pub(super) struct Target {
    pub(super) host: SmolStr,
    pub(super) port: u16,
    pub(super) tls: Option<Rc<Tls>>,
}

impl Writer {
    pub(super) fn write(&self, bytes: Bytes) {
        // A closed connection takes nothing.
        let _ = self.0.send(Order::Write(bytes));
    }

    pub(super) fn end(&self) {
        let _ = self.0.send(Order::End);
    }
}

impl Owner {
    /// A node that makes messages of what is read, one for each `newline` unless that is empty.
    pub(super) fn source(host: &mut Host<'_, Event>, newline: &str) -> Self {
        Self {
            mailbox: host.mailbox(),
            source: Some(host.source()),
            newline: newline.bytes().last(),
            idle: None,
        }
    }

    /// A node that only writes.
    pub(super) fn writer(host: &Host<'_, Event>) -> Self {
        Self {
            mailbox: host.mailbox(),
            source: None,
            newline: None,
            idle: None,
        }
    }

    /// Reads as soon as the node's flow has room.
    async fn read(
        &self,
        reader: &mut (impl AsyncReadExt + Unpin),
        buffer: &mut [u8],
    ) -> std::io::Result<usize> {
        if let Some(source) = &self.source {
            source.room().await;
        }
        reader.read(buffer).await
    }

    /// Waits until these bytes may be on their way to the node, with the messages that they become.
    /// The node's flow may have become full while the peer sent nothing.
    async fn claim(&self, bytes: &[u8]) -> Option<OwnedSemaphorePermit> {
        let source = self.source.as_ref()?;
        source.room().await;
        let lines = bytes.iter().filter(|byte| Some(**byte) == self.newline);
        let messages = 1 + lines.count();
        source.claim(bytes.len() + messages * MESSAGE).await
    }

    /// Waits for the idle time-out. While the node's flow is full nothing is read, so the
    /// connection is not idle.
    async fn is_idle(&self) {
        let Some(idle) = self.idle else {
            return std::future::pending().await;
        };
        tokio::time::sleep(idle).await;
        while self.source.as_ref().is_some_and(Source::is_full) {
            tokio::time::sleep(idle).await;
        }
    }
}

impl Socket {
    /// Connects, and sends the node every event from then on.
    pub(super) fn connect(id: SmolStr, target: Target, owner: Owner) -> Self {
        let open = async move {
            let stream = connect::tcp(&target.host, target.port).await?;
            match &target.tls {
                None => Ok(Box::new(stream) as Stream),
                Some(tls) => connect::secure(stream, tls, &target.host).await,
            }
        };
        Self::run(id, open, owner)
    }

    /// Opens a connection for a node, which shows that it connects. Gives the connection's id too.
    pub(super) fn open(
        host: &mut Host<'_, Event>,
        target: Target,
        owner: Owner,
    ) -> (SmolStr, Self) {
        let (name, port) = (&target.host, target.port);
        host.log(Level::Info, format!("connecting to {name}:{port}"));
        host.status(status("grey", "dot", "common.status.connecting"));
        let id = host.fresh_id();
        (id.clone(), Self::connect(id, target, owner))
    }

    /// Takes over an accepted connection.
    pub(super) fn accepted(
        id: SmolStr,
        stream: TcpStream,
        peer: SocketAddr,
        acceptor: Acceptor,
        owner: Owner,
    ) -> Self {
        connect::prepare(&stream);
        let open = async move {
            match acceptor.tls {
                None => Ok(Box::new(stream) as Stream),
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => Ok(Box::new(stream) as Stream),
                    Err(error) => Err(connect::failure(&error, "read")),
                },
            }
        };
        let idle = acceptor.idle;
        let mut socket = Self::run(id, open, Owner { idle, ..owner });
        socket.peer = Some(peer);
        socket
    }

    fn run(
        id: SmolStr,
        open: impl Future<Output = Result<Stream, Failure>> + 'static,
        owner: Owner,
    ) -> Self {
        let (orders, receive) = mpsc::unbounded_channel();
        let task = Task::run(async move {
            let send = |event| {
                let event = Event::Connection(id.clone(), event);
                owner.mailbox.send(event);
            };
            match open.await {
                Ok(stream) => {
                    send(ConnectionEvent::Open);
                    if let Err(failure) = carry(stream, receive, &owner, &send).await {
                        send(ConnectionEvent::Failed(failure));
                    }
                }
                Err(failure) => send(ConnectionEvent::Failed(failure)),
            }
            send(ConnectionEvent::Closed);
        });
        Self {
            writer: Writer(orders),
            task,
            peer: None,
        }
    }

    pub(super) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Ends it, after all that was given to it is written.
    pub(super) fn end(self) -> Closing {
        self.writer.end();
        let ended = self.task.ended();
        Box::pin(async move {
            // After the time-out it is aborted.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, ended).await;
        })
    }
}

/// Reads and writes until either end is done, or nothing was to be read or written for the idle
/// time-out.
async fn carry(
    stream: Stream,
    mut orders: mpsc::UnboundedReceiver<Order>,
    owner: &Owner,
    send: &impl Fn(ConnectionEvent),
) -> Result<(), Failure> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut buffer = vec![0; BUFFER];
    // Bytes that were read and cannot be handed over yet.
    let mut held = 0;
    loop {
        let order = if held == 0 {
            tokio::select! {
                read = owner.read(&mut reader, &mut buffer) => {
                    held = match read {
                        Ok(count) => count,
                        // TLS without close_notify counts as an end.
                        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => 0,
                        Err(error) => return Err(connect::failure(&error, "read")),
                    };
                    if held == 0 {
                        send(ConnectionEvent::End);
                        break;
                    }
                    continue;
                }
                order = orders.recv() => order,
                () = owner.is_idle() => {
                    send(ConnectionEvent::Idle);
                    break;
                }
            }
        } else {
            let read = &buffer[..held];
            tokio::select! {
                claim = owner.claim(read) => {
                    send(ConnectionEvent::Data(Bytes::copy_from_slice(read), claim));
                    held = 0;
                    // The engine delivers the data before more is read.
                    tokio::task::yield_now().await;
                    continue;
                }
                order = orders.recv() => order,
            }
        };
        match order {
            Some(Order::Write(bytes)) => write(&mut writer, &bytes).await?,
            Some(Order::End) | None => break,
        }
    }
    while let Ok(Order::Write(bytes)) = orders.try_recv() {
        write(&mut writer, &bytes).await?;
    }
    // The other end may be gone already.
    let _ = writer.shutdown().await;
    Ok(())
}

async fn write(writer: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8]) -> Result<(), Failure> {
    let written = async {
        writer.write_all(bytes).await?;
        writer.flush().await
    };
    written
        .await
        .map_err(|error| connect::failure(&error, "write"))
}

impl Sessions {
    /// Registers a connection for replies. The returned `Notify` fires when a message asks to cut
    /// it.
    pub(super) fn add(&self, id: &SmolStr, socket: &Socket) -> Rc<tokio::sync::Notify> {
        let cut = Rc::new(tokio::sync::Notify::new());
        let session = Session {
            writer: socket.writer.clone(),
            cut: Rc::clone(&cut),
        };
        self.0.borrow_mut().insert(id.clone(), session);
        cut
    }

    /// Removes a closed connection.
    pub(super) fn remove(&self, id: &str) {
        self.0.borrow_mut().swap_remove(id);
    }

    /// Writes to one connection, or to all.
    pub(super) fn write(&self, id: Option<&str>, bytes: &Bytes) {
        self.each(id, |session| session.writer.write(bytes.clone()));
    }

    /// Cuts one connection, or all.
    pub(super) fn cut(&self, id: Option<&str>) {
        self.each(id, |session| session.cut.notify_one());
    }

    fn each(&self, id: Option<&str>, act: impl Fn(&Session)) {
        let sessions = self.0.borrow();
        match id {
            Some(id) => sessions.get(id).into_iter().for_each(act),
            None => sessions.values().for_each(act),
        }
    }
}

/// Listens on a port for a node, with its tls-config if it names one; a failure is reported as the
/// node's error.
pub(super) fn serve(host: &mut Host<'_, Event>, port: u16, tls: &str) -> Option<(Task, Acceptor)> {
    let tls: Option<Rc<Tls>> = host.lookup(tls);
    let tls = tls.map(|tls| tls.server()).transpose();
    match tls.and_then(|tls| Ok((listen(port)?, tls))) {
        Ok((listener, tls)) => {
            host.log(Level::Info, format!("listening on port {port}"));
            let acceptor = Acceptor {
                tls: tls.map(TlsAcceptor::from),
                idle: host.config().socket_timeout,
            };
            Some((accept(listener, host.mailbox()), acceptor))
        }
        Err(failure) => {
            let words = format!("unable to listen on port {port}, error: {failure}");
            host.error(Failure::text(words), None);
            None
        }
    }
}

/// Listens on a port of this machine, over IPv6 and IPv4.
fn listen(port: u16) -> Result<TcpListener, Failure> {
    use socket2::{Domain, Protocol, Socket, Type};
    let open = |address: SocketAddr| {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        // A port whose last connections still linger is free, as in Node.js.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    let six = open((std::net::Ipv6Addr::UNSPECIFIED, port).into());
    let result = six.or_else(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse | std::io::ErrorKind::PermissionDenied => Err(error),
        // A system without IPv6.
        _ => open((std::net::Ipv4Addr::UNSPECIFIED, port).into()),
    });
    result.map_err(|error| connect::not_bound(&error, "listen", &format!(":::{port}")))
}

/// Connections that wait to be accepted (as in Node.js).
const BACKLOG: i32 = 511;

/// Accepts connections and sends the node each of them.
fn accept(listener: TcpListener, mailbox: Mailbox<Event>) -> Task {
    Task::run(async move {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => mailbox.send(Event::Accepted(stream, peer)),
                // Out of descriptors, most likely: others may be given back soon.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    })
}

/// `_session` of a message.
pub(super) fn session(id: &str) -> Value {
    Value::record([("type", "tcp".into()), ("id", id.into())])
}

/// "1 connection", "2 connections".
pub(super) fn connections(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} connection{plural}")
}

/// A port as flow files have it: a number or a text.
pub(super) fn port(value: &serde_json::Value) -> u16 {
    let text = crate::expression::typed::text_of(value);
    text.trim().parse().unwrap_or(0)
}

/// `\n`, `\r` and `\t` as they are written in the editor.
pub(super) fn newline(text: &str) -> String {
    text.replace("\\n", "\n")
        .replace("\\r", "\r")
        .replace("\\t", "\t")
}
