//! The palette folder `common`.
