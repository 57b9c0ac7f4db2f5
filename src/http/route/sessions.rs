//! The requests about sessions, named for the table of endpoints.

/// A request about sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum SessionAction {
    /// `GET /gateway/sessions`
    List,
    /// `DELETE /gateway/sessions/:id`
    End,
    /// `DELETE /gateway/sessions?user=…`, `?all=true`
    EndSeveral,
}
