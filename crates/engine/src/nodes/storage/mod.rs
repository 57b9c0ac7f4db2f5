//! The palette folder `storage`.

pub(super) mod file;
pub(super) mod file_in;
mod file_name;
mod file_read;
pub(super) mod io_failure;
pub(super) mod watch;
