//! The columns of an entry of the history, and how they are read.

use super::connection::Row;
use crate::store::{Error, Revision};
use flows::Counts;

/// The columns that [`revision`] reads.
pub(super) const REVISION: &str = r#"deployments.number, deployments.runtime, rev, parent, "user", how, address, kind, at, nodes, added, changed,
    removed, message,
    (SELECT string_agg(name, ' ' ORDER BY name) FROM tag WHERE tag.number = deployments.number) AS tags"#;

/// The newest deployment whose files are on the disk.
pub(super) const WRITTEN: &str =
    "coalesce((SELECT CAST(value AS BIGINT) FROM fact WHERE name = 'written'), 0)";

pub(super) fn revision(row: &Row<'_>) -> Result<Revision, Error> {
    let count = |column: &str| {
        let count = row.unsigned_if_any(column)?;
        Ok::<_, Error>(count.and_then(|count| usize::try_from(count).ok()))
    };
    let counts = (
        count("nodes")?,
        count("added")?,
        count("changed")?,
        count("removed")?,
    );
    Ok(Revision {
        number: row.get("number")?,
        runtime: row.get("runtime")?,
        rev: row.get("rev")?,
        parent: row.get("parent")?,
        user: row.get("user")?,
        how: row.get("how")?,
        address: row.get("address")?,
        kind: row.get("kind")?,
        at: row.unsigned("at")?,
        counts: match counts {
            (Some(nodes), Some(added), Some(changed), Some(removed)) => Some(Counts {
                nodes,
                added,
                changed,
                removed,
            }),
            _ => None,
        },
        message: row.get("message")?,
        tags: {
            let tags: Option<String> = row.get("tags")?;
            let tags = tags.unwrap_or_default();
            tags.split_whitespace().map(str::to_owned).collect()
        },
    })
}

/// Neither database has unsigned integers.
pub(super) fn rows(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
