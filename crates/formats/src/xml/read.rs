//! XML text into a value, in the shape that xml2js gives it: attributes under `$`, text under `_`,
//! children in arrays.
//!
//! Only the five entities of XML itself and character references are read; a document cannot define
//! any.

use super::element::Open;
use super::namespaces::Spaces;
use super::options::Options;
use quick_xml::errors::{Error as XmlError, IllFormedError, SyntaxError};
use quick_xml::escape::unescape;
use quick_xml::events::attributes::AttrError;
use quick_xml::events::{BytesEnd, BytesStart, Event};
use quick_xml::reader::Reader;
use smol_str::SmolStr;
use std::borrow::Cow;
use value::{Failure, Object, Value, budget};

/// The bytes of an element without content, about.
const ELEMENT: usize = 256;

/// The maximum nesting of elements: values are read, written and dropped by recursion.
pub(crate) const MAX_DEPTH: usize = 256;

/// Parses a document; the value of an empty one is `null`. Content after the first element is not
/// read.
pub fn parse(text: &str, options: &Options) -> Result<Value, Failure> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    // End tags are checked here, with the wording and position of Node-RED's errors.
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    let mut stack: Vec<Open> = Vec::new();
    let mut spaces = options.xmlns.then(Spaces::default);
    loop {
        let event = reader
            .read_event()
            .map_err(|e| syntax_error(&e, text, reader.error_position()))?;
        let at = position(reader.buffer_position());
        if !matches!(event, Event::Text(_) | Event::GeneralRef(_)) {
            end_text(&mut stack, options);
        }
        let ended = match event {
            Event::Start(tag) => {
                let depth = stack.len();
                stack.push(open(&tag, text, at, depth, spaces.as_mut(), options)?);
                None
            }
            Event::Empty(tag) => {
                let depth = stack.len();
                Some(open(&tag, text, at, depth, spaces.as_mut(), options)?)
            }
            Event::End(tag) => Some(ended(stack.pop(), &tag, text, at, options)?),
            Event::Eof if stack.is_empty() => return Err(failure("Unexpected end", text, at)),
            Event::Eof => return Err(failure("Unclosed root tag", text, at)),
            content => {
                add_content(&mut stack, content, text, at, options)?;
                None
            }
        };
        if stack.len() > MAX_DEPTH {
            return Err(failure("Elements are nested too deeply", text, at));
        }
        let Some(element) = ended else { continue };
        let (name, value) = element.close(stack.last_mut(), options);
        match stack.last_mut() {
            Some(parent) => parent.add_child(name, value, options),
            None if options.explicit_root => {
                return Ok(Value::object([(name, value)].into_iter().collect()));
            }
            None => return Ok(value),
        }
    }
}

/// Begins an element inside `depth` others.
fn open(
    tag: &BytesStart<'_>,
    text: &str,
    at: usize,
    depth: usize,
    mut spaces: Option<&mut Spaces>,
    options: &Options,
) -> Result<Open, Failure> {
    let mut attributes = Object::default();
    let start = text
        .get(..at)
        .and_then(|t| t.rfind('<'))
        .unwrap_or_default();
    let named = |c: char| c.is_alphabetic() || matches!(c, '_' | ':');
    if !tag.name().as_ref().starts_with(named) {
        return Err(failure("Unencoded <", text, start + 2));
    }
    budget::made(ELEMENT)?;
    if let Some(spaces) = spaces.as_mut() {
        budget::made(options.attrkey.len())?;
        spaces.enter(depth)?;
    }
    for attribute in tag.attributes().with_checks(false) {
        let attribute = attribute.map_err(|e| wrong_attribute(&e, text, start))?;
        let (name, value) = (attribute.key.as_ref(), meaning(&attribute.value, text, at)?);
        if let Some(spaces) = spaces.as_mut() {
            spaces.declare(name, &value, depth);
        }
        // The first of several with one name counts.
        attributes.insert_if_absent(SmolStr::new(name), || Value::from(value.as_ref()));
    }
    let mut space = None;
    if let Some(spaces) = spaces {
        let unbound = |what: &str| {
            let words = format!("Unbound namespace prefix: \"{what}\"");
            failure(&words, text, at)
        };
        let name = tag.name();
        let own = spaces.of_element(name.as_ref());
        budget::check()?;
        space = Some(own.ok_or_else(|| unbound(name.as_ref()))?);
        let described = spaces.of_attributes(&attributes);
        budget::check()?;
        attributes = described.map_err(|prefix| unbound(&prefix))?;
    }
    if options.ignore_attrs {
        attributes = Object::default();
    }
    let name = options.tag(tag.name().as_ref());
    Ok(Open::new(name, attributes, space, options))
}

