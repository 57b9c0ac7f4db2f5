//! Helpers for the tests of several crates: inputs for the fuzz targets' checks, growth of time,
//! free ports, programs, a server of PostgreSQL.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "tests"
)]

pub mod command;
pub mod inputs;
pub mod ports;
pub mod postgres;
pub mod scaling;
