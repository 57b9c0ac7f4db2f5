//! CSV text into objects as Node-RED's older parser reads it: quotes toggle anywhere, column names
//! are found on the way. Pure.

use super::rfc::{CELL, Cells, ROW};
use smol_str::SmolStr;
use value::{Failure, Object, Value, budget, coerce, json};

/// The columns, and how their list is split; kept from message to message.
#[derive(Debug, Clone)]
pub struct Template {
    /// The names of the columns.
    pub names: Vec<SmolStr>,
    /// The separator of column lists; `read` may replace it.
    separator: String,
    /// True if names were given; else they are `col1`, `col2` ….
    given: bool,
}

impl Template {
    /// The columns of a list that is separated by commas.
    pub fn new(list: &str) -> Self {
        let mut template = Self {
            names: Vec::new(),
            separator: ",".to_owned(),
            given: false,
        };
        template.read(list, None);
        template
    }

    /// Takes the names from a list. They are split at separators with an even number of quotes
    /// after them.
    pub fn read(&mut self, list: &str, separator: Option<&str>) {
        if let Some(separator) = separator {
            separator.clone_into(&mut self.separator);
        }
        let list = list.trim();
        let quotes_in_separator = self.separator.matches('"').count();
        let mut names: Vec<String> = vec![String::new()];
        let mut rest = list;
        let mut quotes = list.matches('"').count();
        while let Some(c) = rest.chars().next() {
            let after = rest.strip_prefix(self.separator.as_str());
            if let Some(after) = after
                && (quotes - quotes_in_separator).is_multiple_of(2)
            {
                quotes -= quotes_in_separator;
                names.push(String::new());
                rest = after;
                continue;
            }
            quotes -= usize::from(c == '"');
            if let Some(name) = names.last_mut().filter(|_| c != '"') {
                name.push(c);
            }
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
        self.names = names.iter().map(|name| name.trim().into()).collect();
        self.given = !self.is_empty();
    }

    /// Returns whether there is only one name, and that is empty.
    pub fn is_empty(&self) -> bool {
        matches!(self.names.as_slice(), [name] if name.is_empty())
    }

    fn name(&mut self, at: usize) -> Option<SmolStr> {
        if !self.given {
            let name = format!("col{}", at + 1).into();
            match self.names.get_mut(at) {
                Some(slot) => *slot = name,
                None => self.names.push(name),
            }
        }
        self.names.get(at).filter(|name| !name.is_empty()).cloned()
    }
}

/// The options for reading a text.
pub struct Reading<'a> {
    /// The columns.
    pub template: &'a mut Template,
    /// The separator of cells.
    pub separator: &'a str,
    /// The conversion of cells.
    pub cells: Cells,
    /// True if the first line is a list of columns that is still to come.
    pub header: bool,
    /// Lines to be left out.
    pub skip: usize,
}

/// The result of reading.
#[derive(Default)]
pub struct Read {
    /// The rows that line breaks ended.
    pub rows: Vec<Value>,
    /// The row that no line break ended, if it is anything.
    pub last: Option<Value>,
    /// A quote was left open.
    pub open: bool,
}

impl Reading<'_> {
    /// Reads the text.
    pub fn read(mut self, text: &str) -> Result<Read, Failure> {
        let text: Vec<char> = text.chars().collect();
        let mut read = Read::default();
        let (mut row, mut cell, mut header) = (Row::default(), Some(String::new()), String::new());
        for (i, &c) in text.iter().enumerate() {
            budget::work(1)?;
            let (before, last) = (
                i.checked_sub(1).and_then(|i| text.get(i)).copied(),
                i + 1 == text.len(),
            );
            if self.skip > 0 {
                self.skip -= usize::from(c == '\n');
            } else if self.header {
                let ends = matches!(c, '\n' | '\r');
                if !ends || last {
                    header.push(c);
                }
                if ends || last {
                    self.template.read(&header, Some(self.separator));
                    self.header = false;
                }
            } else if c == '"' {
                read.open = !read.open;
                if let Some(cell) = cell.as_mut().filter(|_| read.open && before == Some('"')) {
                    cell.push('"');
                }
            } else if self.separates(c) && !read.open {
                let name = self.template.name(row.cells);
                if name.is_some() {
                    let Some(before) = before else {
                        return Err(no_before());
                    };
                    if self.separates(before) || before == '\n' {
                        cell = None;
                    }
                }
                row.put(name, cell, self.cells)?;
                cell = (!last).then(String::new);
            } else if matches!(c, '\n' | '\r') && !read.open {
                let name = self.template.name(row.cells);
                if before.is_some_and(|before| self.separates(before)) {
                    cell = None;
                }
                row.put(name, cell, self.cells)?;
                read.rows.extend(std::mem::take(&mut row).value());
                cell = Some(String::new());
            } else if let Some(cell) = &mut cell {
                cell.push(c);
            }
        }
        let name = self.template.name(row.cells);
        row.put(name, cell, self.cells)?;
        read.last = row.value();
        read.rows.extend(read.last.clone());
        Ok(read)
    }

    fn separates(&self, c: char) -> bool {
        let mut separator = self.separator.chars();
        separator.next() == Some(c) && separator.next().is_none()
    }
}

