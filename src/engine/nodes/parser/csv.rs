//! `csv`: turns CSV text into objects and objects into CSV text.

use super::csv_read::{self, Conversion, Spec};
use super::csv_write::Format;
use crate::engine::expression::{coerce, json, property, typed};
use crate::engine::message::Message;
use crate::engine::node::{Build, Host, Level, Node};
use crate::engine::value::{Failure, Value};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::sync::Arc;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    spec: SmolStr,
    sep: SmolStr,
    hdrin: Json,
    hdrout: Json,
    multi: SmolStr,
    ret: SmolStr,
    temp: SmolStr,
    skip: Json,
    strings: Option<bool>,
    include_empty_strings: Json,
    include_null_values: Json,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of the node and what it remembers are unrelated"
)]
struct Csv {
    conversion: Conversion,
    format: Format,
    /// `None`: of several characters, and separates nothing.
    separator: Option<char>,
    template: Vec<SmolStr>,
    header_in: bool,
    header_out: HeaderOut,
    header_sent: bool,
    one_array: bool,
    skip: usize,
    /// The header of the sequence that is being read.
    header: Vec<SmolStr>,
    /// The rows of the sequence that becomes one array.
    gathered: Vec<Value>,
    warned: bool,
    shows_error: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum HeaderOut {
    Never,
    Always,
    Once,
}

/// `msg.parts` of a message that is one of a sequence.
struct Part {
    index: f64,
    count: f64,
}

/// What a text that came was.
struct Parsed {
    rows: Vec<Value>,
    columns: SmolStr,
}

const WRONG_TYPE: &str = "This node only handles CSV strings or js objects.";

pub(in crate::engine::nodes) fn build(build: &Build<'_>) -> Result<Box<dyn Node>, Failure> {
    let properties: Properties = build.properties()?;
    let spec = if properties.spec == "rfc" {
        Spec::Rfc
    } else {
        Spec::Legacy
    };
    let unescape = |text: &str| {
        text.replace("\\t", "\t")
            .replace("\\n", "\n")
            .replace("\\r", "\r")
    };
    let separator = match unescape(&properties.sep) {
        empty if empty.is_empty() => ",".to_owned(),
        given => given,
    };
    let on = |value: &Json| coerce::truthy(&json::from_tree(value));
    let mut characters = separator.chars();
    let skip = coerce::text_to_number(&typed::text_of(&properties.skip));
    Ok(Box::new(Csv {
        conversion: Conversion {
            spec,
            numbers: properties.strings.unwrap_or(true),
            empty_texts: on(&properties.include_empty_strings),
            nulls: on(&properties.include_null_values),
        },
        separator: characters.next().filter(|_| characters.next().is_none()),
        format: Format {
            spec,
            separator: separator.as_str().into(),
            line_end: match (properties.ret.as_str(), spec) {
                ("\\r\\n" | "\r\n", _) | ("", Spec::Rfc) => "\r\n",
                ("\\r" | "\r", _) => "\r",
                _ => "\n",
            },
        },
        template: csv_read::columns(&properties.temp, Some(','), spec)?,
        header_in: on(&properties.hdrin),
        header_out: match typed::text_of(&properties.hdrout).as_str() {
            "" | "none" | "false" => HeaderOut::Never,
            "once" => HeaderOut::Once,
            _ => HeaderOut::Always,
        },
        header_sent: false,
        one_array: properties.multi == "mult",
        skip: if skip >= 1.0 { to_count(skip) } else { 0 },
        header: Vec::new(),
        gathered: Vec::new(),
        warned: false,
        shows_error: false,
    }))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive; more lines than any text has is as good as any larger number"
)]
fn to_count(n: f64) -> usize {
    n as usize
}

impl Part {
    fn of(message: &Message) -> Option<Self> {
        let parts = message.get("parts");
        let index = property(parts, "index").as_number()?;
        let count = property(parts, "count").as_number().unwrap_or(f64::NAN);
        Some(Self { index, count })
    }

