//! Values into CSV text, as Node-RED's two writers write it.

use super::csv_read::Spec;
use crate::engine::expression::{coerce, json, property};
use crate::engine::value::{Failure, Value};
use smol_str::SmolStr;
use std::borrow::Cow;

/// How a text is put together.
#[derive(Debug, Clone)]
pub(super) struct Format {
    pub(super) spec: Spec,
    pub(super) separator: SmolStr,
    pub(super) line_end: &'static str,
}

impl Format {
    /// The rows as lines. Without columns, objects give what the first of them has, arrays all they have.
    pub(super) fn rows(
        &self,
        rows: &[Value],
        columns: &[SmolStr],
        template: bool,
    ) -> Result<Vec<String>, Failure> {
        rows.iter()
            .map(|row| match row {
                Value::Array(cells) => self.array(cells, if template { columns } else { &[] }),
                row => self.object(row, columns, template),
            })
            .collect()
    }

    fn array(&self, cells: &[Value], columns: &[SmolStr]) -> Result<String, Failure> {
        let cells: Vec<Cow<'_, str>> = match self.spec {
            // A template says how many there are, missing ones included.
            Spec::Rfc if !columns.is_empty() => (0..columns.len())
                .map(|at| text(cells.get(at).unwrap_or(&Value::Undefined)))
                .collect(),
            Spec::Rfc => cells.iter().map(text).collect(),
            Spec::Legacy => cells.iter().map(plain_text).collect::<Result<_, _>>()?,
        };
        Ok(self.line(cells.iter().map(AsRef::as_ref)))
    }

    fn object(&self, row: &Value, columns: &[SmolStr], template: bool) -> Result<String, Failure> {
        if let (Value::Undefined | Value::Null, Some(first)) = (row, columns.first()) {
            return Err(Failure {
                name: SmolStr::new_static("TypeError"),
                ..Failure::error(format!(
                    "Cannot read properties of {} (reading '{first}')",
                    coerce::to_text(row)
                ))
            });
        }
        // The older writer leaves out what a row lacks when no template says that it is expected.
        let keep_missing = template || self.spec == Spec::Rfc;
        let cells: Vec<_> = columns
            .iter()
            .map(|name| property(row, name))
            .filter(|value| keep_missing || !value.is_undefined())
            .map(|value| text(&value).into_owned())
            .collect();
        Ok(self.line(cells.iter().map(String::as_str)))
    }

    /// Cells as a line, quoted where needed.
    pub(super) fn line<'a>(&self, cells: impl Iterator<Item = &'a str>) -> String {
        let mut line = String::new();
        for (at, cell) in cells.enumerate() {
            if at > 0 {
                line.push_str(&self.separator);
            }
            self.push(cell, &mut line);
        }
        line
    }

    fn push(&self, cell: &str, line: &mut String) {
        let separated = !self.separator.is_empty() && cell.contains(self.separator.as_str());
        let broken = cell.contains(match self.spec {
            Spec::Rfc => &['"', '\n', '\r'][..],
            Spec::Legacy => &['"', '\n'][..],
        });
        if separated || broken {
            line.push('"');
            line.push_str(&cell.replace('"', "\"\""));
            line.push('"');
        } else {
            line.push_str(cell);
        }
    }

    /// Names of columns as `msg.columns` has them: always with commas; the older writer quotes only
    /// names with a comma.
    pub(super) fn names(&self, columns: &[SmolStr]) -> String {
        let commas = Self {
            separator: SmolStr::new_static(","),
            ..self.clone()
        };
        commas.header(columns)
    }

    /// The header line.
    pub(super) fn header(&self, columns: &[SmolStr]) -> String {
        let named = columns.iter().filter(|name| !name.is_empty());
        match self.spec {
            Spec::Rfc => self.line(named.map(SmolStr::as_str)),
            Spec::Legacy => named
                .map(|name| {
                    if name.contains(self.separator.as_str()) {
                        Cow::Owned(format!("\"{name}\""))
                    } else {
                        Cow::Borrowed(name.as_str())
                    }
                })
                .collect::<Vec<_>>()
                .join(&self.separator),
        }
    }
}

