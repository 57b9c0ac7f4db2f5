//! A row that a statement has found, and the types of its columns.

use crate::store::Error;
use rusqlite::types::FromSql;
use std::fmt::Display;

/// A row.
pub(in crate::store::database) enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

/// What both databases keep in a column.
pub(in crate::store::database) trait Column:
    FromSql + for<'a> tokio_postgres::types::FromSql<'a>
{
}
impl<T: FromSql + for<'a> tokio_postgres::types::FromSql<'a>> Column for T {}

/// The name or the number of a column.
pub(in crate::store::database) trait Place:
    rusqlite::RowIndex + tokio_postgres::row::RowIndex + Display + Copy
{
}
impl<T: rusqlite::RowIndex + tokio_postgres::row::RowIndex + Display + Copy> Place for T {}

impl Row<'_> {
    /// The value in a column.
    pub(in crate::store::database) fn get<T: Column>(&self, place: impl Place) -> Result<T, Error> {
        match self {
            Self::Sqlite(row) => Ok(row.get(place)?),
            Self::Postgres(row) => row
                .try_get(place)
                .map_err(|error| unreadable(place, &error)),
        }
    }

    /// A time in seconds since 1970, or another number that is never negative.
    pub(in crate::store::database) fn unsigned(&self, place: impl Place) -> Result<u64, Error> {
        let number: i64 = self.get(place)?;
        Ok(u64::try_from(number).unwrap_or(0))
    }

    /// The same of a number that may be missing.
    pub(in crate::store::database) fn unsigned_if_any(
        &self,
        place: impl Place,
    ) -> Result<Option<u64>, Error> {
        let number: Option<i64> = self.get(place)?;
        Ok(number.map(|number| u64::try_from(number).unwrap_or(0)))
    }

    /// A hash.
    pub(in crate::store::database) fn hash(&self, place: impl Place) -> Result<[u8; 32], Error> {
        let bytes: Vec<u8> = self.get(place)?;
        let hash = bytes.try_into();
        hash.map_err(|_| unreadable(place, &"it has not 32 bytes"))
    }

    /// A hash that may be missing.
    pub(in crate::store::database) fn hash_if_any(
        &self,
        place: impl Place,
    ) -> Result<Option<[u8; 32]>, Error> {
        let bytes: Option<Vec<u8>> = self.get(place)?;
        let hash = bytes.map(TryInto::try_into).transpose();
        hash.map_err(|_| unreadable(place, &"it has not 32 bytes"))
    }

    /// A list of texts, kept as JSON.
    pub(in crate::store::database) fn list(&self, place: impl Place) -> Result<Vec<String>, Error> {
        let text: String = self.get(place)?;
        serde_json::from_str(&text).map_err(|error| unreadable(place, &error))
    }
}

/// A value of a column is not what it should be.
pub(in crate::store::database) fn unreadable(place: impl Display, reason: &dyn Display) -> Error {
    Error::Database(format!("column {place} cannot be read: {reason}"))
}
