//! The editor's words in many languages: one JSON file for each part and language, what is missing
//! in English.
//!
//! Does what Node-RED's `i18n.js` does with them, where it can be seen from outside.

use super::files::Folder;
use serde_json::{Map, Value as Json};

/// The language of texts that others lack.
const DEFAULT: &str = "en-US";

/// A part's words in a language, or in its base (`fr` for `fr-CA`); `None`: neither is there.
pub(super) fn read(folder: &Folder, file: &str, language: &str) -> Option<Json> {
    let base = language.split_once('-').map(|(base, _)| base);
    let mut words = parsed(folder, file, language)
        .or_else(|| base.and_then(|base| parsed(folder, file, base)))?;
    if language != DEFAULT
        && let Some(english) = parsed(folder, file, DEFAULT)
    {
        complete(&mut words, english);
    }
    Some(Json::Object(words))
}

fn parsed(folder: &Folder, file: &str, language: &str) -> Option<Map<String, Json>> {
    let text = folder.text(&["locales", language, file]).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let words = serde_json::from_str(text).ok()?;
    Some(plurals_renamed(words))
}

/// The files name plurals as i18next 3 did, the editor reads them as i18next 4 does.
fn plurals_renamed(words: Map<String, Json>) -> Map<String, Json> {
    let mut renamed = Map::new();
    for (key, value) in words {
        let value = match value {
            Json::Object(words) => Json::Object(plurals_renamed(words)),
            other => other,
        };
        match key.strip_suffix("_plural").filter(|_| !value.is_object()) {
            Some(name) => drop(renamed.entry(format!("{name}_other")).or_insert(value)),
            None => drop(renamed.insert(key, value)),
        }
    }
    renamed
}

/// Adds what is missing or empty.
fn complete(words: &mut Map<String, Json>, english: Map<String, Json>) {
    for (key, value) in english {
        match (words.get_mut(&key), value) {
            (Some(Json::Object(words)), Json::Object(english)) => complete(words, english),
            (Some(Json::String(text)), value) if text.is_empty() => {
                words.insert(key, value);
            }
            (Some(_), _) => {}
            (None, value) => drop(words.insert(key, value)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    #[test]
    fn missing_translations_are_english_and_plural_keys_are_converted() {
        let directory = tempfile::tempdir().unwrap();
        for (language, words) in [
            (
                "en-US",
                json!({ "a": "a", "b": { "c": "c", "n": "one", "n_plural": "many" } }),
            ),
            (
                "fr",
                json!({ "b": { "c": "", "n": "un", "n_plural": "des" } }),
            ),
        ] {
            let folder = directory.path().join("locales").join(language);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("x.json"), format!("\u{feff}{words}")).unwrap();
        }
        let folder = Folder::open(directory.path()).unwrap();
        let read = |language| read(&folder, "x.json", language);
        let english = json!({ "a": "a", "b": { "c": "c", "n": "one", "n_other": "many" } });
        let french = json!({ "a": "a", "b": { "c": "c", "n": "un", "n_other": "des" } });
        assert_eq!(read("en-US").unwrap(), english);
        assert_eq!(read("fr").unwrap(), french);
        assert_eq!(read("fr-CA").unwrap(), french);
        for language in ["en", "xx", "xx-YY", "..", ""] {
            assert!(read(language).is_none(), "{language}");
        }
    }
}
