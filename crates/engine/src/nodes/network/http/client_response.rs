//! The answer to an http request node's request, as the message has it.

use super::client_headers::{MARK, marked};
use super::cookie;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::SET_COOKIE;
use smol_str::SmolStr;
use value::{Message, Object, PROTO, Value};

/// The final response.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The URL that answered.
    pub(super) url: String,
    /// Each redirection on the way.
    pub(super) redirects: Vec<Value>,
    /// A warning to log for the node.
    pub(super) warning: Option<String>,
}

/// Header fields of which Node.js keeps only the first.
const ONCE: [&str; 20] = [
    "age",
    "authorization",
    "content-length",
    "content-type",
    "etag",
    "expires",
    "from",
    "host",
    "if-modified-since",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "proxy-authorization",
    "referer",
    "retry-after",
    "server",
    "user-agent",
    "content-disposition",
    "content-encoding",
];

/// Writes an answer into the message, all but the payload, which is given back.
pub(super) fn describe(message: &mut Message, answer: Answer) -> Bytes {
    message.set("statusCode", f64::from(answer.status));
    let mut headers = fields(&answer.headers);
    let mark = marked(&headers);
    let cookies = set_cookies(&answer.headers);
    headers.insert(MARK.into(), Value::String(mark));
    message.set("headers", Value::object(headers));
    message.set("responseUrl", answer.url);
    // Its place among the properties; the value follows.
    if message.get("payload").is_undefined() {
        message.set("payload", Value::Null);
    }
    message.set("redirectList", Value::array(answer.redirects));
    message.set("retry", 0.0);
    if let Some(cookies) = cookies {
        message.set("responseCookies", cookies);
    }
    answer.body
}

/// A redirection as `msg.redirectList` has it.
pub(super) fn redirect(location: &str, headers: &HeaderMap) -> Value {
    let mut object = Object::default();
    object.insert(SmolStr::new_static("location"), location.into());
    if let Some(cookies) = set_cookies(headers) {
        object.insert(SmolStr::new_static("cookies"), cookies);
    }
    Value::object(object)
}

/// Header fields by lower-case name; repeated ones are joined as Node.js joins them, `set-cookie`
/// is a list.
fn fields(headers: &HeaderMap) -> Object {
    let mut object = Object::default();
    for name in headers.keys() {
        let texts: Vec<String> = headers.get_all(name).iter().map(text).collect();
        let value = if name == SET_COOKIE {
            Value::array(texts.into_iter().map(Value::from).collect())
        } else if ONCE.contains(&name.as_str()) {
            Value::from(texts.into_iter().next().unwrap_or_default())
        } else {
            Value::from(texts.join(", "))
        };
        object.assign(name.as_str().into(), value);
    }
    object
}

/// A header's value; Node.js reads Latin-1.
pub(super) fn text(value: &hyper::header::HeaderValue) -> String {
    value.as_bytes().iter().map(|&b| char::from(b)).collect()
}

/// The cookies that an answer sets, by name: their attributes and `value`. `None`: it sets none.
fn set_cookies(headers: &HeaderMap) -> Option<Value> {
    let mut cookies = Object::default();
    for field in headers.get_all(SET_COOKIE) {
        let field = text(field);
        let Some((name, _)) = field.split_once('=') else {
            continue;
        };
        let name = name.trim();
        if name.is_empty() {
            continue;
        }
        let mut parsed = pairs(&field);
        let value = parsed.shift_remove(name).unwrap_or_default();
        parsed.insert(SmolStr::new_static("value"), value);
        cookies.assign(name.into(), Value::object(parsed));
    }
    headers
        .contains_key(SET_COOKIE)
        .then(|| Value::object(cookies))
}

/// `name=value` pairs, the first of a name; quotes and `%XX` are undone.
fn pairs(field: &str) -> Object {
    let mut object = Object::default();
    for pair in field.split(';') {
        let Some((name, value)) = pair.split_once('=') else {
            continue;
        };
        let value = value.trim();
        let bare = value
            .strip_prefix('"')
            .and_then(|v| v.strip_suffix('"'))
            .unwrap_or(value);
        let name = name.trim();
        if name != PROTO {
            object.insert_if_absent(name.into(), || Value::from(cookie::decode(bare)));
        }
    }
    object
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use value::json;

    #[test]
    fn a_response_has_its_properties_in_node_reds_order() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-two", "1"),
            ("set-cookie", "q=1; Path=/; Secure"),
            ("x-two", "2"),
            ("set-cookie", "z=\"a%20b\""),
            ("etag", "1"),
            ("etag", "2"),
        ] {
            let name = hyper::header::HeaderName::from_static(name);
            headers.append(name, value.parse().unwrap());
        }
        let mut message = Message::with_payload("asked");
        let answer = Answer {
            status: 200,
            headers,
            body: Bytes::from_static(b"b"),
            url: "http://a/".into(),
            redirects: Vec::new(),
            warning: None,
        };
        describe(&mut message, answer);
        let mut with_headers = message.clone();
        let mut own = with_headers.get("headers").as_object().unwrap().clone();
        assert!(own.shift_remove(MARK).is_some());
        with_headers.set("headers", Value::object(own));
        assert_eq!(
            json::stringify(&with_headers.to_value()).unwrap(),
            r#"{"payload":"asked","statusCode":200,"headers":{"x-two":"1, 2","set-cookie":["q=1; Path=/; Secure","z=\"a%20b\""],"etag":"1"},"responseUrl":"http://a/","redirectList":[],"retry":0,"responseCookies":{"q":{"Path":"/","value":"1"},"z":{"value":"a b"}}}"#
        );
    }
}
