//! The trait that every node implements, and what a node is built from.
//!
//! A node lives on the engine's thread, which calls it: never twice at a time, and nothing else
//! calls it.

mod host;
mod work;

pub(crate) use crate::delivery::Wake;
pub(crate) use crate::instance::TimerId;
pub(crate) use crate::log_level::Level;
pub(crate) use crate::mailbox::Mailbox;
pub(crate) use crate::node_info::NodeInfo;
pub(crate) use crate::task::{Closing, Task};
pub(crate) use host::Host;
pub(crate) use work::{Done, Sequence, Worked, size};

use crate::properties;
use crate::script::ScriptMessage;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use std::any::Any;
use std::borrow::Cow;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::rc::Rc;
use value::{Failure, Message};

/// A running node. `E` is the type of the events that its own tasks send it; most nodes have none.
pub(crate) trait Node<E: 'static = Infallible> {
    /// Called once, after construction and before any message: start timers, open listeners.
    fn start(&mut self, _host: &mut Host<'_, E>) {}

    /// Handles a message. The node sends its results, and calls [`Host::done`] or [`Host::error`]
    /// when it has finished with the message, now or later.
    fn receive(&mut self, message: Message, host: &mut Host<'_, E>);

    /// Returns whether the node takes a message of a function with a part that stays JavaScript: it
    /// sends nothing but this message on, once to an output, and before [`Node::receive`] ends.
    fn takes_scripts(&self) -> bool {
        false
    }

    /// Returns whether the node reads or changes this property of messages. The others pass through
    /// it as they are.
    fn touches(&self, _property: &str) -> bool {
        true
    }

    /// Handles a message of which JavaScript has a part.
    fn receive_script(&mut self, mut script: ScriptMessage, host: &mut Host<'_, E>) {
        match script.read(&|property| self.touches(property)) {
            Ok(message) => {
                host.attach(script);
                self.receive(message, host);
                host.detach();
            }
            Err(failure) => host.error(failure, Some(script.rest().clone())),
        }
    }

    /// A timer is due, or another part of the engine calls the node.
    fn wake(&mut self, _wake: Wake, _host: &mut Host<'_, E>) {}

    /// An event of the node's own tasks: the output of a [`Host::spawn`] future, or what a
    /// [`Mailbox`] sent.
    fn event(&mut self, _event: E, _host: &mut Host<'_, E>) {}

    /// The node stops. The host cancels its timers and spawned futures afterwards. A future in the
    /// result is awaited, at most for the operator's close timeout.
    fn close(&mut self, _removed: bool, _host: &mut Host<'_, E>) -> Option<Closing> {
        None
    }
}

/// A node with events of any type, as the engine's thread keeps it.
pub(crate) type BoxedNode = Box<dyn DynNode>;

/// Boxes a node for the engine's thread.
pub(crate) fn boxed<E: 'static>(node: impl Node<E> + 'static) -> BoxedNode {
    Box::new(Erased {
        node,
        event: PhantomData,
    })
}

/// [`Node`] without the type of its events.
pub(crate) trait DynNode {
    /// [`Node::start`].
    fn start(&mut self, host: &mut Host<'_>);
    /// [`Node::receive`].
    fn receive(&mut self, message: Message, host: &mut Host<'_>);
    /// [`Node::takes_scripts`].
    fn takes_scripts(&self) -> bool;
    /// [`Node::receive_script`].
    fn receive_script(&mut self, message: ScriptMessage, host: &mut Host<'_>);
    /// [`Node::wake`].
    fn wake(&mut self, wake: Wake, host: &mut Host<'_>);
    /// [`Node::event`].
    fn event(&mut self, event: Box<dyn Any>, host: &mut Host<'_>);
    /// [`Node::close`].
    fn close(&mut self, removed: bool, host: &mut Host<'_>) -> Option<Closing>;
}

/// A node whose type of events is erased.
struct Erased<N, E> {
    node: N,
    event: PhantomData<fn(E)>,
}

impl<E: 'static, N: Node<E>> DynNode for Erased<N, E> {
    fn start(&mut self, host: &mut Host<'_>) {
        self.node.start(&mut host.with_events());
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        self.node.receive(message, &mut host.with_events());
    }

    fn takes_scripts(&self) -> bool {
        self.node.takes_scripts()
    }

    fn receive_script(&mut self, message: ScriptMessage, host: &mut Host<'_>) {
        self.node.receive_script(message, &mut host.with_events());
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        self.node.wake(wake, &mut host.with_events());
    }

    fn event(&mut self, event: Box<dyn Any>, host: &mut Host<'_>) {
        // Only hosts and mailboxes of type `E` send events to this node.
        if let Ok(event) = event.downcast() {
            self.node.event(*event, &mut host.with_events());
        }
    }

    fn close(&mut self, removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.node.close(removed, &mut host.with_events())
    }
}

/// The data from which a node is built.
pub(crate) struct Build<'a> {
    /// The data about it.
    pub info: &'a Rc<NodeInfo>,
    /// Its JSON object; environment variables substituted, ids of a subflow's inside remapped.
    pub text: Cow<'a, str>,
    /// Its credentials, if it has any; environment variables substituted.
    pub credentials: Option<Map<String, Json>>,
}

impl Build<'_> {
    /// The node's properties as a type of its own.
    pub(crate) fn properties<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        properties::read(&self.text).map_err(|e| Failure::error(format!("invalid properties: {e}")))
    }
}
