//! XML text into a value, in the shape that xml2js gives it: attributes under `$`, text under `_`, children in arrays.
//!
//! Only the five entities of XML itself and character references are read; a document cannot define any.

use super::xml_options::Options;
use crate::engine::value::{Failure, Object, Value};
use quick_xml::errors::{Error as XmlError, IllFormedError, SyntaxError};
use quick_xml::escape::unescape;
use quick_xml::events::attributes::AttrError;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use smol_str::SmolStr;
use std::borrow::Cow;
use std::sync::Arc;

/// How deep elements may be nested: values are read, written and dropped by recursion.
pub(super) const MAX_DEPTH: usize = 256;

/// An element whose end has not come yet.
struct Open {
    name: SmolStr,
    attributes: Object,
    children: Object,
    text: String,
    /// Whether some of the text was CDATA, which is text even if blank.
    literal: bool,
}

/// Parses a document; the value of an empty one is `null`. What follows the first element is not read.
pub(super) fn parse(text: &str, options: &Options) -> Result<Value, Failure> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    // Ends are checked here, with the words and the place that Node-RED tells.
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    let mut stack: Vec<Open> = Vec::new();
    loop {
        let event = reader
            .read_event()
            .map_err(|e| syntax_error(&e, text, reader.error_position()))?;
        let at = position(reader.buffer_position());
        let ended = match event {
            Event::Start(tag) => {
                stack.push(open(&tag, text, at, options)?);
                None
            }
            Event::Empty(tag) => Some(open(&tag, text, at, options)?),
            Event::End(tag) => match stack.pop() {
                Some(open) if options.tag(tag.name().as_ref()) == open.name => Some(open),
                None => {
                    let words = format!("Unmatched closing tag: {}", tag.name().as_ref());
                    return Err(failure(&words, text, at));
                }
                _ => return Err(failure("Unexpected close tag", text, at)),
            },
            Event::Text(part) => {
                add_text(&mut stack, &part.into_inner(), false, (text, at))?;
                None
            }
            Event::CData(part) => {
                add_text(&mut stack, &part.into_inner(), true, (text, at))?;
                None
            }
            Event::GeneralRef(part) => {
                add_reference(&mut stack, &part.into_inner(), (text, at))?;
                None
            }
            Event::Eof if stack.is_empty() => return Err(failure("Unexpected end", text, at)),
            Event::Eof => return Err(failure("Unclosed root tag", text, at)),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => None,
        };
        if stack.len() > MAX_DEPTH {
            return Err(failure("Elements are nested too deeply", text, at));
        }
        let Some(element) = ended else { continue };
        let (name, value) = close(element, options);
        match stack.last_mut() {
            Some(parent) => add(&mut parent.children, name, value, options.explicit_array),
            None if options.explicit_root => {
                return Ok(Value::object([(name, value)].into_iter().collect()));
            }
            None => return Ok(value),
        }
    }
}

fn open(tag: &BytesStart<'_>, text: &str, at: usize, options: &Options) -> Result<Open, Failure> {
    let mut attributes = Object::default();
    let start = text
        .get(..at)
        .and_then(|t| t.rfind('<'))
        .unwrap_or_default();
    let named = |c: char| c.is_alphabetic() || matches!(c, '_' | ':');
    if !tag.name().as_ref().starts_with(named) {
        return Err(failure("Unencoded <", text, start + 2));
    }
    let ends_at = |place: usize| {
        text.get(start + place + 1..)
            .is_some_and(|t| t.starts_with('/'))
    };
    for attribute in tag.attributes().with_checks(false) {
        let attribute = attribute.map_err(|e| {
            // Places in the tag are counted from behind its `<`.
            let (words, place) = match e {
                AttrError::UnquotedValue(place) => ("Unquoted attribute value", place),
                AttrError::ExpectedEq(place) if ends_at(place) => ("Invalid attribute name", place),
                AttrError::ExpectedEq(place) => ("Attribute without value", place),
                AttrError::ExpectedValue(place) | AttrError::ExpectedQuote(place, _) => {
                    ("Attribute without value", place)
                }
                AttrError::Duplicated(place, _) => ("Invalid attribute", place),
            };
            failure(words, text, start + place + 2)
        })?;
        if options.ignore_attrs {
            continue;
        }
        let value = meaning(&attribute.value, (text, at))?;
        // The first of several with one name counts.
        attributes.get_or_insert_with(SmolStr::new(attribute.key.as_ref()), || {
            Value::from(value.as_ref())
        });
    }
    Ok(Open {
        name: options.tag(tag.name().as_ref()),
        attributes,
        children: Object::default(),
        text: String::new(),
        literal: false,
    })
}

