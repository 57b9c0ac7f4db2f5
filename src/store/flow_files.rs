//! The two flow files, by content: `flows.json` and `flows_cred.json`. Knows what differs; reads and writes nothing.

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

/// Their SHA-256.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Hashes {
    pub(super) flows: Option<[u8; 32]>,
    pub(super) credentials: Option<[u8; 32]>,
}

/// One file that gets new content.
pub(super) struct Change<'a> {
    pub(super) name: &'static str,
    pub(super) old: Option<&'a [u8]>,
    pub(super) new: &'a [u8],
}

impl FlowFiles {
    pub(super) fn hashes(&self) -> Hashes {
        Hashes {
            flows: self.flows.as_deref().map(sha256),
            credentials: self.credentials.as_deref().map(sha256),
        }
    }

    /// Returns the writes that turn these files into those. The credentials come first: flows without theirs would
    /// start and fail, credentials without their flows do nothing. No file is ever removed.
    pub(super) fn changes<'a>(&'a self, to: &'a Self) -> impl Iterator<Item = Change<'a>> {
        let files = [
            (CREDENTIALS, &self.credentials, &to.credentials),
            (FLOWS, &self.flows, &to.flows),
        ];
        files
            .into_iter()
            .filter(|(_, old, new)| old != new)
            .filter_map(|(name, old, new)| {
                Some(Change {
                    name,
                    old: old.as_deref(),
                    new: new.as_deref()?,
                })
            })
    }
}
