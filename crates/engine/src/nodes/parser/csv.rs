//! `csv`: turns CSV text into objects and objects into CSV text.

use super::csv_part::Part;
use crate::expression::typed;
use crate::node::{BoxedNode, Build, Done, Host, Level, Node, Sequence, Worked, boxed, size};
use crate::nodes::status;
use formats::csv::legacy::{self, Reading, Template};
use formats::csv::rfc::{self, Cells, Row};
use formats::csv::write::{self, Format, Written};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::sync::Arc;
use value::{Extent, Failure, Message, Value, budget, coerce, json, property};

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

struct Csv {
    dialect: Dialect,
    settings: Arc<Settings>,
    header_sent: bool,
    /// The rows of the sequence that becomes one array.
    gathered: Vec<Value>,
    warned: bool,
    shows_error: bool,
}

/// The columns, in the form of one of the two parsers.
#[derive(Clone)]
enum Dialect {
    /// RFC 4180. `None`: the node's columns cannot be read, and it does nothing.
    Rfc(Option<Vec<SmolStr>>),
    /// The older.
    Legacy(Template),
}

struct Settings {
    columns: SmolStr,
    separator: SmolStr,
    line_end: SmolStr,
    cells: Cells,
    header_in: bool,
    header_out: HeaderOut,
    one_array: bool,
    skip: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum HeaderOut {
    Never,
    Always,
    Once,
}

/// A text as rows, and its columns.
#[derive(Default)]
struct Parsed {
    rows: Vec<Value>,
    /// The rows that a sequence's array takes from this part.
    kept: Vec<Value>,
    columns: Value,
}

/// The rows of a text, and the columns by now.
struct Read {
    dialect: Dialect,
    /// `None`: all of the text is skipped.
    parsed: Result<Option<Parsed>, Failure>,
    /// A quote was left open.
    open: bool,
    /// The line of columns cannot be read.
    bad_columns: bool,
}

/// The text of a value that is no text, and the columns by now.
struct Wrote {
    dialect: Dialect,
    /// With what the older writer changes in arrays.
    message: Message,
    written: Result<Written, Failure>,
    header: bool,
    unnamed: bool,
}

enum Event {
    Read(Worked<Read>),
    Wrote(Worked<Wrote>),
    Rest(Sequence),
}

const WRONG_TYPE: &str = "This node only handles CSV strings or js objects.";
const BAD_COLUMNS: &str = "Malformed columns template.";

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let rfc = properties.spec == "rfc";
    let unescape =
        |text: &str| -> SmolStr { text.replace("\\n", "\n").replace("\\r", "\r").into() };
    let on = |value: &Json| coerce::truthy(&json::from_tree(value));
    Ok(boxed(Csv {
        dialect: if rfc {
            Dialect::Rfc(
                rfc::columns(&properties.temp)
                    .map_or(None, |columns| Some(columns.unwrap_or_default())),
            )
        } else {
            Dialect::Legacy(Template::new(&properties.temp))
        },
        settings: Arc::new(Settings {
            separator: match properties.sep.as_str() {
                "" => SmolStr::new_static(","),
                given => unescape(&given.replace("\\t", "\t")),
            },
            line_end: match properties.ret.as_str() {
                "" if rfc => SmolStr::new_static("\r\n"),
                "" => SmolStr::new_static("\n"),
                given => unescape(given),
            },
            cells: Cells {
                numbers: properties.strings.unwrap_or(true),
                empty_texts: on(&properties.include_empty_strings),
                nulls: on(&properties.include_null_values),
            },
            header_in: properties.hdrin == true,
            header_out: match typed::text_of(&properties.hdrout).as_str() {
                "once" => HeaderOut::Once,
                "true" | "all" => HeaderOut::Always,
                // The older parser takes any other word for `all`.
                "" | "none" | "false" => HeaderOut::Never,
                _ if rfc => HeaderOut::Never,
                _ => HeaderOut::Always,
            },
            one_array: !matches!(properties.multi.as_str(), "" | "one"),
            skip: skip(&properties.skip),
            columns: properties.temp,
        }),
        header_sent: false,
        gathered: Vec::new(),
        warned: false,
        shows_error: false,
    }))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and what is no number is 0"
)]
fn skip(value: &Json) -> usize {
    coerce::parse_float(&typed::text_of(value)) as usize
}

