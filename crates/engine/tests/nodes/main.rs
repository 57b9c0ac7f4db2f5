//! Tests of single nodes in a running engine, one file for each node: which messages, statuses and
//! errors come out for which message in.
//!
//! `bench` runs a node between an inject node and debug nodes, `steps` sends several messages
//! through one, `http_server` is the server of `http request` nodes and makes certificates, and
//! `mosquitto` is the broker of MQTT nodes.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

mod backpressure;
mod batch;
mod bench;
mod bombs;
mod change;
mod debug;
mod delay;
mod delivery;
mod errors;
mod exec;
mod functions;
mod http;
mod http_request;
mod http_request_tls;
mod http_server;
mod inject;
mod join;
mod limits;
mod link;
mod mosquitto;
mod mqtt;
mod parser;
mod profile;
mod rbe;
mod sort;
mod split;
mod steps;
mod stopped_flows;
mod storage;
mod switch;
mod tcp;
mod tcp_request;
mod template;
mod threads;
mod trigger;
mod udp;
mod websocket;
