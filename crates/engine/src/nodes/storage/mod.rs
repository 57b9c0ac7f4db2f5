//! The palette folder `storage`.

pub(super) mod errno;
pub(super) mod file;
pub(super) mod file_in;
mod file_name;
mod file_read;
pub(super) mod watch;
