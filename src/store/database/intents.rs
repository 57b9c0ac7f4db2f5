//! The table of intents: the change of each upstream that is about to be sent, until the history
//! has it.

use super::connection::{Row, Transaction, unreadable, values};
use super::contents::{pack, unpack};
use super::{Database, integer};
use crate::store::{Error, Intent, Revision};
use serde_json::Value as Json;

impl Database {
    /// Keeps the change that is about to be sent to an upstream, over the one before it.
    pub(in crate::store) fn save_intent(&self, intent: &Intent) -> Result<(), Error> {
        let revision = &intent.revision;
        let sent: Vec<_> = intent
            .sent
            .iter()
            .map(|id| Json::from(id.as_str()))
            .collect();
        self.change(
            r#"INSERT INTO intent (runtime, "user", how, address, kind, at, message, base, sent, content)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT (runtime) DO UPDATE SET "user" = excluded."user", how = excluded.how, address = excluded.address,
                kind = excluded.kind, at = excluded.at, message = excluded.message, base = excluded.base,
                sent = excluded.sent, content = excluded.content"#,
            values![
                &revision.runtime,
                &revision.user,
                &revision.how,
                &revision.address,
                &revision.kind,
                integer(revision.at),
                &revision.message,
                &intent.base,
                &Json::from(sent).to_string(),
                &pack(&intent.patch)
            ],
        )
        .map(drop)
    }

    /// The change that was about to be sent to an upstream; `None`: the history has the last one,
    /// or it was refused.
    pub(in crate::store) fn intent(&self, runtime: &str) -> Result<Option<Intent>, Error> {
        let sql = r#"SELECT "user", how, address, kind, at, message, base, sent, content FROM intent WHERE runtime = ?"#;
        self.connection
            .first(sql, values![runtime], |row| intent(row, runtime))
    }

    /// Forgets the change that was about to be sent to an upstream.
    pub(in crate::store) fn remove_intent(&self, runtime: &str) -> Result<(), Error> {
        self.connection
            .transact(|transaction| forget(transaction, runtime))
    }
}

/// The same, in the transaction that adds it to the history.
pub(super) fn forget(transaction: &Transaction<'_>, runtime: &str) -> Result<(), Error> {
    let sql = "DELETE FROM intent WHERE runtime = ?";
    transaction.execute(sql, values![runtime]).map(drop)
}

fn intent(row: &Row<'_>, runtime: &str) -> Result<Intent, Error> {
    let content: Vec<u8> = row.get(8)?;
    Ok(Intent {
        revision: Revision {
            runtime: runtime.to_owned(),
            user: row.get(0)?,
            how: row.get(1)?,
            address: row.get(2)?,
            kind: row.get(3)?,
            at: row.unsigned(4)?,
            message: row.get(5)?,
            ..Revision::default()
        },
        base: row.get(6)?,
        sent: row.list(7)?.into_iter().map(Into::into).collect(),
        patch: unpack(&content)
            .ok_or_else(|| unreadable("content", &"it cannot be decompressed"))?,
    })
}
