//! Bodies and queries of an http request node, made from the payload and the content type.

use super::client_headers::Headers;
use super::cookie;
use super::digest::hex;
use bytes::Bytes;
use smol_str::{SmolStr, format_smolstr};
use std::fmt::Write;
use url::Url;
use value::{Object, Value, coerce, json};

/// The body for a payload; a content type is set where the payload decides it.
pub(super) fn body(payload: &Value, headers: &mut Headers) -> Bytes {
    let kind = headers.text("content-type").unwrap_or_default();
    let object = matches!(
        payload,
        Value::Object(_) | Value::Array(_) | Value::Buffer(_) | Value::Null
    );
    if object && kind == "multipart/form-data" {
        return form(&members(payload), headers);
    }
    match payload {
        Value::String(_) | Value::Buffer(_) | Value::Number(_) => {
            plain(payload).unwrap_or_default()
        }
        other if kind == "application/x-www-form-urlencoded" => query(other).into(),
        other => {
            if kind.is_empty() {
                headers.put("Content-Type", "application/json".into());
            }
            json::stringify(other).unwrap_or_default().into()
        }
    }
}

/// Texts, numbers and buffers as they are, objects as JSON; nothing of what is neither.
pub(super) fn plain(payload: &Value) -> Option<Bytes> {
    match payload {
        Value::Buffer(bytes) => Some(Bytes::clone(bytes)),
        Value::String(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        Value::Number(n) => Some(coerce::number_text(*n).to_string().into()),
        Value::Bool(_) | Value::Undefined => None,
        other => json::stringify(other).map(Bytes::from),
    }
}

/// A URL with a payload behind what it asks already; `None`: it cannot be a query.
pub(super) fn with_query(mut url: Url, payload: &Value) -> Option<Url> {
    if matches!(
        payload,
        Value::String(_) | Value::Number(_) | Value::Bool(_)
    ) {
        return None;
    }
    let more = query(payload);
    let whole = match url.query() {
        None | Some("") => more,
        Some(asked) => format!("{asked}&{more}"),
    };
    url.set_query(Some(&whole));
    Some(url)
}

/// `querystring.stringify` of Node.js: arrays are repeated names, what is no text, number or
/// boolean is empty.
fn query(value: &Value) -> String {
    let mut out = String::new();
    let mut put = |name: &str, value: &Value| {
        if !out.is_empty() {
            out.push('&');
        }
        let text = match value {
            Value::String(_) | Value::Bool(_) => coerce::to_text(value),
            Value::Number(n) if n.is_finite() => coerce::number_text(*n),
            _ => "".into(),
        };
        let _ = write!(out, "{}={}", cookie::encode(name), cookie::encode(&text));
    };
    for (name, value) in members(value) {
        match &value {
            Value::Array(values) => values.iter().for_each(|value| put(&name, value)),
            single => put(&name, single),
        }
    }
    out
}

/// The properties of an object; elements of an array and bytes of a buffer are named by their
/// place.
fn members(value: &Value) -> Vec<(SmolStr, Value)> {
    let placed = |values: Vec<Value>| {
        let numbered = values.into_iter().enumerate();
        numbered
            .map(|(place, value)| (format_smolstr!("{place}"), value))
            .collect()
    };
    match value {
        Value::Object(object) => object.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        Value::Array(values) => placed(values.to_vec()),
        Value::Buffer(bytes) => placed(bytes.iter().map(|b| f64::from(*b).into()).collect()),
        _ => Vec::new(),
    }
}

/// `multipart/form-data` (RFC 7578) in the shape of the `form-data` library: texts and buffers,
/// objects with `value` and `options`, anything else as JSON.
fn form(fields: &[(SmolStr, Value)], headers: &mut Headers) -> Bytes {
    let random: [u8; 12] = crypto::random();
    let boundary = format!("--------------------------{}", hex(&random));
    let mut out = Vec::new();
    for (name, value) in fields {
        let (value, options) = match value {
            Value::Undefined | Value::Null => continue,
            Value::Object(object) if object.contains_key("value") => {
                (property(object, "value"), property(object, "options"))
            }
            other => (other.clone(), Value::Undefined),
        };
        out.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        out.extend_from_slice(part_head(name, &value, &options).as_bytes());
        match &value {
            Value::Buffer(bytes) => out.extend_from_slice(bytes),
            Value::String(text) => out.extend_from_slice(text.as_bytes()),
            other => out.extend_from_slice(json::stringify(other).unwrap_or_default().as_bytes()),
        }
        out.extend_from_slice(b"\r\n");
    }
    // A form without fields is empty.
    if !out.is_empty() {
        out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    }
    let kind = format!("multipart/form-data; boundary={boundary}");
    headers.put("content-type", kind.into());
    out.into()
}

fn property(object: &Object, name: &str) -> Value {
    object.get(name).cloned().unwrap_or_default()
}

fn part_head(name: &str, value: &Value, options: &Value) -> String {
    let option = |key: &str| match options {
        Value::Object(options) => property(options, key),
        Value::String(file) if key == "filename" => Value::String(file.clone()),
        _ => Value::Undefined,
    };
    let given = |value: Value| coerce::truthy(&value).then(|| coerce::to_text(&value));
    let file = given(option("filepath")).or_else(|| given(option("filename")));
    let mut head = format!("Content-Disposition: form-data; name=\"{}\"", quoted(name));
    if let Some(file) = &file {
        let _ = write!(head, "; filename=\"{}\"", quoted(file));
    }
    let kind = given(option("contentType"))
        .map(|kind| kind.replace(['\r', '\n'], ""))
        .or_else(|| file.as_deref().and_then(media_type).map(String::from))
        .or_else(|| matches!(value, Value::Buffer(_)).then(|| "application/octet-stream".into()));
    if let Some(kind) = kind {
        let _ = write!(head, "\r\nContent-Type: {kind}");
    }
    head + "\r\n\r\n"
}

/// A name that can end neither its quotes nor its line (RFC 7578 §4.2, as browsers write it).
fn quoted(name: &str) -> String {
    name.replace('"', "%22")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// The media type for a file's name, for the most common types; `None`: the part has none.
fn media_type(file: &str) -> Option<&'static str> {
    let (_, extension) = file.rsplit_once('.')?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "txt" | "log" | "text" => "text/plain",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "js" | "mjs" => "application/javascript",
        "json" => "application/json",
        "xml" => "application/xml",
        "yaml" | "yml" => "text/yaml",
        "md" => "text/markdown",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "webp" => "image/webp",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn made(payload: &str, kind: &str) -> (String, String) {
        let mut headers = Headers::default();
        headers.put("content-type", kind.into());
        let body = body(&json::parse(payload).unwrap(), &mut headers);
        let kind = headers.text("content-type").unwrap_or_default();
        (String::from_utf8(body.to_vec()).unwrap(), kind.to_string())
    }

    #[test]
    fn payload_and_content_type_determine_the_body() {
        let form = "application/x-www-form-urlencoded";
        let table = [
            (r#"{"a":1}"#, "", r#"{"a":1}"#, "application/json"),
            ("\"text\"", "", "text", ""),
            ("5", "", "5", ""),
            ("true", "", "true", "application/json"),
            ("null", "", "null", "application/json"),
            (r#"{"a":1}"#, "text/x", r#"{"a":1}"#, "text/x"),
            (
                r#"{"a":[1,2],"b":"x y","c":{}}"#,
                form,
                "a=1&a=2&b=x%20y&c=",
                form,
            ),
        ];
        for (payload, kind, body, expected) in table {
            assert_eq!(
                made(payload, kind),
                (body.into(), expected.into()),
                "{payload}"
            );
        }
    }

    #[test]
    fn forms_have_a_part_for_each_property() {
        let payload =
            r#"{"a":"1","f":{"value":"hi","options":{"filename":"f\".txt"}},"o":{"k":1},"n":null}"#;
        let (body, kind) = made(payload, "multipart/form-data");
        let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f%22.txt\"\r\n\
             Content-Type: text/plain\r\n\r\nhi\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"o\"\r\n\r\n{{\"k\":1}}\r\n--{boundary}--\r\n"
        );
        assert_eq!(body, expected);
    }
}
