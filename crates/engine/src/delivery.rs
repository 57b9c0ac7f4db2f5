//! The deliveries of the engine to nodes: messages and wake-ups, as entries of its queue.

use crate::http::Exchange;
use crate::instance::TimerId;
use crate::script::ScriptMessage;
use crate::ws_endpoints;
use value::Message;

/// The causes for waking a node, besides messages and the events of its own tasks.
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

/// An entry of the engine's queue, for one node.
pub(crate) enum Item {
    Message(Message),
    /// A message of which JavaScript has a part, for a node that takes such ones.
    Script(Box<ScriptMessage>),
    /// A message with which the node is called directly, as Node-RED does with catch, status,
    /// complete and link in nodes: the messages that the node sends take its place in the queue.
    Call(Message),
    Wake(Box<Wake>),
}

/// Parts that a message counts for besides its values: its table of properties, and its place in
/// the queue. Our choice: 512 bytes; a message with an id and a number takes some 450.
const OVERHEAD: u32 = 8;

/// An item and the slot of its node.
pub(crate) struct Delivery {
    pub slot: u32,
    /// The size of its message as it was queued, in parts ([`value::Extent::parts`]).
    pub parts: u32,
    pub item: Item,
}

impl Delivery {
    pub(crate) fn new(slot: u32, item: Item) -> Self {
        let parts = match &item {
            Item::Message(message) | Item::Call(message) => message.properties().extent().parts(),
            Item::Script(message) => message.rest().properties().extent().parts(),
            Item::Wake(wake) => match wake.as_ref() {
                Wake::Return(message) => message.properties().extent().parts(),
                _ => 1,
            },
        };
        Self {
            slot,
            parts: parts.saturating_add(OVERHEAD),
            item,
        }
    }
}
