//! Mustache templates over a message, as the template and trigger nodes use them
//! (docs/reference/node-red-engine.md §4.3).
//!
//! Compiled once; a name is looked up in the message, then as `env.X`, then as `flow.x` or
//! `global.x`. There are no partials: nothing outside the template is read.

mod parse;

use smol_str::SmolStr;
use value::{Failure, Message, Path, Value, budget, coerce, property};

/// A compiled template.
#[derive(Debug)]
pub struct Template {
    parts: Vec<Part>,
    texts: Vec<String>,
    /// The size of most results, in bytes.
    size: usize,
}

/// The size of most values in a template, in bytes. Our choice.
const VALUE: usize = 16;

/// A piece of a template.
#[derive(Debug)]
enum Part {
    /// Text as it stands, by its place among the template's texts.
    Text(usize),
    /// `{{name}}`, or `{{{name}}}` and `{{&name}}` without escaping.
    Variable {
        /// The name to look up.
        name: Name,
        /// True if HTML is escaped.
        escaped: bool,
    },
    /// `{{#name}}…{{/name}}`, or `{{^name}}…{{/name}}` when inverted.
    Section {
        /// The name to look up.
        name: Name,
        /// True if it renders for an empty or false value.
        inverted: bool,
        /// The parts between the tags.
        parts: Vec<Part>,
    },
}

/// The name in a tag.
#[derive(Debug)]
enum Name {
    /// `.`: the value of the innermost section.
    Here,
    /// Keys, innermost section first, then where else names may lead.
    Keys(Vec<SmolStr>, Fallback),
}

/// The fallback for a name that the message does not have.
#[derive(Debug)]
enum Fallback {
    /// No fallback.
    None,
    /// `env.X`.
    Env(SmolStr),
    /// `flow.x`, `flow[store].x`.
    Flow(Path),
    /// `global.x`.
    Global(Path),
}

/// The names that a template may use beside those of the message. `undefined` where there is none.
pub trait Lookup {
    /// An environment variable.
    fn env(&self, name: &str) -> Value;
    /// A value of the flow context.
    fn flow(&self, key: &Path) -> Value;
    /// A value of the global context.
    fn global(&self, key: &Path) -> Value;
}

/// A rendering in progress.
struct Rendering<'a> {
    lookup: &'a dyn Lookup,
    texts: &'a [String],
    /// Texts of the message itself are escaped for use within JSON strings.
    within_json: bool,
    /// The message, then the value of each section around.
    views: Vec<Value>,
    out: String,
}

impl Template {
    /// Compiles a template.
    pub fn compile(text: &str) -> Result<Self, Failure> {
        let (parts, texts) = parse::parse(text)?;
        let size = texts.iter().map(String::len).sum::<usize>() + VALUE * parts.len();
        Ok(Self { parts, texts, size })
    }

    /// Renders the template over a message. Fails if that exceeds the budget of the node: sections
    /// in sections render what is in them as often as the lengths of their lists multiplied.
    pub fn render(&self, lookup: &dyn Lookup, message: &Message) -> Result<String, Failure> {
        self.run(lookup, message, false)
    }

    /// Renders a template of JSON: texts are escaped for use within JSON strings.
    pub fn render_json(&self, lookup: &dyn Lookup, message: &Message) -> Result<String, Failure> {
        self.run(lookup, message, true)
    }

    fn run(
        &self,
        lookup: &dyn Lookup,
        message: &Message,
        within_json: bool,
    ) -> Result<String, Failure> {
        let views = vec![message.to_value()];
        let mut rendering = Rendering {
            lookup,
            texts: &self.texts,
            within_json,
            views,
            out: String::with_capacity(self.size),
        };
        rendering.parts(&self.parts)?;
        Ok(rendering.out)
    }
}

