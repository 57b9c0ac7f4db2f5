//! Resolves YAML scalars, sequences and mappings, by their tags or by their form. Pure.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use smol_str::SmolStr;
use value::{Object, Value, coerce};

/// The form of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Scalar,
    Sequence,
    Mapping,
}

/// The tag of `<<`, which merges a mapping into another.
pub(super) const MERGE: &str = "tag:yaml.org,2002:merge";

/// The value of a plain scalar, and its tag if it is no text.
pub(super) fn plain(text: &str) -> (Value, Option<&'static str>) {
    const TAGS: [&str; 6] = [
        "tag:yaml.org,2002:null",
        "tag:yaml.org,2002:bool",
        "tag:yaml.org,2002:int",
        "tag:yaml.org,2002:float",
        "tag:yaml.org,2002:timestamp",
        MERGE,
    ];
    TAGS.iter()
        .find_map(|tag| Some((scalar(tag, text)?, Some(*tag))))
        .unwrap_or_else(|| (Value::from(text), None))
}

/// The kind of nodes that a tag is for; `None`: the tag is not known.
pub(super) fn kind_of(tag: &str) -> Option<Kind> {
    Some(match tag.strip_prefix("tag:yaml.org,2002:")? {
        "null" | "bool" | "int" | "float" | "timestamp" | "merge" | "binary" | "str" => {
            Kind::Scalar
        }
        "seq" | "omap" | "pairs" => Kind::Sequence,
        "map" | "set" => Kind::Mapping,
        _ => return None,
    })
}

/// The value of a node with an explicit tag; `None` if it does not fit.
pub(super) fn tagged(tag: &str, value: &Value) -> Option<Value> {
    let name = tag.strip_prefix("tag:yaml.org,2002:")?;
    match (name, value) {
        ("str", Value::Null) => Some(Value::from("")),
        ("null" | "merge", Value::Null) => Some(Value::Null),
        ("seq" | "omap" | "pairs", Value::Null) => Some(Value::array(Vec::new())),
        ("map" | "set", Value::Null) => Some(Value::object(Object::default())),
        ("str" | "seq" | "map", value) => Some(value.clone()),
        ("set", Value::Object(object)) => object
            .values()
            .all(|value| matches!(value, Value::Null))
            .then(|| value.clone()),
        ("omap", Value::Array(elements)) => {
            let mut keys: Vec<&SmolStr> = Vec::new();
            for element in elements.iter() {
                let (key, _) = pair(element)?;
                if keys.contains(&key) {
                    return None;
                }
                keys.push(key);
            }
            Some(value.clone())
        }
        ("pairs", Value::Array(elements)) => {
            let pairs = elements.iter().map(|element| {
                let (key, value) = pair(element)?;
                Some(Value::array(vec![key.clone().into(), value.clone()]))
            });
            pairs.collect::<Option<Vec<_>>>().map(Value::array)
        }
        ("binary", Value::String(text)) => binary(text),
        (_, Value::String(text)) => scalar(tag, text),
        _ => None,
    }
}

fn pair(element: &Value) -> Option<(&SmolStr, &Value)> {
    let object = element.as_object().filter(|object| object.len() == 1)?;
    object.iter().next()
}

fn scalar(tag: &str, text: &str) -> Option<Value> {
    match tag.strip_prefix("tag:yaml.org,2002:")? {
        "null" => matches!(text, "~" | "null" | "Null" | "NULL").then_some(Value::Null),
        "bool" => match text {
            "true" | "True" | "TRUE" => Some(Value::Bool(true)),
            "false" | "False" | "FALSE" => Some(Value::Bool(false)),
            _ => None,
        },
        "int" => integer(text),
        "float" => float(text),
        "timestamp" => super::time::read(text).map(Value::Date),
        "merge" => (text == "<<").then(|| Value::from(text)),
        _ => None,
    }
}

fn integer(text: &str) -> Option<Value> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1.0, text.get(1..)?),
        b'+' => (1.0, text.get(1..)?),
        _ => (1.0, text),
    };
    let n = if digits.starts_with("0b") || digits.starts_with("0x") || digits.starts_with("0o") {
        coerce::text_to_number(digits)
    } else if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        coerce::parse_float(digits)
    } else {
        return None;
    };
    n.is_finite().then_some(Value::Number(sign * n))
}

fn float(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Some(Value::Number(sign * f64::INFINITY));
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(Value::Number(f64::NAN));
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let number = digits(whole)
        && digits(fraction)
        // Without digits before the point there is no sign, but there are digits behind it.
        && (!whole.is_empty() || !fraction.is_empty() && unsigned.len() == text.len());
    let scaled = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let n = coerce::parse_float(unsigned);
    (number && scaled && n.is_finite()).then_some(Value::Number(sign * n))
}

fn binary(text: &str) -> Option<Value> {
    const FORGIVING: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let text: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let bytes = FORGIVING.decode(text).ok()?;
    Some(Value::buffer(bytes))
}
