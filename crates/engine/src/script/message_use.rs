//! Finds the properties of its message that a function's code can see, so that only those are
//! converted.
//!
//! Code sees all of them as soon as it does anything with `msg` but read and write named
//! properties, return it, or send it before it returns. This reads the words of a source without
//! parsing it; where they could mean several things, the code sees everything.

use super::tokens::{ARROW, REGEX, TEXT, is_word};
use smol_str::SmolStr;

/// Code with one of these words may reach the message without naming it, or make properties mean
/// something else.
const OPAQUE: [&str; 7] = [
    "arguments",
    "await",
    "class",
    "eval",
    "prototype",
    "with",
    "\\",
];

/// Words before a parenthesis after which a brace begins a block.
const CONTROL: [&str; 6] = ["catch", "for", "if", "switch", "while", "with"];

/// Properties that every object has, unless it has its own.
const INHERITED: [&str; 12] = [
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// The properties of the message that the code can see; `None`: all.
pub(super) fn visible(tokens: &[&str]) -> Option<Box<[SmolStr]>> {
    let mut reading = Reading {
        tokens,
        braces: Vec::new(),
        parens: Vec::new(),
        closed: "",
        has_arrow: false,
        visible: Vec::new(),
        deleted: Vec::new(),
    };
    let mut at = 0;
    while at < tokens.len() {
        at = reading.read(at)?;
    }
    let Reading {
        mut visible,
        deleted,
        ..
    } = reading;
    let is_balanced = reading.braces.is_empty() && reading.parens.is_empty();
    // A property that is deleted and set again goes to the end, behind those that the code does not
    // see.
    if !is_balanced || deleted.iter().any(|name| visible.contains(name)) {
        return None;
    }
    visible.extend(deleted);
    Some(visible.into())
}

/// Returns whether `node` can be the same object for all messages: the code only calls methods of
/// it that do not depend on the message, or `send` before it returns.
pub(super) fn shares_node(tokens: &[&str]) -> bool {
    let nests = |token: &&str| [ARROW, "await", "class", "function"].contains(token);
    let is_flat = !tokens.iter().any(nests) && visible(tokens).is_some();
    let mut uses = tokens
        .iter()
        .enumerate()
        .filter(|(at, token)| **token == "node" && !is_property(tokens, *at));
    uses.all(|(at, _)| match tokens.get(at + 1..at + 4) {
        Some([".", "send", "("]) => is_flat,
        Some([".", method, "("]) => {
            ["debug", "error", "log", "on", "status", "trace", "warn"].contains(method)
        }
        _ => false,
    })
}

/// The kind of an open brace.
#[derive(Clone, Copy, PartialEq)]
enum Brace {
    Block,
    /// The body of a function within the code.
    Function,
    /// An object.
    Literal,
}

struct Reading<'a> {
    tokens: &'a [&'a str],
    braces: Vec<Brace>,
    /// The word before each open parenthesis.
    parens: Vec<&'a str>,
    /// The word before the parenthesis that was closed last.
    closed: &'a str,
    /// True if there was a function without braces: its end is unknown.
    has_arrow: bool,
    visible: Vec<SmolStr>,
    /// Properties that the code only deletes.
    deleted: Vec<SmolStr>,
}

impl<'a> Reading<'a> {
    /// Reads what begins at this token; returns where the next begins. `None`: the code sees
    /// everything.
    fn read(&mut self, at: usize) -> Option<usize> {
        match self.tokens[at] {
            "(" => self.parens.push(self.token(at, -1)),
            ")" => self.closed = self.parens.pop()?,
            "{" => self.braces.push(self.brace(at)),
            "}" => drop(self.braces.pop()?),
            ARROW => self.has_arrow |= self.token(at, 1) != "{",
            REGEX | "/" | "<" | "-" if is_doubtful(self.tokens, at, self.closed) => return None,
            token if OPAQUE.contains(&token) && !is_property(self.tokens, at) => return None,
            "prototype" | "__proto__" | "setPrototypeOf" | "getPrototypeOf" => return None,
            "return" => {
                let end = self.outlet(at + 1).unwrap_or(at + 1);
                return Some(if matches!(self.token(end, 0), ";" | "}" | "") {
                    end
                } else {
                    at + 1
                });
            }
            "msg" if !is_property(self.tokens, at) => return self.property(at),
            "node" if !is_property(self.tokens, at) => return self.node(at),
            _ => {}
        }
        Some(at + 1)
    }

