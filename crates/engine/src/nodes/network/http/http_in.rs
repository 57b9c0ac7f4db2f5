//! `http in`: requests to an endpoint become messages (docs/reference/node-red-engine.md §4.3).

use super::cookie;
use super::in_body::{self as request_body, Body};
use crate::http::{Exchange, Reply, Request, Responder, User};
use crate::node::{BoxedNode, Build, Host, Level, Node, Wake, boxed};
use bytes::Bytes;
use formats::qs;
use hyper::{HeaderMap, header};
use serde::Deserialize;
use smol_str::SmolStr;
use std::sync::Arc;
use value::{Failure, Handle, Message, Object, Value};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    url: SmolStr,
    method: Option<SmolStr>,
    upload: bool,
    skip_body_parsing: bool,
}

struct HttpIn {
    /// The root path of all endpoints; flows see the path below it.
    root: String,
    method: String,
    path: String,
    upload: bool,
    raw: bool,
}

/// The result of a spawned upload.
struct Uploaded {
    request: Request,
    responder: Arc<Responder>,
    body: Result<Body, Failure>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let slash = if properties.url.is_empty() || properties.url.starts_with('/') {
        ""
    } else {
        "/"
    };
    Ok(boxed(HttpIn {
        root: String::new(),
        method: properties
            .method
            .as_deref()
            .unwrap_or("get")
            .to_ascii_uppercase(),
        path: format!("{slash}{}", properties.url),
        upload: properties.upload,
        raw: properties.skip_body_parsing,
    }))
}

impl Node<Uploaded> for HttpIn {
    fn start(&mut self, host: &mut Host<'_, Uploaded>) {
        host.root().clone_into(&mut self.root);
        if self.path.is_empty() {
            return host.log(Level::Warn, Value::from("missing path"));
        }
        if let Err(failure) = host.listen(&self.method, &self.path) {
            host.error(failure, None);
        }
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_, Uploaded>) {
        host.pass(message);
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_, Uploaded>) {
        if let Wake::Request(exchange) = wake {
            self.take(*exchange, host);
        }
    }

    fn event(&mut self, uploaded: Uploaded, host: &mut Host<'_, Uploaded>) {
        let Uploaded {
            request,
            responder,
            body,
        } = uploaded;
        self.send(&request, responder, body, host);
    }
}

impl HttpIn {
    fn take(&mut self, exchange: Exchange, host: &mut Host<'_, Uploaded>) {
        let Exchange {
            mut request,
            responder,
        } = exchange;
        if !self.root.is_empty() {
            request.path = below(&request.path, &self.root);
        }
        let content_type = text_field(&request.headers, header::CONTENT_TYPE.as_str()).to_owned();
        let bytes = std::mem::take(&mut request.body);
        let upload = self.upload && !self.raw && request.method == "POST";
        let boundary = multer::parse_boundary(&content_type)
            .ok()
            .filter(|_| upload);
        if let Some(boundary) = boundary {
            return host.spawn(async move {
                let body = request_body::parse_multipart(boundary, bytes).await;
                Uploaded {
                    request,
                    responder,
                    body,
                }
            });
        }
        let value = if self.raw {
            Ok(Value::buffer(bytes))
        } else {
            request_body::parse(&content_type, bytes, upload)
        };
        self.send(
            &request,
            responder,
            value.map(|value| Body {
                value,
                files: Vec::new(),
            }),
            host,
        );
    }

    fn send(
        &self,
        request: &Request,
        responder: Arc<Responder>,
        body: Result<Body, Failure>,
        host: &mut Host<'_, Uploaded>,
    ) {
        match body {
            Ok(body) => host.send(0, message(request, responder, body, self.method == "GET")),
            // A malformed body is the client's error: catch nodes do not get it.
            Err(_) => {
                responder.answer(bad_request());
            }
        }
    }
}

/// The part of a path below the root of all endpoints; roots match in any letter case.
fn below(path: &str, root: &str) -> String {
    let rest = path.get(root.len()..).unwrap_or_default();
    if rest.is_empty() {
        "/".to_owned()
    } else {
        rest.to_owned()
    }
}

/// The response to a body that does not match its content type.
fn bad_request() -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    Reply {
        status: 400,
        headers,
        body: Bytes::from_static(b"Bad Request"),
    }
}

fn message(request: &Request, responder: Arc<Responder>, body: Body, query_only: bool) -> Message {
    let query = qs::parse_query(request.query.as_bytes());
    let payload = if query_only {
        query.clone()
    } else {
        body.value.clone()
    };
    let mut message = Message::default();
    message.set(SmolStr::new_static("payload"), payload);
    message.set(
        SmolStr::new_static("req"),
        request_object(request, query, body),
    );
    message.set(SmolStr::new_static("res"), Value::Handle(Handle(responder)));
    message
}

