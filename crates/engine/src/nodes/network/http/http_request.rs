//! `http request`: sends a request made from each message, and sends on the message with the answer
//! (docs/reference/node-red-engine.md §4.3).

use super::client::{Plan, Pool};
use super::client_body;
use super::client_headers::{Header, Headers};
use super::client_response;
use super::client_response::Answer;
use super::client_url;
use super::cookie;
use super::cookie_jar;
use super::digest;
use super::http_proxy::{self, Proxy};
use crate::expression::typed::text_of;
use crate::node::{BoxedNode, Build, Host, Level, Node, boxed};
use crate::nodes::network::tls::Defaults;
use crate::nodes::network::tls::Trust;
use crate::nodes::status;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use formats::mustache::Template;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::rc::Rc;
use std::time::Duration;
use url::Url;
use value::{Failure, Message, Object, Value, coerce, json};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    method: Option<SmolStr>,
    ret: Option<SmolStr>,
    paytoqs: Json,
    url: SmolStr,
    tls: SmolStr,
    persist: Json,
    proxy: SmolStr,
    auth_type: SmolStr,
    senderr: Json,
    headers: Vec<Header>,
    #[serde(rename = "insecureHTTPParser")]
    insecure_parser: Json,
}

struct HttpRequest {
    /// `None`: not set, which is GET and cannot be changed by a message; `use`: set by the message.
    method: Option<SmolStr>,
    url: SmolStr,
    template: Option<Result<Template, Failure>>,
    answer: Form,
    query: Query,
    headers: Vec<Header>,
    auth: Auth,
    tls: SmolStr,
    proxy: SmolStr,
    /// Errors go to catch nodes only.
    only_caught: bool,
    /// Takes answers that bend the rules of HTTP.
    lenient: bool,
    /// The node's own connections, if they are to persist.
    pool: Option<Rc<Pool>>,
    under_way: usize,
}

/// The type of the payload made of a response.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Text,
    Buffer,
    Object,
}

/// The use of a GET request's payload.
#[derive(Clone, Copy, PartialEq)]
enum Query {
    Ignored,
    Url,
    Body,
}

/// The authentication scheme and credentials of the node.
pub(super) struct Auth {
    kind: SmolStr,
    user: String,
    password: String,
}

/// The outcome of a request.
struct Answered {
    message: Message,
    url: String,
    result: Result<Answer, Failure>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let credential = |name: &str| {
        let text = build
            .credentials
            .as_ref()
            .and_then(|c| c.get(name)?.as_str());
        text.unwrap_or_default().to_owned()
    };
    let kind = if properties.auth_type.is_empty() {
        SmolStr::new_static("basic")
    } else {
        properties.auth_type
    };
    Ok(boxed(HttpRequest {
        method: properties.method.filter(|method| !method.is_empty()),
        template: properties
            .url
            .contains("{{")
            .then(|| Template::compile(&properties.url)),
        url: properties.url,
        answer: match properties.ret.as_deref() {
            Some("bin") => Form::Buffer,
            Some("obj") => Form::Object,
            _ => Form::Text,
        },
        query: match text_of(&properties.paytoqs).as_str() {
            "true" | "query" => Query::Url,
            "body" => Query::Body,
            _ => Query::Ignored,
        },
        headers: properties.headers,
        auth: Auth {
            kind,
            user: credential("user"),
            password: credential("password"),
        },
        tls: properties.tls,
        proxy: properties.proxy,
        lenient: coerce::truthy(&json::from_tree(&properties.insecure_parser)),
        only_caught: coerce::truthy(&json::from_tree(&properties.senderr)),
        pool: coerce::truthy(&json::from_tree(&properties.persist)).then(Rc::default),
        under_way: 0,
    }))
}

/// The reason why a message is not sent; decides the report, and whether the message is done.
enum Refusal {
    /// Reported to catch nodes.
    Error(Failure),
    /// Logged; the status is red.
    Transport,
}

impl Node<Answered> for HttpRequest {
    fn receive(&mut self, message: Message, host: &mut Host<'_, Answered>) {
        host.status(status("blue", "dot", "httpin.status.requesting"));
        let mut message = message;
        match self.plan(&mut message, host) {
            Ok((plan, url)) => {
                self.under_way += 1;
                host.spawn(async move {
                    let result = plan.carry_out().await;
                    Answered {
                        message,
                        url,
                        result,
                    }
                });
            }
            Err(Refusal::Error(failure)) => {
                host.error(failure.clone(), Some(message.clone()));
                if failure.name.is_empty() {
                    host.done(message);
                }
            }
            Err(Refusal::Transport) => {
                host.log(Level::Warn, "non-http transport requested");
                host.status(status("red", "ring", "httpin.errors.invalid-transport"));
                host.done(message);
            }
        }
    }