impl Settings {
    /// Whether the columns may still come, and how many lines of this text are skipped.
    fn start(&self, part: Option<&Part>) -> (bool, usize) {
        let index = part.map_or(0.0, |p| p.index);
        let first = index.is_nan() || index <= self.skip as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates"
        )]
        let skip = self.skip.saturating_sub(index as usize);
        (first, skip)
    }

    /// The rows of a part keep its number, less the lines that were no rows.
    fn renumber(&self, part: &Part, out: &mut Message) {
        let less = self.skip as f64 + f64::from(u8::from(self.header_in));
        out.properties_mut().modify("parts", |parts| {
            let Value::Object(parts) = parts else { return };
            let parts = Arc::make_mut(parts);
            for (name, n) in [("index", part.index), ("count", part.count)] {
                parts.insert(SmolStr::new_static(name), Value::Number(n - less));
            }
        });
        if part.ends() {
            out.set("complete", true);
        }
    }

    /// Rows as objects; if no column has a name, the columns are numbered.
    fn objects(&self, rows: &[Row], template: &[SmolStr]) -> Result<Parsed, Failure> {
        let columns = if write::has_none(template) {
            rfc::numbered(rows.first())
        } else {
            template.to_vec()
        };
        if self.cells.nulls {
            // Every row has a value in every column, however short the text.
            let values = rows.len().saturating_mul(columns.len());
            Extent::of(2, u32::try_from(values).unwrap_or(u32::MAX)).check(0)?;
        }
        let rows: Vec<Value> = rows
            .iter()
            .filter_map(|row| self.cells.object(row, &columns).transpose())
            .collect::<Result<_, _>>()?;
        Ok(Parsed {
            kept: rows.clone(),
            rows,
            columns: write::column_list(&columns).into(),
        })
    }
}

impl Read {
    /// Reads a text. Fails if that exceeds the budget.
    fn of(
        text: &str,
        part: Option<&Part>,
        settings: &Settings,
        dialect: &Dialect,
    ) -> Result<Self, Failure> {
        let mut read = Self {
            dialect: dialect.clone(),
            parsed: Ok(None),
            open: false,
            bad_columns: false,
        };
        read.parsed = read.parse(text, part, settings);
        budget::check()?;
        Ok(read)
    }

    /// The rows of a text; `None`: all of it is skipped.
    fn parse(
        &mut self,
        text: &str,
        part: Option<&Part>,
        settings: &Settings,
    ) -> Result<Option<Parsed>, Failure> {
        let (mut first, skip) = settings.start(part);
        let several = |text: &str| part.is_some() && text.matches(['\n', '\r']).count() > 1;
        let template = match &mut self.dialect {
            Dialect::Legacy(template) => {
                let again = first || settings.one_array && several(text);
                let read = Reading {
                    template,
                    separator: &settings.separator,
                    cells: settings.cells,
                    header: settings.header_in && again,
                    skip: if again { skip } else { 0 },
                }
                .read(text)?;
                self.open = read.open;
                return Ok(Some(Parsed {
                    rows: read.rows,
                    kept: read.last.into_iter().collect(),
                    columns: legacy::column_list(&template.names, false).into(),
                }));
            }
            Dialect::Rfc(template) => template.get_or_insert_default(),
        };
        let text = match skip {
            0 => text,
            _ => match without_lines(text, skip) {
                "" => return Ok(None),
                rest => rest,
            },
        };
        first |= settings.one_array && several(text);
        let text: Vec<char> = text.chars().collect();
        let mut rest = text.as_slice();
        let mut characters = settings.separator.chars();
        let separator = characters.next().filter(|_| characters.next().is_none());
        if first && settings.header_in {
            let header = rfc::header(rest, separator);
            self.bad_columns = header.is_err();
            let (names, end) = header?;
            *template = names;
            rest = rest.get(end..).unwrap_or_default();
        }
        let rows = rfc::rows(rest, separator, false)?;
        settings.objects(&rows, template).map(Some)
    }
}

