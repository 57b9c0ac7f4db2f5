//! Finds the features that a function's source uses, without parsing it: comments, texts and regular expressions are
//! skipped.

use super::message_use;
use smol_str::SmolStr;

/// Lines that [`as_function`] puts before the user's first.
pub(super) const LINES_BEFORE: u32 = 1;

/// The token of any text.
pub(super) const TEXT: &str = "\"\"";
/// The token of the rest of a template, behind a `${}`.
const TEMPLATE_REST: &str = "}\"";
/// The token of any regular expression.
pub(super) const REGEX: &str = "/ /";
/// The token before the body of a function without a name.
pub(super) const ARROW: &str = "=>";

/// The features of the source that change how it is run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Uses {
    /// `await`: the function must be an async one.
    pub(super) awaits: bool,
    pub(super) node: NodeUse,
    /// `node.done()`: the code reports itself when it has finished. One with a reason does not count, as in Node-RED.
    pub(super) done: bool,
    /// Maps, sets, typed arrays, or something that may lead to them unseen.
    pub(super) collections: bool,
    /// The properties of the message that the code can see; `None`: all.
    pub(super) visible: Option<Box<[SmolStr]>>,
}

/// The source as an expression that is a function of a message; async only where it must be.
pub(super) fn as_function(source: &str) -> String {
    let kind = if awaits(&tokens(source)) {
        "async function"
    } else {
        "function"
    };
    // The semicolon keeps a `"use strict"` in the source from being a directive, as in Node-RED.
    format!("({kind} (msg, node) {{;\n{source}\n}})")
}

/// Reads a source.
pub(super) fn uses(source: &str) -> Uses {
    let tokens = tokens(source);
    let mut uses = Uses {
        awaits: awaits(&tokens),
        collections: tokens.iter().any(|token| is_collection(token)),
        visible: message_use::visible(&tokens),
        ..Uses::default()
    };
    let of_node = if message_use::shares_node(&tokens) {
        NodeUse::Shared
    } else {
        NodeUse::OfMessage
    };
    let mut last = ["", "", "", ""];
    for token in tokens {
        match token {
            "node" if last[3] != "." => uses.node = of_node,
            ")" if matches!(last, ["node", "." | "?.", "done", "("]) => {
                uses.done = true;
            }
            _ => {}
        }
        last = [last[1], last[2], last[3], token];
    }
    uses
}

/// How a source uses `node`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum NodeUse {
    /// Not at all.
    #[default]
    None,
    /// As an object that can be the same for all messages.
    Shared,
    /// As that of one message.
    OfMessage,
}

/// Whether the word names a collection, or the global object, or makes code of texts.
fn is_collection(word: &str) -> bool {
    matches!(
        word,
        "ArrayBuffer"
            | "Atomics"
            | "DataView"
            | "Map"
            | "Set"
            | "SharedArrayBuffer"
            | "WeakMap"
            | "WeakSet"
    ) || matches!(
        word,
        "Function"
            | "Reflect"
            | "constructor"
            | "eval"
            | "globalThis"
            | "prototype"
            | "this"
            | "with"
            | "\\"
    ) || (word.ends_with("Array") && word != "Array" && word != "isArray")
}

/// Whether the code must be an asynchronous function.
fn awaits(tokens: &[&str]) -> bool {
    let mut before = "";
    tokens.iter().any(|token| {
        let is_await = *token == "await" && before != ".";
        before = token;
        is_await
    })
}

/// The words and signs of a source.
pub(super) fn tokens(source: &str) -> Vec<&str> {
    let tokens = Tokens {
        rest: source,
        regex: true,
        braces: Vec::new(),
    };
    tokens.collect()
}

/// The words and signs of a source. Texts come out as [`TEXT`]; the content of `${}` comes out as code.
struct Tokens<'a> {
    rest: &'a str,
    /// Whether a `/` here would begin a regular expression rather than divide.
    regex: bool,
    /// For every open brace, whether it is the `${` of a template.
    braces: Vec<bool>,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.rest = self.rest.trim_start();
            let first = self.rest.chars().next()?;
            if self.rest.starts_with("//") {
                self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..];
            } else if self.rest.starts_with("/*") {
                self.rest = self.rest[2..]
                    .find("*/")
                    .map_or("", |end| &self.rest[end + 4..]);
            } else if first == '"' || first == '\'' {
                return Some(self.quoted(first));
            } else if first == '`' || (first == '}' && self.braces.last() == Some(&true)) {
                if first == '}' {
                    self.braces.pop();
                }
                return Some(self.template());
            } else if first == '/' && self.regex {
                return Some(self.regular_expression());
            } else if is_word(first) {
                return Some(self.word());
            } else {
                return Some(self.sign(first));
            }
        }
    }
}