    fn event(&mut self, answered: Answered, host: &mut Host<'_, Answered>) {
        self.under_way = self.under_way.saturating_sub(1);
        match answered.result {
            Ok(answer) => self.answered(answered.message, answer, host),
            Err(failure) => self.failed(answered.message, &failure, &answered.url, host),
        }
    }

    fn close(
        &mut self,
        _removed: bool,
        host: &mut Host<'_, Answered>,
    ) -> Option<crate::node::Closing> {
        host.status(Value::object(Object::default()));
        None
    }
}

impl HttpRequest {
    /// Everything about the request; and its URL, for the words of a failure.
    fn plan(
        &self,
        message: &mut Message,
        host: &mut Host<'_, Answered>,
    ) -> Result<(Plan, String), Refusal> {
        let address = self.address(message, host)?;
        let tls = host.lookup(&self.tls);
        let whole = client_url::whole(&address, tls.is_some()).ok_or(Refusal::Transport)?;
        let method = self.method(message, host);
        let limit = limit(message, host);
        let mut headers = Headers::default();
        headers.take(message, &self.headers);
        let parsed = Url::parse(&whole).map_err(|_| {
            Refusal::Error(Failure {
                name: "TypeError".into(),
                code: "ERR_INVALID_URL".into(),
                ..Failure::text("Invalid URL")
            })
        })?;
        let mut jar = cookie_jar::Jar::at(host.now());
        jar.fill(&parsed, &mut headers, message.get("cookies"))
            .map_err(Refusal::Error)?;
        let digest = self.authorize(&parsed, &mut headers);
        let given = parsed.clone();
        let (parsed, body) = self.body(&method, parsed, &mut headers, message)?;
        let proxy: Option<Rc<Proxy>> = host.lookup(&self.proxy);
        let gate = http_proxy::gate(&parsed, proxy.as_deref()).unwrap_or_else(|warning| {
            host.log(Level::Warn, warning);
            None
        });
        let trust = match tls {
            Some(tls) => Trust::Own(tls),
            None => Trust::Default(host.shared::<Defaults>(), verify(message, host)),
        };
        let text = if parsed == given {
            whole
        } else {
            parsed.to_string()
        };
        let plan = Plan {
            method,
            url: parsed,
            headers,
            body,
            jar,
            digest,
            follow: match message.get("followRedirects") {
                Value::Undefined => true,
                value => coerce::truthy(value),
            },
            limit,
            gate,
            lenient: self.lenient,
            trust,
            pool: self.pool.clone().unwrap_or_else(|| host.shared::<Pool>()),
        };
        Ok((plan, text))
    }

    /// The URL as the node or the message gives it.
    fn address(&self, message: &Message, host: &mut Host<'_, Answered>) -> Result<String, Refusal> {
        let own = message.get("url");
        if coerce::truthy(own) && !self.url.is_empty() && coerce::to_text(own) != self.url {
            host.log(Level::Warn, NO_OVERRIDE);
        }
        let url = match &self.template {
            Some(Ok(template)) => {
                let rendered = template.render(&host.context(), message);
                rendered.map_err(Refusal::Error)?
            }
            Some(Err(broken)) => return Err(Refusal::Error(broken.clone())),
            None if !self.url.is_empty() => self.url.to_string(),
            None if coerce::truthy(own) => coerce::to_text(own).to_string(),
            None => String::new(),
        };
        if url.is_empty() {
            return Err(Refusal::Error(Failure::text("No url specified")));
        }
        Ok(url)
    }

    fn method(&self, message: &Message, host: &mut Host<'_, Answered>) -> String {
        let own = message.get("method");
        let chosen = match self.method.as_deref() {
            Some("use") if coerce::truthy(own) => coerce::to_text(own),
            Some(method) => {
                if coerce::truthy(own) && method != "use" {
                    host.log(Level::Warn, NO_OVERRIDE);
                }
                method.into()
            }
            None => "GET".into(),
        };
        chosen.to_uppercase()
    }

