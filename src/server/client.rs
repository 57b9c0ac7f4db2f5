//! The peer of one connection, as its requests and responses see it.

use super::activity::Activity;
use super::conn_context::ConnContext;
use super::h2_unsent::Unfinished;
use crate::http::Peer;
use std::sync::Arc;

/// The peer of a connection, and its activity.
pub(super) struct Client {
    pub(super) context: Arc<ConnContext>,
    pub(super) peer: Peer,
    pub(super) activity: Arc<Activity>,
    /// Of HTTP/2: the responses that are not finished.
    pub(super) unfinished: Option<Unfinished>,
}
