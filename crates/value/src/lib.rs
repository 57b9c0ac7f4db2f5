//! Values as JavaScript has them, shared until written.
//!
//! Cloning any value is cheap: long strings, arrays, objects and buffers are counted references,
//! and [`Arc::make_mut`] copies just the level that is written. Numbers are always IEEE doubles.

use bytes::Bytes;
use smol_str::SmolStr;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

mod array;
pub mod budget;
pub mod coerce;
pub mod date;
mod extent;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod json;
mod json_syntax;
mod message;
mod number;
mod object;
mod path;
mod path_access;
pub mod regex;
mod regex_cost;

pub use array::Array;
pub use extent::{Extent, MAX_DEPTH, MAX_PARTS, PART};
pub use message::{Message, REPORT};
pub use object::{Object, PROTO};
pub use path::{Key, Path};
pub use path_access::property;

/// A JavaScript value.
#[derive(Clone, Default)]
pub enum Value {
    /// `undefined`: also what an absent property reads as.
    #[default]
    Undefined,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// Any number.
    Number(f64),
    /// Text. JavaScript's lone surrogates become U+FFFD.
    String(SmolStr),
    /// An array.
    Array(Arc<Array>),
    /// A plain object.
    Object(Arc<Object>),
    /// A Node.js `Buffer`. Boxed, as it is rare and would make every value large.
    Buffer(Box<Bytes>),
    /// A `Date`, as milliseconds since 1970 (NaN: invalid date).
    Date(f64),
    /// An `Error`.
    Error(Arc<Failure>),
    /// A regular expression, as its source and flags.
    RegExp(Arc<(SmolStr, SmolStr)>),
    /// Something of the runtime that is carried by reference and never copied (`msg.res`).
    Handle(Handle),
}

/// An error in a node, as its catch nodes see it.
#[derive(Debug, Clone, Default)]
pub struct Failure {
    /// `Error`, `TypeError` …; empty: a bare text, not an Error object.
    pub name: SmolStr,
    /// The message.
    pub message: SmolStr,
    /// `code`, such as `ECONNREFUSED`; empty: none.
    pub code: SmolStr,
    /// The JavaScript stack; empty: none.
    pub stack: SmolStr,
    /// `cause`: the value that led to it. Boxed, as it is rare and would make every result large.
    pub cause: Option<Box<Value>>,
}

impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.message, &self.code, &self.stack)
            == (&other.name, &other.message, &other.code, &other.stack)
    }
}

impl Failure {
    /// A failure that is only a text.
    pub fn text(message: impl Into<SmolStr>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }

    /// A failure as `new Error(message)` makes it.
    pub fn error(message: impl Into<SmolStr>) -> Self {
        Self {
            name: SmolStr::new_static("Error"),
            message: message.into(),
            ..Self::default()
        }
    }

    /// JavaScript's stack, else only the name and message; empty for a bare text.
    pub fn stack(&self) -> SmolStr {
        if self.stack.is_empty() && !self.name.is_empty() {
            return self.to_string().into();
        }
        self.stack.clone()
    }

    /// The size of this error with its causes.
    fn extent(&self) -> Extent {
        let own = |failure: &Self| {
            let texts = [
                &failure.name,
                &failure.message,
                &failure.code,
                &failure.stack,
            ];
            Extent::leaf(texts.iter().map(|text| text.len()).sum()).parts()
        };
        let (mut depth, mut parts) = (0, own(self));
        let mut cause = &self.cause;
        while let Some(value) = cause {
            depth += 1;
            let Value::Error(inner) = &**value else {
                let extent = value.extent();
                return Extent::of(depth + extent.depth(), parts.saturating_add(extent.parts()));
            };
            parts = parts.saturating_add(own(inner));
            cause = &inner.cause;
        }
        Extent::of(depth, parts)
    }

    /// The error as a value: an `Error`, or the bare text.
    pub fn to_value(&self) -> Value {
        if self.name.is_empty() {
            return Value::String(self.message.clone());
        }
        Value::Error(Arc::new(self.clone()))
    }
}

impl fmt::Display for Failure {
    /// As JavaScript prints it: `Error: boom`, or the bare text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            f.write_str(&self.message)
        } else if self.message.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}: {}", self.name, self.message)
        }
    }
}

/// A reference to something of the runtime, known to the nodes that made it.
#[derive(Clone)]
pub struct Handle(pub Arc<dyn Any + Send + Sync>);

impl Value {
    /// Text from anything that becomes a short or shared string.
    pub fn text(text: impl Into<SmolStr>) -> Self {
        Self::String(text.into())
    }

    /// An array of these elements.
    pub fn array(elements: Vec<Value>) -> Self {
        Self::Array(Arc::new(elements.into()))
    }

    /// A buffer of these bytes.
    pub fn buffer(bytes: impl Into<Bytes>) -> Self {
        Self::Buffer(Box::new(bytes.into()))
    }

    /// An object of these properties.
    pub fn object(properties: Object) -> Self {
        Self::Object(Arc::new(properties))
    }

    /// An object from a list of properties, in order.
    pub fn record<const N: usize>(properties: [(&'static str, Value); N]) -> Self {
        Self::object(
            properties
                .into_iter()
                .map(|(k, v)| (SmolStr::new_static(k), v))
                .collect(),
        )
    }

    /// The size of this value with everything in it.
    #[inline]
    pub fn extent(&self) -> Extent {
        match self {
            Self::Array(array) => array.extent(),
            Self::Object(object) => object.extent(),
            Self::String(text) => Extent::leaf(text.len()),
            Self::Buffer(bytes) => Extent::leaf(bytes.len()),
            Self::Error(failure) => failure.extent(),
            _ => Extent::leaf(0),
        }
    }

    /// The text, if this is a string.
    #[inline]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The object, if this is one.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The array, if this is one.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The number, if this is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(n) => Some(*n),
            _ => None,
        }
    }

    /// Returns whether this is `undefined`.
    #[inline]
    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined)
    }

    /// Returns whether this is `undefined` or `null`.
    #[inline]
    pub fn is_nullish(&self) -> bool {
        matches!(self, Self::Undefined | Self::Null)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<SmolStr> for Value {
    fn from(text: SmolStr) -> Self {
        Self::String(text)
    }
}

impl From<Option<SmolStr>> for Value {
    fn from(text: Option<SmolStr>) -> Self {
        text.map_or(Self::Undefined, Self::String)
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Self {
        Self::Number(n)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undefined => f.write_str("undefined"),
            Self::Null => f.write_str("null"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Number(n) => write!(f, "{n}"),
            Self::String(s) => write!(f, "{s:?}"),
            Self::Array(a) => f.debug_list().entries(a.iter()).finish(),
            Self::Object(o) => f.debug_map().entries(o.iter()).finish(),
            Self::Buffer(b) => write!(f, "Buffer({b:?})"),
            Self::Date(ms) => write!(f, "Date({ms})"),
            Self::Error(e) => write!(f, "Error({e})"),
            Self::RegExp(r) => write!(f, "/{}/{}", r.0, r.1),
            Self::Handle(_) => f.write_str("Handle"),
        }
    }
}
