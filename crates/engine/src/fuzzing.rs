//! Fuzz targets: properties that hold for every expression that a flow or a message may contain.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a check: it may panic"
)]

use super::debug_encode;
use super::expression::jsonata::Jsonata;
use super::node_context::NodeContext;
use crate::script::regexp;
use flows::json;
use formats::mustache::Template;
use formats::{xml, yaml};
use std::collections::HashSet;
use std::sync::Arc;
use value::{Extent, Failure, Message, Object, Path, Value, coerce, json as text};

/// Checks that a parsed value is written so that it parses to the same value, and that strict JSON
/// is JSON.
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

/// Checks what the `package.json` of a module exports.
pub fn manifest(data: &[u8]) {
    crate::script::modules::fuzzing::manifest(data);
}

/// Checks frames of the node host, and the frames that values become on their way to it.
pub fn host_frame(data: &[u8]) {
    crate::node_host::fuzzing::frames(data);
}

/// Checks that an expression compiles or fails with an error. It is not run: it may take as long as
/// its time limit allows.
pub fn jsonata(data: &[u8]) {
    if let Ok(given) = std::str::from_utf8(data) {
        let _ = Jsonata::compile(given);
    }
}

/// Checks that a regular expression compiles or fails with an error, and that a search ends: with a
/// match, without one, or because it took too many steps. The searched text is the part after the
/// last newline, repeated. (libFuzzer watches the clock.)
pub fn regex(data: &[u8]) {
    let Some((flags, given)) = data.split_first() else {
        return;
    };
    let repeated = 1 << (flags / 6 % 16);
    let flags = ["", "g", "i", "u", "v", "gims"][usize::from(flags % 6)];
    let Ok(given) = std::str::from_utf8(given) else {
        return;
    };
    let (source, text) = given.rsplit_once('\n').unwrap_or((given, "a"));
    let Ok(regex) = regexp::compile(source, flags) else {
        return;
    };
    let text = text.repeat(repeated.min(1 + MAX_TEXT / (text.len() + 1))) + "!";
    let found = regex.test(&text);
    let replaced = regex.replace(&text, "<$&>");
    if let (Ok(found), Ok(replaced)) = (&found, &replaced) {
        assert_eq!(*found, replaced.is_some(), "/{source}/{flags} in {text:?}");
    }
    let groups = regex.groups(&text);
    if let (Ok(found), Ok(groups)) = (&found, &groups) {
        assert_eq!(*found, groups.is_some(), "/{source}/{flags} in {text:?}");
    }
    for failure in [found.err(), replaced.err(), groups.err()]
        .into_iter()
        .flatten()
    {
        assert!(failure.message.contains("was stopped: "), "{failure}");
    }
}

/// Nests values in every way that nodes can, without regard to their size, and checks that the size
/// each value reports is exact; that one within the limits can be written, compared and converted;
/// and that any can be shown and dropped.
///
/// It runs on a stack of the size that the engine has.
pub fn deep(data: &[u8]) {
    let checked = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(crate::threads::STACK);
        thread.spawn_scoped(scope, || nest(data)).unwrap().join()
    });
    if let Err(panic) = checked {
        std::panic::resume_unwind(panic);
    }
}

fn nest(data: &[u8]) {
    let mut values = [const { Value::Undefined }; 4];
    for step in data.chunks_exact(2).take(STEPS) {
        let (from, to) = (usize::from(step[1] % 4), usize::from(step[1] / 4 % 4));
        let times = 1 << (step[1] / 16).min(10);
        let before = values[to].clone();
        let value = values[from].clone();
        for _ in 0..if step[0] & 0x80 == 0 { 1 } else { times } {
            let inner = std::mem::take(&mut values[to]);
            values[to] = built(step[0] & 0x7f, inner, &value);
        }
        assert_exact(&values[to]);
        used(&values[to], &before);
    }
}

/// Steps of one run: each may make a value a thousand levels deeper.
const STEPS: usize = 32;
/// Values of more parts are not written out.
const FEW_PARTS: u32 = 2_000;
/// Arrays and objects of a value that are looked at.
const LOOKED_AT: usize = 2_000;
/// Bytes of a text that is searched.
const MAX_TEXT: usize = 1 << 16;