impl<'a> Tokens<'a> {
    fn word(&mut self) -> &'a str {
        let (word, rest) = self
            .rest
            .split_at(self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        self.regex = matches!(
            word,
            "return"
                | "typeof"
                | "case"
                | "in"
                | "of"
                | "delete"
                | "void"
                | "throw"
                | "new"
                | "await"
                | "yield"
                | "else"
                | "do"
                | "instanceof"
        );
        word
    }

    fn sign(&mut self, first: char) -> &'a str {
        let long = ["...", "?.", ARROW];
        let long = long.iter().find(|sign| self.rest.starts_with(**sign));
        let length = long.map_or(first.len_utf8(), |sign| sign.len());
        let (sign, rest) = self.rest.split_at(length);
        match first {
            '{' => self.braces.push(false),
            '}' => {
                self.braces.pop();
            }
            _ => {}
        }
        self.rest = rest;
        self.regex = !matches!(first, ')' | ']' | '}');
        sign
    }

    fn quoted(&mut self, quote: char) -> &'a str {
        self.skip_to(|c| c == quote || c == '\n');
        self.regex = false;
        TEXT
    }

    fn template(&mut self) -> &'a str {
        let token = if self.rest.starts_with('`') {
            TEXT
        } else {
            TEMPLATE_REST
        };
        let mut chars = self.rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                chars.next();
            } else if c == '`' {
                self.rest = &self.rest[at + 1..];
                self.regex = false;
                return token;
            } else if c == '$' && chars.peek().is_some_and(|(_, next)| *next == '{') {
                self.rest = &self.rest[at + 2..];
                self.braces.push(true);
                self.regex = true;
                return token;
            }
        }
        self.rest = "";
        token
    }

    fn regular_expression(&mut self) -> &'a str {
        let mut in_class = false;
        self.skip_to(|c| {
            in_class = (in_class || c == '[') && c != ']';
            c == '\n' || (c == '/' && !in_class)
        });
        self.regex = false;
        REGEX
    }

    /// Goes behind the first character, after the opening one, that ends; escaped ones do not.
    fn skip_to(&mut self, mut ends: impl FnMut(char) -> bool) {
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                chars.next();
            } else if ends(c) {
                self.rest = &self.rest[at + c.len_utf8()..];
                return;
            }
        }
        self.rest = "";
    }
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(source: &str) -> bool {
        uses(source).done
    }

    #[test]
    fn only_a_real_call_of_node_done_counts() {
        assert!(done("node.done()"));
        assert!(done("setTimeout(function () { node . done ( ) }, 1)"));
        assert!(done("const t = `${node.done()}`"));
        assert!(!done("// node.done()"));
        assert!(!done("node.done(error)"));
        assert!(!done("/* node.done() */ return msg"));
        assert!(!done("var a = 'node.done()'; var b = \"it's node.done()\""));
        assert!(!done("return `node.done()`"));
        assert!(!done("return /node.done()/.test(msg.payload)"));
        assert!(!done("other.node.done; node.doneness()"));
    }

    #[test]
    fn a_division_is_no_regular_expression() {
        assert!(done("var x = a / 2; node.done(); var y = b / 3"));
        assert!(done("var x = (a) / 2; node.done(); var y = b[1] / 3"));
        assert!(!done("var x = a.replace(/[/'\"]/g, ''); // node.done()"));
    }

    #[test]
    fn await_in_a_text_or_as_a_property_makes_nothing_async() {
        assert!(uses("let x = await y").awaits);
        assert!(!uses("msg.await = 'await'; return msg // await").awaits);
        assert!(!uses("let awaits = 1").awaits);
    }

    #[test]
    fn node_as_a_property_is_not_the_node() {
        assert_eq!(uses("node.send(msg)").node, NodeUse::Shared);
        assert_eq!(uses("f({ ...node })").node, NodeUse::OfMessage);
        assert_eq!(uses("msg.node = 1").node, NodeUse::None);
    }
}
