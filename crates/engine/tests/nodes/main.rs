//! Tables of flow + message in → messages out, one file a node, over a running engine.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    missing_docs,
    reason = "tests"
)]

mod batch;
mod bench;
mod change;
mod debug;
mod delay;
mod delivery;
mod errors;
mod exec;
mod http;
mod http_request;
mod http_request_tls;
mod inject;
mod join;
mod limits;
mod link;
mod mosquitto;
mod mqtt;
mod parser;
mod peer;
mod rbe;
mod sort;
mod split;
mod steps;
mod storage;
mod switch;
mod tcp;
mod tcp_request;
mod template;
mod trigger;
mod udp;
mod websocket;
