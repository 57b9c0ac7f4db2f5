//! What a client sends to be deployed: flow set, optional revision, credentials; and the same for single flows.

use super::{Credentials, FlowSet, Malformed};

/// A parsed and checked body of `POST /flows`.
#[derive(Debug)]
pub struct Submission {
    /// The flow set, credentials taken out.
    pub flows: FlowSet,
    /// The credentials sent inside nodes or beside the flows.
    pub credentials: Credentials,
    /// `rev`, if the body carries one.
    pub rev: Option<String>,
}

impl Submission {
    /// Parses a v1 body: a JSON array of node objects.
    pub fn v1(_body: &[u8]) -> Result<Self, Malformed> {
        todo!()
    }

    /// Parses a v2 body: an object with `flows`, and optionally `rev` and `credentials`.
    pub fn v2(_body: &[u8]) -> Result<Self, Malformed> {
        todo!()
    }
}