impl Wrote {
    /// Writes a payload that is no text. Fails if that exceeds the budget.
    fn of(
        message: &Message,
        settings: &Settings,
        dialect: &Dialect,
        header: bool,
    ) -> Result<Self, Failure> {
        let mut wrote = Self {
            dialect: dialect.clone(),
            message: message.clone(),
            written: Ok(Written::default()),
            header,
            unnamed: false,
        };
        wrote.written = wrote.write(settings);
        budget::check()?;
        Ok(wrote)
    }

    fn write(&mut self, settings: &Settings) -> Result<Written, Failure> {
        let format = Format {
            separator: settings.separator.clone(),
            line_end: settings.line_end.clone(),
            header: self.header,
        };
        let message = &mut self.message;
        // A later part of a sequence has the columns of the first, unless the node has its own.
        let later = property(message.get("parts"), "index").as_number() > Some(0.0);
        match &mut self.dialect {
            Dialect::Rfc(template) => {
                let template = template.get_or_insert_default();
                let own = rfc::columns(&settings.columns)?.unwrap_or_default();
                if !(later && write::has_none(&own)) {
                    *template = own;
                }
                format.rfc(message, template, &mut self.unnamed)
            }
            Dialect::Legacy(template) => {
                if !(later && Template::new(&settings.columns).is_empty()) {
                    template.read(&settings.columns, None);
                }
                format.legacy(message, template, &mut self.unnamed)
            }
        }
    }
}

impl Csv {
    fn read(&mut self, message: Message, text: SmolStr, host: &mut Host<'_, Event>) {
        let (settings, dialect) = (Arc::clone(&self.settings), self.dialect.clone());
        let part = Part::of(&message);
        let worked = host.work(message, text.len(), Event::Read, move || {
            Read::of(&text, part.as_ref(), &settings, &dialect)
        });
        if let Some(worked) = worked {
            self.have_read(worked, host);
        }
    }

    fn have_read(&mut self, worked: Worked<Read>, host: &mut Host<'_, Event>) {
        let message = worked.message;
        let read = match worked.result {
            Ok(read) => read,
            Err(failure) => return host.error(failure, Some(message)),
        };
        self.dialect = read.dialect;
        if read.open {
            host.log(Level::Warn, "Malformed CSV data - output probably corrupt.");
        }
        if read.bad_columns {
            show_error(&mut self.shows_error, BAD_COLUMNS, host);
        }
        match read.parsed {
            Ok(Some(parsed)) if self.settings.one_array => self.send_array(message, parsed, host),
            Ok(Some(parsed)) => {
                let rows = self.rows(message, parsed);
                host.send_sequence(rows, Event::Rest);
            }
            // A skipped text is not reported (observed).
            Ok(None) => {}
            Err(failure) => host.error(failure, Some(message)),
        }
    }

    /// All rows in one message; those of a sequence of lines in one for all.
    fn send_array(&mut self, mut message: Message, parsed: Parsed, host: &mut Host<'_, Event>) {
        let text = message.get("payload").as_str().unwrap_or_default();
        let has_one_line = text.matches(['\n', '\r']).count() <= 1;
        let Some(part) = Part::of(&message).filter(|_| has_one_line) else {
            message.set("payload", Value::array(parsed.rows));
            message.set("columns", parsed.columns);
            return host.pass(message);
        };
        self.gathered.extend(parsed.kept);
        if !part.is_last() {
            return host.done(message);
        }
        message.set("payload", Value::array(std::mem::take(&mut self.gathered)));
        message.set("columns", parsed.columns);
        message.take("parts");
        host.pass(message);
    }

