//! `file`: appends to, overwrites or deletes a file, one message after the other.
//!
//! The file is written on a blocking thread. When the node closes, what is still queued is written
//! first.

use super::errno::failure;
use super::file_name::FileName;
use crate::node::{BoxedNode, Build, Closing, Host, Node, boxed};
use bytes::Bytes;
use formats::encoding::Encoding;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use value::{Failure, Message, Value, coerce, json, property};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    filename: Json,
    filename_type: Option<SmolStr>,
    append_newline: bool,
    create_dir: bool,
    overwrite_file: Json,
    encoding: SmolStr,
}

struct File {
    name: FileName,
    settings: Settings,
    queue: VecDeque<Job>,
    busy: bool,
    /// Held while a file is written, so that writes at closing come after the one in progress.
    turn: Arc<Mutex<()>>,
}

struct Settings {
    mode: Mode,
    newline: bool,
    create: bool,
    /// `None`: set by `msg.encoding`.
    encoding: Option<Encoding>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Append,
    Overwrite,
    Delete,
}

/// A message and its file operation.
struct Job {
    message: Message,
    task: Task,
}

#[derive(Debug, Clone)]
struct Task {
    path: SmolStr,
    mode: Mode,
    create: bool,
    bytes: Bytes,
}

/// The outcome of the job at the head of the queue.
struct Written(Result<(), Refused>);

/// Why nothing was written.
struct Refused {
    failure: Failure,
    /// The message goes on all the same: that of a failed append does (observed).
    goes_on: bool,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let mode = match &properties.overwrite_file {
        Json::Bool(true) => Mode::Overwrite,
        Json::String(text) if text == "true" => Mode::Overwrite,
        Json::String(text) if text == "delete" => Mode::Delete,
        _ => Mode::Append,
    };
    let encoding = match properties.encoding.as_str() {
        "" => Some(Encoding::Plain),
        "setbymsg" => None,
        name => Some(Encoding::named(name)?),
    };
    Ok(boxed(File {
        name: FileName::parse(properties.filename_type.as_deref(), &properties.filename),
        settings: Settings {
            mode,
            newline: properties.append_newline,
            create: properties.create_dir,
            encoding,
        },
        queue: VecDeque::new(),
        busy: false,
        turn: Arc::default(),
    }))
}

impl Settings {
    /// The bytes to write for this message; `None`: it has no payload, and nothing is written.
    fn bytes(&self, message: &Message) -> Result<Option<Bytes>, Failure> {
        let payload = message.get("payload");
        let mut text = match payload {
            _ if self.mode == Mode::Delete => return Ok(Some(Bytes::new())),
            Value::Undefined => return Ok(None),
            Value::Buffer(bytes) => {
                return Ok(Some(match self.encoding_for(message)? {
                    Encoding::Plain => Bytes::clone(bytes),
                    encoding => encoding.encode(&String::from_utf8_lossy(bytes)).into(),
                }));
            }
            Value::String(_) | Value::Number(_) | Value::Bool(_) => {
                coerce::to_text(payload).to_string()
            }
            other => json::stringify(other).unwrap_or_default(),
        };
        // The last part of a text that was split had no line break.
        let parts = message.get("parts");
        let count = property(parts, "count").as_number();
        let last = property(parts, "index")
            .as_number()
            .map(|index| index + 1.0)
            == count;
        let end = property(parts, "type").as_str() == Some("string") && count.is_some() && last;
        if self.newline && !end {
            text.push('\n');
        }
        Ok(Some(self.encoding_for(message)?.encode(&text).into()))
    }

    fn encoding_for(&self, message: &Message) -> Result<Encoding, Failure> {
        match (self.encoding, message.get("encoding")) {
            (Some(encoding), _) => Ok(encoding),
            (None, Value::String(name)) => Encoding::named(name),
            (None, _) => Ok(Encoding::Plain),
        }
    }
}

impl Task {
    fn run(&self, turn: &Mutex<()>) -> Result<(), Refused> {
        // The lock guards no data that a panic could have left half-way.
        let _turn = turn.lock();
        let refused = |what: &str, call: &str, error: &std::io::Error| {
            let failure = failure(error, call, &self.path);
            Refused {
                failure: Failure::text(format!("{what}: {failure}")),
                goes_on: self.mode == Mode::Append,
            }
        };
        if self.mode == Mode::Delete {
            return fs::remove_file(self.path.as_str())
                .map_err(|e| refused("failed to delete file", "unlink", &e));
        }
        if let Some(directory) = Path::new(self.path.as_str())
            .parent()
            .filter(|_| self.create)
        {
            fs::create_dir_all(directory).map_err(|e| {
                let failure = failure(&e, "mkdir", &directory.to_string_lossy());
                Refused {
                    failure: Failure::text(format!("failed to create file: {failure}")),
                    goes_on: false,
                }
            })?;
        }
        let append = self.mode == Mode::Append;
        let what = if append {
            "failed to append to file"
        } else {
            "failed to write to file"
        };
        OpenOptions::new()
            .create(true)
            .append(append)
            .write(!append)
            .truncate(!append)
            .open(self.path.as_str())
            .map_err(|e| refused(what, "open", &e))?
            .write_all(&self.bytes)
            .map_err(|e| refused(what, "write", &e))
    }
}

