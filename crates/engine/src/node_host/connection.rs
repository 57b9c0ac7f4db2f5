//! The two sockets of a process: one takes frames to it, the other brings its frames and takes the
//! answers to its questions.

use super::questions;
use super::received::{Kind, Received};
use super::violations::Violation;
use super::{NodeHost, frame};
use crate::log_lines::beginning;
use crate::metrics::RefusedFrame;
use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, BufReader, BufWriter};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// The interval at which the host is asked whether it lives. Our choice.
const PING: Duration = Duration::from_secs(5);

/// Intervals without a frame after which the host counts as hung. Our choice: packages block for
/// some seconds while they open a device, not for fifteen.
const MAX_SILENT: u32 = 3;

/// Bytes that are read or written at once: as many as Node.js reads at once.
const BUFFER: usize = 64 << 10;

/// Frames that are taken at once to be written.
const MAX_READY: usize = 64;

/// How often a reader that waits for a flow looks again.
const LOOK: Duration = Duration::from_millis(50);

/// The first words of the topics that the runtime sends to editors; those of packages have others.
const RUNTIME_TOPICS: [&str; 8] = [
    "",
    "auth",
    "debug",
    "event-log",
    "hb",
    "multiplayer",
    "notification",
    "status",
];

/// Bytes of a message of a package for editors, at most, and of its topic. Our choice: packages
/// send states of their nodes; the editor keeps every message.
const MAX_PUBLISHED: usize = 1 << 20;
const MAX_TOPIC: usize = 1024;

/// Bytes of a frame with a status, and of one with a line of the log, at most: `host/reports.js`
/// sends none that is longer. Our choice: a text of 8 KiB, and one of 64 KiB, of which JSON may
/// make six times as many bytes.
const MAX_STATUS: usize = 64 << 10;
const MAX_LOG: usize = 512 << 10;

/// Bytes of a reason, a version or a list of types that are logged.
const MAX_REASON: usize = 4 << 10;

/// Bytes of the name of a package, at most (npm, package.json).
const MAX_PACKAGE_NAME: usize = 214;

/// Whether the process has sent a frame since the last ping, or may not send one now.
#[derive(Default)]
pub(super) struct Pulse {
    heard: Cell<bool>,
    is_paused: Cell<bool>,
    pub(super) pings: Cell<u32>,
}

/// Writes frames to the process, those that are ready together. Ends with an error.
pub(super) async fn write(
    host: &NodeHost,
    socket: UnixStream,
    mut frames: mpsc::UnboundedReceiver<Bytes>,
) -> io::Error {
    let mut socket = BufWriter::with_capacity(BUFFER, socket);
    let mut ready = Vec::new();
    while frames.recv_many(&mut ready, MAX_READY).await > 0 {
        for frame in ready.drain(..) {
            if let Err(error) = socket.write_all(&frame).await {
                return error;
            }
            host.written(frame.len());
        }
        if let Err(error) = socket.flush().await {
            return error;
        }
    }
    io::ErrorKind::BrokenPipe.into()
}

/// Reads the frames of the process, while the flows that have foreign nodes have room. Ends with
/// the reason.
pub(super) async fn read(host: &NodeHost, socket: UnixStream, pulse: &Pulse) -> String {
    let mut socket = BufReader::with_capacity(BUFFER, socket);
    loop {
        let frame = match frame::read(&mut socket).await {
            Ok(Some(frame)) => frame,
            Ok(None) => return "it closed its channel".to_owned(),
            Err(error) => return format!("its channel failed: {error}"),
        };
        pulse.heard.set(true);
        let size = frame.size();
        let received: Received<'_> = match serde_json::from_str(&frame.json) {
            Ok(received) => received,
            Err(error) => return format!("it sent an invalid frame: {error}"),
        };
        match received.t {
            Kind::Context => {
                let answer = questions::answer(host, &received, &frame.attachments);
                if let Err(error) = socket.write_all(&answer).await {
                    return format!("its channel failed: {error}");
                }
            }
            Kind::Status | Kind::Log if size > longest(received.t) => {
                host.refuse(&Violation {
                    frame: RefusedFrame::Report,
                    node: received.node.as_deref().unwrap_or_default(),
                    kind: None,
                    reason: "a status or a line of the log is longer than it may be",
                });
            }
            Kind::Message | Kind::Error | Kind::Status | Kind::Complete | Kind::Log => {
                pulse.is_paused.set(true);
                room(host).await;
                let permit = host.pressure.claim(size).await;
                pulse.is_paused.set(false);
                match host.report(&received, &frame.attachments, size, permit) {
                    Ok(event) => host.publish(event),
                    Err(failure) => {
                        host.metrics.errors.increment(1);
                        tracing::error!(target: "node_host", %failure, "a message of the node host was dropped");
                    }
                }
            }
            _ => control(host, &received),
        }
    }
}

/// The bytes of a frame with a status or a line of the log, at most.
fn longest(kind: Kind) -> usize {
    if kind == Kind::Status {
        MAX_STATUS
    } else {
        MAX_LOG
    }
}

/// Waits until the flows that have foreign nodes have room. During a deployment nothing waits: the
/// host must be able to finish its part.
async fn room(host: &NodeHost) {
    while !host.is_holding.get() && host.pressure.is_foreign_full() {
        let _ = tokio::time::timeout(LOOK, host.pressure.changed()).await;
    }
}

