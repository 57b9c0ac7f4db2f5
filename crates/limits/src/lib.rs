//! Limits of concurrency ([`conn_limit`], [`quota`]) and of rates ([`fixed_window`],
//! [`sliding_window`], [`token_bucket`]), in total and per client address ([`ip_prefix`]) or user
//! ([`party`]); the order of those who wait ([`fair_queue`]).
//!
//! Only the algorithms: no input or output, and time is passed in. Callers decide what is limited,
//! by how much, and what follows.

pub mod conn_limit;
pub mod fair_queue;
pub mod fixed_window;
pub mod ip_prefix;
pub mod party;
pub mod quota;
pub mod sliding_window;
pub mod token_bucket;
