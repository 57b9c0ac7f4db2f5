//! CSV text into rows as RFC 4180 has it, with the forgiveness of Node-RED's parser. Pure.

use smol_str::SmolStr;
use value::{Failure, Object, Value, budget, coerce};

/// The bytes of a cell beside its text, about: its value, its key, and what the allocator adds.
pub(super) const CELL: usize = 64;

/// The bytes of an object beside its cells, about.
pub(super) const ROW: usize = 160;

/// A row; `None` is a cell of which nothing was written, `""` too if it was the last.
pub type Row = Vec<Option<String>>;

/// A text on its way into rows.
struct Reader<'a> {
    text: &'a [char],
    at: usize,
    strict: bool,
    rows: Vec<Row>,
    row: Row,
    cell: String,
    /// Nothing of the cell was read yet.
    fresh: bool,
    /// The cell's quotes were closed.
    closed: bool,
}

/// The rows of a text. `strict`: violations of RFC 4180 are errors.
pub fn rows(text: &[char], separator: Option<char>, strict: bool) -> Result<Vec<Row>, Failure> {
    let mut reader = Reader::new(text, strict);
    while reader.at < text.len() {
        reader.step(separator)?;
    }
    reader.finish()
}

/// The first row, read strictly, and where the next begins.
pub fn header(text: &[char], separator: Option<char>) -> Result<(Vec<SmolStr>, usize), Failure> {
    let mut reader = Reader::new(text, true);
    while reader.at < text.len() && !reader.step(separator)? {}
    let end = reader.at;
    let first = reader.finish()?.into_iter().next();
    Ok((names(first), end))
}

/// A list of columns as a row of its own; `None` if it is not exactly one.
pub fn columns(text: &str) -> Result<Option<Vec<SmolStr>>, Failure> {
    let text: Vec<char> = text.chars().collect();
    let mut rows = rows(&text, Some(','), true)?;
    let first = rows.pop();
    Ok((first.is_some() && rows.is_empty()).then(|| names(first)))
}

fn names(row: Option<Row>) -> Vec<SmolStr> {
    let cells = row.unwrap_or_default().into_iter();
    cells.map(|cell| cell.unwrap_or_default().into()).collect()
}

impl<'a> Reader<'a> {
    fn new(text: &'a [char], strict: bool) -> Self {
        Self {
            text,
            at: 0,
            strict,
            rows: Vec::new(),
            row: Row::new(),
            cell: String::new(),
            fresh: true,
            closed: false,
        }
    }

    fn finish(mut self) -> Result<Vec<Row>, Failure> {
        self.end_row()?;
        Ok(self.rows)
    }

    fn end_cell(&mut self) -> Result<(), Failure> {
        let cell = std::mem::take(&mut self.cell);
        let nothing = cell.is_empty() && self.fresh;
        budget::made(CELL + cell.len())?;
        self.row.push((!nothing).then_some(cell));
        Ok(())
    }

    fn end_row(&mut self) -> Result<(), Failure> {
        if !self.cell.is_empty() {
            self.end_cell()?;
        }
        if !self.row.is_empty() {
            self.rows.push(std::mem::take(&mut self.row));
        }
        Ok(())
    }

    /// Reads on outside quotes; true if a line ended.
    fn step(&mut self, separator: Option<char>) -> Result<bool, Failure> {
        let Some(&c) = self.text.get(self.at) else {
            return Ok(false);
        };
        budget::work(1)?;
        let next = self.text.get(self.at + 1).copied();
        let ends = |c: char| Some(c) == separator || matches!(c, '\n' | '\r');
        match c {
            _ if Some(c) == separator => {
                self.end_cell()?;
                self.begin();
                self.at += 1;
            }
            '"' if self.fresh => {
                self.fresh = false;
                self.at += 1;
                self.quoted()?;
            }
            '"' if self.strict => return Err(broken("UnquotedQuoteError")),
            '"' => {
                self.at += 1;
                // One quote is kept if the cell goes on.
                if next.is_some_and(|next| !ends(next)) {
                    self.cell.push('"');
                    self.at += usize::from(next == Some('"'));
                }
            }
            '\n' | '\r' => {
                self.end_row()?;
                self.begin();
                self.at += 1 + usize::from(next == Some('\n'));
                return Ok(true);
            }
            _ if self.closed && self.strict => return Err(broken("DataAfterCloseError")),
            // The closing quote was none: it is read again.
            _ if self.closed => {
                self.at -= 1;
                self.closed = false;
            }
            _ => {
                self.cell.push(c);
                self.fresh = false;
                self.at += 1;
            }
        }
        Ok(false)
    }

