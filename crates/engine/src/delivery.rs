//! What the engine delivers to nodes, and the queue's entries.

use crate::http::Exchange;
use crate::instance::TimerId;
use crate::ws_endpoints;
use value::Message;

/// What the engine wakes a node for, besides messages and the events of its own tasks.
pub(crate) enum Wake {
    /// A timer that the node set is due.
    Timer(TimerId),
    /// A link out node in return mode answers a link call.
    Return(Message),
    /// A request to an http-in node's endpoint.
    Request(Box<Exchange>),
    /// An event of a connection to a websocket-listener node, and the connection's number.
    Socket(u64, ws_endpoints::Event),
    /// A debug node is switched on or off by an editor.
    Active(bool),
}

/// What the engine's queue holds for a node.
pub(crate) enum Item {
    Message(Message),
    /// A message that the node is called with instead of being sent it, as Node-RED does with catch, status, complete
    /// and link in nodes: what the node sends takes the place of this message in the queue.
    Call(Message),
    Wake(Box<Wake>),
}

/// An item and the slot of its node.
pub(crate) struct Delivery {
    pub slot: u32,
    pub item: Item,
}
