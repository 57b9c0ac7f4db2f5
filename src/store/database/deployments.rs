//! The table of deployments: who deployed what when, and the flow set of each, whole or as its
//! difference to another.

use super::connection::{Row, Transaction, values};
use super::contents::pack;
use super::entry::{REVISION, WRITTEN, revision, rows};
use super::retention::forget;
use super::{Database, Retention, integer, intents, touched};
use crate::store::flow_files::Before;
use crate::store::{ENGINE, Error, Page, Revision};
use flows::{Counts, Touched};

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
    /// The elements that differ from the deployment before it.
    pub(in crate::store) touched: &'a [Touched],
}

impl Database {
    /// The deployments since the one whose files are on the disk, and that one, oldest first.
    pub(in crate::store) fn since_written(&self) -> Result<Vec<Deployment>, Error> {
        let sql = format!(
            "SELECT number, rev, kind, at, flows_before, credentials_before, number > {WRITTEN}
             FROM deployments WHERE runtime = '{ENGINE}' AND deployed AND number >= {WRITTEN} ORDER BY number"
        );
        self.connection.query(&sql, &[], deployment)
    }

    /// The newest flow set that the engine was given, not only kept.
    pub(in crate::store) fn newest_deployment(&self) -> Result<Option<Deployment>, Error> {
        let sql = format!(
            "SELECT number, rev, kind, at, flows_before, credentials_before, number > {WRITTEN}
             FROM deployments WHERE runtime = '{ENGINE}' AND deployed ORDER BY number DESC LIMIT 1"
        );
        self.connection.first(&sql, &[], deployment)
    }

    /// The deployments to the engine before one that were not set aside, newest first.
    pub(in crate::store) fn deployments_before(&self, number: i64) -> Result<Vec<i64>, Error> {
        let sql = format!(
            "SELECT number FROM deployments
             WHERE runtime = '{ENGINE}' AND deployed AND kind <> 'set-aside' AND number < ? ORDER BY number DESC",
        );
        self.connection
            .query(&sql, values![number], |row| row.get(0))
    }

    /// Says that a deployment did not start.
    pub(in crate::store) fn mark_set_aside(&self, rev: &str) -> Result<(), Error> {
        let sql = "UPDATE deployments SET kind = 'set-aside' WHERE rev = ?";
        self.change(sql, values![rev]).map(drop)
    }

    /// Adds a flow set to the history and forgets what is beyond the limits; answers its number.
    /// With the files before it, it is a deployment to the engine, pending until
    /// [`Self::mark_written`]; without, it is only kept. What an upstream has is always a
    /// deployment.
    pub(in crate::store) fn add(
        &self,
        revision: &Revision,
        content: &Content<'_>,
        before: Option<Before>,
        retention: &Retention,
    ) -> Result<i64, Error> {
        self.connection.transact(|transaction| {
            let number = insert(transaction, revision, content, before)?;
            touched::add(transaction, number, content.touched)?;
            forget(transaction, revision, retention)?;
            if revision.runtime != ENGINE {
                intents::forget(transaction, &revision.runtime)?;
            }
            Ok(number)
        })
    }

    /// Says that a deployment's files are on the disk.
    ///
    /// Not forced to disk: when a power failure loses it, the files are compared once more at the
    /// next start.
    pub(in crate::store) fn mark_written(&self, number: i64) -> Result<(), Error> {
        self.connection
            .relaxed(|| self.save_fact("written", &number.to_string()))
    }

    /// Takes a deployment out of the history that did not happen.
    pub(in crate::store) fn take_back(&self, number: i64) -> Result<(), Error> {
        let sql = "DELETE FROM deployments WHERE number = ?";
        self.change(sql, values![number]).map(drop)
    }

    /// The history of all runtimes, newest first.
    pub(in crate::store) fn history(&self) -> Result<Vec<Revision>, Error> {
        let sql =
            format!("SELECT {REVISION} FROM deployments WHERE NOT forgotten ORDER BY number DESC");
        self.connection.query(&sql, &[], revision)
    }