    #[expect(
        clippy::float_cmp,
        reason = "both are whole numbers, or nothing matches"
    )]
    fn is_last(&self) -> bool {
        self.index + 1.0 == self.count
    }
}

impl Csv {
    fn parse(
        &mut self,
        text: &str,
        part: Option<&Part>,
        host: &mut Host<'_>,
    ) -> Result<Parsed, Failure> {
        let first = part.is_none_or(|p| p.index == 0.0);
        let text = if first {
            without_lines(text, self.skip)
        } else {
            text
        };
        let spec = self.conversion.spec;
        let mut read = csv_read::rows(text, self.separator, spec);
        if read.open && spec == Spec::Legacy {
            host.log(Level::Warn, "Malformed CSV data - output probably corrupt.");
        }
        let mut rows = read.rows.drain(..).peekable();
        let columns = if self.header_in {
            if first {
                self.header =
                    csv_read::names(rows.next().unwrap_or_default(), spec).inspect_err(|_| {
                        show_error(&mut self.shows_error, "Malformed columns template.", host);
                    })?;
            }
            self.header.clone()
        } else {
            self.template.clone()
        };
        let rows: Vec<_> = rows.collect();
        let columns = if columns.iter().all(SmolStr::is_empty) {
            numbered(&rows, spec)
        } else {
            columns
        };
        Ok(Parsed {
            rows: rows
                .iter()
                .filter_map(|row| self.conversion.object(row, &columns))
                .collect(),
            columns: self.format.names(&columns).into(),
        })
    }

    fn send_rows(&mut self, message: Message, parsed: Parsed, host: &mut Host<'_>) {
        let part = Part::of(&message);
        if self.one_array {
            self.gathered.extend(parsed.rows);
            if part.is_none_or(|p| p.is_last()) {
                let mut out = message.clone();
                out.set("payload", Value::array(std::mem::take(&mut self.gathered)));
                out.set("columns", parsed.columns);
                out.take("parts");
                host.send(0, out);
            }
            return host.done(message);
        }
        let count = parsed.rows.len();
        for (index, row) in parsed.rows.into_iter().enumerate() {
            let mut out = message.clone();
            out.set("payload", row);
            out.set("columns", parsed.columns.clone());
            match &part {
                Some(part) => self.renumber(part, index + 1 == count, &mut out),
                None => out.set(
                    "parts",
                    Value::record([
                        ("id", message.get("_msgid").clone()),
                        ("index", Value::Number(index as f64)),
                        ("count", Value::Number(count as f64)),
                    ]),
                ),
            }
            host.send(0, out);
        }
        host.done(message);
    }

    /// The rows of a part keep its number, less one when the first part was the header.
    fn renumber(&self, part: &Part, last_row: bool, out: &mut Message) {
        if self.header_in
            && let Some(Value::Object(parts)) = out.properties_mut().get_mut("parts")
        {
            let parts = Arc::make_mut(parts);
            let mut less = |name, n: f64| parts.insert(SmolStr::new_static(name), (n - 1.0).into());
            less("index", part.index);
            if !part.count.is_nan() {
                less("count", part.count);
            }
        }
        if part.is_last() && last_row {
            out.set("complete", true);
        }
    }

