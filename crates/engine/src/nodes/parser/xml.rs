//! `xml`: turns XML text into values and values into XML text.

use super::converted_property;
use crate::node::{BoxedNode, Build, Host, Level, Node, Worked, boxed, size};
use formats::xml::{self, Options};
use serde::Deserialize;
use smol_str::SmolStr;
use std::sync::Arc;
use value::{Failure, Message, Path, Value};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    property: Option<SmolStr>,
    attr: SmolStr,
    chr: SmolStr,
}

struct Xml {
    property: Path,
    keys: Arc<Keys>,
}

struct Keys {
    /// The keys for attributes and text; empty: set by the message, or the default.
    attr: SmolStr,
    chr: SmolStr,
    usual: Options,
    reading: Options,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let property = Path::parse_message(&converted_property(properties.property))?;
    let keys = Keys {
        attr: properties.attr,
        chr: properties.chr,
        usual: Options::default(),
        reading: Options::default(),
    };
    let reading = keys.reading_with(&Value::Undefined);
    let keys = Arc::new(Keys { reading, ..keys });
    Ok(boxed(Xml { property, keys }))
}

impl Keys {
    /// The options for reading. The node's own keys hold for reading only, as in Node-RED.
    fn reading_with(&self, given: &Value) -> Options {
        let mut options = Options::of(given);
        if !self.attr.is_empty() {
            options.attrkey = self.attr.clone();
        }
        if !self.chr.is_empty() {
            options.charkey = self.chr.clone();
        }
        options
    }

    /// The value to put in place; `None`: the payload is of a kind that is left alone with a
    /// warning.
    fn convert(&self, value: &Value, given: &Value) -> Result<Option<Value>, Failure> {
        let plain = !given.is_nullish() && given.as_object().is_none() || given.is_undefined();
        match value {
            Value::String(text) if plain => xml::parse(text, &self.reading).map(Some),
            Value::String(text) => xml::parse(text, &self.reading_with(given)).map(Some),
            Value::Number(_) | Value::Bool(_) | Value::Handle(_) => Ok(None),
            Value::Null => Err(Failure {
                name: SmolStr::new_static("TypeError"),
                ..Failure::error("Cannot convert undefined or null to object")
            }),
            value => {
                let text = if plain {
                    xml::build(value, &self.usual)
                } else {
                    xml::build(value, &Options::of(given))
                };
                text.map(|text| Some(Value::from(text)))
            }
        }
    }
}

impl Keys {
    /// The library leaves in a message's options what it used (observed).
    fn note_options(&self, value: &Value, message: &mut Message) {
        let Value::Object(given) = message.get("options") else {
            return;
        };
        let reads = value.as_str().is_some();
        if !reads && matches!(value, Value::Number(_) | Value::Bool(_)) {
            return;
        }
        let used = self.reading_with(&Value::Object(Arc::clone(given)));
        message.properties_mut().modify("options", |options| {
            let Value::Object(options) = options else {
                return;
            };
            let options = Arc::make_mut(options);
            options.insert(SmolStr::new_static("async"), Value::Bool(reads));
            if reads {
                options.insert(SmolStr::new_static("attrkey"), used.attrkey.into());
                options.insert(SmolStr::new_static("charkey"), used.charkey.into());
            }
        });
    }
}

/// The value to put in place; `None`: the message goes no further.
type Converted = Option<Value>;

impl Node<Worked<Converted>> for Xml {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_, Worked<Converted>>) {
        let value = match self.property.try_read_message(&message) {
            Ok(Value::Undefined) => return host.pass(message),
            Ok(value) => value,
            Err(failure) => return host.error(failure, Some(message)),
        };
        let (keys, given) = (Arc::clone(&self.keys), message.get("options").clone());
        self.keys.note_options(&value, &mut message);
        let worked = host.work(
            message,
            size(&value),
            |worked| worked,
            move || keys.convert(&value, &given),
        );
        if let Some(worked) = worked {
            self.event(worked, host);
        }
    }

    fn event(&mut self, worked: Worked<Converted>, host: &mut Host<'_, Worked<Converted>>) {
        let mut message = worked.message;
        match worked.result {
            Ok(Some(value)) => match self.property.write_message(&mut message, value) {
                Ok(_) => host.pass(message),
                Err(failure) => host.error(failure, Some(message)),
            },
            Ok(None) => {
                host.log(
                    Level::Warn,
                    "This node only handles xml strings or js objects.",
                );
                host.done(message);
            }
            Err(failure) => host.error(failure, Some(message)),
        }
    }
}
