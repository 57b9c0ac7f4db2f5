//! The requests about the history of deployments, named for the table of endpoints.

/// A request about the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum History {
    /// `GET /gateway/deployments`
    List,
    /// `GET /gateway/deployments/:rev`
    Entry,
    /// `POST /gateway/deployments/:rev/rollback`
    Rollback,
    /// `GET /gateway/diff`
    Diff,
    /// `GET /gateway/nodes/:id/history`
    Node,
    /// `GET /gateway/export/:rev`
    Export,
    /// `POST /gateway/import`
    Import,
    /// `GET /gateway/tags`
    Tags,
    /// `POST /gateway/tags/:name`
    Tag,
    /// `DELETE /gateway/tags/:name`
    RemoveTag,
}