/// Handles a frame that is of no node.
fn control(host: &NodeHost, received: &Received<'_>) {
    match received.t {
        Kind::Ready if host.is_loaded() => host.refuse_control("it was ready before"),
        Kind::Ready => {
            let version = short(received.node.as_deref().unwrap_or_default());
            let runtime = short(&received.version);
            tracing::info!(target: "node_host", node = &*version, runtime = &*runtime, "the node host has loaded its packages");
            for set in &received.sets {
                let (id, version) = (&*short(&set.id), &*short(&set.version));
                if let Some(error) = &set.error {
                    let error = &*short(error);
                    tracing::warn!(target: "node_host", set = id, version, error, "a node set was not loaded");
                } else {
                    let types = set.types.join(", ");
                    let types = &*short(&types);
                    tracing::info!(target: "node_host", set = id, version, types, "a node set was loaded");
                }
            }
            host.ready(&received.sets);
        }
        Kind::Loading => {
            let package = package(host, received);
            host.culprits.borrow_mut().loading(package);
        }
        Kind::Failed => {
            let package = package(host, received);
            host.culprits.borrow_mut().blame(package);
            let error = received.error.as_deref().unwrap_or("it failed");
            host.kill(&short(error));
        }
        Kind::Deployed => {
            let done = host.pending.borrow_mut().remove(&received.number);
            match done {
                // Its receiver may have left.
                Some(done) => {
                    let error = received.error.as_deref();
                    let error = error.map(|error| short(error).into_owned());
                    drop(done.send(error));
                }
                None => host.refuse_control("it deployed what it was not asked for"),
            }
        }
        Kind::Taken => host.taken(received.bytes),
        Kind::Published => match published(host, received) {
            Ok(event) => host.events.publish(event),
            Err(reason) => host.refuse(&Violation {
                frame: RefusedFrame::Published,
                node: &received.topic,
                kind: None,
                reason,
            }),
        },
        Kind::Routes => host.served.set_routes(&received.routes),
        Kind::Release => host.handles.release(&received.ids),
        _ => host.metrics.memory.set(received.rss as f64),
    }
}

/// A reason, a version or a list of types as it is logged or shown.
pub(super) fn short(text: &str) -> Cow<'_, str> {
    beginning(text, MAX_REASON)
}

/// The package that the process names. A name that npm would refuse is none of a package.
fn package(host: &NodeHost, received: &Received<'_>) -> Option<SmolStr> {
    let package = received.package.as_ref()?;
    let is_name = |name: &str| {
        let is_in_name = |c: u8| c.is_ascii_alphanumeric() || b"-_.~".contains(&c);
        !name.is_empty() && name.bytes().all(is_in_name)
    };
    let is_package = match package.strip_prefix('@') {
        Some(scoped) => scoped
            .split_once('/')
            .is_some_and(|(scope, name)| is_name(scope) && is_name(name)),
        None => is_name(package),
    };
    if is_package && package.len() <= MAX_PACKAGE_NAME {
        return Some(package.clone());
    }
    host.refuse_control("it named what is no package");
    None
}

/// A message of a package for editors, or the reason why it is refused. Debug nodes inside packaged
/// subflows publish in this way, too.
fn published(host: &NodeHost, received: &Received<'_>) -> Result<events::Event, &'static str> {
    let data = received.data.map_or("", RawValue::get);
    if data.len() > MAX_PUBLISHED {
        return Err("the message is too long for editors");
    }
    let tree: Json = match data {
        "" => Json::Null,
        // Editors get it inside of others, which have to be read as a whole.
        data => serde_json::from_str(&format!("[[[[{data}]]]]"))
            .map(|mut tree: Json| tree[0][0][0][0].take())
            .map_err(|_| "the message is nested too deeply for editors")?,
    };
    if received.topic == "debug" {
        return debug_message(host, tree).map(events::Event::Debug);
    }
    let topic = received.topic.as_str();
    let first = topic.split('/').next().unwrap_or_default();
    if RUNTIME_TOPICS.contains(&first) || topic.len() > MAX_TOPIC {
        return Err("the topic is not one of packages");
    }
    Ok(events::Event::Package {
        topic: received.topic.clone(),
        data: data.into(),
        retain: received.retain,
    })
}

/// A message of a debug node, or the reason why it is refused.
fn debug_message(host: &NodeHost, mut message: Json) -> Result<Json, &'static str> {
    let Some(properties) = message.as_object_mut() else {
        return Err("the debug message is no object");
    };
    let has = |id: &str| host.given(|given| given.has(id).then_some(())).is_some();
    if !properties
        .get("_alias")
        .and_then(Json::as_str)
        .is_some_and(has)
    {
        // That of a node inside a packaged subflow may be the id of another node of the flow set.
        properties.remove("_alias");
    }
    let text = |key: &str| match properties.get(key) {
        None => Some(""),
        // The editor would take `["id"]` for the id.
        Some(value) => value.as_str(),
    };
    let (Some(id), Some(z), Some(path)) = (text("id"), text("z"), text("path")) else {
        return Err("the debug message has no ids");
    };
    match host.given(|given| given.covers_debug(id, z, path).then_some(())) {
        Some(()) => Ok(message),
        None => Err("the debug message is of another node"),
    }
}

/// Pings the process; ends when it does not answer.
pub(super) async fn watch(host: &NodeHost, pulse: &Pulse) -> String {
    let mut silent = 0;
    loop {
        host.send_json(&json!({ "t": "ping" }));
        let unused = host.handles.unused();
        if !unused.is_empty() {
            host.send_json(&json!({ "t": "release", "ids": unused }));
        }
        tokio::time::sleep(PING).await;
        pulse.pings.set(pulse.pings.get() + 1);
        let lives = pulse.heard.replace(false) || pulse.is_paused.get();
        silent = if lives { 0 } else { silent + 1 };
        if silent >= MAX_SILENT {
            return format!(
                "it hangs: no sign of life for {} s",
                PING.as_secs() * u64::from(silent)
            );
        }
    }
}
