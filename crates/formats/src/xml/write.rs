//! A value into XML text, from the shape in which xml2js reads it.

use super::options::Options;
use super::read::MAX_DEPTH;
use smol_str::SmolStr;
use std::fmt::Write;
use value::{Failure, Object, Value, budget, coerce, json};

/// Writes a document. An object with one key is named by it, any other by the option `rootName`.
pub fn build(value: &Value, options: &Options) -> Result<String, Failure> {
    let (name, value) = match value {
        Value::Object(object) if object.len() == 1 && options.root_name == "root" => {
            match object.iter().next() {
                Some((name, value)) => (name.clone(), value),
                None => (options.root_name.clone(), value),
            }
        }
        // The one key of an array or a buffer is a number.
        Value::Array(elements) if elements.len() == 1 => return Err(bad_name()),
        _ => (options.root_name.clone(), value),
    };
    let mut out = String::new();
    if !options.headless {
        out.push_str("<?xml ");
        out.push_str(&options.declaration);
        out.push_str("?>");
        if options.pretty {
            out.push_str(&options.newline);
        }
        if let Some(doctype) = &options.doctype {
            let _ = write!(out, "<!DOCTYPE {name} {doctype}>");
            if options.pretty {
                out.push_str(&options.newline);
            }
        }
    }
    element(&name, value, options, 0)?.write(&mut out, options, options.pretty, 0);
    budget::check()?;
    Ok(out)
}

/// An element that is ready to be written.
struct Element {
    name: SmolStr,
    attributes: Vec<(SmolStr, SmolStr)>,
    inside: Vec<Inside>,
}

enum Inside {
    Element(Element),
    /// Escaped, or a CDATA section.
    Text(String),
}

fn element(name: &str, value: &Value, options: &Options, depth: usize) -> Result<Element, Failure> {
    if !is_name(name) {
        return Err(bad_name());
    }
    if depth >= MAX_DEPTH {
        return Err(Failure::error("Elements are nested too deeply"));
    }
    budget::made(size_of::<Element>() + name.len())?;
    let mut element = Element {
        name: name.into(),
        attributes: Vec::new(),
        inside: Vec::new(),
    };
    match value {
        Value::Object(object) => fill(&mut element, object, options, depth)?,
        Value::Array(elements) => {
            for inner in elements.iter() {
                match inner {
                    Value::Object(object) => fill(&mut element, object, options, depth)?,
                    // Their keys are numbers.
                    Value::String(text) if !text.is_empty() => return Err(bad_name()),
                    Value::Array(inner) if !inner.is_empty() => return Err(bad_name()),
                    _ => {}
                }
            }
        }
        Value::Buffer(bytes) if !bytes.is_empty() => return Err(bad_name()),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => {
            element.push_text(&coerce::to_text(value), options)?;
        }
        _ => {}
    }
    Ok(element)
}

/// The properties of an object become attributes, text and child elements, in their order.
fn fill(
    parent: &mut Element,
    object: &Object,
    options: &Options,
    depth: usize,
) -> Result<(), Failure> {
    for (key, value) in json::entries(object) {
        if *key == options.attrkey {
            for (name, value) in value.as_object().into_iter().flat_map(json::entries) {
                if !is_name(name) {
                    return Err(bad_name());
                }
                let text = coerce::to_text(value);
                check_text(&text)?;
                parent.attributes.push((name.clone(), text));
            }
        } else if *key == options.charkey {
            if !value.is_nullish() {
                parent.push_text(&coerce::to_text(value), options)?;
            }
        } else if let Value::Array(elements) = value {
            for value in elements.iter() {
                let child = element(key, value, options, depth + 1)?;
                parent.inside.push(Inside::Element(child));
            }
        } else {
            let child = element(key, value, options, depth + 1)?;
            parent.inside.push(Inside::Element(child));
        }
    }
    Ok(())
}

impl Element {
    fn push_text(&mut self, text: &str, options: &Options) -> Result<(), Failure> {
        check_text(text)?;
        budget::made(text.len())?;
        if text.is_empty() {
            return Ok(());
        }
        let needs_cdata = options.cdata && text.contains(['&', '<', '>']);
        self.inside.push(Inside::Text(if needs_cdata {
            format!("<![CDATA[{}]]>", text.replace("]]>", "]]]]><![CDATA[>"))
        } else {
            let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
            escaped.replace('>', "&gt;").replace('\r', "&#xD;")
        }));
        Ok(())
    }

    /// Elements with text inside stay on one line.
    fn write(&self, out: &mut String, options: &Options, pretty: bool, depth: usize) {
        out.push('<');
        out.push_str(&self.name);
        for (name, value) in &self.attributes {
            let escaped = value
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('"', "&quot;");
            let escaped = escaped.replace('\t', "&#x9;").replace('\n', "&#xA;");
            out.push(' ');
            out.push_str(name);
            out.push_str("=\"");
            out.push_str(&escaped.replace('\r', "&#xD;"));
            out.push('"');
        }
        if self.inside.is_empty() {
            out.push_str("/>");
            return;
        }
        out.push('>');
        let mixed = self.inside.iter().any(|i| matches!(i, Inside::Text(_)));
        let pretty = pretty && !mixed;
        for inside in &self.inside {
            options.line(out, pretty, depth + 1);
            match inside {
                Inside::Text(text) => out.push_str(text),
                Inside::Element(child) => child.write(out, options, pretty, depth + 1),
            }
        }
        options.line(out, pretty, depth);
        out.push_str("</");
        out.push_str(&self.name);
        out.push('>');
    }
}

