//! The table of touched elements: which elements each deployment has added, removed, changed or
//! moved.

use super::connection::{Row, Transaction, Value, values};
use super::entry::{REVISION, revision, rows};
use super::{Database, Error};
use crate::store::{NodePage, Revision};
use flows::Touched;
use smol_str::SmolStr;
use std::collections::HashSet;

/// The name of the fact that a migration leaves: the number of the newest deployment of a version
/// without this table.
const UNLISTED: &str = "unlisted";

/// A deployment that has touched an element.
pub(in crate::store) struct Touch {
    /// Its place in the history.
    pub(in crate::store) number: i64,
    /// Its entry.
    pub(in crate::store) revision: Revision,
    /// True if it was deployed, not only kept.
    pub(in crate::store) deployed: bool,
    /// The flow that the element is on, or was on; empty: none.
    pub(in crate::store) flow: String,
    /// The flow that it was on before, if that is another one.
    pub(in crate::store) left: Option<String>,
    /// `added`, `removed` …
    pub(in crate::store) difference: String,
    /// True if its credentials differ.
    pub(in crate::store) credentials: bool,
}

/// Adds the elements that one deployment touches.
pub(super) fn add(
    transaction: &Transaction<'_>,
    number: i64,
    touched: &[Touched],
) -> Result<(), Error> {
    let mut rest = touched;
    while let Some(rows) = ROWS.into_iter().find(|rows| *rows <= rest.len()) {
        let (now, later) = rest.split_at(rows);
        let row = |one| row(number, one);
        let values: Vec<_> = now.iter().flat_map(row).collect();
        let marks = vec!["(?, ?, ?, ?, ?, ?)"; rows].join(", ");
        let sql = format!(
            "INSERT INTO touched (number, id, flow, was_on, difference, credentials) VALUES {marks}"
        );
        transaction.execute(&sql, &values)?;
        rest = later;
    }
    Ok(())
}

/// The rows that one statement adds, as many as possible first: each waits for its answer. Our
/// choice: few statements, and few different ones, which stay prepared; 32,766 values is the limit
/// of `SQLite`.
const ROWS: [usize; 3] = [256, 16, 1];

fn row(number: i64, one: &Touched) -> [Value<'_>; 6] {
    [
        number.into(),
        one.id.as_str().into(),
        one.flow.as_str().into(),
        one.left.as_deref().into(),
        one.difference.name().into(),
        one.credentials.into(),
    ]
}

/// The bytes that such a list takes in the table and its index: each row has its texts, its id once
/// more, and some 16 bytes of `SQLite`'s.
pub(super) fn bytes(touched: &[Touched]) -> i64 {
    let row = |one: &Touched| {
        let left = one.left.as_ref().map_or(0, SmolStr::len);
        16 + 2 * one.id.len() + one.flow.len() + left + one.difference.name().len()
    };
    rows(touched.iter().map(row).sum())
}

impl Database {
    /// The deployments that have touched an element, newest first; `before`: only those older than
    /// this number.
    pub(in crate::store) fn touches(
        &self,
        page: &NodePage,
        before: Option<i64>,
    ) -> Result<Vec<Touch>, Error> {
        let sql = format!(
            "SELECT {REVISION}, deployed, touched.flow, was_on, difference, touched.credentials
             FROM touched JOIN deployments USING (number)
             WHERE touched.id = ?1 AND runtime = ?2 AND NOT forgotten AND number < ?3
             ORDER BY number DESC LIMIT ?4"
        );
        let before = before.unwrap_or(i64::MAX);
        let asked = values![&page.node, &page.runtime, before, rows(page.limit)];
        self.connection.query(&sql, asked, |row| {
            let revision = revision(row)?;
            Ok(Touch {
                number: revision.number,
                revision,
                deployed: row.get("deployed")?,
                flow: row.get("flow")?,
                left: row.get("was_on")?,
                difference: row.get("difference")?,
                credentials: row.get("credentials")?,
            })
        })
    }

