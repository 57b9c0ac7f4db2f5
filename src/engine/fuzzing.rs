//! What must hold for every expression that a flow or a message may hold.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a check: it may panic"
)]

use super::expression::json as text;
use super::expression::jsonata::Jsonata;
use super::expression::mustache::Template;
use super::expression::regex::RegExp;
use super::expression::typed::Scene;
use super::expression::{Key, Path, coerce};
use super::message::Message;
use super::value::Value;
use crate::json;
use std::rc::Rc;

/// The largest index that is tried: writing to it makes an array that long.
const LONGEST: usize = 1 << 12;

/// What is written at a path is read there, and nothing is left of it when it is deleted.
pub fn expression(data: &[u8]) {
    let Ok(path) = std::str::from_utf8(data) else {
        return;
    };
    let parsed = (Path::parse(path), Path::parse_message(path));
    let (Ok(path), Ok(_)) = parsed else { return };
    let too_long = |key: &Key| matches!(key, Key::Index(index) if *index > LONGEST);
    if path.is_nested() || path.keys.iter().any(too_long) {
        return;
    }
    let mut root = text::parse("{}").unwrap();
    assert!(path.write(&mut root, Value::from("found")), "{path}");
    assert_eq!(path.read(&root).as_str(), Some("found"), "{path}");
    assert_eq!(path.try_read(&root).unwrap().as_str(), Some("found"));
    path.write(&mut root, Value::Undefined);
    assert!(path.read(&root).is_undefined(), "{path}");
}

/// What is read is written so that it is read the same; strict JSON is JSON.
pub fn json(data: &[u8]) {
    let strict = json::text(data);
    let Ok(given) = std::str::from_utf8(data) else {
        assert!(strict.is_err());
        return;
    };
    if let Ok(strict) = strict {
        assert_eq!(strict, given);
        assert!(serde_json::from_str::<serde_json::Value>(given).is_ok());
        let short = json::compact(given);
        assert_eq!(json::text(short.as_bytes()), Ok(&*short));
        if given.trim_start().starts_with('{') {
            let with = json::with(given, "added", Some("[1]")).unwrap();
            json::text(with.as_bytes()).unwrap();
            let without = json::with(&with, "added", None).unwrap();
            assert!(!without.contains("\"added\":[1]") || given.contains("added"));
        }
    }
    let Ok(value) = text::parse(given) else {
        assert!(strict.is_err());
        return;
    };
    let written = text::stringify(&value).unwrap();
    let again = text::parse(&written).unwrap();
    assert!(coerce::deep_equal(&value, &again), "{given} and {written}");
    assert_eq!(text::stringify(&again).unwrap(), written);
    let pretty = text::stringify_pretty(&value, 4).unwrap();
    assert_eq!(
        text::stringify(&text::parse(&pretty).unwrap()).unwrap(),
        written
    );
    let tree = text::from_tree(&text::to_tree(&value));
    assert_eq!(text::stringify(&tree).unwrap(), written);
}

/// A template either says what is wrong with it or can be rendered; text without a tag is left alone.
pub fn mustache(data: &[u8]) {
    let Ok(given) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(template) = Template::compile(given) else {
        return;
    };
    let message = r#"{"payload":"<b>","a":{"b":[1,{"c":"d"},[]]},"list":[1,2],"no":false}"#;
    let message = Message::from_value(text::parse(message).unwrap()).unwrap();
    let scene = Scene::outside(&Rc::default());
    let rendered = template.render(&scene, &message);
    template.render_json(&scene, &message);
    if !given.contains("{{") {
        assert_eq!(rendered, given);
    }
}

/// An expression either says what is wrong with it or is one. It is not run: it may take as long as it is allowed to.
pub fn jsonata(data: &[u8]) {
    if let Ok(given) = std::str::from_utf8(data) {
        let _ = Jsonata::compile(given);
    }
}

/// A regular expression either says what is wrong with it or is one. It is not run: it may backtrack for long.
pub fn regex(data: &[u8]) {
    let Some((flags, source)) = data.split_first() else {
        return;
    };
    let flags = ["", "g", "i", "u", "v", "gims"][usize::from(flags % 6)];
    if let Ok(source) = std::str::from_utf8(source) {
        let _ = RegExp::compile(source, flags);
    }
}
