//! The host: the functions of the engine that a node calls.

use crate::delivery::Wake;
use crate::instance::{Instance, TimerId};
use crate::log_level::Level;
use crate::mailbox::Mailbox;
use crate::node_context::NodeContext;
use crate::node_host::NodeHost;
use crate::node_info::NodeInfo;
use crate::pressure::{Pressure, Source};
use crate::script::{ScriptMessage, Scripts};
use crate::settings::Settings;
use crate::state::EngineState;
use crate::targets::Targets;
use crate::ws_endpoints::Listener;
use events::Event;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::watch;
use value::{Failure, Message, Value, budget};

/// The engine as a running node sees it. `E` is the type of the node's events.
pub(crate) struct Host<'a, E = Infallible> {
    pub(crate) state: &'a mut EngineState,
    pub(crate) instance: Instance,
    pub(crate) info: &'a Rc<NodeInfo>,
    pub(crate) wires: &'a Targets,
    pub(crate) watched: bool,
    pub(crate) event: PhantomData<fn(E)>,
}

impl Host<'_> {
    /// The same host, for a node with events of type `E`. Called only by `Erased`, which has the
    /// type of its node.
    pub(super) fn with_events<E>(&mut self) -> Host<'_, E> {
        Host {
            state: self.state,
            instance: self.instance,
            info: self.info,
            wires: self.wires,
            watched: self.watched,
            event: PhantomData,
        }
    }
}

impl<E: 'static> Host<'_, E> {
    /// Runs a future on the engine's thread; its output is an event of the node. It is dropped when
    /// the node closes.
    pub(crate) fn spawn(&mut self, future: impl Future<Output = E> + 'static) {
        let mailbox = self.mailbox();
        self.run(async move { mailbox.send(future.await) });
    }