impl Rendering<'_> {
    fn parts(&mut self, parts: &[Part]) -> Result<(), Failure> {
        for part in parts {
            let made = self.out.len();
            match part {
                Part::Text(text) => self
                    .out
                    .push_str(self.texts.get(*text).map_or("", String::as_str)),
                Part::Variable { name, escaped } => self.variable(name, *escaped),
                Part::Section {
                    name,
                    inverted: false,
                    parts,
                } => {
                    self.section(name, parts)?;
                    continue;
                }
                Part::Section {
                    name,
                    inverted: true,
                    parts,
                } => {
                    let value = self.value(name);
                    if !coerce::truthy(&value) || value.as_array().is_some_and(<[_]>::is_empty) {
                        self.parts(parts)?;
                    }
                    continue;
                }
            }
            budget::made(self.out.len() - made)?;
        }
        Ok(())
    }

    fn variable(&mut self, name: &Name, escaped: bool) {
        let value = self.value(name);
        if value.is_nullish() {
            return;
        }
        let text = coerce::to_text(&value);
        if escaped && !matches!(value, Value::Number(_)) {
            escape_html(&text, &mut self.out);
        } else {
            self.out.push_str(&text);
        }
    }

    fn section(&mut self, name: &Name, parts: &[Part]) -> Result<(), Failure> {
        let value = self.value(name);
        match &value {
            Value::Array(elements) => {
                for element in elements.iter() {
                    budget::work(1)?;
                    self.within(element.clone(), parts)?;
                }
                Ok(())
            }
            other if !coerce::truthy(other) => Ok(()),
            Value::Bool(_) => self.parts(parts),
            _ => self.within(value, parts),
        }
    }

    fn within(&mut self, view: Value, parts: &[Part]) -> Result<(), Failure> {
        self.views.push(view);
        self.parts(parts)?;
        self.views.pop();
        Ok(())
    }

    fn value(&self, name: &Name) -> Value {
        let Name::Keys(keys, elsewhere) = name else {
            return self
                .views
                .last()
                .map(|v| self.for_json(v.clone()))
                .unwrap_or_default();
        };
        for view in self.views.iter().rev() {
            if let Some(value) = find(view, keys) {
                return if value.is_undefined() {
                    self.look_elsewhere(elsewhere)
                } else {
                    self.for_json(value)
                };
            }
        }
        self.look_elsewhere(elsewhere)
    }

    fn look_elsewhere(&self, elsewhere: &Fallback) -> Value {
        match elsewhere {
            Fallback::None => Value::Undefined,
            Fallback::Env(name) => self.lookup.env(name),
            Fallback::Flow(key) => self.lookup.flow(key),
            Fallback::Global(key) => self.lookup.global(key),
        }
    }

    /// Only what stands in the message itself is escaped, not what sections bring.
    fn for_json(&self, value: Value) -> Value {
        match &value {
            Value::String(text) if self.within_json && self.views.len() == 1 => {
                let mut escaped = String::with_capacity(text.len());
                escape_json(text, &mut escaped);
                Value::from(escaped)
            }
            _ => value,
        }
    }
}

/// The value at the end of the keys, if the last key exists.
fn find(view: &Value, keys: &[SmolStr]) -> Option<Value> {
    let (last, parents) = keys.split_last()?;
    let mut value = view.clone();
    for key in parents {
        value = property(&value, key);
    }
    match &value {
        Value::Object(object) => object.get(last).cloned(),
        // Texts and numbers have properties only where a dot asks for them.
        Value::Array(_) | Value::Buffer(_) | Value::Error(_) | Value::String(_) => {
            let found = property(&value, last);
            let asked = !parents.is_empty() || !matches!(value, Value::String(_));
            (asked && !found.is_undefined()).then_some(found)
        }
        _ => None,
    }
}

/// Escapes what cannot stand in a JSON string; quotes stay, so that a text may be JSON itself.
fn escape_json(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{c}' => out.push_str("\\f"),
            '\u{8}' => out.push_str("\\b"),
            plain => out.push(plain),
        }
    }
}

