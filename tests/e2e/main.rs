//! End-to-end tests: what users and attackers do with a gateway, over real sockets against the
//! whole program. Each file is about one subject.
//!
//! Helpers, each with an introduction at its head:
//!
//! | module | what it offers |
//! | --- | --- |
//! | `harness` | starts gateways, in this process or as a process of their own |
//! | `client` | sends HTTP requests to them |
//! | `comms_client` | opens an editor's channel |
//! | `engine_process` | starts an engine that runs apart, and a gateway in front of it |
//! | `streaming_request` | sends the body of a request piece by piece |
//! | `http2_frames` | sends HTTP/2 frames by hand |
//! | `certificate_authority` | signs client certificates |
//! | `jwt_issuer` | signs JWTs and serves the keys |
//! | `mock_upstream` | is an upstream with scripted responses |
//! | `authenticated_upstream` | is an upstream that requires a sign-in |
//! | `recording_upstream` | is an upstream that reads strictly and records |
//! | `raw_upstream` | is an upstream of which a test writes every byte |
//! | `websocket_upstream` | is an upstream that accepts WebSockets |
//! | `node_red` | starts a real Node-RED |
//! | `oidc_provider` | starts a real provider of OpenID Connect |
//! | `reverse_proxies` | starts `HAProxy` and nginx |
//! | `stopwatch` | measures a promised time beside a control |
//! | `scenario` | plays what users do in a browser |

#![cfg(feature = "engine")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

mod authenticated_upstream;
mod basic_authentication;
mod bystander;
mod certificate_authority;
mod client;
mod comms_client;
mod engine_process;
mod engine_threads;
mod harness;
mod http2_frames;
mod jwt_issuer;
mod mock_upstream;
mod monitoring;
mod node_red;
mod oidc_provider;
mod rate_limits;
mod raw_upstream;
mod recording_upstream;
mod reverse_proxies;
mod scenario;
mod stopwatch;
mod streaming_request;
#[path = "../../src/upstream/strict_reader.rs"]
mod strict;
mod websocket_upstream;

mod abandoned_requests;
mod abuse;
mod acme;
mod admin_cli;
mod audit;
mod audit_flood;
mod audit_reading;
mod audit_rsyslog;
mod audit_sinks;
mod audited_writes;
mod authorization_matrix;
mod beyond_path;
mod chained_gateways;
mod client_certificate_channels;
mod client_certificates;
mod closed_output;
mod cluster;
mod cluster_faults;
mod cluster_replica;
mod cluster_sign_on;
mod cluster_store;
mod cluster_tokens;
mod comms;
mod comms_invalid_frames;
mod comms_upstream;
mod confused_deputy;
mod console;
mod contexts;
mod control_commands;
mod cross_origin;
mod debian_package;
mod deploy;
mod deploy_conflicts;
mod deploy_validation;
mod deployment_history;
mod deployment_messages;
mod deployment_restarts;
mod descriptor_exhaustion;
mod dns_rebinding;
mod editor;
mod editor_files;
mod editor_install;
mod endpoint;
mod engine_limits;
mod export_import;
mod fail_over;
mod fail_over_certificates;
mod fail_over_faults;
mod fail_over_state;
mod failpoints;
mod fallback;
mod flow_effects;
mod flow_files;
mod flow_merge;
mod flow_rights;
mod flow_running;
mod flow_sight;
mod framing;
mod framing_bodies;
mod full_flows;
mod function_modules;
mod golden;
mod health_watch;
mod history;
mod history_tags;
mod http2_backpressure;
mod http_semantics;
mod identity_headers;
mod import;
mod isolation;
mod isolation_attacks;
mod json_validation;
mod jwt;
mod jwt_attacks;
mod kill_during_deployments;
mod late_statements;
mod lifecycle;
mod listener;
mod memory;
mod mqtt_proxy;
mod multiple_upstreams;
mod multiple_upstreams_permissions;
mod networks;
mod node_history;
mod node_host;
mod openapi;
mod operations;
mod page_sandbox;
mod parser_differentials;
mod passkey_attacks;
mod passkeys;
mod per_client_limits;
mod permission_conditions;
mod permissions;
mod policies;
mod profile;
mod program_memory;
mod promote;
mod proposal_attacks;
mod proposal_rebase;
mod proposal_repeats;
mod proposals;
mod revocation;
mod second_factor;
mod secret_redaction;
mod secrets;
mod security_headers;
mod separation;
mod separation_attacks;
mod separation_fallback;
mod separation_peers;
mod service_tokens;
mod sessions;
mod settings_view;
mod shards;
mod sign_in;
mod sign_in_page;
mod sign_in_storm;
mod signed_identity;
mod single_flows;
mod single_sign_on;
mod single_sign_on_attacks;
mod storage_failures;
mod systemd;
mod throttle;
mod tls_handshake;
mod token_leakage;
mod tokens;
mod top;
mod traces;
mod trusted_proxies;
mod tunnel;
mod tunnel_handshake;
mod unix_upstream;
mod upstream_account;
mod upstream_connections;
mod upstream_deploy;
mod upstream_failures;
mod upstream_forward;
mod upstream_history;
mod upstream_identity;
mod upstream_streaming;
mod user_shares;
mod verify;
mod websocket_listener;
