//! `template`: fills a mustache template with the message, or gives the text as it stands.

use crate::context::Scope;
use crate::node::{BoxedNode, Build, Host, Node, boxed};
use crate::node_context::NodeContext;
use crate::properties;
use formats::mustache::Template as Mustache;
use formats::yaml;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use value::{Failure, Message, Path, Value, coerce, json};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    field: Option<SmolStr>,
    field_type: SmolStr,
    syntax: Option<SmolStr>,
    /// Left out it is `undefined`, not `null`.
    #[serde(deserialize_with = "properties::given")]
    template: Option<Json>,
    output: SmolStr,
}

struct Template {
    /// `None`: an empty template, for which `msg.template` stands in.
    body: Option<Body>,
    /// The fallback where the message has no template: the node's own, empty or not a text.
    otherwise: Body,
    mustache: bool,
    output: Output,
    scope: Option<Scope>,
    field: Path,
}

enum Body {
    Plain(Value),
    /// A broken one fails on each message, as Node-RED's does.
    Mustache(Result<Mustache, Failure>),
}

#[derive(Clone, Copy, PartialEq)]
enum Output {
    Text,
    Json,
    Yaml,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    Ok(boxed(Template::new(build.properties()?)?))
}

impl Template {
    fn new(properties: Properties) -> Result<Self, Failure> {
        let mustache = properties.syntax.as_deref().unwrap_or("mustache") == "mustache";
        let field = properties
            .field
            .filter(|field| !field.is_empty())
            .unwrap_or(SmolStr::new_static("payload"));
        let template = properties
            .template
            .map_or(Value::Undefined, |value| json::from_tree(&value));
        let stands_in = template.is_undefined() || coerce::truthy(&template);
        Ok(Self {
            body: stands_in.then(|| Body::new(&template, mustache)),
            otherwise: Body::new(&template, mustache),
            mustache,
            output: match properties.output.as_str() {
                "json" => Output::Json,
                "yaml" => Output::Yaml,
                _ => Output::Text,
            },
            scope: match properties.field_type.as_str() {
                "flow" => Some(Scope::Flow),
                "global" => Some(Scope::Global),
                _ => None,
            },
            field: match properties.field_type.as_str() {
                "flow" | "global" => Path::parse(&field)?,
                _ => Path::parse_message(&field)?,
            },
        })
    }

    /// The value that the template yields for the message.
    fn value(&self, message: &Message, eval: &NodeContext) -> Result<Value, Failure> {
        let own;
        let body = if let Some(body) = &self.body {
            body
        } else {
            match message.properties().get("template") {
                Some(template) => {
                    own = Body::new(template, self.mustache);
                    &own
                }
                None => &self.otherwise,
            }
        };
        let text = match body {
            Body::Plain(text) => text.clone(),
            Body::Mustache(template) => {
                let template = template
                    .as_ref()
                    .map_err(|f| Failure::text(f.message.clone()))?;
                let json = self.output == Output::Json;
                Value::from(if json {
                    template.render_json(eval, message)?
                } else {
                    template.render(eval, message)?
                })
            }
        };
        let plain = coerce::to_text(&text);
        let plain = plain.as_str();
        match self.output {
            Output::Text => Ok(text),
            Output::Json => json::parse(plain).map_err(|f| Failure::text(f.message)),
            Output::Yaml => yaml::read(plain),
        }
    }
}

impl Body {
    /// A template that is no text is refused in the words of mustache.js (observed on its 4.2.0).
    fn new(template: &Value, mustache: bool) -> Self {
        if !mustache {
            return Self::Plain(template.clone());
        }
        Self::Mustache(match template {
            Value::String(text) => Mustache::compile(text),
            other if !coerce::truthy(other) => Err(Failure::text(format!(
                "Invalid template! Template should be a \"string\" but \"{}\" was given as the first argument for mustache#render(template, view, partials)",
                coerce::type_of(other)
            ))),
            _ => Err(Failure::text("this.tail.search is not a function")),
        })
    }
}

impl Node for Template {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_>) {
        let eval = host.context();
        let written = self.value(&message, &eval).and_then(|value| {
            if let Some(scope) = self.scope {
                return eval.write(scope, &self.field, &message, value);
            }
            self.field.write_message(&mut message, value).map(|_| ())
        });
        match written {
            Ok(()) => host.pass(message),
            Err(failure) => host.error(failure, Some(message)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn made(properties: &str, message: &str) -> Result<String, Failure> {
        let message = Message::from_value(json::parse(message).unwrap()).unwrap();
        let template = Template::new(serde_json::from_str(properties).unwrap())?;
        Ok(format!(
            "{:?}",
            template.value(&message, &NodeContext::for_tests())?
        ))
    }

    #[test]
    fn golden_results_hold() {
        let json = r#"{"template":"{\"v\":{{payload.a}}}","output":"json"}"#;
        assert_eq!(made(json, r#"{"payload":{"a":3}}"#).unwrap(), r#"{"v": 3}"#);
        assert_eq!(
            made(r#"{"template":"a:\n  - 1\n  - 2\n","output":"yaml"}"#, "{}").unwrap(),
            r#"{"a": [1, 2]}"#
        );
        assert_eq!(
            made(r#"{"template":"{{payload}}","syntax":"plain"}"#, "{}").unwrap(),
            r#""{{payload}}""#
        );
        assert_eq!(
            made(r#"{"template":"{{payload}}"}"#, r#"{"payload":{"a":1}}"#).unwrap(),
            r#""[object Object]""#
        );
    }

    #[test]
    fn an_empty_template_uses_the_template_of_the_message() {
        assert_eq!(
            made(r#"{"template":""}"#, r#"{"template":"<{{x}}>","x":1}"#).unwrap(),
            r#""<1>""#
        );
        assert_eq!(
            made(r#"{"template":"own"}"#, r#"{"template":"<{{x}}>"}"#).unwrap(),
            r#""own""#
        );
    }

    #[test]
    fn broken_templates_and_broken_json_fail_on_the_message() {
        assert_eq!(
            made(r#"{"template":"{{#a}}"}"#, "{}").unwrap_err().message,
            "Unclosed section \"a\" at 6"
        );
        let json = r#"{"template":"{{{payload}}}","output":"json"}"#;
        assert!(
            made(json, r#"{"payload":"nope"}"#)
                .unwrap_err()
                .message
                .contains("is not valid JSON")
        );
    }
}
