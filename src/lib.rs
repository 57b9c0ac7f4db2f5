//! flowgate: a hardened gateway in front of a flow runtime, and a flow runtime of its own.
//!
//! The crates below it do not depend on the gateway: `crypto`, `limits`, `events`, `flows`,
//! `value`, `formats`, `engine`. The modules here, lowest layer first; each uses only those before
//! it:
//!
//! 1. [`metrics`], [`allocator`], `stdio`, `websocket`, `console`, [`otlp`], `visible_json`: the metrics; the allocator; standard output and
//!    standard error; handshake and close of `WebSockets`; the files of the console; what logs and traces for OpenTelemetry
//!    have in common.
//! 2. [`config`]: `gateway.toml` becomes a [`config::Config`] that cannot be invalid.
//! 3. [`store`]: the durable state: sessions, history, flow files.
//! 4. [`audit`], [`auth`], [`upstream`]: the audit log; users, sessions and permissions; the runtime behind the
//!    gateway.
//! 5. [`policy`]: whether a deployment is allowed, and what a caller sees of the flows. [`sinks`]: sends the audit log to
//!    other machines. [`traces`]: sends traces to a collector.
//! 6. [`comms`]: the channel that delivers events to editors.
//! 7. [`deployment`]: the transaction that replaces the active flow set. `editor`: the stock editor's files.
//! 8. `palette`: installs, removes, enables and disables npm packages.
//! 9. [`gateway`]: the shared state of all requests.
//! 10. [`http`]: the path of a request, from rate limits to the response.
//! 11. [`server`]: listeners, TLS, workers, drain.
//! 12. [`cli`]: the commands.

// They panic when standard output or standard error cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod allocator;
pub mod audit;
pub mod auth;
pub mod cli;
pub mod comms;
pub mod config;
pub mod console;
pub mod deployment;
#[cfg(feature = "engine")]
pub mod editor;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod gateway;
pub mod http;
pub mod metrics;
pub mod otlp;
#[cfg(feature = "engine")]
pub mod palette;
pub mod policy;
pub mod server;
pub mod sinks;
mod stdio;
pub mod store;
pub mod traces;
pub mod upstream;
mod visible_json;
mod websocket;
