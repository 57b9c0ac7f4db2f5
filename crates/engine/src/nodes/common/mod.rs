//! The palette folder `common`.

pub(super) mod debug;
pub(super) mod inject;
pub(super) mod link_call;
pub(super) mod link_out;
pub(super) mod pass_on;
pub(super) mod silent;
