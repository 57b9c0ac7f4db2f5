//! The trait that every node implements, and what its host does for it.
//!
//! A node lives on one engine thread and is called by it: never twice at a time, never from elsewhere.

use super::http::Exchange;
use super::properties;
use super::script::Scripts;
pub use crate::instance::TimerId;
pub use crate::log_level::Level;
pub use crate::node_info::NodeInfo;

use crate::instance::Instance;
use crate::node_context::NodeContext;
use crate::settings::Settings;
use crate::state::EngineState;
use crate::ws_endpoints;
use events::Event;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::any::Any;
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use value::{Failure, Message, Value};

/// A running node.
pub trait Node {
    /// Called once, after construction and before any message: start timers, open listeners.
    fn start(&mut self, _host: &mut Host<'_>) {}

    /// A message arrived. The node sends on what it makes of it, and says [`Host::done`] or [`Host::error`]
    /// when it has finished with it, now or in a later [`Node::wake`].
    fn receive(&mut self, message: Message, host: &mut Host<'_>);

    /// Something else that the node waited for happened.
    fn wake(&mut self, _wake: Wake, _host: &mut Host<'_>) {}

    /// The node stops. Its timers and spawned futures are cancelled by the host afterwards.
    /// A future in the answer is awaited, for at most the close limit.
    fn close(&mut self, _removed: bool, _host: &mut Host<'_>) -> Option<Closing> {
        None
    }
}

/// What a node still has to do after `close` returned.
pub type Closing = Pin<Box<dyn Future<Output = ()>>>;

/// What may wake a node besides a message.
pub enum Wake {
    /// A timer set with [`Host::after`] is due.
    Timer(TimerId),
    /// The output of a finished [`Host::spawn`] future, or a message that a task sent to the node's
    /// [post](crate::shared::Mailbox).
    Finished(Box<dyn Any>),
    /// A link out node in return mode answers a link call.
    Return(Message),
    /// A request to an http-in node's endpoint.
    Request(Box<Exchange>),
    /// Something happened to a connection to a websocket-listener node; the number is the connection's.
    Socket(u64, ws_endpoints::Event),
    /// A debug node is switched on or off by an editor.
    Active(bool),
}

/// What a node is built from.
pub struct Build<'a> {
    /// Who it will be.
    pub info: &'a Rc<NodeInfo>,
    /// Its JSON object; environment variables substituted, ids of a subflow's inside remapped.
    pub text: Cow<'a, str>,
    /// Its credentials, if it has any.
    pub credentials: Option<&'a Map<String, Json>>,
}

impl Build<'_> {
    /// The node's properties as a type of its own.
    pub fn properties<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        properties::read(&self.text).map_err(|e| Failure::error(format!("invalid properties: {e}")))
    }
}

