//! flowgate: a hardened gateway in front of a flow runtime, and a flow runtime of its own.
//!
//! The crates below it do not depend on the gateway: `crypto`, `limits`, `events`, `flows`, `value`, `formats`,
//! `engine`. The modules here, lowest layer first; each uses only those before it:
//!
//! 1. [`metrics`], [`allocator`], `websocket`: what is counted; the allocator; handshake and close of `WebSockets`.
//! 2. [`config`]: `gateway.toml` becomes a [`config::Config`] that cannot be invalid.
//! 3. [`store`]: what must survive: sessions, history, flow files.
//! 4. [`audit`], [`auth`], [`upstream`]: who did what; who may do what; a runtime behind us.
//! 5. [`comms`]: what editors hear of a runtime.
//! 6. [`deployment`]: the transaction that replaces the active flow set. `editor`: the stock editor's files.
//! 7. [`gateway`]: everything that a request may need.
//! 8. [`http`]: the way of a request, from limit to answer.
//! 9. [`server`]: listeners, TLS, workers, drain.
//! 10. [`cli`]: the commands.

pub mod allocator;
pub mod audit;
pub mod auth;
pub mod cli;
pub mod comms;
pub mod config;
pub mod deployment;
#[cfg(feature = "engine")]
pub mod editor;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod gateway;
pub mod http;
pub mod metrics;
pub mod server;
pub mod store;
pub mod upstream;
mod websocket;