/// Escapes as mustache.js does (observed on its 4.2.0).
fn escape_html(text: &str, out: &mut String) {
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let entity = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            b'/' => "&#x2F;",
            b'`' => "&#x60;",
            b'=' => "&#x3D;",
            _ => continue,
        };
        out.push_str(text.get(plain..at).unwrap_or_default());
        out.push_str(entity);
        plain = at + 1;
    }
    out.push_str(text.get(plain..).unwrap_or_default());
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// No environment, no contexts.
    struct Nothing;

    impl Lookup for Nothing {
        fn env(&self, _: &str) -> Value {
            Value::Undefined
        }
        fn flow(&self, _: &Path) -> Value {
            Value::Undefined
        }
        fn global(&self, _: &Path) -> Value {
            Value::Undefined
        }
    }
    use value::json;

    fn rendered(template: &str, message: &str) -> String {
        let message = Message::from_value(json::parse(message).unwrap()).unwrap();
        Template::compile(template)
            .unwrap()
            .render(&Nothing, &message)
            .unwrap()
    }

    #[test]
    fn html_is_escaped_except_in_unescaped_tags() {
        let message = r#"{"payload":"<a&\"b\">'/`="}"#;
        assert_eq!(
            rendered("{{payload}}", message),
            "&lt;a&amp;&quot;b&quot;&gt;&#39;&#x2F;&#x60;&#x3D;"
        );
        assert_eq!(
            rendered("{{{payload}}}{{& payload }}", message),
            "<a&\"b\">'/`=<a&\"b\">'/`="
        );
    }

    #[test]
    fn the_nesting_depth_of_sections_is_limited() {
        let nested = |depth: usize| "{{#a}}".repeat(depth) + &"{{/a}}".repeat(depth);
        assert!(Template::compile(&nested(100)).is_ok());
        for depth in [101, 100_000] {
            let failure = Template::compile(&nested(depth)).unwrap_err();
            assert!(failure.message.contains("nested too deeply"), "{failure}");
        }
    }

    #[test]
    fn values_print_as_javascript_prints_them() {
        let message = r#"{"payload":{"a":1.5,"n":null},"list":[1,2]}"#;
        assert_eq!(
            rendered(
                "{{nope}}|{{payload}}|{{payload.a}}|{{payload.n}}|{{list}}",
                message
            ),
            "|[object Object]|1.5||1,2"
        );
        assert_eq!(rendered("{{list.length}}{{list.0}}", message), "21");
    }

    #[test]
    fn sections_repeat_enter_and_invert() {
        let message = r#"{"payload":[1,2],"o":{"x":"in"},"x":"out","t":true,"e":[],"z":0}"#;
        assert_eq!(
            rendered("{{#payload}}[{{.}}]{{/payload}}", message),
            "[1][2]"
        );
        assert_eq!(
            rendered("{{#o}}{{x}}{{t}}{{/o}}{{#t}}{{x}}{{/t}}", message),
            "intrueout"
        );
        assert_eq!(
            rendered(
                "{{^e}}empty{{/e}}{{^z}}zero{{/z}}{{^t}}no{{/t}}{{#z}}no{{/z}}",
                message
            ),
            "emptyzero"
        );
    }

    #[test]
    fn lines_of_standalone_tags_vanish() {
        let template = "a\n\n  {{#t}}\nb\n  {{/t}}\n{{! note }}\nc {{! note }}\n";
        assert_eq!(rendered(template, r#"{"t":true}"#), "a\n\nb\nc \n");
    }

    #[test]
    fn delimiters_can_be_changed() {
        assert_eq!(
            rendered("{{=<% %>=}}<% x %>{{x}}<%={{ }}=%>{{x}}", r#"{"x":1}"#),
            "1{{x}}1"
        );
    }

    #[test]
    fn texts_are_escaped_for_json_at_the_top_only() {
        let message = Message::with_payload("a\"b\n");
        let template = Template::compile("{{{payload}}}").unwrap();
        let rendered = template.render_json(&Nothing, &message).unwrap();
        assert_eq!(rendered, "a\"b\\n");
    }

    #[test]
    fn broken_templates_are_named() {
        let wrong = |text: &str| Template::compile(text).unwrap_err().message;
        assert_eq!(wrong("a{{b"), "Unclosed tag at 4");
        assert_eq!(wrong("{{#a}}x"), "Unclosed section \"a\" at 7");
        assert_eq!(wrong("{{/a}}"), "Unopened section \"a\" at 0");
        assert_eq!(wrong("{{#a}}{{/b}}"), "Unclosed section \"a\" at 6");
    }
}
