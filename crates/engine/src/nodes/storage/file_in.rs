//! `file in`: reads a file as text, buffer, lines or chunks, one message after the other.
//!
//! The file is read on a blocking thread, a chunk at a time: a long file is never held whole unless
//! it is sent whole.

use super::file_name::FileName;
use super::file_read::{CHUNK, Format, Reading, Step};
use crate::node::{BoxedNode, Build, Host, Node, boxed};
use formats::encoding::Encoding;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::VecDeque;
use std::sync::Arc;
use value::{Failure, Message, Value};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    filename: Json,
    filename_type: Option<SmolStr>,
    format: SmolStr,
    send_error: Option<bool>,
    encoding: SmolStr,
    all_props: bool,
}

struct FileIn {
    name: FileName,
    format: Format,
    encoding: Encoding,
    send_error: bool,
    all_properties: bool,
    queue: VecDeque<Message>,
    /// The number of pieces sent of the file at the head of the queue; `None`: nothing is being
    /// read.
    sent: Option<u64>,
}

/// The result of a step on the blocking thread.
type Stepped = Result<(Reading, Step), Failure>;

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    Ok(boxed(FileIn {
        name: FileName::parse(properties.filename_type.as_deref(), &properties.filename),
        format: match properties.format.as_str() {
            "lines" => Format::Lines,
            "stream" => Format::Stream,
            "utf8" => Format::Text,
            _ => Format::Buffer,
        },
        encoding: match properties.encoding.as_str() {
            "" => Encoding::Plain,
            name => Encoding::named(name)?,
        },
        send_error: properties.send_error.unwrap_or(true),
        all_properties: properties.all_props,
        queue: VecDeque::new(),
        sent: None,
    }))
}

impl FileIn {
    /// Opens the file of the message at the head of the queue.
    fn next(&mut self, host: &mut Host<'_, Stepped>) {
        let Some(message) = self.queue.front().filter(|_| self.sent.is_none()) else {
            return;
        };
        self.sent = Some(0);
        let path = message.get("filename").clone();
        let (format, encoding) = (self.format, self.encoding);
        self.step(host, move || {
            Reading::open(path.as_str().unwrap_or_default(), format, encoding)
        });
    }

    /// The message that carries a piece of a sequence: all properties of the request, or two of
    /// them.
    fn carrier(&self, request: &Message) -> Message {
        if self.all_properties {
            return request.clone();
        }
        let mut message = Message::default();
        message.set("topic", request.get("topic").clone());
        message.set("filename", request.get("filename").clone());
        message
    }

    fn send(&mut self, request: &mut Message, step: Step, host: &mut Host<'_, Stepped>) {
        let index = self.sent.unwrap_or_default();
        let count = step.pieces.len() as u64;
        self.sent = Some(index + count);
        if !self.format.is_sequence() {
            if let Some(whole) = step.pieces.into_iter().next() {
                request.set("payload", whole);
                host.send(0, request.clone());
            }
            return;
        }
        let total = index + count;
        for (index, piece) in (index..).zip(step.pieces) {
            // A full chunk is not marked as the last (observed).
            let full = matches!(&piece, Value::Buffer(bytes) if bytes.len() == CHUNK);
            let count = (step.last && index + 1 == total && !full).then_some(total);
            let ends = step.last && index + 1 == total && full;
            let mut message = self.carrier(request);
            message.set("payload", piece);
            message.set("parts", self.parts(request, index, count));
            host.send(0, message);
            if ends {
                let mut end = Message::default();
                end.set("parts", self.parts(request, total, Some(total)));
                host.send(0, end);
            }
        }
    }

    fn parts(&self, request: &Message, index: u64, count: Option<u64>) -> Value {
        let (kind, between) = match self.format {
            Format::Lines => ("string", "\n"),
            _ => ("buffer", ""),
        };
        let mut parts = Value::record([
            ("index", Value::Number(index as f64)),
            ("ch", between.into()),
            ("type", kind.into()),
            ("id", request.get("_msgid").clone()),
        ]);
        if let (Some(count), Value::Object(parts)) = (count, &mut parts) {
            Arc::make_mut(parts).insert(SmolStr::new_static("count"), Value::Number(count as f64));
        }
        parts
    }

    /// Takes the next step of a reading on a blocking thread; of a sequence as soon as the flow has
    /// room for it.
    fn step(
        &self,
        host: &mut Host<'_, Stepped>,
        reading: impl FnOnce() -> Result<Reading, Failure> + Send + 'static,
    ) {
        let source = self.format.is_sequence().then(|| host.source());
        let work = move || -> Stepped {
            let mut reading = reading()?;
            let step = reading.step()?;
            Ok((reading, step))
        };
        host.spawn(async move {
            if let Some(source) = source {
                source.room().await;
            }
            let stepped = tokio::task::spawn_blocking(work).await;
            stepped.unwrap_or_else(|e| Err(Failure::error(e.to_string())))
        });
    }

    fn fail(&self, failure: Failure, request: &Message, host: &mut Host<'_, Stepped>) {
        host.error(failure.clone(), Some(request.clone()));
        if self.send_error {
            let mut message = request.clone();
            message.take("payload");
            message.set("error", Value::Error(Arc::new(failure)));
            host.send(0, message);
        }
    }
}

impl Node<Stepped> for FileIn {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_, Stepped>) {
        match self.name.of(&message, host) {
            Ok(Some(path)) => {
                message.set("filename", path.replace(['\t', '\r', '\n'], ""));
                self.queue.push_back(message);
                self.next(host);
            }
            Ok(None) => host.done(message),
            Err(failure) => host.error(failure, Some(message)),
        }
    }

    fn event(&mut self, stepped: Stepped, host: &mut Host<'_, Stepped>) {
        let Some(mut request) = self.queue.front().cloned() else {
            return;
        };
        match stepped {
            Ok((reading, piece)) => {
                let last = piece.last;
                self.send(&mut request, piece, host);
                if !last {
                    return self.step(host, move || Ok(reading));
                }
            }
            Err(failure) => self.fail(failure, &request, host),
        }
        self.queue.pop_front();
        self.sent = None;
        host.done(request);
        self.next(host);
    }
}
