//! `html`: picks elements out of an HTML text with a CSS selector.

use super::html_select::Select;
use crate::engine::expression::{Path, coerce};
use crate::engine::message::Message;
use crate::engine::node::{Build, Host, Node};
use crate::engine::value::{Failure, Object, Value};
use html5ever::driver::{self, ParseOpts};
use html5ever::tendril::TendrilSink;
use scraper::node::{Element, Node as Part};
use scraper::{ElementRef, Html as Document, HtmlTreeSink};
use serde::Deserialize;
use smol_str::SmolStr;
use std::fmt::Write;

/// Elements within elements, at most. Our choice: browsers stop at 512.
const DEPTH: usize = 1000;

/// Bytes that are read before the depth is looked at.
const PIECE: usize = 4096;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    property: Option<SmolStr>,
    outproperty: Option<SmolStr>,
    tag: SmolStr,
    ret: SmolStr,
    r#as: SmolStr,
    chr: SmolStr,
}

struct Html {
    from: Path,
    to: Path,
    /// `None`: `msg.select` says it.
    tag: Option<Result<Select, Failure>>,
    gives: Gives,
    one_array: bool,
    /// The key of an element's content beside its attributes.
    key: SmolStr,
}

/// What of an element is given.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gives {
    /// Its inside, as XML.
    Html,
    Text,
    Attributes,
    /// Its attributes, and its inside as HTML.
    Both,
}

pub(in crate::engine::nodes) fn build(build: &Build<'_>) -> Result<Box<dyn Node>, Failure> {
    let properties: Properties = build.properties()?;
    let given = |name: Option<SmolStr>| name.filter(|name| !name.is_empty());
    let from = given(properties.property).unwrap_or(SmolStr::new_static("payload"));
    let to = given(properties.outproperty).unwrap_or(from.clone());
    Ok(Box::new(Html {
        from: Path::parse_message(&from)?,
        to: Path::parse_message(&to)?,
        tag: Some(properties.tag)
            .filter(|t| !t.is_empty())
            .map(|t| Select::parse(&t)),
        gives: match properties.ret.as_str() {
            "text" => Gives::Text,
            "attr" => Gives::Attributes,
            "compl" => Gives::Both,
            _ => Gives::Html,
        },
        one_array: properties.r#as != "multi",
        key: Some(properties.chr)
            .filter(|c| !c.is_empty())
            .unwrap_or(SmolStr::new_static("_")),
    }))
}

/// All that can be given of what a selector picks.
#[cfg(any(test, fuzzing))]
pub(super) fn pick(document: &str, selector: &str) {
    for gives in [Gives::Html, Gives::Text, Gives::Attributes, Gives::Both] {
        let node = Html {
            from: Path::name("from"),
            to: Path::name("to"),
            tag: Some(Select::parse(selector)),
            gives,
            one_array: true,
            key: SmolStr::new_static("_"),
        };
        let _ = node.pick(document, &Value::Undefined);
    }
}

impl Html {
    /// What is given of each element that the selector picks; nothing without a selector.
    fn pick(&self, text: &str, select: &Value) -> Result<Vec<Value>, Failure> {
        let own;
        let selector = match (&self.tag, select) {
            (Some(tag), _) => tag.as_ref().map_err(Clone::clone)?,
            (None, Value::String(text)) if !text.is_empty() => {
                own = Select::parse(text)?;
                &own
            }
            (None, _) => return Ok(Vec::new()),
        };
        let document = parse(text)?;
        let picked = selector.pick(&document);
        Ok(picked.into_iter().map(|e| self.given(e)).collect())
    }

    fn given(&self, element: ElementRef<'_>) -> Value {
        match self.gives {
            Gives::Html => Value::from(inner_xml(element).trim()),
            Gives::Text => Value::from(element.text().collect::<String>()),
            Gives::Attributes => Value::object(attributes(element).collect()),
            Gives::Both => {
                let inside = (self.key.clone(), Value::from(element.inner_html().trim()));
                Value::object(
                    std::iter::once(inside)
                        .chain(attributes(element))
                        .collect::<Object>(),
                )
            }
        }
    }

