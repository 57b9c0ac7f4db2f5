//! Property expressions: `a.b[0]["c"]`, with nested `[msg.x]` (docs/reference/node-red-engine.md
//! §4.1), parsed once, when their node is built, and written back as text.
//!
//! The failures are worded as Node-RED words them (observed on `@node-red/util` 4.1.15).

use crate::{Failure, MAX_DEPTH};
use smol_str::SmolStr;
use std::{fmt, slice};

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// `.name` or `["name"]`.
    Name(SmolStr),
    /// `[0]`.
    Index(usize),
    /// `[msg.x]`: the value of another path in the message.
    Nested(Box<Path>),
}

/// A parsed property expression; parsed once, when the node is built.
#[derive(Debug, Clone, PartialEq)]
pub struct Path(Form);

#[derive(Debug, Clone, PartialEq)]
enum Form {
    /// One key, as most paths are: it is here, and has no memory of its own.
    One(Key),
    /// Several keys, or a store.
    Full(Box<Full>),
}

#[derive(Debug, Clone, PartialEq)]
struct Full {
    keys: Box<[Key]>,
    store: Option<Box<str>>,
}

impl Path {
    /// A path of these steps, in the context store of this name; at least one step.
    pub fn new(keys: impl Into<Vec<Key>>, store: Option<Box<str>>) -> Self {
        let mut keys = keys.into();
        Self(match keys.pop() {
            Some(only) if keys.is_empty() && store.is_none() => Form::One(only),
            last => {
                keys.extend(last);
                let keys = keys.into();
                Form::Full(Box::new(Full { keys, store }))
            }
        })
    }

    /// Parses a property expression; a failure gives the error and its position, as Node-RED's
    /// does.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let (store, key) = split_store(text);
        Ok(Self::new(keys(key)?, store))
    }

    /// Parses a property of the message; a leading `msg.` is ignored.
    pub fn parse_message(text: &str) -> Result<Self, Failure> {
        let keys = keys(text.strip_prefix("msg.").unwrap_or(text))?;
        Ok(Self::new(keys, None))
    }

    /// A path of one name.
    pub fn name(name: impl Into<SmolStr>) -> Self {
        Self(Form::One(Key::Name(name.into())))
    }

    /// The same in this context store; `None`: in the default one.
    #[must_use]
    pub fn in_store(&self, store: Option<&str>) -> Self {
        Self::new(self.keys(), store.map(Into::into))
    }

    /// The steps; at least one.
    #[inline]
    pub fn keys(&self) -> &[Key] {
        match &self.0 {
            Form::One(key) => slice::from_ref(key),
            Form::Full(full) => &full.keys,
        }
    }

    /// The context store named by `#:(store)::`, if any.
    pub fn store(&self) -> Option<&str> {
        match &self.0 {
            Form::One(_) => None,
            Form::Full(full) => full.store.as_deref(),
        }
    }

    /// The name, if this path is nothing else.
    #[inline]
    pub fn as_name(&self) -> Option<&SmolStr> {
        match self.keys() {
            [Key::Name(name)] => Some(name),
            _ => None,
        }
    }

    /// Returns whether a property of the message is read, or written, to follow this path in the
    /// message.
    pub fn touches(&self, property: &str) -> bool {
        let is_first = match self.keys().first() {
            Some(Key::Name(name)) => name == property,
            _ => true,
        };
        is_first || self.is_nested()
    }

    /// Returns whether a nested `[msg.x]` must be resolved before use.
    #[inline]
    pub fn is_nested(&self) -> bool {
        self.keys().iter().any(|key| matches!(key, Key::Nested(_)))
    }
}

/// Splits `#:(store)::key` into the store's name and the key.
fn split_store(text: &str) -> (Option<Box<str>>, &str) {
    let parts = text
        .strip_prefix("#:(")
        .and_then(|rest| rest.split_once(")::"));
    match parts {
        Some((store, key)) => (Some(store.into()), key),
        None => (None, text),
    }
}