    /// The elements whose credentials a runtime's deployments have touched.
    pub(in crate::store) fn with_credentials(
        &self,
        runtime: &str,
    ) -> Result<HashSet<String>, Error> {
        let sql = "SELECT DISTINCT id FROM touched JOIN deployments USING (number)
             WHERE runtime = ? AND touched.credentials";
        let ids = self
            .connection
            .query(sql, values![runtime], |row| row.get(0))?;
        Ok(ids.into_iter().collect())
    }

    /// The elements whose credentials a runtime's deployments after this revision have touched;
    /// none if the history has forgotten the revision.
    pub(in crate::store) fn credentials_since(
        &self,
        runtime: &str,
        rev: &str,
    ) -> Result<HashSet<SmolStr>, Error> {
        let sql = "SELECT DISTINCT id FROM touched JOIN deployments USING (number)
             WHERE runtime = ?1 AND deployed AND touched.credentials AND number > (
                SELECT max(number) FROM deployments WHERE runtime = ?1 AND rev = ?2 AND deployed)";
        let id = |row: &Row<'_>| row.get::<String>(0).map(SmolStr::from);
        let ids = self.connection.query(sql, values![runtime, rev], id)?;
        Ok(ids.into_iter().collect())
    }

    /// The elements that an entry has added whose credentials a deployment of the same runtime has
    /// touched.
    pub(in crate::store) fn lacking_credentials(
        &self,
        runtime: &str,
        rev: &str,
    ) -> Result<Vec<String>, Error> {
        let sql = "SELECT id FROM touched WHERE difference = 'added'
                AND number = (SELECT max(number) FROM deployments WHERE runtime = ?1 AND rev = ?2)
                AND EXISTS (
                    SELECT 1 FROM touched AS sent JOIN deployments USING (number)
                    WHERE sent.id = touched.id AND sent.credentials AND runtime = ?1)
             ORDER BY id";
        self.connection
            .query(sql, values![runtime, rev], |row| row.get(0))
    }

    /// The number of the oldest entry of a runtime after which the history lacks none.
    pub(in crate::store) fn unbroken_since(&self, runtime: &str) -> Result<i64, Error> {
        let sql = "SELECT coalesce(max(number), 0) FROM (
                SELECT number, forgotten, parent, lag(rev) OVER (ORDER BY number) AS before
                FROM deployments WHERE runtime = ? AND deployed) AS listed
             WHERE forgotten OR parent IS DISTINCT FROM before";
        self.connection.one(sql, values![runtime], |row| row.get(0))
    }

    /// The deployment before one; `None`: there is none, or the history has forgotten it.
    pub(in crate::store) fn parent(&self, number: i64) -> Result<Option<i64>, Error> {
        let sql = "SELECT max(earlier.number) FROM deployments AS this JOIN deployments AS earlier
                ON earlier.rev = this.parent AND earlier.runtime = this.runtime
                    AND earlier.deployed AND earlier.number < this.number
             WHERE this.number = ?";
        self.connection.one(sql, values![number], |row| row.get(0))
    }

    /// The newest deployment, up to which the elements that they touch are to be found yet; `None`:
    /// they are listed.
    pub(in crate::store) fn unlisted(&self) -> Result<Option<i64>, Error> {
        Ok(self.fact(UNLISTED)?.and_then(|number| number.parse().ok()))
    }

    /// The flow sets up to a number, oldest first: the number of each, whether it was deployed, and
    /// whether it was the first one.
    pub(in crate::store) fn up_to(&self, number: i64) -> Result<Vec<(i64, bool, bool)>, Error> {
        let sql = "SELECT number, deployed, parent IS NULL FROM deployments WHERE number <= ? ORDER BY number";
        self.connection.query(sql, values![number], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
    }

    /// Adds the elements that earlier deployments touched, and says that they are listed.
    pub(in crate::store) fn list_touched(
        &self,
        found: &[(i64, Vec<Touched>)],
    ) -> Result<(), Error> {
        self.connection.transact(|transaction| {
            for (number, touched) in found {
                add(transaction, *number, touched)?;
                transaction.execute(
                    "UPDATE deployments SET touched_bytes = ? WHERE number = ?",
                    values![bytes(touched), *number],
                )?;
            }
            transaction.execute("DELETE FROM fact WHERE name = ?", values![UNLISTED])?;
            Ok(())
        })
    }
}
