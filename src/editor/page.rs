//! The editor's page: its template with what Node-RED puts into it
//! (`editor-api/lib/editor/theme.js`).

use crypto::{hex, sha256};
use serde_json::{Value as Json, json};

/// The texts, images and scripts of the page.
pub(super) fn theme(version: &str) -> Json {
    // The logo has another name since 5.0.
    let image = if version.starts_with("4.") {
        "red/images/node-red.svg"
    } else {
        "red/images/node-red-icon.svg"
    };
    json!({
        "page": {
            "title": "Node-RED",
            "favicon": "favicon.ico",
            "tabicon": { "icon": "red/images/node-red-icon-black.svg", "colour": "#8f0000" },
        },
        "header": { "title": "Node-RED", "image": image },
        "asset": {
            "red": "red/red.min.js",
            "main": "red/main.min.js",
            "vendorMonaco": "vendor/monaco/monaco-bootstrap.js",
        },
        "themes": [],
    })
}

/// Fills the template: `{{name}}` and `{{{name}}}` are texts of flowgate, which need no escaping;
/// the part between `{{#name}}` and `{{/name}}` stays if there is such a text. The template has no
/// sections within sections.
pub(super) fn fill(template: &str, version: &str) -> String {
    let theme = theme(version);
    // Another version of the editor must not be taken for this one by a browser's cache.
    let buster = hex(&sha256(version.as_bytes()));
    let text = |name: &str| match name {
        "cacheBuster" => buster.get(..12),
        name => theme
            .pointer(&format!("/{}", name.replace('.', "/")))
            .and_then(Json::as_str),
    };
    let mut page = String::with_capacity(template.len());
    let mut left_out = None;
    let mut rest = template;
    while let Some((before, tag, after)) = tag(rest) {
        if left_out.is_none() {
            page.push_str(before);
        }
        match tag.split_at_checked(1) {
            Some(("#", name)) if text(name.trim()).is_none() => left_out = Some(name.trim()),
            Some(("/", name)) if left_out == Some(name.trim()) => left_out = None,
            Some(("#" | "/", _)) => {}
            _ if left_out.is_none() => page.push_str(text(tag).unwrap_or_default()),
            _ => {}
        }
        rest = after;
    }
    page + rest
}

/// The next tag, what is before it, and what is after it.
fn tag(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (tag, after) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once("}}}")?,
        None => rest.split_once("}}")?,
    };
    Some((before, tag.trim(), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_filled_and_sections_without_a_value_are_left_out() {
        let template = "<{{ page.title }}>{{#page.css}}<link {{.}}>{{/page.css}}\
            {{#asset.vendorMonaco}}<script {{{ asset.vendorMonaco }}}>{{/asset.vendorMonaco}}\
            {{# page.scripts }}<script {{.}}>{{/ page.scripts }}{{#asset.vendorAce}}ace{{/asset.vendorAce}} end";
        let page = fill(template, "4.1.15");
        assert_eq!(
            page,
            "<Node-RED><script vendor/monaco/monaco-bootstrap.js> end"
        );
    }

    #[test]
    fn asset_links_change_with_the_version() {
        let link = |version| fill("x.js?v={{ cacheBuster }}", version);
        assert_eq!(link("4.1.15").len(), "x.js?v=".len() + 12);
        assert_ne!(link("4.1.15"), link("5.0.7"));
    }

    #[test]
    fn text_that_is_no_template_is_unchanged() {
        assert_eq!(fill("a {b} }} {{ c", "4.1.15"), "a {b} }} {{ c");
    }
}
