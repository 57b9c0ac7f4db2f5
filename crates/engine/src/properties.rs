//! A node's properties, read as loosely as JavaScript reads them: flows are written by hand and by
//! old editors too.
//!
//! Any value is accepted as a bool, true or false as in JavaScript; a number or a bool is accepted
//! as a text; `null` is an empty text, list or object. A property of any JSON type keeps its value.

use serde::Deserialize;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::Value as Json;
use std::fmt;
use value::coerce::number_text;

/// The properties that a JSON object has in it.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    T::deserialize(Loose(&mut json))
}

/// For a property that is something else when it is left out than when it is `null`.
pub(crate) fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(value).map(Some)
}

/// A JSON deserializer, access or seed that converts values to the kind that is asked for.
struct Loose<T>(T);

/// Visitors that take values of other kinds for a bool, a text, a list, an object or an option.
struct Bool<V>(V);
struct Text<V>(V);
struct List<V>(V);
struct Fields<V>(V);
struct Maybe<V>(V);

macro_rules! by_kind {
    ($($method:ident => $kind:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.deserialize_any($kind(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Loose<D> {
    type Error = D::Error;

    by_kind! {
        deserialize_bool => Bool
        deserialize_str => Text
        deserialize_string => Text
        deserialize_seq => List
        deserialize_map => Fields
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_option(Maybe(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserialize_map(visitor)
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char bytes byte_buf unit unit_struct newtype_struct tuple tuple_struct enum
        identifier ignored_any
    }
}

/// The value type and the error message of a visitor.
macro_rules! expecting {
    () => {
        type Value = V::Value;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.expecting(f)
        }
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Bool<V> {
    expecting!();

    fn visit_bool<E: Error>(self, value: bool) -> Result<V::Value, E> {
        self.0.visit_bool(value)
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_bool(false)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<V::Value, E> {
        self.0.visit_bool(!value.is_empty())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.0.visit_bool(value != 0)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        self.0.visit_bool(value != 0)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        self.0.visit_bool(value != 0.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        IgnoredAny.visit_seq(list)?;
        self.0.visit_bool(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        IgnoredAny.visit_map(fields)?;
        self.0.visit_bool(true)
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Text<V> {
    expecting!();

    fn visit_str<E: Error>(self, value: &str) -> Result<V::Value, E> {
        self.0.visit_str(value)
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<V::Value, E> {
        self.0.visit_borrowed_str(value)
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_str("")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<V::Value, E> {
        self.0.visit_str(if value { "true" } else { "false" })
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        self.0.visit_str(&number_text(value))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for List<V> {
    expecting!();

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        let nothing = std::iter::empty::<bool>();
        self.0.visit_seq(SeqDeserializer::<_, E>::new(nothing))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Loose(list))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Fields<V> {
    expecting!();

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        let nothing = std::iter::empty::<(bool, bool)>();
        self.0.visit_map(MapDeserializer::<_, E>::new(nothing))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Loose(fields))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Maybe<V> {
    expecting!();

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Loose(value))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Loose<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Loose(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Loose<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Loose(seed))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Loose<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Loose(value))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[derive(Deserialize, Default, Debug, PartialEq)]
    #[serde(default)]
    struct Properties {
        text: String,
        perhaps: Option<String>,
        flag: bool,
        list: Vec<Properties>,
        any: Json,
    }

    fn read_as(text: &str) -> Properties {
        read(text).unwrap()
    }

    #[test]
    fn values_of_another_type_are_coerced_to_the_expected_one() {
        for (given, flag) in [
            ("null", false),
            ("0", false),
            ("\"\"", false),
            ("\"false\"", true),
            ("[]", true),
            ("-1.5", true),
        ] {
            assert_eq!(
                read_as(&format!(r#"{{"flag":{given}}}"#)).flag,
                flag,
                "{given}"
            );
        }
        for (given, text) in [
            ("null", ""),
            ("5", "5"),
            ("0.5", "0.5"),
            ("true", "true"),
            (r#""\u0061""#, "a"),
        ] {
            assert_eq!(
                read_as(&format!(r#"{{"text":{given}}}"#)).text,
                text,
                "{given}"
            );
        }
        assert_eq!(read_as(r#"{"perhaps":null}"#).perhaps, None);
        assert_eq!(read_as(r#"{"perhaps":1}"#).perhaps.as_deref(), Some("1"));
    }

    #[test]
    fn nested_values_are_coerced_in_the_same_way() {
        let inside = read_as(r#"{"list":[{"text":5,"list":null},null]}"#).list;
        let expected = Properties {
            text: "5".to_owned(),
            ..Properties::default()
        };
        assert_eq!(inside, [expected, Properties::default()]);
    }

    #[test]
    fn json_is_unchanged_and_impossible_coercions_are_refused() {
        assert_eq!(
            read_as(r#"{"any":{"a":[null,1]},"other":{}}"#).any,
            serde_json::json!({"a": [null, 1]})
        );
        assert!(read::<Properties>(r#"{"text":{}}"#).is_err());
        assert!(read::<Properties>(r#"{"list":"a"}"#).is_err());
    }
}
