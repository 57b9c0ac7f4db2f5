//! The table of tags: names for entries of the history, which are not forgotten while they have one.

use super::Database;
use super::entry::{REVISION, revision};
use crate::store::{Error, Revision};
use rusqlite::params;

impl Database {
    /// The tags of a runtime, by name, each with its entry.
    pub(in crate::store) fn tags(&self, runtime: &str) -> Result<Vec<(String, Revision)>, Error> {
        let mut query = self.connection.prepare_cached(&format!(
            "SELECT {REVISION}, tag.name AS tag FROM tag JOIN deployments USING (number, runtime)
             WHERE runtime = ? ORDER BY tag.name"
        ))?;
        let rows = query.query_map([runtime], |row| Ok((row.get("tag")?, revision(row)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The number of a runtime's tags of other names.
    pub(in crate::store) fn other_tags(&self, runtime: &str, name: &str) -> Result<i64, Error> {
        let mut query = self
            .connection
            .prepare_cached("SELECT count(*) FROM tag WHERE runtime = ? AND name <> ?")?;
        Ok(query.query_row([runtime, name], |row| row.get(0))?)
    }

    /// Gives an entry of a runtime a name, which no other one has from then on.
    pub(in crate::store) fn save_tag(
        &self,
        runtime: &str,
        name: &str,
        number: i64,
    ) -> Result<(), Error> {
        self.change(
            "INSERT OR REPLACE INTO tag (runtime, name, number) VALUES (?, ?, ?)",
            params![runtime, name, number],
        )
    }

    /// Takes a name away; answers whether there was one.
    pub(in crate::store) fn remove_tag(&self, runtime: &str, name: &str) -> Result<bool, Error> {
        self.change(
            "DELETE FROM tag WHERE runtime = ? AND name = ?",
            [runtime, name],
        )?;
        Ok(self.connection.changes() > 0)
    }
}
