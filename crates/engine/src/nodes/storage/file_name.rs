//! The file name of a message: the typed input that `file` and `file in` share.

use crate::expression::typed::Typed;
use crate::node::{Host, Level};
use serde_json::Value as Json;
use smol_str::SmolStr;
use value::{Failure, Message, Value, coerce};

/// The source of the file's name.
pub(super) struct FileName {
    /// An expression that does not parse fails for each message (observed).
    input: Result<Typed, Failure>,
    /// True if the name is fixed and empty, which the node's status shows.
    unset: bool,
    jsonata: bool,
}

impl FileName {
    /// Parses the two properties. Flows from before typed inputs have no type; theirs is the text,
    /// or `msg.filename` when that is empty.
    pub(super) fn parse(kind: Option<&str>, name: &Json) -> Self {
        let empty = name.as_str().is_none_or(str::is_empty);
        let (kind, name) = match kind.filter(|k| !k.is_empty()) {
            Some(kind) => (kind, name.clone()),
            None if empty => ("msg", Json::from("filename")),
            None => ("str", name.clone()),
        };
        Self {
            unset: kind == "str" && empty,
            input: Typed::parse(kind, &name).map_err(|f| code_only(kind, f)),
            jsonata: kind == "jsonata",
        }
    }

    /// The name for this message; `None`: there is none, and the node has warned.
    pub(super) fn of<E>(
        &self,
        message: &Message,
        host: &mut Host<'_, E>,
    ) -> Result<Option<SmolStr>, Failure> {
        let input = self.input.as_ref().map_err(Failure::clone)?;
        let name = input.evaluate(&host.context(), message);
        let name = match name {
            Err(failure) if self.jsonata => return Err(code_only("jsonata", failure)),
            name => name?,
        };
        if coerce::truthy(&name) {
            return Ok(Some(coerce::to_text(&name)));
        }
        if self.unset {
            host.status(Value::record([
                ("fill", "grey".into()),
                ("shape", "dot".into()),
                ("text", "".into()),
            ]));
        }
        host.log(Level::Warn, "No filename specified");
        Ok(None)
    }
}

/// The error of an expression that fails: only its code is reported (observed).
fn code_only(kind: &str, failure: Failure) -> Failure {
    if kind != "jsonata" {
        return failure;
    }
    Failure {
        code: failure.code,
        ..Failure::text("[object Object]")
    }
}