/// One step of nesting: combines a value with another one.
fn built(step: u8, mut inner: Value, other: &Value) -> Value {
    let nested = |open: &str, close: &str| open.repeat(60) + "1" + &close.repeat(60);
    match step % 16 {
        0 => Value::array(vec![inner]),
        1 => Value::record([("in", inner)]),
        2 => Value::record([("a", inner.clone()), ("b", inner)]),
        3 => Value::array(vec![inner, other.clone()]),
        // The causes of errors come from functions, which are bounded.
        4 if inner.extent().is_too_deep() => inner,
        4 => Value::Error(Arc::new(Failure {
            cause: Some(Box::new(inner)),
            ..Failure::error("caused")
        })),
        5..=8 => set(step / 16, inner, other),
        9 => set(step / 16, inner, &Value::Undefined),
        10 => text::parse(&nested("[", "]")).unwrap(),
        11 => text::parse(&nested("{\"a\":", "}")).unwrap(),
        12 => other.clone(),
        13 => {
            if let Value::Array(array) = &mut inner {
                Arc::make_mut(array).push(other.clone());
                if step & 0x10 != 0 {
                    Arc::make_mut(array).remove(0);
                }
            }
            inner
        }
        14 => {
            if let Value::Object(object) = &mut inner {
                let object = Arc::make_mut(object);
                object.insert("in".into(), other.clone());
                object.shift_remove("a");
            }
            inner
        }
        _ => match Message::from_value(inner) {
            Some(message) => message.within_limits().to_value(),
            None => other.clone(),
        },
    }
}

/// Sets or deletes something below a value. A write that is refused leaves all as it was.
fn set(which: u8, mut root: Value, value: &Value) -> Value {
    let texts = [
        "payload",
        "a.b.c",
        "a[1]",
        "[\"0\"].x",
        "list[2].in",
        "a[0][0][0]",
        "in",
    ];
    let path = Path::parse(texts[usize::from(which) % texts.len()]);
    // Not every text is a path by itself.
    let Ok(path) = path else { return root };
    if root.is_undefined() {
        root = Value::object(Object::default());
    }
    let before = root.extent();
    let written = path.write(&mut root, value.clone());
    assert_eq!(written.is_ok(), path.check(value).is_ok());
    if written.is_err() {
        assert_eq!(root.extent(), before);
    }
    root
}

/// The size of each array and object is that of what is in it. Shared ones are looked at once.
fn assert_exact(value: &Value) {
    let mut seen = HashSet::new();
    let mut pending = vec![value];
    while let Some(value) = pending.pop().filter(|_| seen.len() < LOOKED_AT) {
        match value {
            Value::Array(array) if seen.insert(Arc::as_ptr(array).addr()) => {
                let extents = array.iter().map(Value::extent);
                assert_eq!(array.extent(), Extent::around(extents));
                pending.extend(array.iter());
            }
            Value::Object(object) if seen.insert(Arc::as_ptr(object).addr()) => {
                let extents = object.values().map(Value::extent);
                assert_eq!(object.extent(), Extent::around(extents));
                pending.extend(object.values());
            }
            _ => {}
        }
    }
}

/// Applies to a value the operations of nodes, where the value is within their limits.
fn used(value: &Value, other: &Value) {
    if let Some(message) = Message::from_value(value.clone()) {
        let fits = message.check().is_ok();
        let message = message.within_limits();
        assert!(message.check().is_ok());
        assert!(!fits || message.to_value().extent() == value.extent());
    }
    let small =
        |value: &Value| value.extent().check(0).is_ok() && value.extent().parts() < FEW_PARTS;
    if !small(value) || !small(other) {
        return;
    }
    assert!(coerce::deep_equal(value, &value.clone()) || format!("{value:?}").contains("NaN"));
    coerce::deep_equal(value, other);
    coerce::loose_equal(value, other);
    let _ = coerce::compare(value, other);
    coerce::to_text(value);
    if let Some(json) = text::stringify(value) {
        let again = text::parse(&json).unwrap();
        assert_eq!(text::stringify(&again).unwrap(), json);
    }
    let _ = text::stringify_pretty(value, 1);
    drop(text::to_tree(value));
    debug_encode::encode(value, 100);
    let _ = xml::build(value, &xml::Options::of(&Value::Undefined));
    let _ = yaml::write(value);
    let message = Message::with_payload(value.clone());
    let eval = NodeContext::for_tests();
    let nested = Jsonata::compile("{\"in\": [payload]}").unwrap();
    if let Ok(made) = nested.evaluate(&eval, &message) {
        assert_exact(&made);
    }
    let template = Template::compile("{{{payload}}}{{#payload}}{{in}}{{/payload}}").unwrap();
    template.render(&eval, &message).unwrap();
}

#[cfg(test)]
mod tests {
    #[test]
    fn fuzz_checks_pass_on_seeds_and_random_input() {
        testing::inputs::check_all(&[
            ("deep", super::deep),
            ("json", super::json),
            ("manifest", super::manifest),
            ("jsonata", super::jsonata),
            ("regex", super::regex),
        ]);
    }
}
