//! What the newest deployment of this process has written, to compare the next one with.

use super::directory::FileId;
use flows::{Credentials, FlowSet};
use std::sync::Arc;

/// The newest deployment, if this process made it.
pub(super) struct Written {
    pub(super) number: i64,
    pub(super) flows: Arc<FlowSet>,
    pub(super) credentials: Arc<Credentials>,
    /// Differences since the whole flow set that they build upon.
    pub(super) differences: usize,
    pub(super) files: FileIds,
}

/// Which files are there: `flows_cred.json`, `flows.json`.
pub(super) type FileIds = [Option<FileId>; 2];
