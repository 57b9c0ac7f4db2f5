//! What the history forgets: entries beyond a number, an age, or a size, unless they have a tag.
//!
//! An entry that is forgotten is shown no more. Its row stays as long as a difference builds upon
//! it, or a recovery may need it.

use super::connection::{Transaction, values};
use super::entry::{WRITTEN, rows};
use super::{Error, integer};
use crate::store::{ENGINE, Revision};

/// How much of the history of each runtime is kept; the newest flow set always is.
#[derive(Debug, Clone)]
pub(in crate::store) struct Retention {
    /// Flow sets before the newest one.
    pub(in crate::store) earlier: usize,
    /// Seconds.
    pub(in crate::store) age: u64,
    /// Bytes of the entries that are shown, with the lists of the elements that they touched.
    pub(in crate::store) bytes: u64,
}

/// Forgets what the newest entry of a runtime leaves beyond the limits.
pub(super) fn forget(
    transaction: &Transaction<'_>,
    newest: &Revision,
    retention: &Retention,
) -> Result<(), Error> {
    let forgotten = transaction.execute(
            "UPDATE deployments SET forgotten = TRUE WHERE number IN (
                SELECT number FROM (
                    SELECT number, at, row_number() OVER newest AS place, sum(bytes + touched_bytes) OVER newest AS bytes
                    FROM deployments WHERE runtime = ?1 AND NOT forgotten WINDOW newest AS (ORDER BY number DESC)) AS placed
                WHERE place > ?2 OR at < ?3 OR bytes > ?4)
             AND number <> (SELECT max(number) FROM deployments WHERE runtime = ?1 AND deployed)
             AND number NOT IN (SELECT number FROM tag)",
            values![
            &newest.runtime,
            rows(retention.earlier).saturating_add(1),
            integer(newest.at.saturating_sub(retention.age)),
            integer(retention.bytes)
        ])?;
    if forgotten == 0 && newest.runtime != ENGINE {
        return Ok(());
    }
    transaction.execute(&format!(
            "WITH RECURSIVE needed(number) AS (
                SELECT number FROM deployments AS earlier WHERE runtime = ?1 AND forgotten AND (
                    (runtime = '{ENGINE}' AND number >= {WRITTEN}) OR EXISTS (
                        SELECT 1 FROM deployments AS later WHERE later.base = earlier.number AND NOT later.forgotten))
                UNION
                SELECT base FROM deployments JOIN needed USING (number) WHERE base IS NOT NULL)
             DELETE FROM deployments WHERE runtime = ?1 AND forgotten AND number NOT IN (SELECT number FROM needed)"
        ), values![&newest.runtime])?;
    Ok(())
}
