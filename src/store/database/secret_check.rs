//! What gateways that share the database have sealed with their secret, and the value that shows
//! whether it is the same.

use super::connection::{Row, values};
use super::contents::unpack;
use super::{Database, Error, SAVE_FACT};

/// The name of the fact that holds the check value.
const SECRET_CHECK: &str = "secret_check";

/// The names of the credentials of the flows in the engine's state, and of those that cannot be
/// decrypted any more.
const CREDENTIALS: &str = "flows_cred.json";
const UNDECRYPTABLE: &str = "flows_cred.json.undecryptable";

impl Database {
    /// Returns whether other gateways have the database too.
    pub(in crate::store) fn is_shared(&self) -> bool {
        self.connection.is_shared()
    }

    /// The check value; `None`: no gateway with a secret has used the database.
    pub(in crate::store) fn secret_check(&self) -> Result<Option<String>, Error> {
        self.fact(SECRET_CHECK)
    }

    /// Keeps the check value unless there is one; answers the one that there is then.
    pub(in crate::store) fn claim_secret_check(&self, check: &str) -> Result<String, Error> {
        self.claim_fact(SECRET_CHECK, check)
    }

    /// The credentials files of the engine's state and of open proposals.
    pub(in crate::store) fn sealed_credentials(&self) -> Result<Vec<Vec<u8>>, Error> {
        let mut sealed = self.kept_credentials()?;
        for column in ["credentials", "replacing"] {
            let sql = format!(
                "SELECT {column} FROM proposal WHERE state = 'open' AND {column} IS NOT NULL"
            );
            sealed.extend(self.connection.query(&sql, &[], |row| row.get(0))?);
        }
        Ok(sealed)
    }

    /// The credentials file of the engine's state, if there is one.
    pub(in crate::store) fn kept_credentials(&self) -> Result<Vec<Vec<u8>>, Error> {
        let sql = "SELECT content, packed FROM engine_state WHERE name = ?";
        let content = |row: &Row<'_>| {
            let (content, is_packed): (Vec<u8>, bool) = (row.get(0)?, row.get(1)?);
            Ok(if is_packed {
                unpack(&content).unwrap_or_default().into_bytes()
            } else {
                content
            })
        };
        self.connection.query(sql, values![CREDENTIALS], content)
    }

    /// Replaces the check value, and takes the credentials of the engine's state aside that its
    /// secret does not open.
    pub(in crate::store) fn replace_secret_check(
        &self,
        check: &str,
        sets_aside: bool,
    ) -> Result<(), Error> {
        self.connection.transact(|transaction| {
            if sets_aside {
                transaction.execute(
                    "DELETE FROM engine_state WHERE name = ?",
                    values![UNDECRYPTABLE],
                )?;
                transaction.execute(
                    "UPDATE engine_state SET name = ? WHERE name = ?",
                    values![UNDECRYPTABLE, CREDENTIALS],
                )?;
            }
            transaction.execute(SAVE_FACT, values![SECRET_CHECK, check])?;
            Ok(())
        })
    }
}
