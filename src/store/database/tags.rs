//! The table of tags: names for entries of the history, which are not forgotten while they have
//! one.

use super::Database;
use super::connection::values;
use super::entry::{REVISION, revision};
use crate::store::{Error, Revision};

impl Database {
    /// The tags of a runtime, by name, each with its entry.
    pub(in crate::store) fn tags(&self, runtime: &str) -> Result<Vec<(String, Revision)>, Error> {
        let sql = format!(
            "SELECT {REVISION}, tag.name AS tag FROM tag
             JOIN deployments ON deployments.number = tag.number AND deployments.runtime = tag.runtime
             WHERE tag.runtime = ? ORDER BY tag.name"
        );
        self.connection.query(&sql, values![runtime], |row| {
            Ok((row.get("tag")?, revision(row)?))
        })
    }

    /// The number of a runtime's tags of other names.
    pub(in crate::store) fn other_tags(&self, runtime: &str, name: &str) -> Result<i64, Error> {
        let sql = "SELECT count(*) FROM tag WHERE runtime = ? AND name <> ?";
        self.connection
            .one(sql, values![runtime, name], |row| row.get(0))
    }

    /// Gives an entry of a runtime a name, which no other one has from then on.
    pub(in crate::store) fn save_tag(
        &self,
        runtime: &str,
        name: &str,
        number: i64,
    ) -> Result<(), Error> {
        let sql = "INSERT INTO tag (runtime, name, number) VALUES (?, ?, ?)
            ON CONFLICT (runtime, name) DO UPDATE SET number = excluded.number";
        self.change(sql, values![runtime, name, number]).map(drop)
    }

    /// Takes a name away; answers whether there was one.
    pub(in crate::store) fn remove_tag(&self, runtime: &str, name: &str) -> Result<bool, Error> {
        let sql = "DELETE FROM tag WHERE runtime = ? AND name = ?";
        Ok(self.change(sql, values![runtime, name])? > 0)
    }
}
