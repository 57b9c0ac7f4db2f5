//! What users do with a gateway, one file a story: over real TLS sockets, against the whole program.
//!
//! `harness` starts gateways (in this process, or as a process of their own), `client` talks to them, `channel` hears
//! what editors hear, `upstream` is a runtime behind them that writes down what it hears, `protected` one that wants to
//! be signed in to, `far_end` one that speaks WebSocket, and `node_red` is a real one. `peers` are other programs of
//! their kind, and `http2_bytes` are frames that no client would send.

#![cfg(feature = "engine")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

mod abandoned;
mod admin_cli;
mod authority;
mod channel;
mod client;
mod far_end;
mod harness;
mod http2_bytes;
mod http2_unread;
mod node_red;
mod peers;
mod piecewise;
mod protected;
mod raw_runtime;
mod recorder;
#[path = "../../src/upstream/strict_reader.rs"]
mod strict;
mod upstream;

mod abuse;
mod audit;
mod audit_flood;
mod audited_writes;
mod behind_a_proxy;
mod broken_storage;
mod client_certificates;
mod client_certificates_channels;
mod comms;
mod comms_nonsense;
mod comms_upstream;
mod confused_deputy;
mod contexts;
mod crash_steps;
mod deploy;
mod deploy_refused;
mod editor;
mod editor_files;
mod endpoint;
mod engine_limits;
mod fallback;
mod framing;
mod framing_bodies;
mod from_the_shell;
mod function_modules;
mod golden;
mod headers;
mod history;
mod http_rules;
mod identity_headers;
mod json;
mod kill;
mod leaving_tokens;
mod life_cycle;
mod listener;
mod memory;
mod operations;
mod other_pages;
mod permissions;
mod rebinding;
mod restarts;
mod revocation;
mod scarce;
mod secrets;
mod server;
mod several_upstreams;
mod several_upstreams_users;
mod shares;
mod shown_secrets;
mod sign_in;
mod sign_in_storm;
mod single_flows;
mod stale_deploy;
mod storage;
mod strictness;
mod supervised;
mod table_of_authority;
mod throttle;
mod tls;
mod tokens;
mod tunnel;
mod tunnel_handshake;
mod upstream_account;
mod upstream_caller;
mod upstream_deploy;
mod upstream_forward;
mod upstream_is_gone;
mod upstream_over_tls;
mod upstream_streams;
