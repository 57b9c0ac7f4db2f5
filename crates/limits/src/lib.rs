//! Limits: how many of something may be in use at a time, in total and per client address.

pub mod conn_limit;
pub mod ip_prefix;
pub mod quota;
