//! A value in a statement, of one of the types that both databases have.

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// A value; `None` is NULL.
#[derive(Debug, Clone, Copy)]
pub(in crate::store::database) enum Value<'a> {
    Text(Option<&'a str>),
    Integer(Option<i64>),
    Bytes(Option<&'a [u8]>),
    Boolean(bool),
}

/// The values of a statement, in their order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::store::database::connection::Value::from($value)),*] };
}
pub(in crate::store::database) use values;

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Self::Integer(Some(number)) => ValueRef::Integer(*number),
            Self::Bytes(Some(bytes)) => ValueRef::Blob(bytes),
            Self::Boolean(yes) => ValueRef::Integer((*yes).into()),
            Self::Text(None) | Self::Integer(None) | Self::Bytes(None) => ValueRef::Null,
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Some(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Some(text))
    }
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(text: Option<&'a str>) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a Option<String>> for Value<'a> {
    fn from(text: &'a Option<String>) -> Self {
        Self::Text(text.as_deref())
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(Some(number))
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(number: Option<i64>) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for Value<'_> {
    fn from(yes: bool) -> Self {
        Self::Boolean(yes)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Some(bytes))
    }
}

impl<'a> From<&'a Vec<u8>> for Value<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Bytes(Some(bytes))
    }
}

impl<'a> From<Option<&'a [u8]>> for Value<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a [u8; 32]> for Value<'a> {
    fn from(bytes: &'a [u8; 32]) -> Self {
        Self::Bytes(Some(bytes))
    }
}

impl<'a> From<&'a Option<[u8; 32]>> for Value<'a> {
    fn from(bytes: &'a Option<[u8; 32]>) -> Self {
        Self::Bytes(bytes.as_ref().map(<[u8; 32]>::as_slice))
    }
}