/// A cell's text: what is no plain value is JSON.
fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Undefined => Cow::Borrowed(""),
        Value::Null => Cow::Borrowed("null"),
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(_) | Value::Number(_) => Cow::Owned(coerce::to_text(value).to_string()),
        other => Cow::Owned(json::stringify(other).unwrap_or_default()),
    }
}

/// A cell's text as JavaScript's `toString` gives it: how the older writer writes arrays.
fn plain_text(value: &Value) -> Result<Cow<'_, str>, Failure> {
    match value {
        Value::Undefined => Ok(Cow::Borrowed("")),
        Value::Null => Err(Failure {
            name: SmolStr::new_static("TypeError"),
            ..Failure::error("Cannot read properties of null (reading 'toString')")
        }),
        Value::String(text) => Ok(Cow::Borrowed(text)),
        other => Ok(Cow::Owned(coerce::to_text(other).to_string())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn format(spec: Spec) -> Format {
        Format {
            spec,
            separator: ",".into(),
            line_end: "\n",
        }
    }

    fn lines(
        spec: Spec,
        rows: &str,
        columns: &[&str],
        template: bool,
    ) -> Result<Vec<String>, Failure> {
        let rows = json::parse(rows).unwrap();
        let columns: Vec<SmolStr> = columns.iter().map(SmolStr::new).collect();
        format(spec).rows(rows.as_array().unwrap(), &columns, template)
    }

    #[test]
    fn objects_give_their_columns_quoted_where_needed() {
        let rows = r#"[{"a":"x,y","b":"q\"r"},{"a":"l\nm","b":" s "},{"a":null},{"a":true,"b":false},{"a":{"z":1},"b":[1,2]}]"#;
        for spec in [Spec::Rfc, Spec::Legacy] {
            assert_eq!(
                lines(spec, rows, &["a", "b"], true).unwrap(),
                [
                    "\"x,y\",\"q\"\"r\"",
                    "\"l\nm\", s ",
                    "null,",
                    "true,false",
                    "\"{\"\"z\"\":1}\",\"[1,2]\""
                ]
            );
        }
    }

    #[test]
    fn without_a_template_the_older_writer_leaves_gaps_out() {
        let rows = r#"[{"c":3,"a":1},{"b":4,"a":2}]"#;
        assert_eq!(
            lines(Spec::Rfc, rows, &["c", "a"], false).unwrap(),
            ["3,1", ",2"]
        );
        assert_eq!(
            lines(Spec::Legacy, rows, &["c", "a"], false).unwrap(),
            ["3,1", "2"]
        );
    }

    #[test]
    fn arrays_fill_the_template_or_stand_as_they_are() {
        let rows = r#"[[1,2,3],[3],["q\"",{"a":1}]]"#;
        assert_eq!(
            lines(Spec::Rfc, rows, &["a", "b"], true).unwrap(),
            ["1,2", "3,", "\"q\"\"\",\"{\"\"a\"\":1}\""]
        );
        assert_eq!(
            lines(Spec::Legacy, rows, &["a", "b"], true).unwrap(),
            ["1,2,3", "3", "\"q\"\"\",[object Object]"]
        );
        let failure = lines(Spec::Legacy, "[[null]]", &[], false).unwrap_err();
        assert_eq!(
            failure.message,
            "Cannot read properties of null (reading 'toString')"
        );
    }

    #[test]
    fn a_row_of_nothing_fails_as_in_javascript() {
        let failure = lines(Spec::Rfc, "[null]", &["a"], true).unwrap_err();
        assert_eq!(
            failure.to_string(),
            "TypeError: Cannot read properties of null (reading 'a')"
        );
    }
}
