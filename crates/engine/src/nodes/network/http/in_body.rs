//! The body of a request to an http-in node as a value, by its content type
//! (docs/reference/node-red-engine.md §4.3).

use bytes::Bytes;
use formats::qs;
use http_body_util::{BodyDataStream, Full};
use smol_str::SmolStr;
use value::{Failure, Object, Value, json};

/// The parsed body and uploaded files.
pub(super) struct Body {
    pub(super) value: Value,
    pub(super) files: Vec<Value>,
}

/// Parses a body of any type but `multipart/form-data`. A body that is neither JSON nor a form is
/// empty where uploads are accepted, as in Node-RED.
pub(super) fn parse(content_type: &str, body: Bytes, upload: bool) -> Result<Value, Failure> {
    let essence = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let text = |body: &Bytes| Value::from(String::from_utf8_lossy(body).into_owned());
    Ok(match essence.as_str() {
        "application/json" if body.is_empty() => Value::object(Object::default()),
        "application/json" => strict(&body)?,
        "application/x-www-form-urlencoded" => qs::parse(&body),
        _ if upload => Value::object(Object::default()),
        "application/octet-stream" | "application/cbor" | "application/x-protobuf" => {
            Value::buffer(body)
        }
        other
            if other.is_empty()
                || ["text/", "application/"]
                    .iter()
                    .any(|kind| other.starts_with(kind))
                || ["/xml", "+xml"].iter().any(|kind| other.ends_with(kind)) =>
        {
            text(&body)
        }
        _ => Value::buffer(body),
    })
}

/// JSON that is an object or a list: `body-parser` takes nothing else.
fn strict(body: &[u8]) -> Result<Value, Failure> {
    let value = json::parse(&String::from_utf8_lossy(body))?;
    if matches!(value, Value::Object(_) | Value::Array(_)) {
        return Ok(value);
    }
    Err(Failure {
        name: "SyntaxError".into(),
        ..Failure::text("the JSON is neither an object nor a list")
    })
}

/// Parses a `multipart/form-data` body: fields, and files as multer's memory storage gives them.
pub(super) async fn parse_multipart(boundary: String, body: Bytes) -> Result<Body, Failure> {
    let wrong = |e: multer::Error| Failure::error(e.to_string());
    let mut parts = multer::Multipart::new(BodyDataStream::new(Full::new(body)), boundary);
    let mut fields = form_urlencoded::Serializer::new(String::new());
    let mut files = Vec::new();
    while let Some(part) = parts.next_field().await.map_err(wrong)? {
        let name = part.name().unwrap_or_default().to_owned();
        let Some(file) = part.file_name().map(str::to_owned) else {
            fields.append_pair(&name, &part.text().await.map_err(wrong)?);
            continue;
        };
        let kind = part.content_type().map_or_else(
            || "application/octet-stream".to_owned(),
            ToString::to_string,
        );
        let bytes = part.bytes().await.map_err(wrong)?;
        files.push(Value::record([
            ("fieldname", name.into()),
            // The library that Node-RED uses reads names as Latin-1, and flows put that right.
            (
                "originalname",
                file.bytes().map(char::from).collect::<String>().into(),
            ),
            ("encoding", Value::String(SmolStr::new_static("7bit"))),
            ("mimetype", kind.into()),
            ("buffer", Value::buffer(bytes.clone())),
            ("size", Value::Number(bytes.len() as f64)),
        ]));
    }
    Ok(Body {
        value: qs::parse(fields.finish().as_bytes()),
        files,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn parsed(content_type: &str, body: &'static [u8]) -> String {
        format!(
            "{:?}",
            parse(content_type, Bytes::from_static(body), false).unwrap()
        )
    }

    #[test]
    fn the_content_type_selects_the_body_parser() {
        assert_eq!(
            parsed("application/json; charset=utf-8", br#"{"a":1}"#),
            r#"{"a": 1}"#
        );
        assert_eq!(
            parsed("application/x-www-form-urlencoded", b"a=1&b[]=2"),
            r#"{"a": "1", "b": ["2"]}"#
        );
        assert_eq!(parsed("text/plain", b"hi"), "\"hi\"");
        assert_eq!(parsed("", b"hi"), "\"hi\"");
        assert_eq!(parsed("application/octet-stream", b"hi"), "Buffer(b\"hi\")");
        assert_eq!(parsed("image/png", b"hi"), "Buffer(b\"hi\")");
        assert_eq!(parsed("application/x-own", b"hi"), "\"hi\"");
        assert_eq!(parsed("font/woff", b"hi"), "Buffer(b\"hi\")");
    }

    #[test]
    fn broken_json_is_refused() {
        assert_eq!(
            parse("application/json", Bytes::from_static(b"{"), false)
                .unwrap_err()
                .name,
            "SyntaxError"
        );
    }

    #[tokio::test(flavor = "current_thread")]
    async fn uploads_become_fields_and_files() {
        let body = "--X\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--X\r\nContent-Disposition: form-data; name=\"f\"; filename=\"t.txt\"\r\nContent-Type: text/plain\r\n\r\nhi\r\n--X--\r\n";
        let parsed = parse_multipart("X".to_owned(), Bytes::from_static(body.as_bytes()))
            .await
            .unwrap();
        assert_eq!(format!("{:?}", parsed.value), r#"{"a": "1"}"#);
        assert_eq!(
            format!("{:?}", parsed.files),
            r#"[{"fieldname": "f", "originalname": "t.txt", "encoding": "7bit", "mimetype": "text/plain", "buffer": Buffer(b"hi"), "size": 2}]"#
        );
    }
}