/// An index, as decimal digits.
pub(super) fn index(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// A failure with the code that Node-RED gives to malformed expressions.
pub(super) fn invalid(message: String) -> Failure {
    Failure {
        code: SmolStr::new_static("INVALID_EXPR"),
        ..Failure::error(message)
    }
}

/// Parses the keys of an expression.
fn keys(text: &str) -> Result<Vec<Key>, Failure> {
    keys_within(text, 0)
}

/// Paths inside paths, at most; ours. They are read by a function that calls itself, and the stack
/// has an end.
const DEPTH: usize = 32;

/// Parses the keys of a path inside `depth` others.
fn keys_within(text: &str, depth: usize) -> Result<Vec<Key>, Failure> {
    if text.is_empty() {
        return Err(error("zero-length"));
    }
    if depth > DEPTH {
        return Err(error("nested too deeply"));
    }
    let mut parser = Parser {
        depth,
        chars: text.chars().collect(),
        at: 0,
        start: 0,
        boxed: false,
        keys: Vec::new(),
    };
    parser.run()?;
    if parser.keys.len() > MAX_DEPTH {
        return Err(error("too many keys"));
    }
    Ok(parser.keys)
}

fn error(what: impl fmt::Display) -> Failure {
    invalid(format!("Invalid property expression: {what}"))
}

fn unexpected(what: impl fmt::Display, position: usize) -> Failure {
    error(format_args!("unexpected {what} at position {position}"))
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    /// The start of the key being read.
    start: usize,
    boxed: bool,
    keys: Vec<Key>,
    /// The number of paths around it.
    depth: usize,
}

impl Parser {
    fn run(&mut self) -> Result<(), Failure> {
        while let Some(&c) = self.chars.get(self.at) {
            match c {
                '\'' | '"' => self.quoted(c)?,
                '.' => self.dot()?,
                '[' => self.open()?,
                ']' => self.close()?,
                ' ' => return Err(unexpected("' '", self.at)),
                _ => {}
            }
            self.at += 1;
        }
        if self.boxed {
            return Err(error("unterminated expression"));
        }
        if self.start < self.chars.len() {
            let name = self.slice(self.start, self.chars.len());
            self.keys.push(Key::Name(name));
        }
        Ok(())
    }

    fn slice(&self, from: usize, to: usize) -> SmolStr {
        self.chars
            .get(from..to)
            .into_iter()
            .flatten()
            .copied()
            .collect()
    }

    fn next(&self) -> Option<char> {
        self.chars.get(self.at + 1).copied()
    }

    /// A quoted key, from its opening quote to its closing one.
    fn quoted(&mut self, quote: char) -> Result<(), Failure> {
        if self.at != self.start {
            return Err(unexpected(quote, self.at));
        }
        let start = self.at + 1;
        let length = self.chars.iter().skip(start).position(|c| *c == quote);
        let end = start + length.ok_or_else(|| error("unterminated expression"))?;
        if end == start {
            return Err(error(format_args!(
                "zero-length string at position {start}"
            )));
        }
        self.at = end;
        match self.next() {
            Some(c) if self.boxed && c != ']' => {
                return Err(unexpected("array expression", start));
            }
            Some(c) if !self.boxed && c != '[' && c != '.' => {
                return Err(unexpected(format_args!("{c} expression"), end + 1));
            }
            _ => {}
        }
        self.keys.push(Key::Name(self.slice(start, end)));
        self.start = end + 1;
        Ok(())
    }

    /// Ends the key before a `.` or `[`, if there is one.
    fn finish_key(&mut self) {
        if self.start != self.at {
            let text = self.slice(self.start, self.at);
            self.keys
                .push(index(&text).map_or(Key::Name(text), Key::Index));
        }
    }

    fn dot(&mut self) -> Result<(), Failure> {
        if self.at == 0 {
            return Err(unexpected('.', 0));
        }
        self.finish_key();
        match self.next() {
            None => Err(error("unterminated expression")),
            Some(c) if c.is_ascii_alphanumeric() || c == '$' || c == '_' => {
                self.start = self.at + 1;
                Ok(())
            }
            Some(c) => Err(unexpected(c, self.at + 1)),
        }
    }

    fn open(&mut self) -> Result<(), Failure> {
        if self.at == 0 {
            return Err(unexpected('[', 0));
        }
        self.finish_key();
        let rest: String = self.chars.iter().skip(self.at + 1).take(4).collect();
        if rest == "msg." || rest == "msg[" {
            return self.nested();
        }
        match self.next() {
            None => Err(error("unterminated expression")),
            Some(c) if c == '"' || c == '\'' || c.is_ascii_digit() => {
                self.start = self.at + 1;
                self.boxed = true;
                Ok(())
            }
            Some(c) => Err(unexpected(c, self.at + 1)),
        }
    }

    /// `[msg.x]`, up to the bracket that closes it.
    fn nested(&mut self) -> Result<(), Failure> {
        let opened = self.at;
        let (mut depth, mut quote, mut end) = (1, None, None);
        for (i, &c) in self.chars.iter().enumerate().skip(opened + 1) {
            match (quote, c) {
                (Some(q), _) => quote = Some(q).filter(|q| *q != c),
                (None, '"' | '\'') => quote = Some(c),
                (None, '[') => depth += 1,
                (None, ']') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                end = Some(i);
                break;
            }
        }
        let end = end.ok_or_else(|| error(format_args!("unmatched '[' at position {opened}")))?;
        let text = self.slice(opened + 1, end);
        // `msg[0]` keeps its bracket: the message itself is the first key then.
        let keys = match text.strip_prefix("msg.") {
            Some(below) => keys_within(below, self.depth + 1)?,
            None => keys_within(&text, self.depth + 1)?.split_off(1),
        };
        self.keys.push(Key::Nested(Box::new(Path::new(keys, None))));
        self.at = end;
        self.start = end + 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        if !self.boxed {
            return Err(unexpected(']', self.at));
        }
        if self.start != self.at {
            let text = self.slice(self.start, self.at);
            let key = index(&text).ok_or_else(|| unexpected("array expression", self.start))?;
            self.keys.push(Key::Index(key));
        }
        self.start = self.at + 1;
        self.boxed = false;
        Ok(())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Name(name) => f.write_str(name),
            Key::Index(index) => write!(f, "{index}"),
            Key::Nested(path) => write!(f, "{path}"),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("msg")?;
        for key in self.keys() {
            write!(f, "[\"{key}\"]")?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_the_keys_that_node_red_gives_them() {
        let table = [
            ("a", "[a]"),
            ("a.b", "[a, b]"),
            ("a[0]", "[a, #0]"),
            ("a['b c'].d", "[a, b c, d]"),
            ("a.0", "[a, 0]"),
            ("a.0.b", "[a, #0, b]"),
            ("a[msg.x.y][0].c", "[a, {x, y}, #0, c]"),
            ("a[msg['x']].b", "[a, {x}, b]"),
            ("a[msg[0]]", "[a, {#0}]"),
            ("'a'.b", "[a, b]"),
            ("a['b']c", "[a, b, c]"),
            ("a[0]b", "[a, #0, b]"),
            ("a[\"b'c\"]", "[a, b'c]"),
            ("a-b", "[a-b]"),
        ];
        for (text, expected) in table {
            assert_eq!(
                format!("[{}]", list(&keys(text).unwrap())),
                expected,
                "{text}"
            );
        }
    }

    fn list(keys: &[Key]) -> String {
        let shown = keys.iter().map(|key| match key {
            Key::Name(name) => name.to_string(),
            Key::Index(index) => format!("#{index}"),
            Key::Nested(path) => format!("{{{}}}", list(path.keys())),
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn malformed_expressions_are_refused_with_node_reds_messages() {
        let table = [
            ("", "zero-length"),
            (".a", "unexpected . at position 0"),
            ("a.", "unterminated expression"),
            ("a..b", "unexpected . at position 2"),
            ("a[", "unterminated expression"),
            ("a[b]", "unexpected b at position 2"),
            ("a['']", "zero-length string at position 3"),
            ("a['b'c]", "unexpected array expression at position 3"),
            ("'a'b", "unexpected b expression at position 3"),
            ("a b", "unexpected ' ' at position 1"),
            ("a]", "unexpected ] at position 1"),
            ("['a']", "unexpected [ at position 0"),
            ("a[0b]", "unexpected array expression at position 2"),
            ("a['b]", "unterminated expression"),
            ("a[msg.x", "unmatched '[' at position 1"),
        ];
        for (text, expected) in table {
            let failure = keys(text).unwrap_err();
            assert_eq!(
                failure.message,
                format!("Invalid property expression: {expected}"),
                "{text}"
            );
            assert_eq!(failure.code, "INVALID_EXPR");
        }
    }

    #[test]
    fn the_nesting_depth_of_paths_is_limited() {
        let nested = |depth: usize| "a[msg.".repeat(depth) + "b" + &"]".repeat(depth);
        assert!(keys(&nested(DEPTH)).is_ok());
        for depth in [DEPTH + 1, 100_000] {
            let failure = keys(&nested(depth)).unwrap_err();
            assert!(failure.message.ends_with("nested too deeply"));
        }
    }

    #[test]
    fn a_key_may_have_a_store_prefix() {
        assert_eq!(split_store("#:(disk)::a.b"), (Some("disk".into()), "a.b"));
        assert_eq!(split_store("a.b"), (None, "a.b"));
    }
}
