//! The two flow files, by content: `flows.json` and `flows_cred.json`. Reads and writes nothing.

use crypto::sha256;

/// The flow set, a compact JSON array.
pub(super) const FLOWS: &str = "flows.json";
/// Its credentials.
pub(super) const CREDENTIALS: &str = "flows_cred.json";

/// The contents of both files; `None`: there is no such file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FlowFiles {
    pub(super) flows: Option<Vec<u8>>,
    pub(super) credentials: Option<Vec<u8>>,
}

/// SHA-256 of the files that a deployment replaced, if they were not what the deployment before it
/// had written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) flows: Option<[u8; 32]>,
    pub(super) credentials: Option<[u8; 32]>,
}

impl FlowFiles {
    pub(super) fn hashes(&self) -> Before {
        Before {
            flows: self.flows.as_deref().map(sha256),
            credentials: self.credentials.as_deref().map(sha256),
        }
    }

    /// Both files with their names. The credentials come first: flows without theirs would start
    /// and fail, credentials without their flows do nothing.
    pub(super) fn each(&self) -> [(&'static str, Option<&[u8]>); 2] {
        [
            (CREDENTIALS, self.credentials.as_deref()),
            (FLOWS, self.flows.as_deref()),
        ]
    }

    /// Those that there are.
    pub(super) fn new_contents(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let each = self.each().into_iter();
        each.filter_map(|(name, content)| Some((name, content?)))
    }
}