    /// One page of the history of a runtime, newest first; `before`: only what is older than this
    /// number.
    pub(in crate::store) fn page(
        &self,
        page: &Page,
        before: Option<i64>,
    ) -> Result<Vec<Revision>, Error> {
        let sql = format!(
            r#"SELECT {REVISION} FROM deployments
             WHERE runtime = ?1 AND NOT forgotten AND number < ?2 AND (?3 IS NULL OR "user" = ?3) AND at >= ?4
                AND ((?5 IS NULL AND ?6 IS NULL) OR EXISTS (
                    SELECT 1 FROM touched WHERE touched.number = deployments.number
                        AND (?5 IS NULL OR id = ?5) AND (?6 IS NULL OR ?6 IN (flow, was_on))))
             ORDER BY number DESC LIMIT ?7"#
        );
        let asked = values![
            &page.runtime,
            before.unwrap_or(i64::MAX),
            &page.user,
            integer(page.since),
            &page.node,
            &page.flow,
            rows(page.limit)
        ];
        self.connection.query(&sql, asked, revision)
    }

    /// The flow set of just this revision, the newest if there are several, or else the one that
    /// has this tag; `None`: the runtime's history has neither.
    pub(in crate::store) fn entry(
        &self,
        runtime: &str,
        rev: &str,
    ) -> Result<Option<Revision>, Error> {
        let sql = format!(
            "SELECT {REVISION} FROM deployments
             WHERE runtime = ?1 AND NOT forgotten
                AND (rev = ?2 OR number = (SELECT number FROM tag WHERE runtime = ?1 AND name = ?2))
             ORDER BY rev = ?2 DESC, number DESC LIMIT 1"
        );
        self.connection.first(&sql, values![runtime, rev], revision)
    }

    /// The newest flow set of a runtime; `None`: its history is empty.
    pub(in crate::store) fn newest(&self, runtime: &str) -> Result<Option<Revision>, Error> {
        let sql = format!(
            "SELECT {REVISION} FROM deployments WHERE runtime = ? AND deployed ORDER BY number DESC LIMIT 1"
        );
        self.connection.first(&sql, values![runtime], revision)
    }

    /// The numbers of the flow sets of all runtimes whose names begin like this.
    pub(in crate::store) fn numbers(&self, rev: &str) -> Result<Vec<i64>, Error> {
        let sql = "SELECT number FROM deployments WHERE NOT forgotten AND substr(rev, 1, length(?1)) = ?1";
        self.connection.query(sql, values![rev], |row| row.get(0))
    }
}

fn insert(
    transaction: &Transaction<'_>,
    revision: &Revision,
    content: &Content<'_>,
    before: Option<Before>,
) -> Result<i64, Error> {
    let hashes = before.unwrap_or_default();
    let count = |of: fn(&Counts) -> usize| revision.counts.as_ref().map(of).map(rows);
    transaction.one(
            r#"INSERT INTO deployments (runtime, rev, parent, "user", how, address, kind, at, nodes, added, changed,
                removed, message, deployed, flows_before, credentials_before, base, content, credentials, packed,
                touched_bytes)
             VALUES (?1, ?2, (SELECT rev FROM deployments WHERE runtime = ?1 AND deployed ORDER BY number DESC LIMIT 1),
                ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, TRUE, ?19)
             RETURNING number"#,
        values![
            &revision.runtime,
            &revision.rev,
            &revision.user,
            &revision.how,
            &revision.address,
            &revision.kind,
            integer(revision.at),
            count(|counts| counts.nodes),
            count(|counts| counts.added),
            count(|counts| counts.changed),
            count(|counts| counts.removed),
            &revision.message,
            before.is_some() || revision.runtime != ENGINE,
            &hashes.flows,
            &hashes.credentials,
            content.base,
            &pack(content.text),
            content.credentials,
            touched::bytes(content.touched)
        ], |row| row.get(0))
}

fn deployment(row: &Row<'_>) -> Result<Deployment, Error> {
    Ok(Deployment {
        number: row.get(0)?,
        rev: row.get(1)?,
        kind: row.get(2)?,
        at: row.unsigned(3)?,
        before: Before {
            flows: row.hash_if_any(4)?,
            credentials: row.hash_if_any(5)?,
        },
        pending: row.get(6)?,
    })
}