impl File {
    /// Starts the job at the head of the queue.
    fn next(&mut self, host: &mut Host<'_, Written>) {
        let Some(job) = self.queue.front().filter(|_| !self.busy) else {
            return;
        };
        self.busy = true;
        let (task, turn) = (job.task.clone(), Arc::clone(&self.turn));
        host.spawn(async move {
            let run = tokio::task::spawn_blocking(move || task.run(&turn));
            Written(run.await.unwrap_or_else(|e| {
                Err(Refused {
                    failure: Failure::error(e.to_string()),
                    goes_on: false,
                })
            }))
        });
    }
}

impl Node<Written> for File {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_, Written>) {
        let path = match self.name.of(&message, host) {
            Ok(Some(path)) => path,
            Ok(None) => {
                message.set("filename", "");
                return host.done(message);
            }
            Err(failure) => return host.error(failure, Some(message)),
        };
        message.set("filename", path.clone());
        let bytes = match self.settings.bytes(&message) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return host.done(message),
            Err(failure) => return host.error(failure, Some(message)),
        };
        let task = Task {
            path,
            mode: self.settings.mode,
            create: self.settings.create,
            bytes,
        };
        self.queue.push_back(Job { message, task });
        self.next(host);
    }

    fn event(&mut self, written: Written, host: &mut Host<'_, Written>) {
        self.busy = false;
        if let Some(Job { message, .. }) = self.queue.pop_front() {
            match written.0 {
                Ok(()) => host.pass(message),
                Err(Refused { failure, goes_on }) => {
                    if goes_on {
                        host.send(0, message.clone());
                    }
                    host.error(failure, Some(message.clone()));
                    host.done(message);
                }
            }
        }
        self.next(host);
    }

    fn close(&mut self, _removed: bool, _host: &mut Host<'_, Written>) -> Option<Closing> {
        // The head of the queue is being written, if one is; the blocking thread finishes it.
        let rest: Vec<Task> = self
            .queue
            .drain(..)
            .skip(usize::from(self.busy))
            .map(|j| j.task)
            .collect();
        if rest.is_empty() && !self.busy {
            return None;
        }
        let turn = Arc::clone(&self.turn);
        Some(Box::pin(async move {
            let wrote = tokio::task::spawn_blocking(move || {
                if rest.is_empty() {
                    drop(turn.lock());
                }
                for task in rest {
                    if let Err(Refused { failure, .. }) = task.run(&turn) {
                        tracing::warn!(%failure, "a file node could not write while it closed");
                    }
                }
            });
            // The panic hook reports a panic.
            let _ = wrote.await;
        }))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn bytes(payload: Value, newline: bool) -> Option<Bytes> {
        let settings = Settings {
            mode: Mode::Append,
            newline,
            create: false,
            encoding: None,
        };
        settings.bytes(&Message::with_payload(payload)).unwrap()
    }

    #[test]
    fn payloads_are_written_as_node_red_writes_them() {
        assert_eq!(bytes("a".into(), true).unwrap(), "a\n");
        assert_eq!(bytes(Value::buffer("B"), true).unwrap(), "B");
        assert_eq!(
            bytes(Value::record([("x", 1.0.into())]), false).unwrap(),
            r#"{"x":1}"#
        );
        assert_eq!(bytes(5.0.into(), false).unwrap(), "5");
        assert_eq!(bytes(Value::Null, false).unwrap(), "null");
        assert_eq!(
            bytes(Value::Date(0.0), false).unwrap(),
            "\"1970-01-01T00:00:00.000Z\""
        );
        assert!(bytes(Value::Undefined, true).is_none());
    }

    #[test]
    fn the_encoding_may_be_the_messages() {
        let settings = Settings {
            mode: Mode::Append,
            newline: false,
            create: false,
            encoding: None,
        };
        let mut message = Message::with_payload("é");
        assert_eq!(settings.bytes(&message).unwrap().unwrap(), "é");
        message.set("encoding", "latin1");
        assert_eq!(settings.bytes(&message).unwrap().unwrap(), &b"\xe9"[..]);
        message.set("encoding", "nope");
        assert!(settings.bytes(&message).is_err());
    }
}
