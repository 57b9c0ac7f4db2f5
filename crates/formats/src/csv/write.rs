//! Values into CSV text, as Node-RED's two writers write it.

use super::legacy::{self, Template};
use super::rfc;
use smol_str::SmolStr;
use std::borrow::Cow;
use std::sync::Arc;
use value::{Failure, Message, Object, Value, budget, coerce, json, property};

/// The format of a text.
#[derive(Debug, Clone)]
pub struct Format {
    /// The separator of cells.
    pub separator: SmolStr,
    /// The end of a line.
    pub line_end: SmolStr,
    /// True if the columns come first.
    pub header: bool,
}

/// The CSV text, and its columns.
#[derive(Default)]
pub struct Written {
    /// The text.
    pub text: String,
    /// The new value of `msg.columns`.
    pub columns: String,
}

/// The lines of a text on their way.
struct Lines<'a> {
    format: &'a Format,
    message: &'a Message,
    done: Vec<String>,
    /// Set if rows have no columns given.
    unnamed: &'a mut bool,
}

impl Format {
    /// As RFC 4180 has it. The template is kept for the rest of a sequence.
    pub fn rfc(
        &self,
        message: &Message,
        template: &mut Vec<SmolStr>,
        unnamed: &mut bool,
    ) -> Result<Written, Failure> {
        let payload = message.get("payload");
        let rows = match payload {
            Value::Array(rows) if rows.first().is_none_or(is_object) => &rows[..],
            _ => std::slice::from_ref(payload),
        };
        let mut lines = Lines::new(self, message, unnamed);
        if self.header {
            if has_none(template) {
                *template = match lines.columns() {
                    Some(columns) => rfc::columns(&columns)?.unwrap_or_default(),
                    None => legacy::keys(rows.first())?,
                };
            }
            let names: Vec<String> = template.iter().map(|n| self.rfc_cell(n)).collect();
            lines.done.push(names.join(&self.separator));
        }
        let of_arrays = matches!(rows.first(), Some(Value::Array(_)));
        for row in rows {
            let line = if of_arrays {
                self.rfc_array(row, template)?
            } else {
                lines.rfc_object(row, rows.first(), template)?
            };
            budget::made(line.len())?;
            lines.done.push(line);
        }
        Ok(lines.written(column_list(template)))
    }

    fn rfc_array(&self, row: &Value, template: &[SmolStr]) -> Result<String, Failure> {
        let cells = row.as_array().unwrap_or_default();
        let all = has_none(template);
        let count = if all { cells.len() } else { template.len() };
        let texts = (0..count).map(|at| {
            budget::made(self.separator.len() + size_of::<String>())?;
            if !all && template.get(at).is_none_or(SmolStr::is_empty) {
                return Ok(String::new());
            }
            Ok(self.rfc_cell(&text(cells.get(at).unwrap_or(&Value::Undefined))?))
        });
        Ok(texts.collect::<Result<Vec<_>, _>>()?.join(&self.separator))
    }

    /// A cell, in quotes where RFC 4180 wants them.
    pub fn rfc_cell(&self, cell: &str) -> String {
        let separated = !self.separator.is_empty() && cell.contains(self.separator.as_str());
        if separated || cell.contains(['"', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.to_owned()
        }
    }

    /// Writes like the older writer. If it fails, its changes to arrays so far stay in the message
    /// (observed).
    pub fn legacy(
        &self,
        message: &mut Message,
        template: &mut Template,
        unnamed: &mut bool,
    ) -> Result<Written, Failure> {
        let payload = message.get("payload").clone();
        let mut rows = match payload {
            Value::Array(rows) => rows.to_vec(),
            other => vec![other],
        };
        let asked = message.clone();
        let mut lines = Lines::new(self, &asked, unnamed);
        if self.header {
            if template.is_empty() {
                match lines.columns() {
                    Some(columns) => template.read(&columns, Some(",")),
                    None => template.names = legacy::keys(rows.first())?,
                }
            }
            let quoted = |name: &SmolStr| legacy::quoted_if(name, &self.separator);
            let names: Vec<String> = template.names.iter().map(quoted).collect();
            lines.done.push(names.join(&self.separator));
        }
        if matches!(rows.first(), Some(first) if !is_object(first)) {
            rows = vec![Value::array(rows)];
        }
        let first = rows.first().cloned();
        for at in 0..rows.len() {
            let line = match rows.get_mut(at) {
                Some(Value::Array(cells)) => {
                    let mut own = cells.to_vec();
                    let quoted = self.legacy_cells(&mut own);
                    let texts: Vec<SmolStr> = own.iter().map(coerce::to_text).collect();
                    *cells = Arc::new(own.into());
                    if let Err(failure) = quoted {
                        message.set("payload", Value::array(rows));
                        return Err(failure);
                    }
                    texts.join(&self.separator)
                }
                Some(row) => lines.legacy_object(row, first.as_ref(), template)?,
                None => continue,
            };
            budget::made(line.len())?;
            lines.done.push(line);
        }
        Ok(lines.written(legacy::column_list(&template.names, true)))
    }

    /// Quotes the cells that need it.
    fn legacy_cells(&self, cells: &mut [Value]) -> Result<(), Failure> {
        for cell in cells {
            if cell.is_undefined() {
                *cell = Value::from("");
            }
            if matches!(cell, Value::Null) {
                return Err(type_error(
                    "Cannot read properties of null (reading 'toString')",
                ));
            }
            let text = coerce::to_text(cell);
            let quoted = self.legacy_cell(&text, text.contains('\n'));
            if let Cow::Owned(quoted) = quoted {
                *cell = Value::from(quoted);
            }
        }
        Ok(())
    }

    fn legacy_cell<'a>(&self, text: &'a str, broken: bool) -> Cow<'a, str> {
        if text.contains('"') {
            Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
        } else if text.contains(self.separator.as_str()) || broken {
            Cow::Owned(format!("\"{text}\""))
        } else {
            Cow::Borrowed(text)
        }
    }
}

