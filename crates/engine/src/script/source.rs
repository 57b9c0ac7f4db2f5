//! Finds the features that a function's source uses, from its words.

use super::message_use;
use super::tokens::tokens;
use smol_str::SmolStr;
use std::rc::Rc;

/// Lines that [`as_function`] puts before the user's first.
pub(super) const LINES_BEFORE: u32 = 1;

/// The features of the source that change how it is run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) node: NodeUse,
    /// `node.done()`: the code reports itself when it has finished. One with a reason does not
    /// count, as in Node-RED.
    pub(super) done: bool,
    /// Maps, sets, typed arrays, or something that may lead to them unseen.
    pub(super) collections: bool,
    /// The properties of the message that the code can see; `None`: all.
    pub(super) visible: Option<Rc<[SmolStr]>>,
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
        collections: tokens.iter().any(|token| is_collection(token)),
        visible: message_use::visible(&tokens).map(Rc::from),
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

/// Returns whether the word names a collection, or the global object, or makes code of texts.
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

/// Returns whether the code must be an asynchronous function.
fn awaits(tokens: &[&str]) -> bool {
    let mut before = "";
    tokens.iter().any(|token| {
        let is_await = *token == "await" && before != ".";
        before = token;
        is_await
    })
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
        assert!(awaits(&tokens("let x = await y")));
        assert!(!awaits(&tokens("msg.await = 'await'; return msg // await")));
        assert!(!awaits(&tokens("let awaits = 1")));
    }

    #[test]
    fn node_as_a_property_is_not_the_node() {
        assert_eq!(uses("node.send(msg)").node, NodeUse::Shared);
        assert_eq!(uses("f({ ...node })").node, NodeUse::OfMessage);
        assert_eq!(uses("msg.node = 1").node, NodeUse::None);
    }
}
