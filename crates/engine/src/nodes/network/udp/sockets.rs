//! UDP sockets by their port: `udp in` and `udp out` nodes on the same port of this machine share
//! one.

use crate::node::{Closing, Host, Level, Mailbox, Task};
use crate::nodes::network::connect;
use crate::pressure::Source;
use bytes::Bytes;
use smol_str::SmolStr;
use socket2::{Domain, InterfaceIndexOrAddress as Interface, Protocol, SockRef, Socket, Type};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::{Rc, Weak};
use tokio::net::UdpSocket;
use value::{Failure, Value};

/// The TTL of multicast datagrams (as in Node-RED).
const TTL: u32 = 128;

/// Longer than any datagram.
const BUFFER: usize = 64 * 1024;

/// The sockets that are open, by port. A socket is closed when the last node lets go of it.
#[derive(Default)]
pub(super) struct Ports(RefCell<HashMap<u16, Weak<Port>>>);

/// A socket, and the nodes that receive its datagrams.
pub(super) struct Port {
    pub(super) socket: Rc<UdpSocket>,
    receivers: RefCell<HashMap<SmolStr, (Mailbox<Datagram>, Source)>>,
    reader: RefCell<Option<Task>>,
}

/// A datagram and where it is from.
#[derive(Clone)]
pub(super) struct Datagram(pub(super) Bytes, pub(super) SocketAddr);

impl Ports {
    /// The socket of a port, if one is open.
    pub(super) fn open(&self, port: u16) -> Option<Rc<Port>> {
        self.0.borrow().get(&port).and_then(Weak::upgrade)
    }

    /// Opens a socket on a port, shared with other nodes; port 0 is any free one, not shared.
    pub(super) fn bind(&self, port: u16, six: bool) -> Result<Rc<Port>, Failure> {
        let opened = Rc::new(Port {
            socket: Rc::new(bind(port, six)?),
            receivers: RefCell::default(),
            reader: RefCell::default(),
        });
        let mut ports = self.0.borrow_mut();
        ports.retain(|_, port| port.strong_count() > 0);
        if port != 0 {
            ports.insert(port, Rc::downgrade(&opened));
        }
        Ok(opened)
    }
}

impl Port {
    /// Delivers each datagram to a node from now on, unless its flow is full.
    pub(super) fn listen(self: &Rc<Self>, host: &mut Host<'_, Datagram>) {
        let (node, receiver) = (host.info().id.clone(), (host.mailbox(), host.source()));
        self.receivers.borrow_mut().insert(node, receiver);
        let mut reader = self.reader.borrow_mut();
        if reader.is_none() {
            let socket = Rc::clone(&self.socket);
            *reader = Some(Task::run(read(socket, Rc::downgrade(self))));
        }
    }

    /// Ends the delivery to a node. After the last one reading ends; the `Closing` completes when
    /// the socket is free.
    pub(super) fn leave(&self, node: &str) -> Option<Closing> {
        let mut receivers = self.receivers.borrow_mut();
        receivers.remove(node);
        let reader = self.reader.borrow_mut().take_if(|_| receivers.is_empty());
        reader.map(Task::end)
    }
}

async fn read(socket: Rc<UdpSocket>, port: Weak<Port>) {
    let mut buffer = vec![0; BUFFER];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((count, from)) => {
                let Some(port) = port.upgrade() else { return };
                let datagram = Datagram(Bytes::copy_from_slice(&buffer[..count]), from);
                for (mailbox, source) in port.receivers.borrow().values() {
                    if source.is_full() {
                        source.drop_message();
                    } else {
                        mailbox.send(datagram.clone());
                    }
                }
            }
            // A datagram sent from this port was rejected by its receiver (ICMP).
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

fn bind(port: u16, six: bool) -> Result<UdpSocket, Failure> {
    let any: IpAddr = if six {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    };
    let address = SocketAddr::new(any, port);
    let opened = || {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        // Several programs may receive from the same multicast group.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        UdpSocket::from_std(socket.into())
    };
    opened().map_err(|error| connect::not_bound(&error, "bind", &address.to_string()))
}

/// Lets a socket send to all, and not to itself.
pub(super) fn broadcast(socket: &UdpSocket) -> io::Result<()> {
    socket.set_broadcast(true)?;
    socket.set_multicast_loop_v4(false)
}

/// Joins a multicast group, on this interface if one is named.
pub(super) fn join(
    socket: &UdpSocket,
    group: &str,
    interface: Option<&Interface>,
) -> io::Result<()> {
    let group = group
        .trim()
        .parse()
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let socket = SockRef::from(socket);
    match group {
        IpAddr::V4(group) => {
            socket.set_multicast_ttl_v4(TTL)?;
            let any = Interface::Address(Ipv4Addr::UNSPECIFIED);
            socket.join_multicast_v4_n(&group, interface.unwrap_or(&any))
        }
        IpAddr::V6(group) => match interface {
            Some(Interface::Index(index)) => socket.join_multicast_v6(&group, *index),
            _ => socket.join_multicast_v6(&group, 0),
        },
    }
}

/// The error that the editor shows for a group that cannot be joined.
pub(super) fn not_joined(error: &io::Error) -> Failure {
    let invalid = rustix::io::Errno::INVAL.raw_os_error();
    let number = error.raw_os_error().unwrap_or(invalid);
    // Node-RED has words for some of them, which Node.js no longer leads to.
    Failure::text(format!("error: -{number}"))
}

/// An interface by its address or its name (`eth0`); `None`: there is none of that name.
pub(super) fn interface(text: &str) -> Option<Interface> {
    let text = text.trim();
    if let Ok(address) = text.parse() {
        return Some(Interface::Address(address));
    }
    if text.is_empty() || text.contains(['/', '.']) {
        return None;
    }
    // Linux gives the index of each interface here.
    let index = std::fs::read_to_string(format!("/sys/class/net/{text}/ifindex")).ok()?;
    index.trim().parse().ok().map(Interface::Index)
}

/// The interface of a node; logs a warning if there is none of that name.
pub(super) fn named<E>(text: &str, host: &mut Host<'_, E>) -> Option<Interface> {
    if text.is_empty() {
        return None;
    }
    let found = interface(text);
    if found.is_none() {
        host.log(Level::Warn, format!("udp: interface {text} not found"));
    }
    found
}

/// Shows the interface as the node's status, if it has one.
pub(super) fn show<E>(text: &str, interface: Option<&Interface>, host: &mut Host<'_, E>) {
    if interface.is_some() {
        let address = address_of(text.trim());
        let address = address.map_or_else(|| text.to_owned(), |address| address.to_string());
        host.status(Value::record([(
            "text",
            format!("{text} : {address}").into(),
        )]));
    }
}

/// The IPv4 address of the interface of this name.
fn address_of(name: &str) -> Option<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().ok()?;
    let named = interfaces.into_iter().filter(|found| found.name == name);
    named.map(|found| found.ip()).find(IpAddr::is_ipv4)
}