    fn send_each(&self, message: &Message, picked: Vec<Value>, host: &mut Host<'_>) {
        let count = picked.len() as f64;
        for (index, value) in picked.into_iter().enumerate() {
            // An empty text is no message, but counts (observed).
            if value.as_str() == Some("") {
                continue;
            }
            let mut out = message.clone();
            if let Err(failure) = self.to.write_message(&mut out, value) {
                return host.error(failure, Some(out));
            }
            let parts = [
                ("id", message.get("_msgid").clone()),
                ("index", Value::Number(index as f64)),
                ("count", Value::Number(count)),
                ("type", "string".into()),
                ("ch", "".into()),
            ];
            out.set("parts", Value::record(parts));
            host.send(0, out);
        }
    }
}

/// Reads a document. Every element that is opened is compared with those around it, so that a deep text takes the
/// square of its length: it is looked at now and then how deep it goes.
fn parse(text: &str) -> Result<Document, Failure> {
    let sink = HtmlTreeSink::new(Document::new_document());
    let mut parser = driver::parse_document(sink, ParseOpts::default());
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        parser.process(piece.into());
        if is_too_deep(&parser.tokenizer.sink.sink.0.borrow()) {
            return Err(Failure::error(format!(
                "elements are nested more than {DEPTH} deep"
            )));
        }
        rest = after;
    }
    Ok(parser.finish())
}

/// Whether the newest elements, which are the last ones everywhere, nest too deep.
fn is_too_deep(document: &Document) -> bool {
    let mut newest = Some(document.tree.root());
    for _ in 0..=DEPTH {
        newest = newest.and_then(|element| element.last_child());
    }
    newest.is_some()
}

fn attributes(element: ElementRef<'_>) -> impl Iterator<Item = (SmolStr, Value)> {
    let attributes = element.value().attrs();
    attributes.map(|(name, value)| (SmolStr::new(name), Value::from(value)))
}

/// The inside of an element as XML, in which elements without content close themselves and other characters
/// than those of ASCII are references: so Node-RED gives it. Walked without recursion: HTML nests as deep as it likes.
fn inner_xml(element: ElementRef<'_>) -> String {
    let mut out = String::new();
    // What is still to be written, and whether only its end is.
    let mut stack: Vec<_> = element.children().rev().map(|node| (node, false)).collect();
    while let Some((node, ends)) = stack.pop() {
        match node.value() {
            Part::Element(inner) if ends => {
                out.push_str("</");
                out.push_str(inner.name());
                out.push('>');
            }
            Part::Element(inner) => {
                start(inner, node.has_children(), &mut out);
                if node.has_children() {
                    stack.push((node, true));
                    stack.extend(node.children().rev().map(|node| (node, false)));
                }
            }
            Part::Text(text) => escape(text, &mut out),
            Part::Comment(comment) => {
                out.push_str("<!--");
                out.push_str(comment);
                out.push_str("-->");
            }
            _ => {}
        }
    }
    out
}

fn start(element: &Element, has_children: bool, out: &mut String) {
    out.push('<');
    out.push_str(element.name());
    for (name, value) in element.attrs() {
        out.push(' ');
        out.push_str(name);
        out.push_str("=\"");
        escape(value, out);
        out.push('"');
    }
    out.push_str(if has_children { ">" } else { "/>" });
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            c if c.is_ascii() => out.push(c),
            c => {
                // Writing to a string cannot fail.
                let _ = write!(out, "&#x{:X};", u32::from(c));
            }
        }
    }
}