    fn begin(&mut self) {
        self.fresh = true;
        self.closed = false;
    }

    /// Reads up to the closing quote.
    fn quoted(&mut self) -> Result<(), Failure> {
        while let Some(&c) = self.text.get(self.at) {
            budget::work(1)?;
            self.at += 1;
            if c != '"' {
                self.cell.push(c);
            } else if self.text.get(self.at) == Some(&'"') {
                self.cell.push('"');
                self.at += 1;
            } else {
                self.closed = true;
                return Ok(());
            }
        }
        if self.strict {
            return Err(broken("ParseError"));
        }
        Ok(())
    }
}

fn broken(name: &'static str) -> Failure {
    let message = match name {
        "UnquotedQuoteError" => "Quote found in the middle of an unquoted field",
        "DataAfterCloseError" => "Data found after closing quote",
        _ => "Missing quote, unclosed cell",
    };
    Failure {
        name: SmolStr::new_static(name),
        ..Failure::error(message)
    }
}

/// The conversion of cells.
#[derive(Debug, Clone, Copy)]
pub struct Cells {
    /// Texts that are numbers become numbers.
    pub numbers: bool,
    /// Empty texts are kept.
    pub empty_texts: bool,
    /// Missing cells are `null`.
    pub nulls: bool,
}

impl Cells {
    /// A row as an object; `None` if nothing is left of it. A column without a name is left out.
    pub fn object(self, row: &Row, columns: &[SmolStr]) -> Result<Option<Value>, Failure> {
        let mut object = Object::default();
        // A short row visits no further columns: many rows of a cell each may come after a header
        // of many.
        let visited = if self.nulls { columns.len() } else { row.len() };
        budget::made(ROW)?;
        let columns = columns.iter().take(visited).enumerate();
        for (at, name) in columns.filter(|(_, n)| !n.is_empty()) {
            let value = match row.get(at).and_then(Option::as_ref) {
                None if self.nulls => Value::Null,
                None => continue,
                Some(text) if text.is_empty() && !self.empty_texts => continue,
                Some(text) if self.numbers && !text.is_empty() => number(text),
                Some(text) => Value::from(text.as_str()),
            };
            budget::made(CELL + value.as_str().map_or(0, str::len))?;
            object.assign(name.clone(), value);
        }
        Ok((!object.is_empty()).then(|| Value::object(object)))
    }
}

/// Whatever JavaScript's `Number` reads, but nothing with a leading `+` or zeros.
fn number(text: &str) -> Value {
    let start = text.trim_start_matches(' ');
    let digits = start.strip_prefix('-').unwrap_or(start);
    let zeros = digits
        .strip_prefix('0')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let n = coerce::text_to_number(text);
    if start.starts_with('+') || zeros || n.is_nan() {
        Value::from(text)
    } else {
        Value::Number(n)
    }
}

/// `col1`, `col2` …: as many as a row has cells.
pub fn numbered(row: Option<&Row>) -> Vec<SmolStr> {
    (1..=row.map_or(0, Vec::len))
        .map(|n| format!("col{n}").into())
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use testing::scaling::assert_scales;

    #[test]
    fn no_column_is_named_proto_as_in_javascript() {
        let cells = Cells {
            numbers: true,
            empty_texts: true,
            nulls: true,
        };
        let columns = ["__proto__".into(), "a".into(), "constructor".into()];
        let row = |texts: [&str; 3]| Row::from(texts.map(|text| Some(text.to_owned())));
        let value = cells.object(&row(["x", "1", "y"]), &columns).unwrap();
        assert_eq!(
            value
                .and_then(|value| value::json::stringify(&value))
                .unwrap_or_default(),
            r#"{"a":1,"constructor":"y"}"#
        );
        assert!(
            cells
                .object(&Row::from([None]), &columns[..1])
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn short_rows_take_no_time_for_missing_columns() {
        let cells = Cells {
            numbers: false,
            empty_texts: false,
            nulls: false,
        };
        let table = |n: usize| {
            let columns: Vec<SmolStr> = (0..n).map(|k| format!("c{k}").into()).collect();
            (columns, vec![Row::from([Some("x".to_owned())]); n])
        };
        assert_scales(2000, table, |(columns, rows)| {
            for row in &rows {
                assert!(cells.object(row, &columns).unwrap().is_some());
            }
        });
    }
}
