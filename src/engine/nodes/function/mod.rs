//! The palette folder `function`.
