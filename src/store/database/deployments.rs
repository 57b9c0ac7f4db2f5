//! The table of deployments: who deployed what when, and the flow set of each, whole or as its difference to another.

use super::contents::pack;
use super::{Database, commit, integer, seconds};
use crate::store::flow_files::Before;
use crate::store::{Error, Page, Revision};
use flows::Counts;
use rusqlite::{OptionalExtension, Row, params};

/// A deployment that the flow files are compared with.
#[derive(Debug)]
pub(in crate::store) struct Deployment {
    /// Its place in the history.
    pub(in crate::store) number: i64,
    /// Its revision.
    pub(in crate::store) rev: String,
    /// `full`, `nodes` …
    pub(in crate::store) kind: String,
    /// Seconds since 1970.
    pub(in crate::store) at: u64,
    /// Its files may not be on the disk yet.
    pub(in crate::store) pending: bool,
    /// SHA-256 of the files that it replaced.
    pub(in crate::store) before: Before,
}

/// The content of a new row.
pub(in crate::store) struct Content<'a> {
    /// The row whose flow set `text` is the difference to; `None`: it is whole.
    pub(in crate::store) base: Option<i64>,
    /// A flow set, or a [`flows::Patch`].
    pub(in crate::store) text: &'a str,
    /// The credentials file; `None`: that of `base`, or none.
    pub(in crate::store) credentials: Option<&'a [u8]>,
}

/// The rows of the history that are shown: the newest deployment, and the newest `?` before and after it. Those before
/// them stay only as long as a difference builds upon them.
const SHOWN: &str = "number >= min(
    coalesce((SELECT max(number) FROM deployments WHERE deployed), 9223372036854775807),
    (SELECT min(number) FROM (SELECT number FROM deployments ORDER BY number DESC LIMIT ?1)))";

/// The columns that [`revision`] reads.
const REVISION: &str =
    "rev, parent, user, how, address, kind, at, nodes, added, changed, removed, message";

/// The newest deployment whose files are on the disk.
const WRITTEN: &str =
    "coalesce((SELECT CAST(value AS INTEGER) FROM fact WHERE name = 'written'), 0)";

