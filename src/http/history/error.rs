//! The errors of the history.

/// Why a request about the history is refused.
#[derive(Debug, thiserror::Error)]
pub(in crate::http) enum HistoryError {
    /// The history has no such revision.
    #[error("the history has no such revision")]
    NoSuchRevision,
}
