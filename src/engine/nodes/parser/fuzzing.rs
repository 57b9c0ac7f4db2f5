//! What must hold for every text that a parser node is given.

#![allow(clippy::unwrap_used, reason = "a check: it may panic")]

use super::csv_read::{Spec, rows};
use super::csv_write::Format;
use super::xml_options::Options;
use super::{html, xml_read, xml_write, yaml, yaml_write};
use crate::engine::expression::{coerce, json};
use crate::engine::value::Value;
use smol_str::SmolStr;

/// Rows that are read can be written so that they are read the same.
pub fn csv(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = rows(text, Some(','), Spec::Legacy);
    let read = rows(text, Some(','), Spec::Rfc).rows;
    let format = Format {
        spec: Spec::Rfc,
        separator: SmolStr::new_static(","),
        line_end: "\n",
    };
    let lines: Vec<String> = read
        .iter()
        .map(|row| format.line(row.iter().map(|field| field.text.as_str())))
        .collect();
    let again = rows(&lines.join("\n"), Some(','), Spec::Rfc).rows;
    let texts = |rows: Vec<Vec<super::csv_read::Field>>| -> Vec<Vec<String>> {
        let row = |row: Vec<_>| {
            row.into_iter()
                .map(|f: super::csv_read::Field| f.text)
                .collect()
        };
        let rows = rows.into_iter().map(row);
        // A line without any text is no row.
        rows.filter(|row: &Vec<String>| row.as_slice() != [""])
            .collect()
    };
    assert_eq!(texts(again), texts(read), "{text:?}");
}

/// What is read can be written, and then says the same.
pub fn yaml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(value) = yaml::read(text) else { return };
    let Ok(written) = yaml_write::write(&value) else {
        return;
    };
    let again = yaml::read(&written).unwrap_or_else(|e| panic!("{written:?}: {e}"));
    let same =
        coerce::deep_equal(&value, &again) || json::stringify(&value) == json::stringify(&again);
    assert!(same, "{text:?} and {written:?}");
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
