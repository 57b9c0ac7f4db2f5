//! What nodes have between them, and what a node's own tasks have with it: offers of config nodes, things that all
//! nodes of a kind share, posts, tasks.
//!
//! Everything here lives on the engine's thread and ends with the nodes.

use super::node::{Closing, Host};
use crate::instance::Instance;
use crate::state::Finished;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use std::any::{Any, TypeId};
use std::future::Future;
use std::rc::Rc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What is shared on the engine's thread.
#[derive(Default)]
pub(super) struct Between {
    /// By the running id of the node that offers it.
    offers: FxHashMap<SmolStr, Rc<dyn Any>>,
    common: FxHashMap<TypeId, Rc<dyn Any>>,
}

/// Where the tasks of a node tell it something; it arrives as [`super::node::Wake::Finished`].
#[derive(Clone)]
pub struct Mailbox {
    instance: Instance,
    sender: mpsc::UnboundedSender<Finished>,
}

/// A task of a node: it ends when this is dropped.
#[derive(Debug)]
pub struct Task(JoinHandle<()>);

impl Between {
    /// Forgets what a node offered.
    pub(super) fn withdraw(&mut self, id: &str) {
        self.offers.remove(id);
    }
}

impl Mailbox {
    pub(super) fn new(instance: Instance, sender: mpsc::UnboundedSender<Finished>) -> Self {
        Self { instance, sender }
    }

    /// Tells the node. It hears of it unless it is closed by then.
    pub fn tell<T: 'static>(&self, what: T) {
        // The receiver lives as long as the thread.
        let _ = self.sender.send(Finished {
            instance: self.instance,
            output: Box::new(what),
        });
    }
}

impl Task {
    /// Runs a future on the engine's thread.
    pub fn run(future: impl Future<Output = ()> + 'static) -> Self {
        Self(tokio::task::spawn_local(future))
    }

    /// Ends the task now; the answer is ready when all that it held is released, its port for instance.
    pub fn end(mut self) -> Closing {
        self.0.abort();
        Box::pin(async move {
            // An error says that it was ended, which is what was wanted.
            let _ = (&mut self.0).await;
        })
    }

    /// Waits until the task has ended by itself.
    pub fn ended(mut self) -> Closing {
        Box::pin(async move {
            let _ = (&mut self.0).await;
        })
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Host<'_> {
    /// Where tasks of this node tell it something.
    pub fn post(&self) -> Mailbox {
        self.state.post(self.instance)
    }

    /// Offers something to other nodes under this node's running id until it closes: what a config node is for.
    pub fn offer<T: 'static>(&mut self, what: Rc<T>) {
        let id = self.info.id.clone();
        self.state.between.offers.insert(id, what);
    }

    /// What the node of this running id offers.
    pub fn offered<T: 'static>(&self, id: &str) -> Option<Rc<T>> {
        let offer = self.state.between.offers.get(id)?;
        Rc::clone(offer).downcast().ok()
    }

    /// What all nodes of a kind share; made when first asked for.
    pub fn common<T: Default + 'static>(&mut self) -> Rc<T> {
        let common = &mut self.state.between.common;
        let shared = common
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Rc::new(T::default()));
        Rc::clone(shared).downcast().unwrap_or_default()
    }
}
