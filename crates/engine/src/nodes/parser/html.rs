//! `html`: picks elements out of an HTML text with a CSS selector.

use crate::node::{BoxedNode, Build, Host, Node, boxed};
use formats::html::{self, Gives, Select};
use serde::Deserialize;
use smol_str::SmolStr;
use value::{Failure, Message, Path, Value, coerce};

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
    /// `None`: set by `msg.select`.
    tag: Option<Result<Select, Failure>>,
    gives: Gives,
    one_array: bool,
    /// The key of an element's content beside its attributes.
    key: SmolStr,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let given = |name: Option<SmolStr>| name.filter(|name| !name.is_empty());
    let from = given(properties.property).unwrap_or(SmolStr::new_static("payload"));
    let to = given(properties.outproperty).unwrap_or(from.clone());
    Ok(boxed(Html {
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

impl Html {
    /// The result for each element that the selector picks; none without a selector.
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
        html::pick(text, selector, self.gives, &self.key)
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
