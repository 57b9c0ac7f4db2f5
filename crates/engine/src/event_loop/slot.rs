//! A slot: the place of a running node. All calls of the node go through it.

use crate::instance::Instance;
use crate::log_level::Level;
use crate::node::{BoxedNode, DynNode, Host};
use crate::node_info::NodeInfo;
use crate::state::EngineState;
use crate::targets::Targets;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Instant;
use value::budget;

/// A place for a running node. The same id keeps its slot for as long as the node runs.
pub(crate) struct Slot {
    /// `None`: it failed to start, or panicked.
    pub node: Option<BoxedNode>,
    pub info: Rc<NodeInfo>,
    pub wires: Targets,
    pub epoch: u32,
    pub watched: bool,
    /// True if it is a config node: stopped last.
    pub config: bool,
    /// Index into the counts by type.
    pub kind: usize,
}

impl Slot {
    /// Calls the node, if it runs. One that panics is taken out; the others go on. `messages`:
    /// those that it receives.
    pub(super) fn call(
        &mut self,
        number: u32,
        messages: u64,
        state: &mut EngineState,
        act: impl FnOnce(&mut dyn DynNode, &mut Host<'_>),
    ) {
        let began = state.profiler.is_active().then(Instant::now);
        let (place, mut host) = self.place_and_host(number, state);
        let Some(node) = place.as_mut() else { return };
        budget::begin();
        if catch_unwind(AssertUnwindSafe(|| act(node.as_mut(), &mut host))).is_err() {
            *place = None;
            host.state.attached.take();
            let text =
                "the node failed inside and was stopped; the next deployment starts it again";
            host.log(Level::Error, text);
        }
        if let Some(began) = began {
            let (profiler, info) = (&mut host.state.profiler, host.info);
            profiler.add(host.instance, info, messages, began.elapsed());
        }
    }

    /// The place for the node, and the host that serves it.
    pub(crate) fn place_and_host<'a>(
        &'a mut self,
        number: u32,
        state: &'a mut EngineState,
    ) -> (&'a mut Option<BoxedNode>, Host<'a>) {
        let instance = Instance {
            slot: number,
            epoch: self.epoch,
        };
        let host = Host {
            state,
            instance,
            info: &self.info,
            wires: &self.wires,
            watched: self.watched,
            event: PhantomData,
        };
        (&mut self.node, host)
    }
}