    /// The token that stands this far from another one; empty beyond the ends.
    fn token(&self, at: usize, offset: isize) -> &'a str {
        let at = at.checked_add_signed(offset);
        at.and_then(|at| self.tokens.get(at)).unwrap_or(&"")
    }

    fn brace(&self, at: usize) -> Brace {
        match self.token(at, -1) {
            ARROW => Brace::Function,
            // In an object, `if (x) {` is a method.
            ")" if !CONTROL.contains(&self.closed)
                || self.braces.last() == Some(&Brace::Literal) =>
            {
                Brace::Function
            }
            ")" | ";" | "{" | "}" | "" | "else" | "try" | "finally" | "do" | "catch" => {
                Brace::Block
            }
            _ => Brace::Literal,
        }
    }

    /// The end of `msg`, or of a list with it, that begins here and leaves the code at once; `None`
    /// if it is neither.
    fn outlet(&self, at: usize) -> Option<usize> {
        match self.token(at, 0) {
            _ if self.braces.contains(&Brace::Function) => return None,
            "msg" => return Some(at + 1),
            "[" => {}
            _ => return None,
        }
        let mut depth = 0;
        for (end, token) in self.tokens.iter().enumerate().skip(at) {
            match *token {
                "[" => depth += 1,
                "]" => depth -= 1,
                "msg" | "null" | "undefined" | "," => {}
                _ => return None,
            }
            if depth == 0 {
                return Some(end + 1);
            }
        }
        None
    }

    /// `msg.name`, which is no call: a method would get the whole message as its `this`.
    fn property(&mut self, at: usize) -> Option<usize> {
        let name = self.token(at, 2);
        let is_name =
            name.starts_with(|c| is_word(c) && !c.is_numeric()) && !INHERITED.contains(&name);
        let is_call = match self.token(at, 3) {
            "(" | TEXT => true,
            "?." => self.token(at, 4) == "(",
            _ => false,
        };
        if !matches!(self.token(at, 1), "." | "?.") || !is_name || is_call {
            return None;
        }
        let is_deleted =
            self.token(at, -1) == "delete" && !matches!(self.token(at, 3), "." | "[" | "?.");
        let names = if is_deleted {
            &mut self.deleted
        } else {
            &mut self.visible
        };
        if !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
        Some(at + 3)
    }

    /// `node.name`, of which `done` keeps the message for later, and nothing can be replaced.
    fn node(&self, at: usize) -> Option<usize> {
        let method = self.token(at, 2);
        if self.token(at, 1) != "." || method == "done" || self.token(at, 3) == "=" {
            return None;
        }
        if method == "send"
            && self.token(at, 3) == "("
            && self.parens.is_empty()
            && !self.has_arrow
            && let Some(end) = self.outlet(at + 4)
            && self.token(end, 0) == ")"
        {
            return Some(end + 1);
        }
        Some(at + 1)
    }
}

/// Returns whether a `/` may be read wrongly, or a comment of HTML begins here. `closed` is the
/// word before the parenthesis that was closed last.
pub(super) fn is_doubtful(tokens: &[&str], at: usize, closed: &str) -> bool {
    let token = |offset: isize| {
        let at = at.checked_add_signed(offset);
        at.and_then(|at| tokens.get(at)).copied().unwrap_or("")
    };
    let (before, second) = (token(-1), token(-2));
    match token(0) {
        "<" => token(1) == "!",
        "-" => token(1) == "-" && token(2) == ">",
        "/" => before == "}" || (before == ")" && CONTROL.contains(&closed)),
        REGEX => {
            let is_postfix = matches!(before, "+" | "-") && before == second;
            is_postfix || second == "." || matches!(before, "." | "of" | "yield")
        }
        _ => false,
    }
}