impl Node for Html {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_>) {
        let text = match self.from.try_read_message(&message) {
            Ok(Value::Undefined) => return host.pass(message),
            Ok(Value::Null) => {
                let failure = Failure::text("cheerio.load() expects a string");
                return host.error(failure, Some(message));
            }
            Ok(value @ (Value::Number(_) | Value::Bool(_))) => {
                let (kind, text) = (coerce::type_of(&value), coerce::to_text(&value));
                let failure = format!("Cannot create property 'prev' on {kind} '{text}'");
                return host.error(Failure::text(failure), Some(message));
            }
            Ok(Value::Buffer(bytes)) => SmolStr::new(String::from_utf8_lossy(&bytes)),
            Ok(value) => coerce::to_text(&value),
            Err(failure) => return host.error(failure, Some(message)),
        };
        match self.pick(&text, message.get("select")) {
            Ok(picked) if self.one_array => {
                match self.to.write_message(&mut message, Value::array(picked)) {
                    Ok(_) => host.pass(message),
                    Err(failure) => host.error(failure, Some(message)),
                }
            }
            Ok(picked) => {
                self.send_each(&message, picked, host);
                host.done(message);
            }
            Err(failure) => host.error(failure, Some(message)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::engine::expression::json;
    use std::time::{Duration, Instant};

    const PAGE: &str = "<html><head><title>T</title></head><body><ul id=\"u\"><li class=a>One <b>bold</b> &amp; x</li><li>Two<br>3</li><li></li></ul><p data-x=\"1\" class=\"q r\">a&nbsp;b<!--c--></p></body></html>";

    fn picked(tag: &str, gives: Gives) -> String {
        let node = Html {
            from: Path::name("payload"),
            to: Path::name("payload"),
            tag: Some(Select::parse(tag)),
            gives,
            one_array: true,
            key: "_".into(),
        };
        let picked = node.pick(PAGE, &Value::Undefined).unwrap();
        json::stringify(&Value::array(picked)).unwrap()
    }

    /// What Node-RED 4.1 gave of the same page.
    #[test]
    fn elements_are_given_as_node_red_gives_them() {
        assert_eq!(
            picked("li", Gives::Html),
            r#"["One <b>bold</b> &amp; x","Two<br/>3",""]"#
        );
        assert_eq!(picked("li", Gives::Text), r#"["One bold & x","Two3",""]"#);
        assert_eq!(picked("li", Gives::Attributes), r#"[{"class":"a"},{},{}]"#);
        assert_eq!(
            picked("li", Gives::Both),
            r#"[{"_":"One <b>bold</b> &amp; x","class":"a"},{"_":"Two<br>3"},{"_":""}]"#
        );
        assert_eq!(
            picked("ul", Gives::Html),
            r#"["<li class=\"a\">One <b>bold</b> &amp; x</li><li>Two<br/>3</li><li/>"]"#
        );
        assert_eq!(picked("p", Gives::Html), r#"["a&#xA0;b<!--c-->"]"#);
        assert_eq!(
            picked("p", Gives::Both),
            r#"[{"_":"a&nbsp;b<!--c-->","data-x":"1","class":"q r"}]"#
        );
        assert_eq!(
            picked("ul > li.a, p[data-x]", Gives::Text),
            "[\"One bold & x\",\"a\u{a0}b\"]"
        );
        assert_eq!(picked("zzz", Gives::Html), "[]");
    }

    #[test]
    fn elements_may_nest_deeply_but_not_without_end() {
        let first = |depth: usize| {
            let document = parse(&"<b>".repeat(depth))?;
            let first = Select::parse("b").unwrap().pick(&document)[0];
            Ok::<_, Failure>(inner_xml(first))
        };
        assert!(first(900).unwrap().starts_with("<b><b>"));
        let since = Instant::now();
        let error = first(1_000_000).unwrap_err();
        assert!(since.elapsed() < Duration::from_secs(1));
        assert_eq!(error.message, "elements are nested more than 1000 deep");
    }

    #[test]
    fn selectors_may_not_nest_without_end() {
        let nested = |depth: usize| format!("{}b{}", ":is(".repeat(depth), ")".repeat(depth));
        // The library itself reads some 60 that nest.
        assert!(Select::parse(&nested(60)).is_ok());
        for depth in [101, 200_000] {
            let failure = Select::parse(&nested(depth)).err().unwrap();
            assert_eq!(failure.message, "Selector has too many functions");
        }
    }

    #[test]
    fn it_makes_no_difference_where_a_text_is_cut() {
        let long = format!("<p>é&amp;{}</p>", "ü<b>x</b>\r\n".repeat(2000));
        let whole = Document::parse_document(&long).html();
        assert_eq!(parse(&long).unwrap().html(), whole);
    }
}
