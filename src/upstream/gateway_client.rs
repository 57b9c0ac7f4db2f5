//! A client of another flowgate, for the commands that use one: one request on each connection.

use super::http1::Connection;
use super::outbound::{Outbound, OutboundTls};
use super::request_body::Outgoing;
use bytes::Bytes;
use crypto::Secret;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use serde_json::Value as Json;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

/// The most that is read of a response. Our choice, as of an upstream's flows.
const LIMIT: usize = 256 << 20;
/// The time-out of a request with its response. Our choice: the largest at 1 MB/s.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Another gateway.
pub struct GatewayClient {
    url: Uri,
    server: Outbound,
    token: Secret,
}

impl GatewayClient {
    /// Checks the url, and reads the authorities. Without TLS only loopback is reached: the token
    /// goes with each request.
    pub fn open(url: &str, ca_file: Option<&Path>, token: Secret) -> Result<Self, String> {
        let wrong = || format!("{url}: expected a URL such as https://flows.example.org");
        let uri: Uri = url.trim_end_matches('/').parse().map_err(|_| wrong())?;
        let host = uri.host().ok_or_else(wrong)?;
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        if uri.query().is_some() || uri.authority().is_none_or(|all| all.as_str().contains('@')) {
            return Err(wrong());
        }
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if is_loopback(&host) => false,
            Some("http") => {
                return Err(format!(
                    "{url}: a token goes to other machines with https only"
                ));
            }
            _ => return Err(wrong()),
        };
        let tls = OutboundTls {
            ca_file,
            certificate: None,
        };
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let server = Outbound::open(&host, port, is_secure.then_some(&tls));
        Ok(Self {
            server: server.map_err(|error| format!("{url}: {error}"))?,
            url: uri,
            token,
        })
    }

    /// A read of the API, in version v2.
    pub async fn get(&self, path: &str) -> Result<Json, String> {
        self.ask(Method::GET, path, None, Bytes::new()).await
    }

    /// A write, with a message for the history.
    pub async fn post(
        &self,
        path: &str,
        message: Option<&str>,
        body: &Json,
    ) -> Result<Json, String> {
        let body = body.to_string().into();
        self.ask(Method::POST, path, message, body).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        message: Option<&str>,
        body: Bytes,
    ) -> Result<Json, String> {
        let request = self.request(method, path, message, body)?;
        let failed = |error: String| format!("{}: {error}", self.url);
        let answered = timeout(TIMEOUT, self.exchange(request)).await;
        let response = answered
            .map_err(|_| failed("no response in time".to_owned()))?
            .map_err(failed)?;
        let body: Json = serde_json::from_slice(response.body()).unwrap_or_default();
        match (response.status(), body["message"].as_str()) {
            (status, _) if status.is_success() => Ok(body),
            (StatusCode::UNAUTHORIZED, _) => Err(failed(
                "the token is not accepted, or lacks a permission".to_owned(),
            )),
            (_, Some(sentence)) => Err(failed(sentence.to_owned())),
            (status, None) => Err(failed(format!("{} {path}", status.as_u16()))),
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        message: Option<&str>,
        body: Bytes,
    ) -> Result<Request<Outgoing>, String> {
        let root = self.url.path().trim_end_matches('/');
        let authority = self
            .url
            .authority()
            .map_or("", |authority| authority.as_str());
        let bearer = HeaderValue::try_from(format!("Bearer {}", self.token.reveal()));
        let mut bearer = bearer.map_err(|_| "the token has other characters than a token")?;
        bearer.set_sensitive(true);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{root}{path}"))
            .header(HOST, authority)
            .header(AUTHORIZATION, bearer)
            .header("service-api-version", "v2");
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(message) = message {
            request = request.header("flowgate-message", message.as_bytes());
        }
        let request = request.body(Outgoing::Whole(body));
        request.map_err(|error| format!("the request cannot be sent: {error}"))
    }

    async fn exchange(&self, request: Request<Outgoing>) -> Result<Response<Bytes>, String> {
        let stream = self.server.connect().await;
        let stream = stream.map_err(|error| error.to_string())?;
        let connection = Connection::new(stream, None);
        let response = connection.exchange(request, LIMIT).await;
        response.map_err(|error| error.to_string())
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}
