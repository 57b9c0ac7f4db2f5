//! The table of proposals: changes that wait for approval, and what became of them.

use super::contents::{pack, unpack};
use super::{DATABASE, Database, commit, integer, seconds};
use crate::store::{Decision, Error, Proposal, ProposalFilter, ProposalState};
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};

/// The content of a row.
pub(in crate::store) struct Stored {
    pub(in crate::store) before: String,
    pub(in crate::store) after: String,
    pub(in crate::store) credentials: Option<Vec<u8>>,
    pub(in crate::store) replacing: Option<Vec<u8>>,
}

/// The columns that [`entry`] reads.
const ENTRY: &str = "number, runtime, state, user, how, address, at, expires, kind, base, decided_by, decided_at, reason, rev";

impl Database {
    /// Adds an open proposal with the flow sets before and after; answers its number.
    pub(in crate::store) fn add_proposal(
        &mut self,
        entry: &Proposal,
        bytes: usize,
        (before, after): (&str, &str),
        (credentials, replacing): (Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Result<u64, Error> {
        let transaction = self.connection.transaction()?;
        transaction
            .prepare_cached(
                "INSERT INTO proposal (runtime, user, how, address, at, expires, kind, base, bytes, before, after,
                    credentials, replacing)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                entry.runtime,
                entry.user,
                entry.how,
                entry.address,
                integer(entry.at),
                integer(entry.expires),
                entry.kind,
                entry.base,
                count(bytes),
                pack(before),
                pack(after),
                credentials,
                replacing
            ])?;
        let number = transaction.last_insert_rowid();
        commit(transaction)?;
        Ok(u64::try_from(number).unwrap_or(0))
    }

    pub(in crate::store) fn remove_proposal(&self, number: u64) -> Result<(), Error> {
        self.change("DELETE FROM proposal WHERE number = ?", [integer(number)])
    }

