//! Cookies of http-in requests and http responses (RFC 6265), in Express' shape.
//!
//! Ours, as the crate `cookie` writes attributes in another order than Express, and does not refuse
//! `;` in them.

use chrono::DateTime;
use std::fmt::Write;
use value::{Object, PROTO, Value, coerce, json};

/// The cookies of `Cookie` header fields; the first of a name counts, and none is named
/// `__proto__`. JSON cookies (`j:…`) are values.
pub(super) fn parse<'a>(headers: impl Iterator<Item = &'a str>) -> Value {
    let mut cookies = Object::default();
    for (name, value) in headers
        .flat_map(|h| h.split(';'))
        .filter_map(|pair| pair.split_once('='))
    {
        let value = value.trim();
        let value = value
            .strip_prefix('"')
            .and_then(|v| v.strip_suffix('"'))
            .unwrap_or(value);
        let text = decode(value);
        let value = text
            .strip_prefix("j:")
            .and_then(|text| json::parse(text).ok());
        let name = name.trim();
        if name != PROTO {
            cookies.insert_if_absent(name.into(), || value.unwrap_or_else(|| Value::from(text)));
        }
    }
    Value::object(cookies)
}

/// A `Set-Cookie` field: a text, an object with `value` and options, or `null` to clear it. `now`,
/// in milliseconds since 1970, is when an age begins. `None` if the name or an option cannot stand
/// in a header.
pub(super) fn field(name: &str, cookie: &Value, now: f64) -> Option<String> {
    let options = cookie.as_object();
    let option = |key: &str| options.and_then(|o| o.get(key)).filter(|v| !v.is_nullish());
    let value = match options {
        Some(options) => options.get("value").cloned().unwrap_or_default(),
        None => cookie.clone(),
    };
    let text = match &value {
        Value::Undefined | Value::Null => String::new(),
        Value::Object(_) | Value::Array(_) => {
            format!("j:{}", json::stringify(&value).unwrap_or_default())
        }
        other => coerce::to_text(other).into(),
    };
    let path = option("path").map_or_else(|| "/".into(), coerce::to_text);
    let mut out = format!("{name}={}", encode(&text));
    let age = option("maxAge").map(coerce::to_number);
    let age = age.filter(|age| age.is_finite());
    if let Some(age) = age {
        let _ = write!(out, "; Max-Age={}", (age / 1000.0).floor());
    }
    if let Some(domain) = option("domain") {
        let _ = write!(out, "; Domain={}", coerce::to_text(domain));
    }
    let _ = write!(out, "; Path={path}");
    let expires = match age {
        Some(age) => http_date(&Value::Date(now + age)),
        None if value.is_nullish() => http_date(&Value::Date(0.0)),
        None => option("expires").and_then(http_date),
    };
    if let Some(expires) = expires {
        let _ = write!(out, "; Expires={expires}");
    }
    for (key, flag) in [("httpOnly", "; HttpOnly"), ("secure", "; Secure")] {
        if option(key).is_some_and(coerce::truthy) {
            out.push_str(flag);
        }
    }
    match option("sameSite") {
        Some(Value::Bool(true)) => out.push_str("; SameSite=Strict"),
        Some(Value::String(policy)) => {
            let word = match policy.to_ascii_lowercase().as_str() {
                "strict" => "Strict",
                "lax" => "Lax",
                "none" => "None",
                _ => return None,
            };
            let _ = write!(out, "; SameSite={word}");
        }
        _ => {}
    }
    let token = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&b));
    // An option with `;` in it would bring in options of its own.
    let separators = out.matches(';').count() == out.matches("; ").count() && !path.contains(';');
    (token && separators && !out.contains(char::is_control)).then_some(out)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "out of range dates are refused by chrono"
)]
fn http_date(value: &Value) -> Option<String> {
    let (Value::Date(ms) | Value::Number(ms)) = value else {
        return None;
    };
    let time = DateTime::from_timestamp_millis(*ms as i64)?;
    Some(time.format("%a, %d %b %Y %H:%M:%S GMT").to_string())
}

/// `encodeURIComponent` (ECMA-262 §19.2.6.4).
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// `decodeURIComponent`; text that is not properly encoded stays as it is.
pub(super) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
            }
            _ => return text.to_owned(),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn request_cookies_are_decoded_and_the_first_counts() {
        let cookies = parse(["a=1; b=x%20y; a=2", r#"c="q"; j=j:{"k":1}; d=%zz"#].into_iter());
        assert_eq!(
            json::stringify(&cookies).unwrap(),
            r#"{"a":"1","b":"x y","c":"q","j":{"k":1},"d":"%zz"}"#
        );
    }

    #[test]
    fn no_request_cookie_is_named_proto() {
        let cookies =
            parse(["__proto__=1; a=j:{\"__proto__\":1}; __proto__ = j:{\"x\":1}"].into_iter());
        assert_eq!(
            json::stringify(&cookies).unwrap(),
            r#"{"a":{"__proto__":1}}"#
        );
    }

    #[test]
    fn response_cookies_have_their_options() {
        let cookie = |text: &str| field("n", &json::parse(text).unwrap(), 500.0).unwrap();
        assert_eq!(cookie("\"a b\""), "n=a%20b; Path=/");
        assert_eq!(
            cookie(r#"{"value":"v","maxAge":1500,"path":"/x","httpOnly":true,"sameSite":"lax"}"#),
            "n=v; Max-Age=1; Path=/x; Expires=Thu, 01 Jan 1970 00:00:02 GMT; HttpOnly; SameSite=Lax"
        );
        assert_eq!(
            cookie("null"),
            "n=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
        );
    }

    #[test]
    fn nothing_can_be_smuggled_into_the_header() {
        let smuggled = Value::record([("value", "v".into()), ("path", "/; Domain=evil".into())]);
        assert_eq!(field("n", &smuggled, 0.0), None);
        assert_eq!(field("n; x", &"v".into(), 0.0), None);
        assert_eq!(
            field(
                "n",
                &Value::record([("value", "v".into()), ("domain", "a\r\nb".into())]),
                0.0
            ),
            None
        );
    }
}
