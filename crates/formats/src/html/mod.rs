//! Elements of an HTML text: found with a CSS selector, given as HTML, as text, or as their
//! attributes.

mod counted;
mod select;
mod sink;

use html5ever::driver::{self, ParseOpts, Parser};
use html5ever::tendril::TendrilSink;
use html5ever::{QualName, local_name, ns};
use scraper::node::{Element, Node as Part};
use scraper::{ElementRef, Html as Document};
pub use select::Select;
use select::inner_text;
use sink::Sink;
use smol_str::SmolStr;
use std::fmt::Write;
use value::{Failure, Object, Value, budget};

/// The bytes of an attribute beside its value, and of an object without content, about.
const ATTRIBUTE: usize = 64;
const OBJECT: usize = 160;

/// Elements within elements, at most. Our choice: browsers stop at 512.
const DEPTH: usize = 1000;

/// Bytes that are read before depth and budget are looked at. The parser cannot be stopped within
/// them.
const PIECE: usize = 512;

/// The part of an element to return.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gives {
    /// Its inside, as XML.
    Html,
    /// Its text.
    Text,
    /// Its attributes.
    Attributes,
    /// Its attributes, and its inside as HTML under a key.
    Both,
}

/// Gives each element that a selector picks; with [`Gives::Both`], its inside is under `key`.
pub fn pick(
    text: &str,
    selector: &Select,
    gives: Gives,
    key: &SmolStr,
) -> Result<Vec<Value>, Failure> {
    let document = parse(text)?;
    let picked = selector.pick(&document)?;
    picked.into_iter().map(|e| given(e, gives, key)).collect()
}

fn given(element: ElementRef<'_>, gives: Gives, key: &SmolStr) -> Result<Value, Failure> {
    Ok(match gives {
        // Node-RED reads the inside as HTML once more: the names of drawings lose their capitals.
        Gives::Html => {
            let inside = parse_fragment(inner_html(element)?.trim())?;
            Value::from(inner_xml(inside.root_element())?.trim())
        }
        Gives::Text => Value::from(inner_text(element)?),
        Gives::Attributes => {
            let bytes = attributes(element).map(|(_, value)| ATTRIBUTE + text_length(&value));
            budget::made(OBJECT + bytes.sum::<usize>())?;
            Value::object(attributes(element).collect())
        }
        Gives::Both => {
            let inside = (key.clone(), Value::from(inner_html(element)?.trim()));
            let bytes = attributes(element).map(|(_, value)| ATTRIBUTE + text_length(&value));
            budget::made(OBJECT + bytes.sum::<usize>())?;
            let members = std::iter::once(inside).chain(attributes(element));
            Value::object(members.collect::<Object>())
        }
    })
}

fn text_length(value: &Value) -> usize {
    value.as_str().map_or(0, str::len)
}

/// The inside of an element as HTML. It is no longer than the document, with its references written
/// out: the budget is looked at before and after.
fn inner_html(element: ElementRef<'_>) -> Result<String, Failure> {
    budget::check()?;
    let html = element.inner_html();
    budget::made(html.len())?;
    Ok(html)
}

/// Reads a document.
fn parse(text: &str) -> Result<Document, Failure> {
    let sink = Sink::new(Document::new_document());
    read(driver::parse_document(sink, ParseOpts::default()), text)
}

/// Reads the inside of an element, whichever it was: `tr` and `td` may stand without a table.
fn parse_fragment(text: &str) -> Result<Document, Failure> {
    let sink = Sink::new(Document::new_fragment());
    let context = QualName::new(None, ns!(html), local_name!("template"));
    read(
        driver::parse_fragment(sink, ParseOpts::default(), context, Vec::new(), false),
        text,
    )
}

fn read(mut parser: Parser<Sink>, text: &str) -> Result<Document, Failure> {
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        parser.process(piece.into());
        if parser.tokenizer.sink.sink.is_deeper_than(DEPTH) {
            return Err(Failure::error(format!(
                "elements are nested more than {DEPTH} deep"
            )));
        }
        budget::check()?;
        rest = after;
    }
    Ok(parser.finish())
}

fn attributes(element: ElementRef<'_>) -> impl Iterator<Item = (SmolStr, Value)> {
    let attributes = element.value().attrs();
    attributes.map(|(name, value)| (SmolStr::new(name), Value::from(value)))
}

/// The inside of an element as XML, in which elements without content close themselves and other
/// characters than those of ASCII are references: so Node-RED gives it. Walked without recursion:
/// HTML nests as deep as it likes.
fn inner_xml(element: ElementRef<'_>) -> Result<String, Failure> {
    let mut out = String::new();
    // The nodes still to be written, and whether only their end is.
    let mut stack: Vec<_> = element.children().rev().map(|node| (node, false)).collect();
    while let Some((node, ends)) = stack.pop() {
        let made = out.len();
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
        budget::made(out.len() - made)?;
    }
    Ok(out)
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};
    use value::json;

    const PAGE: &str = "<html><head><title>T</title></head><body><ul id=\"u\"><li class=a>One <b>bold</b> &amp; x</li><li>Two<br>3</li><li></li></ul><p data-x=\"1\" class=\"q r\">a&nbsp;b<!--c--></p></body></html>";

    fn picked(tag: &str, gives: Gives) -> String {
        let selector = Select::parse(tag).unwrap();
        let picked = pick(PAGE, &selector, gives, &"_".into()).unwrap();
        json::stringify(&Value::array(picked)).unwrap()
    }

    /// The results of Node-RED 4.1 for the same page.
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
    fn elements_may_nest_deeply_up_to_a_limit() {
        let first = |depth: usize| {
            let document = parse(&"<b>".repeat(depth))?;
            let first = Select::parse("b").unwrap().pick(&document)?[0];
            inner_xml(first)
        };
        assert!(first(900).unwrap().starts_with("<b><b>"));
        let since = Instant::now();
        let error = first(1_000_000).unwrap_err();
        assert!(since.elapsed() < Duration::from_secs(1));
        assert_eq!(error.message, "elements are nested more than 1000 deep");
    }

    #[test]
    fn the_nesting_depth_of_selectors_is_limited() {
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
