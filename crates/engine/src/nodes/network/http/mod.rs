//! `http in`, `http response`, `http request` and `http proxy`: servers by `http_in`, clients by
//! `client`.

mod client;
mod client_body;
mod client_headers;
mod client_response;
mod client_url;
mod client_wire;
mod cookie;
mod cookie_jar;
mod digest;
mod etag;
pub(in crate::nodes) mod http_in;
pub(in crate::nodes) mod http_proxy;
pub(in crate::nodes) mod http_request;
pub(in crate::nodes) mod http_response;
mod in_body;
