//! How languages write dates and numbers, for `Intl` and `toLocaleString`: facts of the Unicode
//! CLDR, which `locales/generate.mjs` takes from Node.js; `locales/LICENSE` is theirs.

/// The facts about a language and its regions, as JSON; `None`: it is not known.
pub(super) fn data(language: &str) -> Option<&'static str> {
    Some(match language {
        "ar" => include_str!("locales/ar.json"),
        "cs" => include_str!("locales/cs.json"),
        "da" => include_str!("locales/da.json"),
        "de" => include_str!("locales/de.json"),
        "en" => include_str!("locales/en.json"),
        "es" => include_str!("locales/es.json"),
        "fi" => include_str!("locales/fi.json"),
        "fr" => include_str!("locales/fr.json"),
        "it" => include_str!("locales/it.json"),
        "ja" => include_str!("locales/ja.json"),
        "ko" => include_str!("locales/ko.json"),
        "nb" => include_str!("locales/nb.json"),
        "nl" => include_str!("locales/nl.json"),
        "pl" => include_str!("locales/pl.json"),
        "pt" => include_str!("locales/pt.json"),
        "ru" => include_str!("locales/ru.json"),
        "sv" => include_str!("locales/sv.json"),
        "tr" => include_str!("locales/tr.json"),
        "uk" => include_str!("locales/uk.json"),
        "zh" => include_str!("locales/zh.json"),
        _ => return None,
    })
}
