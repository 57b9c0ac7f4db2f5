//! Code whose last act is to send its message is compiled as if it returned it: nothing runs afterwards that could change the message,
//! so it need not be copied.
//!
//! This reads the words of a source without parsing it.

use super::message_use::{shares_node, visible};
use super::tokens::tokens;

/// What stands for `node.send(msg)`.
const RETURN: &str = "return msg";

/// The source with a return in the place of the `node.send(msg)` that it ends with, as a statement of its own, perhaps before a
/// return of nothing. `None`: it ends otherwise, or the two might differ.
pub(super) fn returning(source: &str) -> Option<String> {
    let tokens = tokens(source);
    let statements = match without_end(&tokens) {
        [before @ .., "return"] | [before @ .., "return", "null" | "undefined"] => {
            without_end(before)
        }
        all => all,
    };
    let [before @ .., node, ".", "send", "(", "msg", end] = statements else {
        return None;
    };
    // Behind anything else it could be the body of a loop, or a part of an expression.
    if (*node, *end) != ("node", ")") || !matches!(before.last(), None | Some(&(";" | "}"))) {
        return None;
    }
    // Where the code can set the id of the message, only what it returns keeps that.
    let sees_id = |names: Box<[_]>| names.iter().any(|name| name == "_msgid");
    if !shares_node(&tokens) || visible(&tokens).is_none_or(sees_id) {
        return None;
    }
    let position = |token: &str| token.as_ptr().addr() - source.as_ptr().addr();
    let (before, after) = (position(node), position(end) + end.len());
    Some([source.get(..before)?, RETURN, source.get(after..)?].concat())
}

fn without_end<'t, 'a>(mut tokens: &'t [&'a str]) -> &'t [&'a str] {
    while let [before @ .., ";"] = tokens {
        tokens = before;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::returning;

    #[test]
    fn code_that_ends_with_sending_its_message_returns_it() {
        for (source, expected) in [
            ("node.send(msg)", "return msg"),
            ("node.send(msg);", "return msg;"),
            ("node . send ( msg ) // the last", "return msg // the last"),
            (
                "msg.k = 1; node.send(msg); return",
                "msg.k = 1; return msg; return",
            ),
            (
                "msg.k = 1; node.send(msg);;\nreturn null;",
                "msg.k = 1; return msg;;\nreturn null;",
            ),
            (
                "if (msg.k) { msg.k = 2 }\nnode.send(msg); // node.send(msg)",
                "if (msg.k) { msg.k = 2 }\nreturn msg; // node.send(msg)",
            ),
            (
                "for (const x of msg.list) { msg.sum += x } node.send(msg); return undefined;",
                "for (const x of msg.list) { msg.sum += x } return msg; return undefined;",
            ),
            (
                "flow.set('last', msg.payload); node.send(msg)",
                "flow.set('last', msg.payload); return msg",
            ),
            (
                "node.warn('é'); node.send(msg); node.send(msg)",
                "node.warn('é'); node.send(msg); return msg",
            ),
        ] {
            assert_eq!(returning(source).as_deref(), Some(expected), "{source}");
        }
    }

    #[test]
    fn code_that_may_mean_something_else_stays_as_it_is() {
        for source in [
            "node.send(msg); msg.k = 2",
            "for (let i = 0; i < 2; i++) node.send(msg)",
            "while (next()) node.send(msg);",
            "if (msg.k) node.send(msg)",
            "if (msg.k) { node.send(msg) }",
            "else_ = 1, node.send(msg)",
            "setTimeout(() => { msg.k = 2 }, 1); node.send(msg)",
            "function f() { msg.k = 2 } setTimeout(f, 1); node.send(msg)",
            "await ready(); node.send(msg)",
            "msg = fetch(msg.url); node.send(msg)",
            "const m = msg; m._msgid = 'other'; node.send(msg)",
            "msg._msgid = 'other'; node.send(msg)",
            "Object.assign(msg, other); node.send(msg)",
            "let node = other; node.send(msg)",
            "node.send = other; node.send(msg)",
            "node.send(msg, false)",
            "node.send([msg])",
            "return node.send(msg)",
            "other.node.send(msg)",
            "",
        ] {
            assert_eq!(returning(source), None, "{source}");
        }
    }
}