/// A text with what its references stand for.
fn meaning<'t>(written: &'t str, (text, at): (&str, usize)) -> Result<Cow<'t, str>, Failure> {
    unescape(written).map_err(|_| failure("Invalid character entity", text, at))
}

/// Adds what a reference stands for, given without its `&` and `;`.
fn add_reference(stack: &mut [Open], name: &str, place: (&str, usize)) -> Result<(), Failure> {
    let reference = format!("&{name};");
    add_text(stack, &meaning(&reference, place)?, true, place)
}

fn add_text(
    stack: &mut [Open],
    part: &str,
    literal: bool,
    (text, at): (&str, usize),
) -> Result<(), Failure> {
    match stack.last_mut() {
        Some(open) => {
            open.text.push_str(part);
            open.literal |= literal;
            Ok(())
        }
        None if part.trim().is_empty() => Ok(()),
        None => {
            let blank = part.len() - part.trim_start().len();
            Err(failure(
                "Non-whitespace before first tag.",
                text,
                at - part.len() + blank + 1,
            ))
        }
    }
}

/// The name and value of an element that has ended.
fn close(open: Open, options: &Options) -> (SmolStr, Value) {
    let Open {
        name,
        attributes,
        children,
        text,
        literal,
    } = open;
    let blank = !literal && text.trim().is_empty();
    let words = || {
        let text = if options.trim { text.trim() } else { &text };
        if options.normalize {
            return Value::from(text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        Value::from(text)
    };
    let mut object = Object::default();
    if !blank {
        object.insert(options.charkey.clone(), words());
    }
    if options.merge_attrs {
        for (key, value) in attributes {
            add(&mut object, key, value, options.explicit_array);
        }
    } else if !attributes.is_empty() {
        object.insert(options.attrkey.clone(), Value::object(attributes));
    }
    if options.explicit_children && !children.is_empty() {
        object.insert(options.childkey.clone(), Value::object(children));
    } else {
        for (key, value) in children {
            if object.contains_key(&key) {
                merge(&mut object, key, value);
            } else {
                object.insert(key, value);
            }
        }
    }
    if object.is_empty() {
        let empty = match &options.empty_tag {
            Some(empty) => empty.clone(),
            None => Value::from(text),
        };
        return (name, empty);
    }
    if object.len() == 1 && !blank && !options.explicit_charkey {
        return (
            name,
            object.shift_remove(&options.charkey).unwrap_or_default(),
        );
    }
    (name, Value::object(object))
}

/// Adds a child (or a merged attribute): to an array, or alone as long as it is the only one of its name.
fn add(object: &mut Object, name: SmolStr, value: Value, explicit_array: bool) {
    if object.contains_key(&name) {
        merge(object, name, value);
    } else if explicit_array {
        object.insert(name, Value::array(vec![value]));
    } else {
        object.insert(name, value);
    }
}

/// Adds to what has the name already.
fn merge(object: &mut Object, name: SmolStr, value: Value) {
    let all = match object.insert(name.clone(), Value::Undefined) {
        Some(Value::Array(mut all)) => {
            Arc::make_mut(&mut all).push(value);
            Value::Array(all)
        }
        Some(one) => Value::array(vec![one, value]),
        None => value,
    };
    object.insert(name, all);
}

fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

fn syntax_error(error: &XmlError, text: &str, offset: u64) -> Failure {
    match error {
        XmlError::Syntax(SyntaxError::UnclosedTag) => failure("Unexpected end", text, text.len()),
        XmlError::Syntax(_) => failure("Unclosed root tag", text, text.len()),
        XmlError::IllFormed(IllFormedError::UnclosedReference) => {
            let words = "Invalid character in entity name";
            failure(words, text, position(offset) + 2)
        }
        other => failure(&other.to_string(), text, position(offset) + 1),
    }
}

/// A failure as sax words it; `at` is the place behind the character that was wrong.
fn failure(words: &str, text: &str, at: usize) -> Failure {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count();
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count();
    let wrong = if at < text.len()
        || text.ends_with('>') && words.ends_with("close tag")
        || text.ends_with('>') && words.starts_with("Unmatched")
    {
        before.chars().next_back()
    } else {
        None
    };
    let wrong = wrong.map(String::from).unwrap_or_default();
    Failure::error(format!(
        "{words}\nLine: {line}\nColumn: {column}\nChar: {wrong}"
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::engine::expression::json;

    fn parsed(text: &str, options: &str) -> String {
        let options = Options::of(&json::parse(options).unwrap());
        json::stringify(&parse(text, &options).unwrap()).unwrap()
    }

    fn refused(text: &str) -> String {
        parse(text, &Options::default()).unwrap_err().to_string()
    }

    const DOCUMENT: &str = "<?xml version=\"1.0\"?>\n<!-- c --><r a=\"1\" b=\"x &amp; y\"><c>t</c><c k=\"v\">u</c><d/><e>  sp <f>1</f> tail </e><g><![CDATA[<x>]]></g></r>";

    /// What Node-RED 4.1 made of the same document with each option.
    #[test]
    fn options_shape_the_value() {
        for (options, expected) in [
            (
                "{}",
                r#"{"r":{"$":{"a":"1","b":"x & y"},"c":["t",{"_":"u","$":{"k":"v"}}],"d":[""],"e":[{"_":"  sp  tail ","f":["1"]}],"g":["<x>"]}}"#,
            ),
            (
                r#"{"attrkey":"@","charkey":"\#"}"#.replace('\\', "").as_str(),
                r##"{"r":{"@":{"a":"1","b":"x & y"},"c":["t",{"#":"u","@":{"k":"v"}}],"d":[""],"e":[{"#":"  sp  tail ","f":["1"]}],"g":["<x>"]}}"##,
            ),
            (
                r#"{"explicitArray":false}"#,
                r#"{"r":{"$":{"a":"1","b":"x & y"},"c":["t",{"_":"u","$":{"k":"v"}}],"d":"","e":{"_":"  sp  tail ","f":"1"},"g":"<x>"}}"#,
            ),
            (
                r#"{"mergeAttrs":true}"#,
                r#"{"r":{"a":["1"],"b":["x & y"],"c":["t",{"_":"u","k":["v"]}],"d":[""],"e":[{"_":"  sp  tail ","f":["1"]}],"g":["<x>"]}}"#,
            ),
            (
                r#"{"mergeAttrs":true,"explicitArray":false}"#,
                r#"{"r":{"a":"1","b":"x & y","c":["t",{"_":"u","k":"v"}],"d":"","e":{"_":"  sp  tail ","f":"1"},"g":"<x>"}}"#,
            ),
            (
                r#"{"explicitRoot":false,"normalize":true}"#,
                r#"{"$":{"a":"1","b":"x & y"},"c":["t",{"_":"u","$":{"k":"v"}}],"d":[""],"e":[{"_":"sp tail","f":["1"]}],"g":["<x>"]}"#,
            ),
            (
                r#"{"ignoreAttrs":true,"trim":true,"emptyTag":null}"#,
                r#"{"r":{"c":["t","u"],"d":[null],"e":[{"_":"sp  tail","f":["1"]}],"g":["<x>"]}}"#,
            ),
            (
                r#"{"explicitCharkey":true}"#,
                r#"{"r":{"$":{"a":"1","b":"x & y"},"c":[{"_":"t"},{"_":"u","$":{"k":"v"}}],"d":[""],"e":[{"_":"  sp  tail ","f":[{"_":"1"}]}],"g":[{"_":"<x>"}]}}"#,
            ),
            (
                r#"{"explicitChildren":true}"#,
                r#"{"r":{"$":{"a":"1","b":"x & y"},"$$":{"c":["t",{"_":"u","$":{"k":"v"}}],"d":[""],"e":[{"_":"  sp  tail ","$$":{"f":["1"]}}],"g":["<x>"]}}}"#,
            ),
        ] {
            assert_eq!(parsed(DOCUMENT, options), expected, "{options}");
        }
    }

    #[test]
    fn text_and_emptiness_are_those_of_node_red() {
        for (text, expected) in [
            ("<a></a>", r#"{"a":""}"#),
            ("<a>  </a>", r#"{"a":"  "}"#),
            ("<a b=\"1\"/>", r#"{"a":{"$":{"b":"1"}}}"#),
            ("<a>1<b/>2</a>", r#"{"a":{"_":"12","b":[""]}}"#),
            ("<a><b> </b></a>", r#"{"a":{"b":[" "]}}"#),
            ("<a>\n  <b>1</b>\n</a>", r#"{"a":{"b":["1"]}}"#),
            ("<a>&#65;&#x42;&lt;&apos;</a>", r#"{"a":"AB<'"}"#),
            ("<a/><b/>", r#"{"a":""}"#),
            ("<a b=\"1\" b=\"2\"/>", r#"{"a":{"$":{"b":"1"}}}"#),
            ("<a>x</a>y", r#"{"a":"x"}"#),
            ("<!DOCTYPE html><l>1</l>", r#"{"l":"1"}"#),
            ("\u{feff} <a>1</a>", r#"{"a":"1"}"#),
            ("", "null"),
        ] {
            assert_eq!(parsed(text, "{}"), expected, "{text}");
        }
        assert_eq!(
            parsed("<A:b><A:c X=\"1\"/></A:b>", r#"{"normalizeTags":true}"#),
            r#"{"a:b":{"a:c":[{"$":{"X":"1"}}]}}"#
        );
    }

    /// What Node-RED 4.1 said.
    #[test]
    fn broken_documents_are_refused_in_node_reds_words() {
        for (text, expected) in [
            (
                "<a>",
                "Error: Unclosed root tag\nLine: 0\nColumn: 3\nChar: ",
            ),
            (
                "<a></b>",
                "Error: Unexpected close tag\nLine: 0\nColumn: 7\nChar: >",
            ),
            (
                "plain",
                "Error: Non-whitespace before first tag.\nLine: 0\nColumn: 1\nChar: p",
            ),
            (
                "<a>&nope;</a>",
                "Error: Invalid character entity\nLine: 0\nColumn: 9\nChar: ;",
            ),
            (
                "<a b=1/>",
                "Error: Unquoted attribute value\nLine: 0\nColumn: 6\nChar: 1",
            ),
            ("<a", "Error: Unexpected end\nLine: 0\nColumn: 2\nChar: "),
        ] {
            assert_eq!(refused(text), expected);
        }
    }

    #[test]
    fn entities_of_a_document_are_not_expanded() {
        let lol = "<!DOCTYPE l [<!ENTITY a \"lol\"><!ENTITY b \"&a;&a;\">]><l>&b;</l>";
        assert!(refused(lol).starts_with("Error: Invalid character entity"));
        assert!(refused("<l a=\"&b;\"/>").starts_with("Error: Invalid character entity"));
    }

    #[test]
    fn nesting_has_an_end() {
        assert!(
            refused(&"<a>".repeat(100_000)).starts_with("Error: Elements are nested too deeply")
        );
        let deep = "<a>".repeat(MAX_DEPTH) + &"</a>".repeat(MAX_DEPTH);
        assert!(parse(&deep, &Options::default()).is_ok());
    }
}
