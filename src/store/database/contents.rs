//! Makes a flow set of the history again: of the newest row before it that holds one whole, and of
//! the differences since.

use super::connection::{Row, values};
use super::{DATABASE, Database};
use crate::store::Error;
use crate::store::flow_files::FlowFiles;
use flows::{element, patched};

/// The content of one row.
struct Stored {
    /// The row whose flow set `text` is the difference to.
    base: Option<i64>,
    text: String,
    credentials: Option<Vec<u8>>,
}

impl Database {
    /// The files of one flow set in the history.
    pub(in crate::store) fn files(&self, number: i64) -> Result<FlowFiles, Error> {
        let mut patches = Vec::new();
        let mut credentials = None;
        let mut at = number;
        loop {
            let stored = self.stored(at)?;
            credentials = credentials.or(stored.credentials);
            let Some(base) = stored.base else {
                patches.reverse();
                let flows = if patches.is_empty() {
                    stored.text
                } else {
                    patched(&stored.text, &patches).map_err(|error| damaged(number, &error))?
                };
                return Ok(FlowFiles {
                    flows: Some(flows.into_bytes()),
                    credentials,
                });
            };
            if base >= at {
                return Err(damaged(at, &"it is the difference to a later one"));
            }
            patches.push(stored.text);
            at = base;
        }
    }

    /// The number of differences since the whole flow set that a row builds upon.
    pub(in crate::store) fn differences(&self, number: i64) -> Result<usize, Error> {
        let sql = "WITH RECURSIVE chain(number) AS (
                SELECT CAST(? AS BIGINT)
                UNION SELECT base FROM deployments JOIN chain USING (number) WHERE base IS NOT NULL)
             SELECT count(*) - 1 FROM chain";
        let one = |row: &Row<'_>| row.unsigned(0);
        let count = self.connection.one(sql, values![number], one)?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// One element of a flow set in the history, as JSON; `None`: it is not there. Only for one
    /// that has not been removed since the flow set that the differences build upon.
    pub(in crate::store) fn element(&self, number: i64, id: &str) -> Result<Option<String>, Error> {
        let mut at = Some(number);
        while let Some(number) = at {
            let stored = self.stored(number)?;
            let found = element(&stored.text, id).map_err(|error| damaged(number, &error))?;
            if let Some(found) = found {
                return Ok(Some(found.to_owned()));
            }
            if stored.base.is_some_and(|base| base >= number) {
                return Err(damaged(number, &"it is the difference to a later one"));
            }
            at = stored.base;
        }
        Ok(None)
    }

    fn stored(&self, number: i64) -> Result<Stored, Error> {
        let sql = "SELECT base, content, packed, credentials FROM deployments WHERE number = ?";
        let row = self.connection.first(sql, values![number], |row| {
            let content: (Vec<u8>, bool) = (row.get(1)?, row.get(2)?);
            Ok((row.get(0)?, content, row.get(3)?))
        });
        let (base, (content, packed), credentials) =
            row?.ok_or_else(|| damaged(number, &"it is missing"))?;
        let text = if packed {
            unpack(&content)
        } else {
            String::from_utf8(content).ok()
        };
        Ok(Stored {
            base,
            text: text.ok_or_else(|| damaged(number, &"it cannot be decompressed"))?,
            credentials,
        })
    }
}

/// Compresses a text for a row: flow sets are repetitive, and a tenth of their bytes is kept.
pub(in crate::store) fn pack(text: &str) -> Vec<u8> {
    lz4_flex::compress_prepend_size(text.as_bytes())
}

/// Decompresses it. A byte of LZ4 expands to at most 255: more means damage.
pub(in crate::store) fn unpack(content: &[u8]) -> Option<String> {
    let (size, packed) = lz4_flex::block::uncompressed_size(content)
        .ok()
        .filter(|(size, packed)| size / 255 <= packed.len())?;
    let text = lz4_flex::decompress(packed, size).ok()?;
    let text = String::from_utf8(text).ok()?;
    (text.len() == size).then_some(text)
}

fn damaged(number: i64, reason: &dyn std::fmt::Display) -> Error {
    Error::Damaged {
        what: DATABASE.into(),
        reason: format!("flow set {number} of the history cannot be read: {reason}"),
    }
}