/// `msg.req`: the parts of Express' request that flows use.
fn request_object(request: &Request, query: Value, body: Body) -> Value {
    let cookies = request
        .headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|v| v.to_str().ok());
    let params: Object = request
        .params
        .iter()
        .map(|(k, v)| (k.clone(), Value::String(v.clone())))
        .collect();
    let host = text_field(&request.headers, header::HOST.as_str());
    let mut object = Object::default();
    let mut put =
        |name: &'static str, value: Value| object.insert(SmolStr::new_static(name), value);
    put("method", request.method.as_str().into());
    put("url", request.url.as_str().into());
    put("originalUrl", request.url.as_str().into());
    put("path", request.path.as_str().into());
    put("query", query);
    put("params", Value::object(params));
    put("headers", headers_object(&request.headers));
    put("cookies", cookie::parse(cookies));
    put("body", body.value);
    put("ip", Value::from(request.address.to_string()));
    put(
        "protocol",
        if request.secure { "https" } else { "http" }.into(),
    );
    put("secure", request.secure.into());
    put("hostname", hostname(host).into());
    if let Some(user) = &request.user {
        put("user", user_object(user));
    }
    if !body.files.is_empty() {
        put("files", Value::array(body.files));
    }
    Value::object(object)
}

/// `msg.req.user`, as passport leaves it in Express' request.
fn user_object(user: &User) -> Value {
    let permissions = user.permissions.iter().cloned().map(Value::String);
    let mut object = Object::default();
    let name = Value::String(user.username.clone());
    object.insert(SmolStr::new_static("username"), name);
    object.insert(
        SmolStr::new_static("permissions"),
        Value::array(permissions.collect()),
    );
    Value::object(object)
}

/// Header fields by lower-case name; repeated ones are joined as Node.js joins them.
fn headers_object(headers: &HeaderMap) -> Value {
    let mut object = Object::default();
    for (name, value) in headers {
        // Node.js reads Latin-1.
        let text: String = value.as_bytes().iter().map(|&b| char::from(b)).collect();
        let joined = match object.get(name.as_str()) {
            Some(Value::String(first)) if name == header::COOKIE => format!("{first}; {text}"),
            Some(Value::String(first)) => format!("{first}, {text}"),
            _ => text,
        };
        object.assign(name.as_str().into(), Value::from(joined));
    }
    Value::object(object)
}

fn text_field<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers
        .get(name)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default()
}

/// A host without its port; an IPv6 address keeps its brackets, as in Express.
fn hostname(host: &str) -> &str {
    let start = host.find(']').unwrap_or(0);
    let port = host.get(start..).and_then(|rest| rest.find(':'));
    port.and_then(|at| host.get(..start + at)).unwrap_or(host)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use value::json;

    fn request() -> Request {
        let mut headers = HeaderMap::new();
        headers.insert("host", "example.org:8443".parse().unwrap());
        headers.insert("cookie", "a=1".parse().unwrap());
        headers.append("x-own", "1".parse().unwrap());
        headers.append("x-own", "2".parse().unwrap());
        Request {
            method: hyper::Method::POST,
            path: "/e/5".to_owned(),
            url: "/e/5?q[]=1".to_owned(),
            query: "q[]=1".to_owned(),
            params: vec![("id".into(), "5".into())],
            headers,
            body: Bytes::new(),
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            secure: true,
            user: Some(User {
                username: "ann".into(),
                permissions: vec!["http.read".into()],
            }),
        }
    }

    #[test]
    fn the_message_has_payload_request_and_response_handle() {
        let (responder, mut answer) = Responder::new(None);
        let body = || Body {
            value: "body".into(),
            files: Vec::new(),
        };
        let message = super::message(&request(), responder, body(), false);
        assert_eq!(message.get("payload").as_str(), Some("body"));
        let expected = concat!(
            r#"{"method":"POST","url":"/e/5?q[]=1","originalUrl":"/e/5?q[]=1","path":"/e/5","query":{"q":["1"]},"#,
            r#""params":{"id":"5"},"headers":{"host":"example.org:8443","cookie":"a=1","x-own":"1, 2"},"cookies":{"a":"1"},"#,
            r#""body":"body","ip":"127.0.0.1","protocol":"https","secure":true,"hostname":"example.org","#,
            r#""user":{"username":"ann","permissions":["http.read"]}}"#,
        );
        assert_eq!(json::stringify(message.get("req")).unwrap(), expected);
        let Value::Handle(handle) = message.get("res") else {
            panic!("no handle")
        };
        let responder = Arc::clone(&handle.0).downcast::<Responder>().unwrap();
        assert!(responder.answer(bad_request()));
        assert_eq!(answer.try_recv().unwrap().unwrap().unwrap().0.status, 400);
    }

    #[test]
    fn a_get_has_its_query_as_payload() {
        let (responder, _answer) = Responder::new(None);
        let message = super::message(
            &request(),
            responder,
            Body {
                value: "".into(),
                files: Vec::new(),
            },
            true,
        );
        assert_eq!(
            json::stringify(message.get("payload")).unwrap(),
            r#"{"q":["1"]}"#
        );
    }

    #[test]
    fn the_hostname_excludes_the_port() {
        assert_eq!(hostname("a.b:80"), "a.b");
        assert_eq!(hostname("a.b"), "a.b");
        assert_eq!(hostname("[::1]:80"), "[::1]");
        assert_eq!(hostname("[::1]"), "[::1]");
    }
}