impl Database {
    /// The deployments since the one whose files are on the disk, and that one, oldest first.
    pub(in crate::store) fn since_written(&self) -> Result<Vec<Deployment>, Error> {
        let mut query = self.connection.prepare(&format!(
            "SELECT number, rev, kind, at, flows_before, credentials_before, number > {WRITTEN}
             FROM deployments WHERE deployed AND number >= {WRITTEN} ORDER BY number"
        ))?;
        let rows = query.query_map([], deployment)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The newest flow set that was deployed, not only kept.
    pub(in crate::store) fn newest_deployment(&self) -> Result<Option<Deployment>, Error> {
        let mut query = self.connection.prepare_cached(&format!(
            "SELECT number, rev, kind, at, flows_before, credentials_before, number > {WRITTEN}
             FROM deployments WHERE deployed ORDER BY number DESC LIMIT 1"
        ))?;
        Ok(query.query_row([], deployment).optional()?)
    }

    /// The deployments before one that were not set aside, newest first.
    pub(in crate::store) fn deployments_before(&self, number: i64) -> Result<Vec<i64>, Error> {
        let mut query = self.connection.prepare_cached(
            "SELECT number FROM deployments WHERE deployed AND kind <> 'set-aside' AND number < ?
             ORDER BY number DESC",
        )?;
        let rows = query.query_map([number], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Says that a deployment did not start.
    pub(in crate::store) fn mark_set_aside(&self, rev: &str) -> Result<(), Error> {
        self.change(
            "UPDATE deployments SET kind = 'set-aside' WHERE rev = ?",
            [rev],
        )
    }

    /// Adds a flow set to the history and forgets the oldest beyond `earlier` ones; answers its number. With the files
    /// before it, it is a deployment, pending until [`Self::mark_written`]; without, it is only kept.
    pub(in crate::store) fn add(
        &mut self,
        revision: &Revision,
        content: &Content<'_>,
        before: Option<Before>,
        earlier: usize,
    ) -> Result<i64, Error> {
        let hashes = before.unwrap_or_default();
        let count = |of: fn(&Counts) -> usize| revision.counts.as_ref().map(of).map(rows);
        let transaction = self.connection.transaction()?;
        transaction
            .prepare_cached(
                "INSERT INTO deployments (rev, parent, user, how, address, kind, at, nodes, added, changed, removed,
                    message, deployed, flows_before, credentials_before, base, content, credentials, packed)
                 VALUES (?, (SELECT rev FROM deployments WHERE deployed ORDER BY number DESC LIMIT 1),
                    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, TRUE)",
            )?
            .execute(params![
                revision.rev,
                revision.user,
                revision.how,
                revision.address,
                revision.kind,
                integer(revision.at),
                count(|counts| counts.nodes),
                count(|counts| counts.added),
                count(|counts| counts.changed),
                count(|counts| counts.removed),
                revision.message,
                before.is_some(),
                hashes.flows,
                hashes.credentials,
                content.base,
                pack(content.text),
                content.credentials
            ])?;
        let number = transaction.last_insert_rowid();
        // Differences need all rows down to a whole flow set, and a recovery those since the last files on the disk.
        transaction
            .prepare_cached(&format!(
                "DELETE FROM deployments WHERE number < (
                    SELECT max(number) FROM deployments WHERE deployed AND base IS NULL AND number <= {WRITTEN}
                        AND number <= (SELECT min(number) FROM deployments WHERE {SHOWN}))"
            ))?
            .execute([shown(earlier)])?;
        commit(transaction)?;
        Ok(number)
    }

    /// Says that a deployment's files are on the disk.
    ///
    /// Not forced to disk: when a power failure loses it, the files are compared once more at the next start.
    pub(in crate::store) fn mark_written(&self, number: i64) -> Result<(), Error> {
        self.connection
            .pragma_update(None, "synchronous", "NORMAL")?;
        let marked = self.save_fact("written", &number.to_string());
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        marked
    }

    /// Takes a deployment out of the history that did not happen.
    pub(in crate::store) fn take_back(&self, number: i64) -> Result<(), Error> {
        self.change("DELETE FROM deployments WHERE number = ?", [number])
    }

    /// The active flow set in the history and the `earlier` ones before it, newest first.
    pub(in crate::store) fn history(&self, earlier: usize) -> Result<Vec<Revision>, Error> {
        let mut query = self.connection.prepare(&format!(
            "SELECT {REVISION} FROM deployments WHERE {SHOWN} ORDER BY number DESC"
        ))?;
        let rows = query.query_map([shown(earlier)], revision)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// One page of the history, newest first; `before`: only what is older than this number.
    pub(in crate::store) fn page(
        &self,
        page: &Page,
        before: Option<i64>,
        earlier: usize,
    ) -> Result<Vec<Revision>, Error> {
        let mut query = self.connection.prepare_cached(&format!(
            "SELECT {REVISION} FROM deployments
             WHERE {SHOWN} AND number < ?2 AND (?3 IS NULL OR user = ?3) AND at >= ?4
             ORDER BY number DESC LIMIT ?5"
        ))?;
        let rows = query.query_map(
            params![
                shown(earlier),
                before.unwrap_or(i64::MAX),
                page.user,
                integer(page.since),
                rows(page.limit)
            ],
            revision,
        )?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The flow set of just this name, the newest if there are several, with its number; `None`: the history has none.
    pub(in crate::store) fn entry(
        &self,
        rev: &str,
        earlier: usize,
    ) -> Result<Option<(i64, Revision)>, Error> {
        let mut query = self.connection.prepare_cached(&format!(
            "SELECT {REVISION}, number FROM deployments WHERE {SHOWN} AND rev = ?2 ORDER BY number DESC LIMIT 1"
        ))?;
        let entry = query.query_row(params![shown(earlier), rev], |row| {
            Ok((row.get(12)?, revision(row)?))
        });
        Ok(entry.optional()?)
    }

    /// The numbers of the flow sets among them whose names begin like this.
    pub(in crate::store) fn numbers(&self, rev: &str, earlier: usize) -> Result<Vec<i64>, Error> {
        let mut query = self.connection.prepare(&format!(
            "SELECT number FROM deployments WHERE {SHOWN} AND substr(rev, 1, length(?2)) = ?2"
        ))?;
        let rows = query.query_map(params![shown(earlier), rev], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// The number of flow sets shown: the active one too.
fn shown(earlier: usize) -> i64 {
    rows(earlier).saturating_add(1)
}

fn rows(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn deployment(row: &Row<'_>) -> rusqlite::Result<Deployment> {
    Ok(Deployment {
        number: row.get(0)?,
        rev: row.get(1)?,
        kind: row.get(2)?,
        at: seconds(row, 3)?,
        before: Before {
            flows: row.get(4)?,
            credentials: row.get(5)?,
        },
        pending: row.get(6)?,
    })
}

fn revision(row: &Row<'_>) -> rusqlite::Result<Revision> {
    let count = |column: usize| {
        let count: Option<i64> = row.get(column)?;
        Ok::<_, rusqlite::Error>(count.and_then(|count| usize::try_from(count).ok()))
    };
    let counts = match (count(7)?, count(8)?, count(9)?, count(10)?) {
        (Some(nodes), Some(added), Some(changed), Some(removed)) => Some(Counts {
            nodes,
            added,
            changed,
            removed,
        }),
        _ => None,
    };
    Ok(Revision {
        rev: row.get(0)?,
        parent: row.get(1)?,
        user: row.get(2)?,
        how: row.get(3)?,
        address: row.get(4)?,
        kind: row.get(5)?,
        at: seconds(row, 6)?,
        counts,
        message: row.get(11)?,
    })
}
