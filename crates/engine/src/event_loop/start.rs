//! The beginning of an engine thread: its channels, its state, and on the first thread the node
//! host.

use super::{Command, Thread};
use crate::Shared;
use crate::context::Contexts;
use crate::mailbox::NodeEvent;
use crate::metrics::Metrics;
use crate::node_host::{self, NodeHost};
use crate::settings::Settings;
use crate::state::EngineState;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The receiving ends of the thread's channels.
pub(super) struct Inbox {
    pub commands: mpsc::UnboundedReceiver<Command>,
    pub node_events: mpsc::UnboundedReceiver<NodeEvent>,
    pub closed: mpsc::UnboundedReceiver<()>,
}

/// What a thread starts with.
pub(crate) struct Start {
    pub shared: Arc<Shared>,
    pub number: usize,
    pub settings: Settings,
    pub contexts: Contexts,
    pub metrics: Arc<dyn Metrics>,
}

impl Start {
    /// Runs until the engine is closed.
    pub(crate) async fn run(self, commands: mpsc::UnboundedReceiver<Command>) {
        let Self {
            shared,
            number,
            settings,
            contexts,
            metrics,
        } = self;
        (settings.started)();
        let (node_events, events) = mpsc::unbounded_channel();
        let (closed, closings) = mpsc::unbounded_channel();
        let mut state = EngineState::new(
            settings,
            &shared,
            number,
            contexts,
            node_events,
            Arc::clone(&metrics),
        );
        let engine = shared.threads[number].commands.clone();
        let publish = move |event| {
            // The receiver is this thread, which outlives the host.
            let _ = engine.send(Command::NodeHost(event));
        };
        state.node_host = NodeHost::new(
            &state.config,
            &shared,
            &metrics,
            &state.contexts,
            &state.pressure,
            publish,
        );
        if let Some(host) = &state.node_host {
            tokio::task::spawn_local(node_host::supervise(Rc::clone(host)));
        }
        let inbox = Inbox {
            commands,
            node_events: events,
            closed: closings,
        };
        let thread = Thread::new(state, shared, number, metrics, closed);
        thread.run(inbox).await;
    }
}
