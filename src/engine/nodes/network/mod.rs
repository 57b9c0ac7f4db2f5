//! The palette folder `network`.
