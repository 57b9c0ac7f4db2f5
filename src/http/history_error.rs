//! The errors of the history.

/// Why a request about the history is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum HistoryError {
    /// The history has no such revision.
    #[error("the history has no such revision")]
    NoSuchRevision,
    /// The history has no such tag.
    #[error("the history has no such tag")]
    NoSuchTag,
    /// A tag has other characters than it may have.
    #[error("a tag has 1 to 64 characters: letters, digits, \".\", \"_\" and \"-\"")]
    TagName,
    /// There are as many tags as there may be.
    #[error("there are 1000 tags already: remove one")]
    TooManyTags,
}