/// The error for an attribute of the tag that starts here.
fn wrong_attribute(error: &AttrError, text: &str, start: usize) -> Failure {
    let ends_at = |place: usize| {
        text.get(start + place + 1..)
            .is_some_and(|t| t.starts_with('/'))
    };
    // Places in the tag are counted from behind its `<`.
    let (words, place) = match *error {
        AttrError::UnquotedValue(place) => ("Unquoted attribute value", place),
        AttrError::ExpectedEq(place) if ends_at(place) => ("Invalid attribute name", place),
        AttrError::ExpectedEq(place)
        | AttrError::ExpectedValue(place)
        | AttrError::ExpectedQuote(place, _) => ("Attribute without value", place),
        AttrError::Duplicated(place, _) => ("Invalid attribute", place),
    };
    failure(words, text, start + place + 2)
}

/// The element that ends with this tag.
fn ended(
    open: Option<Open>,
    tag: &BytesEnd<'_>,
    text: &str,
    at: usize,
    options: &Options,
) -> Result<Open, Failure> {
    let name = tag.name();
    let Some(open) = open else {
        let words = format!("Unmatched closing tag: {}", name.as_ref());
        return Err(failure(&words, text, at));
    };
    if options.tag(name.as_ref()) == open.name {
        return Ok(open);
    }
    Err(failure("Unexpected close tag", text, at))
}

/// Adds content between tags; content other than text is ignored.
fn add_content(
    stack: &mut [Open],
    content: Event<'_>,
    text: &str,
    at: usize,
    options: &Options,
) -> Result<(), Failure> {
    match content {
        Event::Text(part) => add_text(stack, &part.into_inner(), false, text, at),
        Event::GeneralRef(part) => add_reference(stack, &part.into_inner(), text, at),
        Event::CData(part) => {
            add_text(stack, &part.into_inner(), true, text, at)?;
            end_text(stack, options);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A stretch of text has ended.
fn end_text(stack: &mut [Open], options: &Options) {
    if let Some(open) = stack.last_mut() {
        open.end_text(options);
    }
}

/// A text with its references resolved.
fn meaning<'t>(written: &'t str, text: &str, at: usize) -> Result<Cow<'t, str>, Failure> {
    unescape(written).map_err(|_| failure("Invalid character entity", text, at))
}

/// Adds the text of a reference, given without its `&` and `;`.
fn add_reference(stack: &mut [Open], name: &str, text: &str, at: usize) -> Result<(), Failure> {
    let reference = format!("&{name};");
    add_text(stack, &meaning(&reference, text, at)?, true, text, at)
}

fn add_text(
    stack: &mut [Open],
    part: &str,
    literal: bool,
    text: &str,
    at: usize,
) -> Result<(), Failure> {
    match stack.last_mut() {
        Some(open) => {
            open.add_text(part, literal);
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
    // No character is to blame for an end that comes too early.
    let ended = matches!(words, "Unexpected end" | "Unclosed root tag");
    let wrong = before.chars().next_back().filter(|_| !ended);
    let wrong = wrong.map(String::from).unwrap_or_default();
    Failure::error(format!(
        "{words}\nLine: {line}\nColumn: {column}\nChar: {wrong}"
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use testing::scaling::{assert_scales, pieces};
    use value::json;

    fn parsed(text: &str, options: &str) -> String {
        let options = Options::of(&json::parse(options).unwrap());
        json::stringify(&parse(text, &options).unwrap()).unwrap()
    }

    fn refused(text: &str) -> String {
        parse(text, &Options::default()).unwrap_err().to_string()
    }

    const DOCUMENT: &str = "<?xml version=\"1.0\"?>\n<!-- c --><r a=\"1\" b=\"x &amp; y\"><c>t</c><c k=\"v\">u</c><d/><e>  sp <f>1</f> tail </e><g><![CDATA[<x>]]></g></r>";

    /// The results of Node-RED 4.1 for the same document with each option.
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
                r#"{"r":{"$":{"a":"1","b":"x & y"},"$$":{"c":["t",{"$":{"k":"v"},"_":"u"}],"d":[""],"e":[{"_":"  sp  tail ","$$":{"f":["1"]}}],"g":["<x>"]}}}"#,
            ),
        ] {
            assert_eq!(parsed(DOCUMENT, options), expected, "{options}");
        }
    }

    #[test]
    fn text_and_empty_elements_are_read_as_in_node_red() {
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

    /// The errors of Node-RED 4.1.
    #[test]
    fn broken_documents_are_refused_with_node_reds_messages() {
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
    fn the_nesting_depth_of_elements_is_limited() {
        assert!(
            refused(&"<a>".repeat(100_000)).starts_with("Error: Elements are nested too deeply")
        );
        let deep = "<a>".repeat(MAX_DEPTH) + &"</a>".repeat(MAX_DEPTH);
        assert!(parse(&deep, &Options::default()).is_ok());
    }

    #[test]
    fn repeated_elements_are_read_in_linear_time() {
        let text = |n: usize| {
            let others = pieces(n, |k| format!("<k{k}/>"));
            format!("<r>{others}{}</r>", "<z><b/></z>".repeat(n))
        };
        let options = Options::default();
        assert_scales(2000, text, |text| drop(parse(&text, &options).unwrap()));
    }
}