    /// Puts in `Authorization`; digest credentials wait for the server's challenge.
    fn authorize(&self, url: &Url, headers: &mut Headers) -> Option<digest::Credentials> {
        let or = |own: &str, other: &str| if own.is_empty() { other } else { own }.to_owned();
        let user = or(&self.auth.user, &cookie::decode(url.username()));
        let password = or(
            &self.auth.password,
            &cookie::decode(url.password().unwrap_or_default()),
        );
        if user.is_empty() && password.is_empty() {
            return None;
        }
        match self.auth.kind.as_str() {
            "basic" => {
                let pair = BASE64_STANDARD.encode(format!("{user}:{password}"));
                headers.put("Authorization", Value::from(format!("Basic {pair}")));
                None
            }
            "bearer" => {
                headers.put("Authorization", Value::from(format!("Bearer {password}")));
                None
            }
            "digest" => Some(digest::Credentials { user, password }),
            _ => None,
        }
    }

    /// The body, or the query that a GET's payload becomes.
    fn body(
        &self,
        method: &str,
        url: Url,
        headers: &mut Headers,
        message: &Message,
    ) -> Result<(Url, Option<bytes::Bytes>), Refusal> {
        let payload = message.get("payload");
        if payload.is_undefined() || method == "HEAD" {
            return Ok((url, None));
        }
        if method != "GET" {
            return Ok((url, Some(client_body::body(payload, headers))));
        }
        match self.query {
            Query::Ignored => Ok((url, None)),
            Query::Url => {
                let asking = client_body::with_query(url, payload);
                let refused = || Refusal::Error(Failure::text("Invalid payload"));
                Ok((asking.ok_or_else(refused)?, None))
            }
            // Node-RED looks at objects first: a buffer is one.
            Query::Body if matches!(payload, Value::Buffer(_)) => {
                Ok((url, json::stringify(payload).map(Into::into)))
            }
            Query::Body => Ok((url, client_body::plain(payload))),
        }
    }

    fn answered(&self, mut message: Message, answer: Answer, host: &mut Host<'_, Answered>) {
        let no_content = answer.status == 204;
        if let Some(warning) = &answer.warning {
            host.log(Level::Warn, warning.as_str());
        }
        let body = client_response::describe(&mut message, answer);
        let text = || String::from_utf8_lossy(&body).into_owned();
        let payload = match self.answer {
            Form::Buffer => Value::buffer(body),
            Form::Text => Value::from(text()),
            Form::Object if no_content => Value::object(Object::default()),
            Form::Object => json::parse(&text()).unwrap_or_else(|_| {
                host.log(Level::Warn, "JSON parse error");
                Value::from(text())
            }),
        };
        message.set("payload", payload);
        if self.under_way == 0 {
            host.status(Value::object(Object::default()));
        }
        host.pass(message);
    }

    fn failed(
        &self,
        mut message: Message,
        failure: &Failure,
        url: &str,
        host: &mut Host<'_, Answered>,
    ) {
        let code = failure.code.clone();
        if code == "ETIMEDOUT" {
            let words = Failure::text("no response from server");
            host.error(words, Some(message.clone()));
            host.status(status(
                "red",
                "ring",
                "common.notification.errors.no-response",
            ));
        } else {
            host.error(failure.clone(), Some(message.clone()));
            host.status(status("red", "ring", &code));
        }
        message.set("payload", format!("{failure} : {url}"));
        let code = if code.is_empty() {
            Value::Undefined
        } else {
            Value::String(code)
        };
        message.set("statusCode", code);
        if self.only_caught {
            host.done(message);
        } else {
            host.pass(message);
        }
    }
}

/// Returns whether the server's certificate is checked, when the node has no `tls-config`.
fn verify(message: &Message, host: &mut Host<'_, Answered>) -> bool {
    match message.get("rejectUnauthorized") {
        Value::Undefined => true,
        Value::Bool(check) => *check,
        Value::String(text) if text.eq_ignore_ascii_case("true") => true,
        Value::String(text) if text.eq_ignore_ascii_case("false") => false,
        _ => {
            host.log(Level::Warn, "msg.rejectUnauthorized should be a boolean");
            true
        }
    }
}

/// Node-RED's warning when a message tries to change a setting of the node.
const NO_OVERRIDE: &str = "Warning: msg properties can no longer override set node properties. See bit.ly/nr-override-msg-props";

/// The time-out for the response: the message's, else the operator's.
fn limit(message: &Message, host: &mut Host<'_, Answered>) -> Duration {
    let own = message.get("requestTimeout");
    let standard = host.config().request_timeout;
    if own.is_undefined() {
        return standard;
    }
    let ms = coerce::to_number(own);
    if ms.is_nan() {
        host.log(Level::Warn, "Timeout value is not a valid number, ignoring");
        return standard;
    }
    if ms < 1.0 {
        host.log(Level::Warn, "Timeout value is negative, ignoring");
        return standard;
    }
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(Duration::MAX)
}
