//! The palette folder `network`.

mod cookie;
mod form;
pub(super) mod http_in;
mod http_request_body;
pub(super) mod http_response;
pub(super) mod udp_out;
