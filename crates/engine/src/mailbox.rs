//! Mailboxes: the tasks of a node send it events.

use crate::instance::Instance;
use std::any::Any;
use std::marker::PhantomData;
use tokio::sync::mpsc;

/// Sends events of type `E` to the node that takes them.
pub(crate) struct Mailbox<E> {
    instance: Instance,
    sender: mpsc::UnboundedSender<NodeEvent>,
    event: PhantomData<fn(E)>,
}

/// An event of any node, on its way to it.
pub(crate) struct NodeEvent {
    pub instance: Instance,
    pub event: Box<dyn Any>,
}

impl<E: 'static> Mailbox<E> {
    pub(crate) fn new(instance: Instance, sender: mpsc::UnboundedSender<NodeEvent>) -> Self {
        Self {
            instance,
            sender,
            event: PhantomData,
        }
    }

    /// Sends an event. It is dropped if the node is closed by then.
    pub(crate) fn send(&self, event: E) {
        // The receiver lives as long as the thread.
        let _ = self.sender.send(NodeEvent {
            instance: self.instance,
            event: Box::new(event),
        });
    }
}

impl<E> Clone for Mailbox<E> {
    fn clone(&self) -> Self {
        Self {
            instance: self.instance,
            sender: self.sender.clone(),
            event: PhantomData,
        }
    }
}
