//! What this process has added last to the history of an upstream: with the next entry it is not
//! read again.

use flows::FlowSet;
use std::sync::Arc;

/// An entry that this process has added.
pub(super) struct KeptThere {
    pub(super) number: i64,
    pub(super) rev: String,
    pub(super) flows: Arc<FlowSet>,
}
