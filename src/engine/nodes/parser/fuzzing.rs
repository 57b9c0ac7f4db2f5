//! What must hold for every text that a parser node is given.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a check: it may panic"
)]

use super::csv_legacy::{Reading, Template};
use super::csv_rfc::{self, Cells};
use super::csv_write::Format;
use super::xml_options::Options;
use super::{html, xml_read, xml_write, yaml_read, yaml_write};
use crate::engine::expression::{coerce, json};
use crate::engine::value::Value;
use smol_str::SmolStr;

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

/// What is read can be written in a list, and then says the same. By itself it need not: with nothing around them, js-yaml
/// writes texts of several lines otherwise than it reads them (observed on 4.3.2).
pub fn yaml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(value) = yaml_read::read(text) else {
        return;
    };
    if value.is_undefined() {
        return;
    }
    let value = Value::array(vec![value]);
    let Ok(written) = yaml_write::write(&value) else {
        return;
    };
    let again = yaml_read::read(&written).unwrap_or_else(|e| panic!("{written:?}: {e}"));
    let same =
        coerce::deep_equal(&value, &again) || json::stringify(&value) == json::stringify(&again);
    assert!(same, "{text:?} and {written:?}");
}

/// Any value can be written as XML and as YAML, or is said to be too deep or of no kind that they have.
pub(crate) fn written(value: &Value) {
    let _ = xml_write::build(value, &Options::of(&Value::Undefined));
    let _ = yaml_write::write(value);
}

/// What is read can be written, and then be read again.
pub fn xml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let options = Options::of(&Value::Undefined);
    let Ok(value) = xml_read::parse(text, &options) else {
        return;
    };
    let Ok(written) = xml_write::build(&value, &options) else {
        return;
    };
    let _ = xml_read::parse(&written, &options);
}

/// Any text is a document, and any text is a selector or says why it is none.
pub fn html(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (selector, document) = text.split_once('\n').unwrap_or(("*", text));
    html::pick(document, selector);
}
