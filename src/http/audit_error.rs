//! The errors of reading the audit log.

use std::io;

/// Why a request about the audit log is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuditLogError {
    /// There is no file.
    #[error("the audit log goes to standard output ([audit] to), so there is no file to read")]
    Elsewhere,
    /// As many requests read it already as may.
    #[error("the audit log is being read by too many requests, try again later")]
    Busy,
    /// A file cannot be read.
    #[error("the audit log cannot be read")]
    Read(#[from] io::Error),
}
