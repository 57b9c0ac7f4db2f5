//! `yaml`: turns YAML text into values and values into YAML text.

use super::converted_property;
use crate::node::{BoxedNode, Build, Host, Level, Node, Worked, boxed, size};
use formats::yaml;
use serde::Deserialize;
use smol_str::SmolStr;
use value::{Failure, Message, Path, Value};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    property: Option<SmolStr>,
}

struct Yaml {
    property: Path,
}

/// The result for the property.
#[derive(Debug)]
enum Outcome {
    Becomes(Value),
    /// The message goes no further, with a warning.
    Dropped(&'static str),
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    Ok(boxed(Yaml {
        property: Path::parse_message(&converted_property(properties.property))?,
    }))
}

fn convert(value: &Value) -> Result<Outcome, Failure> {
    match value {
        Value::String(text) => yaml::read(text).map(Outcome::Becomes),
        Value::Buffer(_) => Ok(Outcome::Dropped("Ignored non-object payload")),
        Value::Undefined | Value::Bool(_) | Value::Number(_) | Value::Handle(_) => {
            Ok(Outcome::Dropped("Ignored unsupported payload type"))
        }
        value => yaml::write(value).map(|text| Outcome::Becomes(Value::from(text))),
    }
}

impl Node<Worked<Outcome>> for Yaml {
    fn receive(&mut self, message: Message, host: &mut Host<'_, Worked<Outcome>>) {
        let value = match self.property.try_read_message(&message) {
            Ok(Value::Undefined) => return host.pass(message),
            Ok(value) => value,
            Err(failure) => return host.error(failure, Some(message)),
        };
        if let Some(worked) = host.work(
            message,
            size(&value),
            |worked| worked,
            move || convert(&value),
        ) {
            self.event(worked, host);
        }
    }

    fn event(&mut self, worked: Worked<Outcome>, host: &mut Host<'_, Worked<Outcome>>) {
        let mut message = worked.message;
        match worked.result {
            Ok(Outcome::Becomes(value)) => match self.property.write_message(&mut message, value) {
                Ok(_) => host.pass(message),
                Err(failure) => host.error(failure, Some(message)),
            },
            Ok(Outcome::Dropped(warning)) => {
                host.log(Level::Warn, warning);
                host.done(message);
            }
            Err(failure) => host.error(failure, Some(message)),
        }
    }
}
