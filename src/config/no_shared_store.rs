//! `[storage] url` of a program that was built without PostgreSQL: it is refused.

use super::error::SpannedError;
use super::raw;
use super::setting::Source;

/// There is none.
#[derive(Debug, Clone, Copy)]
pub enum SharedStore {}

impl SharedStore {
    pub(super) fn is_plain(self) -> bool {
        match self {}
    }
}

pub(super) fn shared_store(
    raw: &mut raw::Storage,
    _: &Source<'_>,
) -> Result<Option<SharedStore>, SpannedError> {
    let entries = [
        &mut raw.url,
        &mut raw.url_file,
        &mut raw.ca_file,
        &mut raw.grace,
    ];
    let written = entries.into_iter().find_map(Option::take);
    written.map_or(Ok(None), |entry| {
        let sentence = "this flowgate was built without PostgreSQL (feature \"postgres\")";
        Err(SpannedError::rule(entry.span(), sentence))
    })
}
