//! `html`: picks elements out of an HTML text with a CSS selector.

use crate::node::{BoxedNode, Build, Done, Host, Node, Sequence, Worked, boxed};
use formats::html::{self, Gives, Select};
use serde::Deserialize;
use smol_str::SmolStr;
use std::sync::Arc;
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
    one_array: bool,
    picker: Arc<Picker>,
}

struct Picker {
    /// `None`: set by `msg.select`.
    tag: Option<Result<Select, Failure>>,
    gives: Gives,
    /// The key of an element's content beside its attributes.
    key: SmolStr,
}

enum Event {
    Picked(Worked<Vec<Value>>),
    Rest(Sequence),
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let given = |name: Option<SmolStr>| name.filter(|name| !name.is_empty());
    let from = given(properties.property).unwrap_or(SmolStr::new_static("payload"));
    let to = given(properties.outproperty).unwrap_or(from.clone());
    Ok(boxed(Html {
        from: Path::parse_message(&from)?,
        to: Path::parse_message(&to)?,
        one_array: properties.r#as != "multi",
        picker: Arc::new(Picker {
            tag: Some(properties.tag)
                .filter(|t| !t.is_empty())
                .map(|t| Select::parse(&t)),
            gives: match properties.ret.as_str() {
                "text" => Gives::Text,
                "attr" => Gives::Attributes,
                "compl" => Gives::Both,
                _ => Gives::Html,
            },
            key: Some(properties.chr)
                .filter(|c| !c.is_empty())
                .unwrap_or(SmolStr::new_static("_")),
        }),
    }))
}

impl Picker {
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
}

impl Html {
    /// A message for each element.
    fn each(&self, message: Message, picked: Vec<Value>) -> Sequence {
        let count = picked.len() as f64;
        let (to, original) = (self.to.clone(), message.clone());
        // An empty text is no message, but counts (observed).
        let picked = picked.into_iter().enumerate();
        let picked = picked.filter(|(_, value)| value.as_str() != Some(""));
        let messages = picked.map(move |(index, value)| {
            let mut out = message.clone();
            if let Err(failure) = to.write_message(&mut out, value) {
                return Err((failure, out));
            }
            let parts = [
                ("id", message.get("_msgid").clone()),
                ("index", Value::Number(index as f64)),
                ("count", Value::Number(count)),
                ("type", "string".into()),
                ("ch", "".into()),
            ];
            out.set("parts", Value::record(parts));
            Ok(out)
        });
        Sequence {
            messages: Box::new(messages),
            done: Done::Message(original),
        }
    }

    fn finish(&self, worked: Worked<Vec<Value>>, host: &mut Host<'_, Event>) {
        let mut message = worked.message;
        match worked.result {
            Ok(picked) if self.one_array => {
                match self.to.write_message(&mut message, Value::array(picked)) {
                    Ok(_) => host.pass(message),
                    Err(failure) => host.error(failure, Some(message)),
                }
            }
            Ok(picked) => host.send_sequence(self.each(message, picked), Event::Rest),
            Err(failure) => host.error(failure, Some(message)),
        }
    }
}

impl Node<Event> for Html {
    fn receive(&mut self, message: Message, host: &mut Host<'_, Event>) {
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
        let (picker, select) = (Arc::clone(&self.picker), message.get("select").clone());
        let size = text.len();
        let worked = host.work(message, size, Event::Picked, move || {
            picker.pick(&text, &select)
        });
        if let Some(worked) = worked {
            self.finish(worked, host);
        }
    }

    fn event(&mut self, event: Event, host: &mut Host<'_, Event>) {
        match event {
            Event::Picked(worked) => self.finish(worked, host),
            Event::Rest(rest) => host.send_sequence(rest, Event::Rest),
        }
    }
}
