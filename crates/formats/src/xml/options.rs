//! The options of xml2js that a message may bring in `msg.options`, as far as they can be data.

use smol_str::SmolStr;
use value::{Value, coerce, property};

/// The options for converting XML to values and back. The names and defaults are those of xml2js.
#[expect(
    clippy::struct_excessive_bools,
    reason = "the options are what they are"
)]
#[derive(Debug, Clone)]
pub struct Options {
    /// The key of an element's attributes.
    pub attrkey: SmolStr,
    /// The key of an element's text.
    pub charkey: SmolStr,
    pub(super) childkey: SmolStr,
    pub(super) explicit_array: bool,
    pub(super) explicit_root: bool,
    pub(super) explicit_charkey: bool,
    pub(super) explicit_children: bool,
    pub(super) preserve_children_order: bool,
    pub(super) chars_as_children: bool,
    pub(super) include_white_chars: bool,
    pub(super) xmlns: bool,
    pub(super) merge_attrs: bool,
    pub(super) ignore_attrs: bool,
    pub(super) normalize: bool,
    pub(super) normalize_tags: bool,
    pub(super) trim: bool,
    /// The value of an empty element; `None`: its blank text.
    pub(super) empty_tag: Option<Value>,
    pub(super) root_name: SmolStr,
    pub(super) headless: bool,
    pub(super) cdata: bool,
    pub(super) pretty: bool,
    pub(super) indent: SmolStr,
    pub(super) newline: SmolStr,
    /// The inside of `<?xml …?>`.
    pub(super) declaration: String,
    /// The text after the root's name in `<!DOCTYPE …>`.
    pub(super) doctype: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self::of(&Value::Undefined)
    }
}

impl Options {
    /// The options of a message. Without any, what is written is not indented.
    pub fn of(options: &Value) -> Self {
        let flag = |name: &str, default: bool| match property(options, name) {
            Value::Undefined => default,
            value => coerce::truthy(&value),
        };
        let text = |from: &Value, name: &str, default: &'static str| match property(from, name) {
            Value::Undefined | Value::Null => SmolStr::new_static(default),
            value => coerce::to_text(&value),
        };
        let render = property(options, "renderOpts");
        let empty = property(options, "emptyTag");
        Self {
            attrkey: text(options, "attrkey", "$"),
            charkey: text(options, "charkey", "_"),
            childkey: text(options, "childkey", "$$"),
            explicit_array: flag("explicitArray", true),
            explicit_root: flag("explicitRoot", true),
            explicit_charkey: flag("explicitCharkey", false),
            explicit_children: flag("explicitChildren", false),
            preserve_children_order: flag("preserveChildrenOrder", false),
            chars_as_children: flag("charsAsChildren", false),
            include_white_chars: flag("includeWhiteChars", false),
            xmlns: flag("xmlns", false),
            merge_attrs: flag("mergeAttrs", false),
            ignore_attrs: flag("ignoreAttrs", false),
            normalize: flag("normalize", false),
            normalize_tags: flag("normalizeTags", false),
            trim: flag("trim", false),
            empty_tag: Some(empty).filter(|e| !e.is_undefined() && e.as_str() != Some("")),
            root_name: text(options, "rootName", "root"),
            headless: flag("headless", false),
            cdata: flag("cdata", false),
            pretty: match property(&render, "pretty") {
                Value::Undefined => render.is_undefined() && !options.is_undefined(),
                value => coerce::truthy(&value),
            },
            indent: text(&render, "indent", "  "),
            newline: text(&render, "newline", "\n"),
            declaration: declaration(&property(options, "xmldec")),
            doctype: doctype(options),
        }
    }

    /// Returns whether children stand in a list of their own, in the order of the document.
    pub(super) fn is_ordered(&self) -> bool {
        self.explicit_children && self.preserve_children_order
    }

    /// The name of an element as the value has it.
    pub(super) fn tag(&self, name: &str) -> SmolStr {
        if self.normalize_tags {
            name.to_lowercase().into()
        } else {
            name.into()
        }
    }
}

/// The identifiers of a document type; a public one alone is written as a system's (observed).
fn doctype(options: &Value) -> Option<String> {
    let identifier = |name: &str| {
        let places = ["doctype", "xmldec"].map(|place| property(&property(options, place), name));
        let given = places.iter().find(|value| !value.is_nullish())?;
        Some(coerce::to_text(given))
    };
    match (identifier("pubID"), identifier("sysID")) {
        (None, None) => None,
        (Some(public), Some(system)) => Some(format!("PUBLIC \"{public}\" \"{system}\"")),
        (Some(one), None) | (None, Some(one)) => Some(format!("SYSTEM \"{one}\"")),
    }
}

fn declaration(given: &Value) -> String {
    if given.is_nullish() {
        return "version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"".to_owned();
    }
    let plain = |value: &Value| coerce::to_text(value).replace(['"', '<', '>', '?'], "");
    let version = match property(given, "version") {
        Value::Undefined => "1.0".to_owned(),
        value => plain(&value),
    };
    let mut out = format!("version=\"{version}\"");
    let encoding = property(given, "encoding");
    if !encoding.is_nullish() {
        out.push_str(" encoding=\"");
        out.push_str(&plain(&encoding));
        out.push('"');
    }
    let standalone = property(given, "standalone");
    if !standalone.is_nullish() {
        let word = if coerce::truthy(&standalone) {
            "yes"
        } else {
            "no"
        };
        out.push_str(" standalone=\"");
        out.push_str(word);
        out.push('"');
    }
    out
}
