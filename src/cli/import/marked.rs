//! Settings of which parts depend on the machine: what stands in gateway.toml for them.

use super::evaluate::{FILE, MADE, VARIABLE};
use crate::config::is_variable;
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;
use toml::Value as Toml;

/// A setting as it is without variables, if it has a value then, and otherwise with marks for them.
pub(super) fn merged(without: Option<&Json>, with: Option<&Json>) -> Option<Json> {
    match (without, with) {
        (Some(Json::Object(without)), Some(Json::Object(with))) => {
            let mut keys: Vec<&String> = without.keys().collect();
            keys.extend(with.keys().filter(|key| !without.contains_key(*key)));
            let entry =
                |key: &String| Some((key.clone(), merged(without.get(key), with.get(key))?));
            Some(Json::Object(
                keys.into_iter().filter_map(entry).collect::<Map<_, _>>(),
            ))
        }
        (Some(Json::Array(without)), Some(Json::Array(with))) if without.len() == with.len() => {
            let pairs = without.iter().zip(with);
            pairs
                .map(|(without, with)| merged(Some(without), Some(with)))
                .collect()
        }
        (None | Some(Json::Null), with) => with.cloned(),
        // Text that was made of a variable that is not set.
        (Some(Json::String(text)), Some(with)) if text.contains("undefined") => Some(with.clone()),
        (Some(without), _) => Some(without.clone()),
    }
}

/// The names of the variables in the settings that are read, each once.
pub(super) fn variables(settings: &Json) -> BTreeSet<String> {
    let read = |name: &str| {
        ["adminAuth", "http", "ui"]
            .iter()
            .any(|begin| name.starts_with(begin))
    };
    let settings = settings.as_object().into_iter().flatten();
    let text: String = settings
        .filter(|(name, _)| read(name))
        .map(|(_, value)| value.to_string())
        .collect();
    let parts = text.split(VARIABLE[0]).skip(1);
    let names = parts.filter_map(|part| Some(part.split_once(VARIABLE[1])?.0.to_owned()));
    names.collect()
}

/// What has made a setting that was not evaluated, in whole or in part.
pub(super) fn maker(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(MADE[0])?;
    rest.split(MADE[1]).next()
}

/// The path of the file whose content this is.
pub(super) fn file(text: &str) -> Option<&str> {
    text.trim().strip_prefix(FILE[0])?.strip_suffix(FILE[1])
}

/// A text as a value of gateway.toml: variables as `${NAME}`. `None`: it has parts that cannot
/// stand there.
pub(super) fn toml_text(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(VARIABLE[0]) {
        let (name, after) = after.split_once(VARIABLE[1])?;
        if !is_variable(name) {
            return None;
        }
        out.push_str(&literal(before)?);
        out.extend(["${", name, "}"]);
        rest = after;
    }
    out.push_str(&literal(rest)?);
    Some(Toml::String(out).to_string())
}

/// `${` begins a variable in gateway.toml; doubled, its dollar is none.
fn literal(text: &str) -> Option<String> {
    let marks = FILE.iter().chain(&MADE).chain(&VARIABLE);
    let is_plain = !text.contains(&marks.copied().collect::<Vec<_>>()[..]);
    is_plain.then(|| text.replace("${", "$${"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_variable_with_a_default_is_that_default() {
        let (without, with) = (
            json!({ "a": 1880, "b": "x" }),
            json!({ "a": "\u{e000}PORT\u{e001}", "b": "x", "c": "\u{e000}C\u{e001}" }),
        );
        let merged = merged(Some(&without), Some(&with)).unwrap();
        assert_eq!(
            merged,
            json!({ "a": 1880, "b": "x", "c": "\u{e000}C\u{e001}" })
        );

        let (without, with) = (json!("undefined-x"), json!("\u{e000}C\u{e001}-x"));
        assert_eq!(super::merged(Some(&without), Some(&with)), Some(with));
    }

    #[test]
    fn the_variables_of_settings_that_are_read_are_named_once() {
        let mark = |name: &str| format!("\u{e000}{name}\u{e001}");
        let settings = json!({
            "uiPort": mark("PORT"), "flowFile": mark("FILE"), "uiHost": mark("HOST") + &mark("PORT"),
        });
        let named: Vec<_> = variables(&settings).into_iter().collect();
        assert_eq!(named, ["HOST", "PORT"]);
    }

    #[test]
    fn texts_are_quoted_and_their_variables_named() {
        assert_eq!(
            toml_text("$2b$08$a\"\\\n").unwrap(),
            Toml::String("$2b$08$a\"\\\n".into()).to_string()
        );
        assert_eq!(
            toml_text("a\u{e000}B\u{e001}c${D}").unwrap(),
            "\"a${B}c$${D}\""
        );
        assert_eq!(toml_text("\u{e000}a b\u{e001}"), None);
        assert_eq!(toml_text("\u{e002}/key\u{e003}"), None);
        assert_eq!(file("\u{e002}/key\u{e003}\n"), Some("/key"));
        assert_eq!(file("a\u{e002}/key\u{e003}"), None);
        assert_eq!(maker("\u{e004}a function\u{e005}"), Some("a function"));
    }
}
