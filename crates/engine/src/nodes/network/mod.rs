//! The palette folder `network`: a folder for each protocol, and what all of them use.

mod connect;
pub(super) mod http;
pub(super) mod mqtt;
mod payload;
pub(super) mod tcp;
mod tls;
pub(super) mod tls_config;
mod tls_verify;
pub(super) mod udp;
pub(super) mod websocket;
