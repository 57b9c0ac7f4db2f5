//! Finds code whose last act is to send its message. Nothing changes the message afterwards, so it goes on as if it were
//! returned, without a copy.
//!
//! Code with functions of its own is none of it: they could run later. Nor is code that uses a context: it may keep a part of the
//! message there. This reads the words of a source without parsing it.

use super::tokens::ARROW;

/// Words before a parenthesis after which a brace begins a block.
const CONTROL: [&str; 6] = ["catch", "for", "if", "switch", "while", "with"];

/// Whether the code ends with `node.send(msg)`, as a statement of its own, and perhaps a return of nothing.
pub(super) fn sends_last(tokens: &[&str]) -> bool {
    let tokens = without_end(tokens);
    let tokens = match tokens {
        [before @ .., "return"] | [before @ .., "return", "null" | "undefined"] => {
            without_end(before)
        }
        _ => tokens,
    };
    let [before @ .., "node", ".", "send", "(", "msg", ")"] = tokens else {
        return false;
    };
    // Behind anything else it could be the body of a loop, or a part of an expression.
    matches!(before.last(), None | Some(&(";" | "}"))) && !may_keep(before)
}

fn without_end<'t, 'a>(mut tokens: &'t [&'a str]) -> &'t [&'a str] {
    while let [before @ .., ";"] = tokens {
        tokens = before;
    }
    tokens
}

/// Words of functions, of what makes them, and of what outlives a message.
const KEEPS: [&str; 12] = [
    ARROW,
    "Function",
    "RED",
    "\\",
    "await",
    "class",
    "constructor",
    "context",
    "eval",
    "flow",
    "function",
    "global",
];

/// Whether something may have the message, or a part of it, when the code has ended.
fn may_keep(tokens: &[&str]) -> bool {
    if tokens.iter().any(|token| KEEPS.contains(token)) {
        return true;
    }
    // A method: `name(…) {`.
    let mut words = Vec::new();
    let (mut before, mut closed) = ("", "");
    for token in tokens {
        match *token {
            "(" => words.push(before),
            ")" => closed = words.pop().unwrap_or(""),
            "{" if before == ")" && !CONTROL.contains(&closed) => return true,
            _ => {}
        }
        before = token;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;

    #[test]
    fn code_that_ends_with_sending_its_message_is_found() {
        let sends_last = |source| super::sends_last(&tokens(source));
        for source in [
            "node.send(msg)",
            "node.send(msg);",
            "msg.k = 1; node.send(msg); return",
            "msg.k = 1; node.send(msg);;\nreturn null;",
            "if (msg.k) { msg.k = 2 }\nnode.send(msg); // done",
            "for (const x of msg.list) { msg.sum += x } node.send(msg); return undefined;",
        ] {
            assert!(sends_last(source), "{source}");
        }
        for source in [
            "node.send(msg); msg.k = 2",
            "for (let i = 0; i < 2; i++) node.send(msg)",
            "while (next()) node.send(msg);",
            "if (msg.k) node.send(msg)",
            "if (msg.k) { node.send(msg) }",
            "else_ = 1, node.send(msg)",
            "setTimeout(() => { msg.k = 2 }, 1); node.send(msg)",
            "function f() { msg.k = 2 } setTimeout(f, 1); node.send(msg)",
            "const o = { f() { msg.k = 2 } }; keep(o); node.send(msg)",
            "const o = { get k() { return msg.k } }; node.send(msg)",
            "await ready(); node.send(msg)",
            "flow.set('last', msg.payload); node.send(msg)",
            "node.send(msg, false)",
            "node.send([msg])",
            "return node.send(msg)",
            "other.node.send(msg)",
            "",
        ] {
            assert!(!sends_last(source), "{source}");
        }
    }
}
