//! The way of a request: limit, route, identify, authorize, act, answer.

use crate::gateway::Gateway;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use std::net::SocketAddr;
use std::sync::Arc;

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether the connection is TLS.
    pub secure: bool,
}

/// The body of an answer.
pub type Body = Full<Bytes>;

/// Answers a request.
pub async fn answer(_gateway: &Arc<Gateway>, _peer: &Peer, request: Request<Incoming>) -> Response<Body> {
    use http_body_util::BodyExt;
    match request.uri().path() {
        "/slow" => tokio::time::sleep(std::time::Duration::from_secs(3)).await,
        "/big" => return Response::new(Full::new(Bytes::from(vec![b'x'; 20_000_000]))),
        _ => {}
    }
    let body = request.into_body().collect().await.map(|b| b.to_bytes().len()).unwrap_or(0);
    let mut r = Response::new(Full::new(Bytes::from(format!("{body}"))));
    *r.status_mut() = hyper::StatusCode::OK;
    r
}