impl<'a> Lines<'a> {
    fn new(format: &'a Format, message: &'a Message, unnamed: &'a mut bool) -> Self {
        Self {
            format,
            message,
            done: Vec::new(),
            unnamed,
        }
    }

    /// The columns that the message names.
    fn columns(&self) -> Option<SmolStr> {
        let columns = self.message.properties().get("columns")?;
        Some(if coerce::truthy(columns) {
            coerce::to_text(columns)
        } else {
            SmolStr::default()
        })
    }

    fn written(mut self, columns: String) -> Written {
        let end = self.format.line_end.as_str();
        self.done.push(String::new());
        if self.done.len() == 1 {
            self.done.push(String::new());
        }
        Written {
            text: self.done.join(end),
            columns,
        }
    }

    fn rfc_object(
        &mut self,
        row: &Value,
        first: Option<&Value>,
        template: &mut Vec<SmolStr>,
    ) -> Result<String, Failure> {
        if let Some(columns) = self.columns().filter(|_| has_none(template)) {
            *template = rfc::columns(&columns)?.unwrap_or_default();
        }
        let cells: Vec<String> = if has_none(template) {
            *self.unnamed = true;
            *template = legacy::keys(Some(row))?;
            let plain = plain_cells(row, first)?;
            plain
                .into_iter()
                .map(|(_, value)| Ok(self.format.rfc_cell(&text(&value)?)))
                .collect::<Result<_, Failure>>()?
        } else {
            let values = template.iter().map(|name| value_of(row, name));
            values
                .map(|value| Ok(self.format.rfc_cell(&text(&value?)?)))
                .collect::<Result<_, Failure>>()?
        };
        Ok(cells.join(&self.format.separator))
    }

    fn legacy_object(
        &mut self,
        row: &Value,
        first: Option<&Value>,
        template: &mut Template,
    ) -> Result<String, Failure> {
        if let Some(columns) = self.columns().filter(|_| template.is_empty()) {
            template.read(&columns, Some(","));
        }
        let mut cells = Vec::new();
        if template.is_empty() {
            *self.unnamed = true;
            for (key, value) in plain_cells(row, first)? {
                // It is the key that is looked at (observed).
                let cell = text(&value)?;
                cells.push(
                    self.format
                        .legacy_cell(&cell, key.contains('\n'))
                        .into_owned(),
                );
            }
        } else {
            for name in &template.names {
                let value = value_of(row, name)?;
                let cell = text(&value)?;
                let broken = cell.contains('\n');
                cells.push(self.format.legacy_cell(&cell, broken).into_owned());
            }
        }
        Ok(cells.join(&self.format.separator))
    }
}

/// The values of a row under the keys of the first row, but no objects.
fn plain_cells(row: &Value, first: Option<&Value>) -> Result<Vec<(SmolStr, Value)>, Failure> {
    let keys = match first {
        Some(Value::Null) => Vec::new(),
        first => legacy::keys(first)?,
    };
    let empty = Object::default();
    let has = |key: &SmolStr| match row {
        Value::Buffer(_) => true,
        other => other.as_object().unwrap_or(&empty).contains_key(key),
    };
    budget::work(1 + keys.len())?;
    let cells = keys.into_iter().filter(has).map(|key| {
        let value = property(row, &key);
        (key, value)
    });
    Ok(cells
        .filter(|(_, value)| !is_object(value) && !matches!(value, Value::Null))
        .collect())
}

/// The value of a column; one without a name has none.
fn value_of(row: &Value, name: &str) -> Result<Value, Failure> {
    // Many columns and many rows without any of them are as many separators as the two multiplied.
    budget::made(size_of::<String>())?;
    if name.is_empty() {
        return Ok(Value::Undefined);
    }
    if row.is_nullish() {
        let row = coerce::to_text(row);
        return Err(type_error(&format!(
            "Cannot read properties of {row} (reading '{name}')"
        )));
    }
    Ok(property(row, name))
}

fn type_error(message: &str) -> Failure {
    Failure {
        name: SmolStr::new_static("TypeError"),
        ..Failure::error(message)
    }
}

/// Returns whether no column has a name that counts.
pub fn has_none(template: &[SmolStr]) -> bool {
    template.is_empty() || matches!(template, [name] if name.is_empty())
}

/// Columns as `msg.columns` has them: always with commas, without those that have no name.
pub fn column_list(template: &[SmolStr]) -> String {
    let commas = Format {
        separator: SmolStr::new_static(","),
        line_end: SmolStr::default(),
        header: false,
    };
    let named = template.iter().filter(|name| !name.is_empty());
    let cells: Vec<String> = named.map(|name| commas.rfc_cell(name)).collect();
    cells.join(",")
}

fn is_object(value: &Value) -> bool {
    !matches!(
        value,
        Value::Undefined | Value::Bool(_) | Value::Number(_) | Value::String(_)
    )
}

/// A cell's text: JSON unless the value is plain.
fn text(value: &Value) -> Result<Cow<'_, str>, Failure> {
    let text = match value {
        Value::Undefined => Cow::Borrowed(""),
        Value::Null => Cow::Borrowed("null"),
        Value::String(text) => Cow::Borrowed(text.as_str()),
        Value::Bool(_) | Value::Number(_) => Cow::Owned(coerce::to_text(value).to_string()),
        Value::Buffer(bytes) => Cow::Owned(String::from_utf8_lossy(bytes).into_owned()),
        other => Cow::Owned(json::stringify(other).unwrap_or_default()),
    };
    budget::made(text.len())?;
    Ok(text)
}
