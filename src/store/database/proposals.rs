//! The table of proposals: changes that wait for approval, and what became of them.

use super::connection::{Row, unreadable, values};
use super::contents::{pack, unpack};
use super::{DATABASE, Database, integer};
use crate::store::{Decision, Error, NewProposal, Proposal, ProposalFilter, ProposalState};

/// The content of a row.
pub(in crate::store) struct Stored {
    pub(in crate::store) before: String,
    pub(in crate::store) after: String,
    pub(in crate::store) credentials: Option<Vec<u8>>,
    pub(in crate::store) replacing: Option<Vec<u8>>,
}

/// The columns that [`entry`] reads.
const ENTRY: &str = r#"number, runtime, state, "user", how, address, at, expires, kind, base, decided_by, decided_at, reason, rev, message, owner"#;

impl Database {
    /// Adds an open proposal with its sealed credentials; answers its number.
    pub(in crate::store) fn add_proposal(
        &self,
        new: &NewProposal,
        bytes: usize,
        credentials: Option<&[u8]>,
        replacing: Option<&[u8]>,
    ) -> Result<u64, Error> {
        let entry = &new.entry;
        self.connection.transact(|transaction| {
            transaction.one(
                r#"INSERT INTO proposal (runtime, "user", owner, how, address, at, expires, kind, base, message, bytes,
                    before, after, credentials, replacing)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number"#,
                values![
                    &entry.runtime,
                    &entry.user,
                    &entry.owner,
                    &entry.how,
                    &entry.address,
                    integer(entry.at),
                    integer(entry.expires),
                    &entry.kind,
                    &entry.base,
                    &entry.message,
                    count(bytes),
                    &pack(&new.before),
                    &pack(&new.after),
                    credentials,
                    replacing
                ],
                |row| row.unsigned(0),
            )
        })
    }

    pub(in crate::store) fn remove_proposal(&self, number: u64) -> Result<(), Error> {
        let sql = "DELETE FROM proposal WHERE number = ?";
        self.change(sql, values![integer(number)]).map(drop)
    }

    /// The open proposals of the same user, type and base that lead to this flow set. Their number
    /// is limited, and so is what this reads.
    pub(in crate::store) fn proposals_like(
        &self,
        entry: &Proposal,
        after: &str,
    ) -> Result<Vec<u64>, Error> {
        let sql = r#"SELECT number FROM proposal
            WHERE state = 'open' AND runtime = ? AND "user" = ? AND base = ? AND kind = ? AND expires > ? AND after = ?"#;
        let after = pack(after);
        let like = values![
            &entry.runtime,
            &entry.user,
            &entry.base,
            &entry.kind,
            integer(entry.at),
            &after
        ];
        self.connection.query(sql, like, |row| row.unsigned(0))
    }

    /// The number of open proposals for a runtime, of one owner or of all, and their bytes.
    pub(in crate::store) fn open_proposals(
        &self,
        runtime: &str,
        owner: Option<&str>,
    ) -> Result<(usize, usize), Error> {
        let sql = "SELECT count(*), CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM proposal
            WHERE state = 'open' AND runtime = ?1 AND (?2 IS NULL OR owner = ?2)";
        let number = |row: &Row<'_>, column: usize| {
            let number = row.unsigned(column)?;
            Ok::<_, Error>(usize::try_from(number).unwrap_or(usize::MAX))
        };
        self.connection.one(sql, values![runtime, owner], |row| {
            Ok((number(row, 0)?, number(row, 1)?))
        })
    }

    pub(in crate::store) fn proposals(
        &self,
        filter: &ProposalFilter,
    ) -> Result<Vec<Proposal>, Error> {
        let sql = format!(
            "SELECT {ENTRY} FROM proposal
             WHERE runtime = ?1 AND (?2 IS NULL OR state = ?2) AND number < ?3 ORDER BY number DESC LIMIT ?4"
        );
        let asked = values![
            &filter.runtime,
            filter.state.map(ProposalState::name),
            filter.before.map_or(i64::MAX, integer),
            count(filter.limit)
        ];
        self.connection.query(&sql, asked, entry)
    }

    pub(in crate::store) fn proposal(
        &self,
        runtime: &str,
        number: u64,
    ) -> Result<Option<Proposal>, Error> {
        let sql = format!("SELECT {ENTRY} FROM proposal WHERE runtime = ? AND number = ?");
        self.connection
            .first(&sql, values![runtime, integer(number)], entry)
    }

    pub(in crate::store) fn proposal_content(&self, number: u64) -> Result<Stored, Error> {
        let sql = "SELECT before, after, credentials, replacing FROM proposal WHERE number = ?";
        let (before, after, credentials, replacing): (Vec<u8>, Vec<u8>, _, _) =
            self.connection.one(sql, values![integer(number)], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?;
        let text = |content: &[u8]| {
            unpack(content).ok_or_else(|| Error::Damaged {
                what: DATABASE.into(),
                reason: format!("proposal {number} cannot be decompressed"),
            })
        };
        Ok(Stored {
            before: text(&before)?,
            after: text(&after)?,
            credentials,
            replacing,
        })
    }

    /// Closes an open proposal and forgets its credentials, and the oldest closed ones of its
    /// runtime beyond `kept`. Answers whether it was open. One that expires while it is deployed is
    /// approved.
    pub(in crate::store) fn decide_proposal(
        &self,
        number: u64,
        decision: &Decision,
        kept: usize,
    ) -> Result<bool, Error> {
        self.connection.transact(|transaction| {
            let changed = transaction.execute(
                    "UPDATE proposal SET state = ?1, decided_by = ?2, decided_at = ?3, reason = ?4, rev = ?5,
                        credentials = NULL, replacing = NULL
                     WHERE number = ?6 AND (state = 'open' OR (state = 'expired' AND ?1 = 'approved'))",
                values![
                    decision.state.name(),
                    &decision.by,
                    integer(decision.at),
                    &decision.reason,
                    &decision.rev,
                    integer(number)
                ])?;
            transaction.execute(
                    "DELETE FROM proposal WHERE state <> 'open' AND number <= (
                        SELECT number FROM proposal
                        WHERE state <> 'open' AND runtime = (SELECT runtime FROM proposal WHERE number = ?1)
                        ORDER BY number DESC LIMIT 1 OFFSET ?2)
                     AND runtime = (SELECT runtime FROM proposal WHERE number = ?1)",
                values![integer(number), count(kept)],
            )?;
            Ok(changed > 0)
        })
    }

    /// Gives an open proposal another base. Its bytes are counted again, and refuse nothing: its
    /// user has not made them more.
    pub(in crate::store) fn rebase_proposal(
        &self,
        number: u64,
        base: &str,
        before: &str,
        after: &str,
    ) -> Result<(), Error> {
        self.change(
            "UPDATE proposal SET base = ?, before = ?, after = ?,
                bytes = ? + coalesce(length(credentials), 0) + coalesce(length(replacing), 0)
             WHERE number = ? AND state = 'open'",
            values![
                base,
                &pack(before),
                &pack(after),
                count(before.len() + after.len()),
                integer(number)
            ],
        )
        .map(drop)
    }

    pub(in crate::store) fn expire_proposals(&self, now: u64) -> Result<Vec<Proposal>, Error> {
        let sql = format!(
            "UPDATE proposal SET state = 'expired', decided_at = ?1, credentials = NULL, replacing = NULL
             WHERE state = 'open' AND expires <= ?1 RETURNING {ENTRY}"
        );
        self.connection
            .transact(|transaction| transaction.query(&sql, values![integer(now)], entry))
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn entry(row: &Row<'_>) -> Result<Proposal, Error> {
    let state: String = row.get(2)?;
    Ok(Proposal {
        number: row.unsigned(0)?,
        runtime: row.get(1)?,
        state: ProposalState::of(&state)
            .ok_or_else(|| unreadable("state", &format_args!("it is {state}")))?,
        user: row.get(3)?,
        how: row.get(4)?,
        address: row.get(5)?,
        at: row.unsigned(6)?,
        expires: row.unsigned(7)?,
        kind: row.get(8)?,
        base: row.get(9)?,
        decided_by: row.get(10)?,
        decided_at: row.unsigned_if_any(11)?,
        reason: row.get(12)?,
        rev: row.get(13)?,
        message: row.get(14)?,
        owner: row.get(15)?,
    })
}
