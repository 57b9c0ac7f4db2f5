//! The two sockets of a process: one takes frames to it, the other brings its frames and takes the answers to its
//! questions.

use super::questions;
use super::received::{Kind, Received};
use super::{NodeHost, frame};
use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;
use std::cell::Cell;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, BufReader, BufWriter};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// The interval at which the host is asked whether it lives. Our choice.
const PING: Duration = Duration::from_secs(5);

/// Intervals without a frame after which the host counts as hung. Our choice: packages block for some seconds while they
/// open a device, not for fifteen.
const MAX_SILENT: u32 = 3;

/// Bytes that are read or written at once: as many as Node.js reads at once.
const BUFFER: usize = 64 << 10;

/// Frames that are taken at once to be written.
const MAX_READY: usize = 64;

/// How often a reader that waits for a flow looks again.
const LOOK: Duration = Duration::from_millis(50);

/// Whether the process has sent a frame since the last ping, or may not send one now.
#[derive(Default)]
pub(super) struct Pulse {
    heard: Cell<bool>,
    is_paused: Cell<bool>,
    pub(super) pings: Cell<u32>,
}

/// Writes frames to the process, those that are ready together. Ends with an error.
pub(super) async fn write(
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
        }
        if let Err(error) = socket.flush().await {
            return error;
        }
    }
    io::ErrorKind::BrokenPipe.into()
}

/// Reads the frames of the process, while the flows that have foreign nodes have room. Ends with the reason.
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

/// Waits until the flows that have foreign nodes have room. During a deployment nothing waits: the host must be able to
/// finish its part.
async fn room(host: &NodeHost) {
    while !host.is_holding.get() && host.pressure.is_foreign_full() {
        let _ = tokio::time::timeout(LOOK, host.pressure.changed()).await;
    }
}

/// Handles a frame that is of no node.
fn control(host: &NodeHost, received: &Received<'_>) {
    match received.t {
        Kind::Ready => {
            let version = received.node.as_deref().unwrap_or_default();
            tracing::info!(target: "node_host", node = version, runtime = received.version, "the node host has loaded its packages");
            for set in &received.sets {
                let (id, version) = (&set.id, &set.version);
                if let Some(error) = &set.error {
                    tracing::warn!(target: "node_host", set = id, version, error, "a node set was not loaded");
                } else {
                    let types = set.types.join(", ");
                    tracing::info!(target: "node_host", set = id, version, types, "a node set was loaded");
                }
            }
            host.ready(&received.sets);
        }
        Kind::Loading => {
            let mut culprits = host.culprits.borrow_mut();
            culprits.loading(received.package.clone());
        }
        Kind::Failed => {
            host.culprits.borrow_mut().blame(received.package.clone());
            host.kill(received.error.as_deref().unwrap_or("it failed"));
        }
        Kind::Deployed => {
            let done = host.pending.borrow_mut().remove(&received.number);
            // Nothing may wait for it any more.
            let _ = done.map(|done| done.send(received.error.clone()));
        }
        Kind::Taken => host.taken(received.bytes),
        Kind::Published => host.events.publish(published(received)),
        Kind::Routes => host.served.set_routes(&received.routes),
        Kind::Release => host.handles.release(&received.ids),
        _ => host.metrics.memory.set(received.rss as f64),
    }
}

/// A message of a package for editors. Debug nodes inside packaged subflows publish so, too.
fn published(received: &Received<'_>) -> events::Event {
    let data = received.data.map_or("", RawValue::get);
    if received.topic == "debug" {
        return events::Event::Debug(serde_json::from_str(data).unwrap_or_default());
    }
    events::Event::Package {
        topic: received.topic.clone(),
        data: data.into(),
        retain: received.retain,
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