impl Options {
    /// Begins a line, where lines are wanted, and as long as the budget of the node lasts.
    fn line(&self, out: &mut String, pretty: bool, depth: usize) {
        let length = self.newline.len() + depth * self.indent.len();
        if pretty && budget::made(length).is_ok() {
            out.push_str(&self.newline);
            for _ in 0..depth {
                out.push_str(&self.indent);
            }
        }
    }
}

fn bad_name() -> Failure {
    Failure::error("Invalid character in name")
}

/// XML 1.0 §2.3, `Name`.
fn is_name(name: &str) -> bool {
    let start = |c: char| {
        matches!(c, ':' | '_' | 'A'..='Z' | 'a'..='z' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}'
            | '\u{f8}'..='\u{2ff}' | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}'
            | '\u{2070}'..='\u{218f}' | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}'
            | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}' | '\u{10000}'..='\u{effff}')
    };
    let inner = |c: char| {
        start(c)
            || matches!(c, '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
    };
    let mut characters = name.chars();
    characters.next().is_some_and(start) && characters.all(inner)
}

/// XML 1.0 §2.2, `Char`: most control characters cannot be in a document.
fn check_text(text: &str) -> Result<(), Failure> {
    let wrong = |c: char| matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    match text.find(wrong) {
        Some(at) => {
            let at = text.get(..at).unwrap_or_default().encode_utf16().count();
            Err(Failure::text(format!(
                "Error: Invalid character in string: {text} at index {at}"
            )))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>";

    fn built(value: &str, options: &Options) -> String {
        match build(&json::parse(value).unwrap(), options) {
            Ok(text) => text,
            Err(failure) => failure.to_string(),
        }
    }

    /// The output of Node-RED 4.1.
    #[test]
    fn values_become_the_text_that_node_red_writes() {
        for (value, expected) in [
            (r#"{"a":1}"#, "<a>1</a>"),
            (
                r#"{"a":{"b":[1,2,{"c":3}],"$":{"x":"1"},"_":"t"}}"#,
                "<a x=\"1\"><b>1</b><b>2</b><b><c>3</c></b>t</a>",
            ),
            (r#"{"a":1,"b":2}"#, "<root><a>1</a><b>2</b></root>"),
            (
                r#"{"root":{"b":null,"c":true,"d":"x<y&z","e":[],"f":{},"g":""}}"#,
                "<root><b/><c>true</c><d>x&lt;y&amp;z</d><f/><g/></root>",
            ),
            (
                r#"{"a":{"$":{"q":"a\"<b>&\n"},"_":"a\"<b>&\n]]>"}}"#,
                "<a q=\"a&quot;&lt;b>&amp;&#xA;\">a\"&lt;b&gt;&amp;\n]]&gt;</a>",
            ),
            (r#"{"a":[1,2]}"#, "<a/>"),
            ("{}", "<root/>"),
            ("[1,2]", "<root/>"),
            (r#"{"a":{"b":[[1,2],[3]]}}"#, "<a><b/><b/></a>"),
            (r#"{"a":{"_":"x","b":"y"}}"#, "<a>x<b>y</b></a>"),
        ] {
            assert_eq!(
                built(value, &Options::default()),
                format!("{HEAD}{expected}")
            );
        }
    }

    #[test]
    fn values_without_an_xml_form_are_refused() {
        for value in [
            r#"{"a b":1}"#,
            r#"{"a":{"1":2}}"#,
            r#"[{"a":1}]"#,
            r#"{"a":{"@":1}}"#,
        ] {
            assert_eq!(
                built(value, &Options::default()),
                "Error: Invalid character in name"
            );
        }
        assert_eq!(
            built(r#"{"a":{"b":"\u0000\u0001"}}"#, &Options::default()),
            "Error: Invalid character in string: \0\u{1} at index 0"
        );
    }

    #[test]
    fn options_shape_the_text() {
        let with =
            |value: &str, options: &str| built(value, &Options::of(&json::parse(options).unwrap()));
        let value = r#"{"a":{"b":1}}"#;
        assert_eq!(with(value, r#"{"headless":true}"#), "<a>\n  <b>1</b>\n</a>");
        assert_eq!(
            with(value, r#"{"renderOpts":{"pretty":false}}"#),
            format!("{HEAD}<a><b>1</b></a>")
        );
        assert_eq!(
            with(r#"{"a":{"b":1},"c":2}"#, r#"{"rootName":"R"}"#),
            format!("{HEAD}\n<R>\n  <a>\n    <b>1</b>\n  </a>\n  <c>2</c>\n</R>")
        );
        assert_eq!(
            with(r#"{"a":{"b":"<x>&"}}"#, r#"{"cdata":true}"#),
            format!("{HEAD}\n<a>\n  <b><![CDATA[<x>&]]></b>\n</a>")
        );
        assert_eq!(
            with(value, r#"{"xmldec":{"version":"1.1","encoding":"X"}}"#),
            "<?xml version=\"1.1\" encoding=\"X\"?>\n<a>\n  <b>1</b>\n</a>"
        );
    }
}