    /// The open proposals of the same user, type and base that lead to this flow set. Their number is limited, and so is
    /// what this reads.
    pub(in crate::store) fn proposals_like(
        &self,
        entry: &Proposal,
        after: &str,
    ) -> Result<Vec<u64>, Error> {
        let mut query = self.connection.prepare_cached(
            "SELECT number FROM proposal WHERE state = 'open' AND runtime = ? AND user = ? AND base = ? AND kind = ?
                AND expires > ? AND after = ?",
        )?;
        let like = params![
            entry.runtime,
            entry.user,
            entry.base,
            entry.kind,
            integer(entry.at),
            pack(after)
        ];
        let rows = query.query_map(like, |row| seconds(row, 0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The number of open proposals for a runtime, of one user or of all, and their bytes.
    pub(in crate::store) fn open_proposals(
        &self,
        runtime: &str,
        user: Option<&str>,
    ) -> Result<(usize, usize), Error> {
        let mut query = self.connection.prepare_cached(
            "SELECT count(*), coalesce(sum(bytes), 0) FROM proposal
             WHERE state = 'open' AND runtime = ?1 AND (?2 IS NULL OR user = ?2)",
        )?;
        let number = |row: &Row<'_>, column| {
            let number: i64 = row.get(column)?;
            Ok::<_, rusqlite::Error>(usize::try_from(number).unwrap_or(usize::MAX))
        };
        let both = query.query_row(params![runtime, user], |row| {
            Ok((number(row, 0)?, number(row, 1)?))
        })?;
        Ok(both)
    }

    pub(in crate::store) fn proposals(
        &self,
        filter: &ProposalFilter,
    ) -> Result<Vec<Proposal>, Error> {
        let mut query = self.connection.prepare_cached(&format!(
            "SELECT {ENTRY} FROM proposal
             WHERE runtime = ?1 AND (?2 IS NULL OR state = ?2) AND number < ?3 ORDER BY number DESC LIMIT ?4"
        ))?;
        let rows = query.query_map(
            params![
                filter.runtime,
                filter.state.map(ProposalState::name),
                filter.before.map_or(i64::MAX, integer),
                count(filter.limit)
            ],
            entry,
        )?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(in crate::store) fn proposal(
        &self,
        runtime: &str,
        number: u64,
    ) -> Result<Option<Proposal>, Error> {
        let mut query = self.connection.prepare_cached(&format!(
            "SELECT {ENTRY} FROM proposal WHERE runtime = ? AND number = ?"
        ))?;
        let found = query.query_row(params![runtime, integer(number)], entry);
        Ok(found.optional()?)
    }

    pub(in crate::store) fn proposal_content(&self, number: u64) -> Result<Stored, Error> {
        let mut query = self.connection.prepare_cached(
            "SELECT before, after, credentials, replacing FROM proposal WHERE number = ?",
        )?;
        let (before, after, credentials, replacing): (Vec<u8>, Vec<u8>, _, _) = query
            .query_row([integer(number)], |row| {
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

    /// Closes an open proposal and forgets its credentials, and the oldest closed ones of its runtime beyond `kept`.
    /// Answers whether it was open. One that expires while it is deployed is approved.
    pub(in crate::store) fn decide_proposal(
        &mut self,
        number: u64,
        decision: &Decision,
        kept: usize,
    ) -> Result<bool, Error> {
        let transaction = self.connection.transaction()?;
        let changed = transaction
            .prepare_cached(
                "UPDATE proposal SET state = ?1, decided_by = ?2, decided_at = ?3, reason = ?4, rev = ?5,
                    credentials = NULL, replacing = NULL
                 WHERE number = ?6 AND (state = 'open' OR (state = 'expired' AND ?1 = 'approved'))",
            )?
            .execute(params![
                decision.state.name(),
                decision.by,
                integer(decision.at),
                decision.reason,
                decision.rev,
                integer(number)
            ])?;
        transaction
            .prepare_cached(
                "DELETE FROM proposal WHERE state <> 'open' AND number <= (
                    SELECT number FROM proposal
                    WHERE state <> 'open' AND runtime = (SELECT runtime FROM proposal WHERE number = ?1)
                    ORDER BY number DESC LIMIT 1 OFFSET ?2)
                 AND runtime = (SELECT runtime FROM proposal WHERE number = ?1)",
            )?
            .execute([integer(number), count(kept)])?;
        commit(transaction)?;
        Ok(changed > 0)
    }

    /// Gives an open proposal another base. Its bytes are counted again, and refuse nothing: its user has not made them
    /// more.
    pub(in crate::store) fn rebase_proposal(
        &self,
        number: u64,
        base: &str,
        (before, after): (&str, &str),
    ) -> Result<(), Error> {
        self.change(
            "UPDATE proposal SET base = ?, before = ?, after = ?,
                bytes = ? + coalesce(length(credentials), 0) + coalesce(length(replacing), 0)
             WHERE number = ? AND state = 'open'",
            params![
                base,
                pack(before),
                pack(after),
                count(before.len() + after.len()),
                integer(number)
            ],
        )
    }

    pub(in crate::store) fn expire_proposals(&self, now: u64) -> Result<Vec<Proposal>, Error> {
        let mut query = self.connection.prepare_cached(&format!(
            "UPDATE proposal SET state = 'expired', decided_at = ?1, credentials = NULL, replacing = NULL
             WHERE state = 'open' AND expires <= ?1 RETURNING {ENTRY}"
        ))?;
        let rows = query.query_map([integer(now)], entry)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Proposal> {
    let state: String = row.get(2)?;
    let unknown = || format!("no state of a proposal: {state}").into();
    Ok(Proposal {
        number: seconds(row, 0)?,
        runtime: row.get(1)?,
        state: ProposalState::of(&state)
            .ok_or_else(|| rusqlite::Error::FromSqlConversionFailure(2, Type::Text, unknown()))?,
        user: row.get(3)?,
        how: row.get(4)?,
        address: row.get(5)?,
        at: seconds(row, 6)?,
        expires: seconds(row, 7)?,
        kind: row.get(8)?,
        base: row.get(9)?,
        decided_by: row.get(10)?,
        decided_at: row
            .get::<_, Option<i64>>(11)?
            .and_then(|at| u64::try_from(at).ok()),
        reason: row.get(12)?,
        rev: row.get(13)?,
    })
}
