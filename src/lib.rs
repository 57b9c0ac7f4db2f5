//! flowgate: a hardened gateway in front of a flow runtime, and a flow runtime of its own.
//!
//! The rooms, lowest first; each uses only what stands before it:
//!
//! 1. [`ip_prefix`], [`secret`], [`metrics`], [`events`], [`ids`], [`json`], [`crowd`], [`memory`]: words.
//!    [`quota`]: so much of something at a time, and a share of it for each address.
//! 2. [`config`]: `gateway.toml` becomes a [`config::Config`] that cannot be invalid.
//! 3. [`flows`]: the flow set, what changed in it, what to stop and start. Pure.
//! 4. [`store`]: what must survive: sessions, history, flow files.
//! 5. [`audit`], [`auth`], [`upstream`]: who did what; who may do what; a runtime behind us.
//! 6. [`engine`]: our own runtime. [`comms`]: what editors hear of a runtime.
//! 7. [`deployment`]: the transaction that replaces the active flow set. `editor`: the stock editor's files.
//! 8. [`gateway`]: everything that a request may need.
//! 9. [`http`]: the way of a request, from limit to answer.
//! 10. [`server`]: listeners, TLS, workers, drain.
//! 11. [`cli`]: the commands.

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
pub mod memory;
pub mod metrics;
pub mod server;
pub mod store;
pub mod upstream;