    /// The text of a payload that is no text, and its columns.
    fn write(
        &mut self,
        message: &Message,
        host: &mut Host<'_>,
    ) -> Result<(String, String), Failure> {
        let payload = message.get("payload");
        let rows: &[Value] = match payload {
            Value::Array(rows) if rows.first().is_none_or(is_object) => rows,
            _ => std::slice::from_ref(payload),
        };
        let spec = self.conversion.spec;
        let mut columns = self.template.clone();
        if let Some(text) = message
            .get("columns")
            .as_str()
            .filter(|_| columns.is_empty())
        {
            columns = csv_read::columns(text, Some(','), spec)?;
        }
        let template = !columns.is_empty();
        let header = match self.header_out {
            HeaderOut::Never => false,
            HeaderOut::Always => true,
            HeaderOut::Once => !self.header_sent,
        };
        let of_arrays = matches!(rows.first(), Some(Value::Array(_)));
        if !template && (header || !of_arrays) {
            columns = keys(rows.first());
            if !header && !rows.is_empty() && !self.warned {
                self.warned = true;
                host.log(
                    Level::Warn,
                    "No columns template specified for object -> CSV.",
                );
            }
        }
        let mut lines = Vec::new();
        if header {
            lines.push(self.format.header(&columns));
            self.header_sent = true;
        }
        lines.extend(self.format.rows(rows, &columns, template)?);
        let told = template || header || spec == Spec::Rfc;
        let names = if told {
            self.format.names(&columns)
        } else {
            String::new()
        };
        let end = self.format.line_end;
        Ok((lines.join(end) + end, names))
    }

    fn refuse(&mut self, message: Message, host: &mut Host<'_>) {
        if self.conversion.spec == Spec::Legacy {
            host.log(Level::Warn, WRONG_TYPE);
            return host.done(message);
        }
        show_error(&mut self.shows_error, WRONG_TYPE, host);
        host.error(Failure::error(WRONG_TYPE), Some(message));
    }
}

fn show_error(shown: &mut bool, text: &'static str, host: &mut Host<'_>) {
    *shown = true;
    host.status(Value::record([
        ("fill", "red".into()),
        ("shape", "dot".into()),
        ("text", text.into()),
    ]));
}

fn is_object(value: &Value) -> bool {
    !matches!(
        value,
        Value::Undefined | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)
    )
}

/// The keys of the first row.
fn keys(row: Option<&Value>) -> Vec<SmolStr> {
    match row {
        Some(Value::Object(object)) => json::entries(object)
            .filter(|(_, value)| !value.is_undefined())
            .map(|(key, _)| key.clone())
            .collect(),
        Some(Value::Array(cells)) => (0..cells.len()).map(|n| n.to_string().into()).collect(),
        _ => Vec::new(),
    }
}

/// `col1`, `col2` …: as many as the first row has fields, for the older parser as the longest.
fn numbered(rows: &[Vec<csv_read::Field>], spec: Spec) -> Vec<SmolStr> {
    let lengths = rows.iter().map(Vec::len);
    let count = match spec {
        Spec::Rfc => lengths.take(1).max(),
        Spec::Legacy => lengths.max(),
    };
    (1..=count.unwrap_or_default())
        .map(|n| format!("col{n}").into())
        .collect()
}

fn without_lines(text: &str, count: usize) -> &str {
    if count == 0 {
        return text;
    }
    text.splitn(count + 1, '\n').nth(count).unwrap_or_default()
}

impl Node for Csv {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_>) {
        if coerce::truthy(message.get("reset")) {
            self.header_sent = false;
        }
        if std::mem::take(&mut self.shows_error) {
            host.status(Value::record([]));
        }
        match message.get("payload").clone() {
            Value::Undefined if coerce::truthy(message.get("reset")) => host.done(message),
            Value::Undefined => host.pass(message),
            Value::String(text) => {
                let part = Part::of(&message);
                match self.parse(&text, part.as_ref(), host) {
                    Ok(parsed) => self.send_rows(message, parsed, host),
                    Err(failure) => host.error(failure, Some(message)),
                }
            }
            Value::Number(_) | Value::Bool(_) | Value::Handle(_) => self.refuse(message, host),
            _ => match self.write(&message, host) {
                Ok((text, columns)) => {
                    message.set("payload", text);
                    message.set("columns", columns);
                    host.pass(message);
                }
                Err(failure) => host.error(failure, Some(message)),
            },
        }
    }
}
