//! Properties that hold for every text of these formats.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a check: it may panic"
)]

use crate::csv::legacy::{Reading, Template};
use crate::csv::rfc::{self as csv_rfc, Cells};
use crate::csv::write::Format;
use crate::html::{self, Gives, Select};
use crate::mustache::{Lookup, Template as Mustache};
use crate::xml::{self, Options};
use crate::yaml;
use smol_str::SmolStr;
use value::{Message, Path, Value, coerce, json};

/// Rows that are read can be written so that they are read the same.
pub fn csv(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let cells = Cells {
        numbers: true,
        empty_texts: true,
        nulls: true,
    };
    let reading = Reading {
        template: &mut Template::new(""),
        separator: ",",
        cells,
        header: true,
        skip: 0,
    };
    let _ = reading.read(text);
    let format = Format {
        separator: SmolStr::new_static(","),
        line_end: SmolStr::new_static("\n"),
        header: false,
    };
    let read = texts(text);
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().map(|cell| format.rfc_cell(cell)).collect();
        cells.join(",")
    };
    let lines: Vec<String> = read.iter().map(line).collect();
    assert_eq!(texts(&lines.join("\n")), read, "{text:?}");
}

/// The rows of a text, without empty cells at their ends and without empty rows.
fn texts(text: &str) -> Vec<Vec<String>> {
    let text: Vec<char> = text.chars().collect();
    let rows = csv_rfc::rows(&text, Some(','), false).unwrap();
    let rows = rows.into_iter().map(|row| {
        let mut row: Vec<String> = row.into_iter().map(Option::unwrap_or_default).collect();
        while row.pop_if(|last| last.is_empty()).is_some() {}
        row
    });
    rows.filter(|row| !row.is_empty()).collect()
}

/// A value that was read can be written in a list, and reads back the same. Outside a list it need
/// not: js-yaml then writes texts of several lines otherwise than it reads them (observed on
/// 4.3.2).
pub fn yaml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(value) = yaml::read(text) else {
        return;
    };
    if value.is_undefined() {
        return;
    }
    let value = Value::array(vec![value]);
    let Ok(written) = yaml::write(&value) else {
        return;
    };
    let again = yaml::read(&written).unwrap_or_else(|e| panic!("{written:?}: {e}"));
    let same =
        coerce::deep_equal(&value, &again) || json::stringify(&value) == json::stringify(&again);
    assert!(same, "{text:?} and {written:?}");
}

/// Reading, writing and reading again does not panic.
pub fn xml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let options = Options::of(&Value::Undefined);
    let Ok(value) = xml::parse(text, &options) else {
        return;
    };
    let Ok(written) = xml::build(&value, &options) else {
        return;
    };
    let _ = xml::parse(&written, &options);
}

/// Any text is a document, and any text is a selector or fails with a reason.
pub fn html(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (selector, document) = text.split_once('\n').unwrap_or(("*", text));
    let Ok(selector) = Select::parse(selector) else {
        return;
    };
    for gives in [Gives::Html, Gives::Text, Gives::Attributes, Gives::Both] {
        let _ = html::pick(document, &selector, gives, &SmolStr::new_static("_"));
    }
}

/// A template fails with a reason or can be rendered; text without a tag is unchanged.
pub fn mustache(data: &[u8]) {
    let Ok(given) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(template) = Mustache::compile(given) else {
        return;
    };
    let message = r#"{"payload":"<b>","a":{"b":[1,{"c":"d"},[]]},"list":[1,2],"no":false}"#;
    let message = Message::from_value(json::parse(message).unwrap()).unwrap();
    let rendered = template.render(&Nothing, &message).unwrap();
    template.render_json(&Nothing, &message).unwrap();
    if !given.contains("{{") {
        assert_eq!(rendered, given);
    }
}

/// No environment, no contexts.
struct Nothing;

impl Lookup for Nothing {
    fn env(&self, _: &str) -> Value {
        Value::Undefined
    }

    fn flow(&self, _: &Path) -> Value {
        Value::Undefined
    }

    fn global(&self, _: &Path) -> Value {
        Value::Undefined
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn fuzz_checks_pass_on_seeds_and_random_input() {
        testing::inputs::check_all(&[
            ("csv", super::csv),
            ("html", super::html),
            ("mustache", super::mustache),
            ("xml", super::xml),
            ("yaml", super::yaml),
        ]);
    }
}
