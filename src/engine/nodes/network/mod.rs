//! The palette folder `network`.

mod cookie;
mod dial;
mod digest;
mod form;
mod http_answer;
mod http_content;
pub(super) mod http_in;
mod http_jar;
pub(super) mod http_proxy;
pub(super) mod http_request;
mod http_request_body;
mod http_request_headers;
mod http_request_url;
pub(super) mod http_response;
mod http_send;
mod http_wire;
mod tls;
pub(super) mod tls_config;
pub(super) mod udp_out;