    /// The mailbox through which tasks of this node send its events.
    pub(crate) fn mailbox(&self) -> Mailbox<E> {
        self.state.mailbox(self.instance)
    }
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "a node gives away what it reports; whether it is kept is the host's business"
)]
impl<E> Host<'_, E> {
    /// The data about this node.
    pub(crate) fn info(&self) -> &Rc<NodeInfo> {
        self.info
    }

    /// Returns whether anything is wired to an output.
    pub(crate) fn wired(&self, output: usize) -> bool {
        !self.wires.of(output).is_empty()
    }

    /// Sends a message to everything wired to an output. A missing `_msgid` is added. A message
    /// that is nested too deeply or has too many parts is an error of this node instead.
    pub(crate) fn send(&mut self, output: usize, mut message: Message) {
        if self.state.attached.is_some() {
            return self.send_attached(output, message);
        }
        let Some((last, others)) = self.wires.of(output).split_last() else {
            return;
        };
        if let Err(failure) = message.check() {
            return self.error(failure, Some(message));
        }
        self.state.profiler.sent(self.instance, self.info, output);
        self.state.ensure_msgid(&mut message);
        for slot in others {
            self.state.push(*slot, message.clone());
        }
        self.state.push(*last, message);
    }

    /// The slot of the node that is wired to an output, if it is the only one and takes messages of
    /// which JavaScript has a part.
    pub(crate) fn taker(&self, output: usize) -> Option<u32> {
        match self.wires.of(output) {
            [slot] if self.state.attached.takes(*slot, self.info) => Some(*slot),
            _ => None,
        }
    }

    /// Sends such a message to the first output: as it is if there is a [`Host::taker`], else
    /// whole.
    pub(crate) fn send_script(&mut self, script: ScriptMessage) {
        if let Some(slot) = self.taker(0) {
            self.state.profiler.sent(self.instance, self.info, 0);
            return self.state.push_script(slot, script);
        }
        match script.into_message() {
            Ok(message) => self.send(0, message),
            Err((failure, rest)) => self.error(failure, Some(rest)),
        }
    }

    /// From now on all messages of this node have this part.
    pub(super) fn attach(&mut self, script: ScriptMessage) {
        self.state.attached.begin(script);
    }

    /// They have it no more.
    pub(super) fn detach(&mut self) {
        self.state.attached.take();
    }

    /// Sends a message with its part: as it is to one node that takes it, once, else whole.
    fn send_attached(&mut self, output: usize, mut message: Message) {
        let Some(mut part) = self.state.attached.take() else {
            return;
        };
        match self.taker(output) {
            Some(slot) if !part.is_sent => {
                part.is_sent = true;
                if part.script.has_native_id() {
                    self.state.ensure_msgid(&mut message);
                }
                self.state.profiler.sent(self.instance, self.info, output);
                let script = part.script.clone().with(message);
                self.state.push_script(slot, script);
            }
            _ if !self.wired(output) => {}
            _ => match part.script.clone().with(message).into_message() {
                Ok(message) => self.send(output, message),
                Err((failure, rest)) => self.error(failure, Some(rest)),
            },
        }
        self.state.attached.put(part);
    }

    /// The message with the part that JavaScript has of it, as far as that can be read.
    fn whole(&self, message: Message) -> Message {
        match self.state.attached.part() {
            None => message,
            Some(part) => {
                let whole = part.script.clone().with(message).into_message();
                whole.unwrap_or_else(|(_, rest)| rest)
            }
        }
    }

    /// Sends several messages in one go, as a function node's return value does:
    /// `(output, message)`. All that lack a `_msgid` get the same new one.
    pub(crate) fn send_all(&mut self, messages: Vec<(usize, Message)>) {
        let mut id = None;
        for (output, mut message) in messages {
            if !self.wired(output) {
                continue;
            }
            if !message.properties().contains_key("_msgid") {
                let id = id.get_or_insert_with(|| self.state.fresh_id()).clone();
                message.set(SmolStr::new_static("_msgid"), id);
            }
            self.send(output, message);
        }
    }

    /// Sends a message to output 0 and is done with it.
    pub(crate) fn pass(&mut self, message: Message) {
        let finished = self.watched.then(|| message.clone());
        self.send(0, message);
        if let Some(message) = finished {
            self.done(message);
        }
    }

    /// The node has finished with this message; complete nodes receive it.
    pub(crate) fn done(&mut self, message: Message) {
        if self.watched {
            let message = self.whole(message);
            self.state.complete(self.info, &message);
        }
    }

    /// This node as a source of messages: it waits, or drops messages, while its flow is full.
    pub(crate) fn source(&mut self) -> Source {
        let (slot, pressure) = (self.instance.slot, &self.state.pressure);
        self.state.sources.add(self.info, slot, pressure)
    }

    /// Returns whether a complete node listens to [`Host::done`]; without one the node need not
    /// clone the message.
    pub(crate) fn watched(&self) -> bool {
        self.watched
    }

    /// The node failed on this message; catch nodes receive the error, or else it is logged.
    pub(crate) fn error(&mut self, failure: Failure, message: Option<Message>) {
        self.state.profiler.failed(self.instance, self.info);
        let failure = named(failure, self.info);
        let message = message.map(|message| self.whole(message));
        self.state.error(self.info, &failure, message);
    }

    /// Shows the node's status: an object `{fill, shape, text}`, a text, or an empty object to
    /// clear it.
    pub(crate) fn status(&mut self, status: Value) {
        self.state.status(self.info, &status);
    }

    /// Shows the status of another node: a subflow's status output sets that of its instance.
    pub(crate) fn status_of(&mut self, id: &str, status: &Value) {
        if let Some(info) = self.state.info_of(id) {
            self.state.status(&info, status);
        }
    }

    /// Writes a line to the log, in the node's name; warnings and errors reach the debug sidebar
    /// too.
    pub(crate) fn log(&mut self, level: Level, value: impl Into<Value>) {
        if level == Level::Error {
            self.state.profiler.failed(self.instance, self.info);
        }
        self.state.log(self.info, level, &value.into());
    }

    /// Returns whether an editor has subscribed to debug messages.
    pub(crate) fn wants_debug(&self) -> bool {
        self.state.events.wants_debug()
    }

    /// Sends a debug node's message to the debug sidebar (topic `debug`).
    pub(crate) fn debug(&mut self, data: Json) {
        self.state.events.publish(Event::Debug(data));
    }

    /// Wakes the node with [`Wake::Timer`] after this delay.
    pub(crate) fn after(&mut self, delay: Duration) -> TimerId {
        self.state.set_timer(self.instance, delay)
    }

    /// Cancels a timer.
    pub(crate) fn cancel(&mut self, timer: TimerId) {
        self.state.timers.remove(&timer);
    }

    /// Runs a future without an output on the engine's thread. It is dropped when the node closes.
    pub(crate) fn run(&mut self, future: impl Future<Output = ()> + 'static) {
        self.state.spawn(self.instance, future);
    }

    /// Publishes a value to other nodes under this node's running id until it closes, as config
    /// nodes do.
    pub(crate) fn publish<T: 'static>(&mut self, value: Rc<T>) {
        self.state.shared.publish(self.info.id.clone(), value);
    }

    /// The value that the node of this running id publishes.
    pub(crate) fn lookup<T: 'static>(&self, id: &str) -> Option<Rc<T>> {
        self.state.shared.lookup(id)
    }

    /// The one value of this type that all nodes share; made when first asked for.
    pub(crate) fn shared<T: Default + 'static>(&mut self) -> Rc<T> {
        self.state.shared.of_kind()
    }

    /// Calls a node with a message, by its running id; false if there is none. A message that is
    /// too large is an error of this node instead.
    pub(crate) fn deliver(&mut self, id: &str, mut message: Message) -> bool {
        let Some(slot) = self.state.directory.get(id) else {
            return false;
        };
        if let Err(failure) = message.check() {
            self.error(failure, Some(message));
            return true;
        }
        self.state.ensure_msgid(&mut message);
        self.state.call(slot, message);
        true
    }

    /// Wakes another node by its running id; false if there is none.
    pub(crate) fn wake(&mut self, id: &str, wake: Wake) -> bool {
        let Some(slot) = self.state.directory.get(id) else {
            return false;
        };
        self.state.push_wake(slot, wake);
        true
    }

    /// The running id of a link in node by name, for link calls: in this flow first, then anywhere
    /// outside subflows; more than one match is an error (docs/reference/node-red-engine.md §3.3).
    pub(crate) fn link_named(&self, name: &str) -> Result<SmolStr, Failure> {
        let links = || self.state.links.get(name).into_iter().flatten();
        let here: Vec<_> = links()
            .filter(|i| i.container.z == self.info.container.z)
            .collect();
        let found = if here.is_empty() {
            links()
                .filter(|i| !i.container.path.contains('/'))
                .collect()
        } else {
            here
        };
        match found.as_slice() {
            [] => Err(Failure::error(format!(
                "target link-in node '{name}' not found"
            ))),
            [info] => Ok(info.id.clone()),
            _ => Err(Failure::error(format!(
                "Multiple link-in nodes named '{name}' found"
            ))),
        }
    }

    /// Returns whether the running id is that of a link in node.
    pub(crate) fn is_link_in(&self, id: &str) -> bool {
        self.state
            .info_of(id)
            .is_some_and(|i| i.kind() == "link in")
    }

    /// Milliseconds since 1970, read once per round of the engine.
    pub(crate) fn now(&self) -> f64 {
        self.state.now.get()
    }

    /// A fresh id: 16 hexadecimal digits (docs/reference/node-red-engine.md §3.1).
    pub(crate) fn fresh_id(&mut self) -> SmolStr {
        self.state.fresh_id()
    }

    /// The context for this node's expressions and scripts: its environment variables, the context
    /// stores, the time.
    pub(crate) fn context(&self) -> NodeContext {
        NodeContext {
            info: Rc::clone(self.info),
            contexts: Rc::clone(&self.state.contexts),
            now: self.now(),
        }
    }

    /// The JavaScript engine of this thread, made when first asked for.
    pub(crate) fn scripts(&mut self) -> Result<Rc<Scripts>, Failure> {
        self.state.scripts()
    }

    /// The operator's settings.
    pub(crate) fn config(&self) -> &Settings {
        &self.state.config
    }

    /// The root path of all endpoints (`http_node_root`), without a slash at its end.
    pub(crate) fn root(&self) -> &str {
        self.state.config.http_node_root.trim_end_matches('/')
    }

    /// Registers the endpoint of an http-in node; requests arrive as [`Wake::Request`], from the
    /// end of the deployment until the node closes.
    pub(crate) fn listen(&mut self, method: &str, path: &str) -> Result<(), Failure> {
        let path = format!("{}/{}", self.root(), path.trim_start_matches('/'));
        let (instance, rank) = (self.instance, self.state.rank);
        let endpoints = self.state.endpoints.change();
        endpoints.add(method, &path, instance, rank)
    }

    /// Registers the path of a websocket-listener node; connections arrive as [`Wake::Socket`]. It
    /// is removed when the node closes. `full`: whether the connections are to read nothing.
    pub(crate) fn listen_sockets(
        &mut self,
        path: &str,
        full: watch::Receiver<bool>,
    ) -> Result<(), Failure> {
        let whole = format!("{}/{}", self.root(), path.trim_start_matches('/'));
        let instance = self.instance;
        let listener = Listener { instance, full };
        self.state.sockets.change().add(&whole, listener)
    }

    /// The node host, if one is configured.
    pub(crate) fn node_host(&self) -> Option<Rc<NodeHost>> {
        self.state.node_host.clone()
    }

    /// Returns whether the node runs in the node host.
    pub(crate) fn is_foreign(&self) -> bool {
        self.state.is_foreign(self.info)
    }

    /// Which flows are full.
    pub(crate) fn pressure(&self) -> Rc<Pressure> {
        Rc::clone(&self.state.pressure)
    }
}

/// The failure of a node, with the setting to raise if it exceeded its budget.
fn named(failure: Failure, info: &NodeInfo) -> Failure {
    let setting = match failure.code.as_str() {
        budget::TIME => "engine.script_timeout",
        budget::BYTES => "a quarter of engine.script_memory",
        _ => return failure,
    };
    let message = format!("{} node: {} ({setting})", info.kind(), failure.message);
    Failure {
        message: SmolStr::from(message),
        ..failure
    }
}