/// A separator at the very begin is more than the older parser can bear (observed).
fn no_before() -> Failure {
    Failure {
        name: SmolStr::new_static("TypeError"),
        ..Failure::error("Cannot read properties of undefined (reading 'includes')")
    }
}

/// A row on its way.
#[derive(Default)]
struct Row {
    object: Object,
    /// The number of cells read.
    cells: usize,
}

impl Row {
    fn put(
        &mut self,
        name: Option<SmolStr>,
        cell: Option<String>,
        cells: Cells,
    ) -> Result<(), Failure> {
        self.cells += 1;
        let Some(name) = name else { return Ok(()) };
        let value = match cell {
            None if cells.nulls => Value::Null,
            Some(text) if text.is_empty() && cells.empty_texts => Value::from(""),
            Some(text) if cells.numbers && is_number(text.trim()) => {
                Value::Number(coerce::parse_float(text.trim()))
            }
            Some(text) if !text.is_empty() => Value::from(text),
            _ => return Ok(()),
        };
        let row = if self.object.is_empty() { ROW } else { 0 };
        budget::made(row + CELL + value.as_str().map_or(0, str::len))?;
        self.object.assign(name, value);
        Ok(())
    }

    fn value(self) -> Option<Value> {
        (!self.object.is_empty()).then(|| Value::object(self.object))
    }
}

/// `/^[-]?(?!E)(?!0\d)\d*\.?\d*(E-?\+?)?\d+$/i`, as the older parser has it.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        rest.iter().take_while(|b| b.is_ascii_digit()).count()
    };
    if matches!(bytes, [b'e' | b'E', ..] | [b'0', b'0'..=b'9', ..]) {
        return false;
    }
    let mut at = digits(0);
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        at += digits(at);
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        at += usize::from(bytes.get(at) == Some(&b'-'));
        at += usize::from(bytes.get(at) == Some(&b'+'));
        at += digits(at);
    }
    at == bytes.len() && bytes.last().is_some_and(u8::is_ascii_digit)
}

/// Names as `msg.columns` has them: quoted only if they have a comma.
pub fn column_list(names: &[SmolStr], keep_empty: bool) -> String {
    let kept = names.iter().filter(|name| keep_empty || !name.is_empty());
    let quoted: Vec<String> = kept.map(|name| quoted_if(name, ",")).collect();
    quoted.join(",")
}

/// A name, quoted if it has a separator.
pub fn quoted_if(name: &str, separator: &str) -> String {
    if name.contains(separator) {
        format!("\"{name}\"")
    } else {
        name.to_owned()
    }
}

/// The keys that a list of columns is made of where none is given.
pub fn keys(row: Option<&Value>) -> Result<Vec<SmolStr>, Failure> {
    let places = |count: usize| Ok((0..count).map(|n| n.to_string().into()).collect());
    match row {
        None | Some(Value::Undefined | Value::Null) => Err(Failure {
            name: SmolStr::new_static("TypeError"),
            ..Failure::error("Cannot convert undefined or null to object")
        }),
        Some(Value::Object(object)) => Ok(json::entries(object).map(|(k, _)| k.clone()).collect()),
        Some(Value::Array(cells)) => places(cells.len()),
        Some(Value::Buffer(bytes)) => places(bytes.len()),
        Some(Value::String(text)) => places(text.encode_utf16().count()),
        Some(_) => Ok(Vec::new()),
    }
}