fn is_property(tokens: &[&str], at: usize) -> bool {
    at > 0 && matches!(tokens[at - 1], "." | "?.")
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;

    fn seen(source: &str) -> Option<String> {
        super::visible(&tokens(source)).map(|names| names.join(" "))
    }

    #[test]
    fn code_that_uses_named_properties_sees_only_those() {
        for (source, names) in [
            ("return msg;", ""),
            ("msg.k = (msg.k || 0) + 1;\nreturn msg;", "k"),
            (
                "if (msg.payload > 5) { return [msg, null]; }\nreturn [null, msg]",
                "payload",
            ),
            ("node.send(msg); return null", ""),
            ("node.send([msg, [msg, msg]])\nreturn", ""),
            (
                "msg.payload = msg.payload?.a ?? msg?.topic; return msg",
                "payload topic",
            ),
            (
                "const n = msg.list.map(x => x * 2).length; msg.n = n; node.warn(n); return msg",
                "list n",
            ),
            (
                "for (const x of msg.list) { if (x) { return msg } }",
                "list",
            ),
            (
                "setTimeout(() => { node.warn(msg.topic) }, 5); return msg",
                "topic",
            ),
            (
                "const o = { msg_: 1, f() { return 1 } }; msg.payload = `${msg.topic} ${o.f()}`; return msg",
                "payload topic",
            ),
            (
                "msg.payload = (1 + 2) / 3; msg.x = /msg/.test('msg'); delete msg.y; return msg // msg",
                "payload x y",
            ),
        ] {
            assert_eq!(seen(source).as_deref(), Some(names), "{source}");
        }
    }

    #[test]
    fn code_that_could_see_more_sees_everything() {
        for source in [
            "const m = msg; return m",
            "return { ...msg }",
            "return RED.util.cloneMessage(msg)",
            "msg = {}; return msg",
            "return msg[name]",
            "return msg || null",
            "return msg.hasOwnProperty('a')",
            "const f = msg.toString; return msg",
            "msg.f`x`",
            "msg.f?.(1)",
            "for (const k in msg) {}",
            "node.error('x', msg)",
            "node.send({ ...msg })",
            "return [msg, {}].map(f)",
            "setTimeout(() => node.send(msg), 5)",
            "setTimeout(function () { node.send(msg) }, 5)",
            "f(node.send(msg))",
            "[1].map(function () { return msg })",
            "[1].map(() => { return [msg] })",
            "({ if (x) { return msg } }).if(1)",
            "const { payload } = msg",
            "arguments[0].x",
            "eval('m' + 'sg')",
            "with (x) {}",
            "m\\u0073g.x",
            "let msg;",
            "class A { x = node.send(msg) }",
            "node.done()",
            "const n = node; return msg",
            "node.send = f; node.send(msg)",
            "`${msg}`",
            "msg.__proto__.x",
            "Object.prototype.x = 1; return msg",
            "if (a) /}/.test(b); return msg",
            "x = i++ / 2; y = msg; z = 1 / 2",
            "<!-- {\nreturn msg",
            "(msg) => msg.x",
            "'x' in msg",
            "await x; return msg",
            "delete msg.x; msg.x = 1; return msg",
        ] {
            assert_eq!(seen(source), None, "{source}");
        }
    }

    #[test]
    fn a_node_is_shared_unless_its_methods_outlive_the_message() {
        let shares = |source| super::shares_node(&tokens(source));
        assert!(shares(
            "node.warn(1); node.status({}); node.send(msg); return null"
        ));
        assert!(shares("setTimeout(() => node.warn(1), 5)"));
        assert!(!shares("setTimeout(() => node.send({}), 5)"));
        assert!(!shares("node.done()"));
        assert!(!shares("f(node)"));
        assert!(!shares("const { send } = node; send(msg)"));
    }
}