    /// Each row in a message of its own.
    fn rows(&self, message: Message, parsed: Parsed) -> Sequence {
        let settings = Arc::clone(&self.settings);
        let part = Part::of(&message);
        let count = parsed.rows.len();
        let ends = count == 0 && part.as_ref().is_some_and(Part::ends);
        let end = ends.then(|| {
            let mut end = Message::default();
            end.set("complete", true);
            end
        });
        let original = message.clone();
        let rows = parsed.rows.into_iter().enumerate();
        let messages = rows.map(move |(index, row)| {
            let mut out = message.clone();
            out.set("payload", row);
            out.set("columns", parsed.columns.clone());
            match &part {
                Some(part) => settings.renumber(part, &mut out),
                None => out.set(
                    "parts",
                    Value::record([
                        ("id", message.get("_msgid").clone()),
                        ("index", Value::Number(index as f64)),
                        ("count", Value::Number(count as f64)),
                    ]),
                ),
            }
            out
        });
        Sequence {
            messages: Box::new(messages.chain(end).map(Ok)),
            done: Done::Message(original),
        }
    }

    /// Turns a payload that is no text into one.
    fn write(&mut self, message: Message, host: &mut Host<'_, Event>) {
        let (settings, dialect) = (Arc::clone(&self.settings), self.dialect.clone());
        let header = match settings.header_out {
            HeaderOut::Never => false,
            HeaderOut::Always => true,
            HeaderOut::Once => !self.header_sent,
        };
        let (bytes, given) = (size(message.get("payload")), message.clone());
        let worked = host.work(message, bytes, Event::Wrote, move || {
            Wrote::of(&given, &settings, &dialect, header)
        });
        if let Some(worked) = worked {
            self.have_written(worked, host);
        }
    }

    fn have_written(&mut self, worked: Worked<Wrote>, host: &mut Host<'_, Event>) {
        let wrote = match worked.result {
            Ok(wrote) => wrote,
            Err(failure) => return host.error(failure, Some(worked.message)),
        };
        self.dialect = wrote.dialect;
        let mut message = wrote.message;
        if wrote.unnamed && !self.warned {
            self.warned = true;
            let warning = "No columns template specified for object -> CSV.";
            host.log(Level::Warn, warning);
        }
        match wrote.written {
            Ok(written) => {
                let once = self.settings.header_out == HeaderOut::Once;
                self.header_sent |= wrote.header && once;
                message.set("payload", written.text);
                message.set("columns", written.columns);
                host.pass(message);
            }
            Err(failure) => host.error(failure, Some(message)),
        }
    }

    fn refuse(&mut self, message: Message, host: &mut Host<'_, Event>) {
        if matches!(self.dialect, Dialect::Legacy(_)) {
            host.log(Level::Warn, WRONG_TYPE);
            return host.done(message);
        }
        show_error(&mut self.shows_error, WRONG_TYPE, host);
        host.error(Failure::error(WRONG_TYPE), Some(message));
    }
}

fn show_error(shown: &mut bool, text: &'static str, host: &mut Host<'_, Event>) {
    *shown = true;
    host.status(status("red", "dot", text));
}

/// A CR counts for a line, and so does the LF after it (observed).
fn without_lines(text: &str, count: usize) -> &str {
    match text.match_indices(['\n', '\r']).nth(count - 1) {
        Some((at, _)) => text.get(at + 1..).unwrap_or_default(),
        None => "",
    }
}

impl Node<Event> for Csv {
    fn start(&mut self, host: &mut Host<'_, Event>) {
        if matches!(self.dialect, Dialect::Rfc(None)) {
            host.log(Level::Warn, BAD_COLUMNS);
            show_error(&mut self.shows_error, BAD_COLUMNS, host);
        }
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_, Event>) {
        if matches!(self.dialect, Dialect::Rfc(None)) {
            return;
        }
        let reset = message.properties().contains_key("reset");
        if reset {
            self.header_sent = false;
        }
        if std::mem::take(&mut self.shows_error) {
            host.status(Value::record([]));
        }
        match message.get("payload").clone() {
            Value::Undefined if reset => host.done(message),
            Value::Undefined => host.pass(message),
            Value::String(text) => self.read(message, text, host),
            Value::Number(_) | Value::Bool(_) | Value::Handle(_) => self.refuse(message, host),
            _ => self.write(message, host),
        }
    }

    fn event(&mut self, event: Event, host: &mut Host<'_, Event>) {
        match event {
            Event::Read(worked) => self.have_read(worked, host),
            Event::Wrote(worked) => self.have_written(worked, host),
            Event::Rest(rest) => host.send_sequence(rest, Event::Rest),
        }
    }
}