/// What a node may do while it runs.
pub struct Host<'a> {
    pub(super) state: &'a mut EngineState,
    pub(super) instance: Instance,
    pub(super) info: &'a Rc<NodeInfo>,
    pub(super) wires: &'a [Box<[u32]>],
    pub(super) watched: bool,
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "a node gives away what it reports; whether it is kept is the host's business"
)]
impl Host<'_> {
    /// Who this node is.
    pub fn info(&self) -> &Rc<NodeInfo> {
        self.info
    }

    /// Whether anything is wired to an output.
    pub fn wired(&self, output: usize) -> bool {
        self.wires.get(output).is_some_and(|w| !w.is_empty())
    }

    /// Sends a message to everything wired to an output. A missing `_msgid` is added. A message that is nested too
    /// deeply or has too many parts is an error of this node instead.
    pub fn send(&mut self, output: usize, mut message: Message) {
        let Some((last, others)) = self.wires.get(output).and_then(|w| w.split_last()) else {
            return;
        };
        if let Err(failure) = message.check() {
            return self.error(failure, Some(message));
        }
        self.state.name(&mut message);
        for slot in others {
            self.state.push(*slot, message.clone());
        }
        self.state.push(*last, message);
    }

    /// Sends several messages in one go, as a function node's return value does: `(output, message)`.
    /// All that lack a `_msgid` get the same new one.
    pub fn send_all(&mut self, messages: Vec<(usize, Message)>) {
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
    pub fn pass(&mut self, message: Message) {
        let finished = self.watched.then(|| message.clone());
        self.send(0, message);
        if let Some(message) = finished {
            self.done(message);
        }
    }

    /// The node has finished with this message: tells complete nodes.
    pub fn done(&mut self, message: Message) {
        if self.watched {
            self.state.complete(self.info, &message);
        }
    }

    /// Whether a complete node listens to [`Host::done`]; without one the node need not clone the message.
    pub fn watched(&self) -> bool {
        self.watched
    }

    /// The node failed on this message: tells catch nodes, or the log.
    pub fn error(&mut self, failure: Failure, message: Option<Message>) {
        self.state.error(self.info, &failure, message);
    }

    /// Shows the node's status: an object `{fill, shape, text}`, a text, or an empty object to clear it.
    pub fn status(&mut self, status: Value) {
        self.state.status(self.info, &status);
    }

    /// Shows a status in the name of another node: a subflow's status output speaks for its instance.
    pub(super) fn status_of(&mut self, id: &str, status: &Value) {
        if let Some(info) = self.state.info_of(id) {
            self.state.status(&info, status);
        }
    }

    /// Writes a line to the log, in the node's name; warnings and errors reach the debug sidebar too.
    pub fn log(&mut self, level: Level, value: impl Into<Value>) {
        self.state.log(self.info, level, &value.into());
    }

    /// Whether an editor listens to the debug sidebar.
    pub fn debug_heard(&self) -> bool {
        self.state.events.wants_debug()
    }

    /// Sends a debug node's message to the debug sidebar (topic `debug`).
    pub fn debug(&mut self, data: Json) {
        self.state.events.publish(Event::Debug(data));
    }

    /// Wakes the node with [`Wake::Timer`] after so long.
    pub fn after(&mut self, delay: Duration) -> TimerId {
        self.state.set_timer(self.instance, delay)
    }

    /// Forgets a timer.
    pub fn cancel(&mut self, timer: TimerId) {
        self.state.timers.remove(&timer);
    }

    /// Runs a future on the engine's thread and wakes the node with [`Wake::Finished`] and its output.
    /// It is dropped when the node closes.
    pub fn spawn<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) {
        self.state.spawn(self.instance, future);
    }

    /// Calls a node with a message, by its running id; false if there is none. A message that is too large is an error
    /// of this node instead.
    pub fn deliver(&mut self, id: &str, mut message: Message) -> bool {
        let Some(slot) = self.state.directory.get(id).copied() else {
            return false;
        };
        if let Err(failure) = message.check() {
            self.error(failure, Some(message));
            return true;
        }
        self.state.name(&mut message);
        self.state.call(slot, message);
        true
    }

    /// Wakes another node by its running id; false if there is none.
    pub fn wake(&mut self, id: &str, wake: Wake) -> bool {
        let Some(slot) = self.state.directory.get(id).copied() else {
            return false;
        };
        self.state.push_wake(slot, wake);
        true
    }

    /// The running id of a link in node by name, for link calls: in this flow first, then anywhere
    /// outside subflows; more than one match is an error (docs/reference/node-red-engine.md §3.3).
    pub fn link_named(&self, name: &str) -> Result<SmolStr, Failure> {
        let links = || {
            self.state
                .infos
                .iter()
                .flatten()
                .filter(|i| i.kind == "link in" && link_name(i) == name)
        };
        let here: Vec<_> = links().filter(|i| i.z == self.info.z).collect();
        let found = if here.is_empty() {
            links().filter(|i| !i.path.contains('/')).collect()
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

    /// Whether the running id is that of a link in node.
    pub fn is_link_in(&self, id: &str) -> bool {
        self.state.info_of(id).is_some_and(|i| i.kind == "link in")
    }

    /// Milliseconds since 1970, read once per round of the engine.
    pub fn now(&self) -> f64 {
        self.state.now.get()
    }

    /// A fresh id: 16 hexadecimal digits (docs/reference/node-red-engine.md §3.1).
    pub fn fresh_id(&mut self) -> SmolStr {
        self.state.fresh_id()
    }

    /// What this node's expressions and scripts read: its environment variables, the context stores, the time.
    pub fn context(&self) -> NodeContext {
        NodeContext {
            info: Rc::clone(self.info),
            contexts: Rc::clone(&self.state.contexts),
            now: self.now(),
        }
    }

    /// The JavaScript engine of this thread, made when first asked for.
    pub fn scripts(&mut self) -> Result<Rc<Scripts>, Failure> {
        self.state.scripts()
    }

    /// Limits that the operator set.
    pub fn config(&self) -> &Settings {
        &self.state.config
    }

    /// Where endpoints begin (`http_node_root`), without a slash at its end.
    pub fn root(&self) -> &str {
        self.state.config.http_node_root.trim_end_matches('/')
    }

    /// Registers the endpoint of an http-in node; requests arrive as [`Wake::Request`]. It is removed when the node
    /// closes.
    pub fn listen(&mut self, method: &str, path: &str) -> Result<(), Failure> {
        let path = format!("{}/{}", self.root(), path.trim_start_matches('/'));
        self.state.endpoints.add(method, &path, self.instance)
    }

    /// Registers the path of a websocket-listener node; connections arrive as [`Wake::Socket`]. It is removed when
    /// the node closes.
    pub fn listen_sockets(&mut self, path: &str) -> Result<(), Failure> {
        let whole = format!("{}/{}", self.root(), path.trim_start_matches('/'));
        self.state.sockets.add(&whole, self.instance)
    }
}

/// A link in node without a name is called by its id.
fn link_name(info: &NodeInfo) -> &SmolStr {
    let named = info.name.as_ref().filter(|name| !name.is_empty());
    named.unwrap_or(&info.id)
}
