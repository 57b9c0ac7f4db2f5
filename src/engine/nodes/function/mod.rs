//! The palette folder `function`.

pub(super) mod function;
