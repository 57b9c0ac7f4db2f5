//! The palette folder `parser`.

pub(super) mod json;
