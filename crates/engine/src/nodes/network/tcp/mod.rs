//! `tcp in`, `tcp out` and `tcp request`.

mod connection;
mod receive_buffer;
pub(in crate::nodes) mod tcp_in;
pub(in crate::nodes) mod tcp_out;
pub(in crate::nodes) mod tcp_request;
