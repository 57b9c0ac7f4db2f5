//! The palette folder `common`.

pub(super) mod debug;
pub(super) mod foreign;
pub(super) mod inject;
pub(super) mod link_call;
pub(super) mod link_out;
pub(super) mod noop;
pub(super) mod passthrough;
