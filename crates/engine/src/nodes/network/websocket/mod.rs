//! `websocket in`, `websocket out`, `websocket-listener` and `websocket-client`.

mod hub;
mod websocket_client;
pub(in crate::nodes) mod websocket_in;
pub(in crate::nodes) mod websocket_listener;
pub(in crate::nodes) mod websocket_out;
