//! An element of XML while it is read, and the value that it becomes, in the shape that xml2js
//! gives it: attributes under `$`, text under `_`, children in arrays. Pure.

use super::options::Options;
use smol_str::SmolStr;
use std::sync::Arc;
use value::{Object, Value};

/// The key of an element's name, if the order of children is kept.
const NAME: SmolStr = SmolStr::new_static("#name");

/// An element whose end has not come yet.
pub(super) struct Open {
    pub(super) name: SmolStr,
    /// Its content so far. Its text keeps the first place.
    object: Object,
    text: String,
    /// The length of the text already made into children.
    reported: usize,
    /// True if some of the text was CDATA, which is text even if blank.
    literal: bool,
}

impl Open {
    /// An element begins; `space`: its namespace, if that is wanted.
    pub(super) fn new(
        name: SmolStr,
        attributes: Object,
        space: Option<Value>,
        options: &Options,
    ) -> Self {
        let mut object = Object::default();
        object.insert(options.charkey.clone(), Value::from(""));
        if options.merge_attrs {
            for (key, value) in attributes {
                add(&mut object, key, value, options.explicit_array);
            }
        } else if !attributes.is_empty() {
            object.insert(options.attrkey.clone(), Value::object(attributes));
        }
        if options.is_ordered() {
            object.insert(NAME, name.clone().into());
        }
        if let Some(space) = space {
            object.insert(format!("{}ns", options.attrkey).into(), space);
        }
        Self {
            name,
            object,
            text: String::new(),
            reported: 0,
            literal: false,
        }
    }

    /// Adds to the text; `literal`: it counts even if it is blank.
    pub(super) fn add_text(&mut self, part: &str, literal: bool) {
        self.text.push_str(part);
        self.literal |= literal;
    }

    /// A stretch of text has ended: it may be a child of its own.
    pub(super) fn end_text(&mut self, options: &Options) {
        let stretch = self.text.get(self.reported..).unwrap_or_default();
        let counts =
            !stretch.is_empty() && (options.include_white_chars || !stretch.trim().is_empty());
        if counts && options.is_ordered() && options.chars_as_children {
            let text = normalized(stretch, options).into();
            let child = [(NAME, "__text__".into()), (options.charkey.clone(), text)];
            push(
                &mut self.object,
                &options.childkey,
                child.into_iter().collect(),
            );
        }
        self.reported = self.text.len();
    }

    /// The element has ended: its name and its value. Its parent, if it has one, may keep the order
    /// of children.
    pub(super) fn close(self, parent: Option<&mut Self>, options: &Options) -> (SmolStr, Value) {
        let mut object = self.object;
        let blank = !self.literal && self.text.trim().is_empty();
        if blank {
            object.shift_remove(&options.charkey);
        } else {
            let text = if options.trim {
                self.text.trim()
            } else {
                &self.text
            };
            object.insert(options.charkey.clone(), normalized(text, options).into());
        }
        if object.is_empty() {
            let empty = options.empty_tag.clone();
            return (self.name, empty.unwrap_or_else(|| self.text.into()));
        }
        if !options.explicit_children || options.merge_attrs {
            return (self.name, alone(object, options));
        }
        if !options.is_ordered() {
            return match alone(object, options) {
                Value::Object(object) => (self.name, apart(Arc::unwrap_or_clone(object), options)),
                text => (self.name, text),
            };
        }
        if let Some(parent) = parent {
            push(&mut parent.object, &options.childkey, object.clone());
            object.shift_remove(&NAME);
        }
        (self.name, alone(object, options))
    }

    /// Adds a child that has ended.
    pub(super) fn add_child(&mut self, name: SmolStr, value: Value, options: &Options) {
        add(&mut self.object, name, value, options.explicit_array);
    }
}

/// The text alone, if there is nothing else.
fn alone(mut object: Object, options: &Options) -> Value {
    if object.len() > 1 || options.explicit_charkey || !object.contains_key(&options.charkey) {
        return Value::object(object);
    }
    object.shift_remove(&options.charkey).unwrap_or_default()
}

/// Attributes and text, and the children apart from them.
fn apart(mut object: Object, options: &Options) -> Value {
    let mut own = Object::default();
    let text = (!options.chars_as_children).then_some(&options.charkey);
    for key in [Some(&options.attrkey), text].into_iter().flatten() {
        if let Some(value) = object.shift_remove(key) {
            own.insert(key.clone(), value);
        }
    }
    if !object.is_empty() {
        own.insert(options.childkey.clone(), Value::object(object));
    }
    Value::object(own)
}

fn normalized(text: &str, options: &Options) -> String {
    if options.normalize {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        text.to_owned()
    }
}

/// Adds a child to the list of those in order.
fn push(object: &mut Object, key: &SmolStr, child: Object) {
    add(object, key.clone(), Value::object(child), true);
}

/// Adds a child (or a merged attribute): to an array, or alone as long as it is the only one of its
/// name.
fn add(object: &mut Object, name: SmolStr, value: Value, explicit_array: bool) {
    if !object.contains_key(&name) {
        let first = if explicit_array {
            Value::array(vec![value])
        } else {
            value
        };
        object.insert(name, first);
        return;
    }
    object.modify(&name, |slot| match slot {
        Value::Array(all) => Arc::make_mut(all).push(value),
        one => *one = Value::array(vec![std::mem::take(one), value]),
    });
}
