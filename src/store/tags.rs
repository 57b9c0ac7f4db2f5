//! Tags: names for entries of the history.

use super::{Error, Revision, Store};

/// The most tags of a runtime: their flow sets are never forgotten. Our choice: a release a day for
/// three years.
const MAX_TAGS: i64 = 1_000;

/// The result of tagging.
#[derive(Debug)]
pub enum Tagged {
    /// The entry of this revision and number has the name.
    Done(String, i64),
    /// The history has no such entry.
    NoSuchRevision,
    /// There are as many tags as there may be.
    TooMany,
}

impl Store {
    /// The tags of a runtime's history, by name.
    pub async fn tags(&self, runtime: &str) -> Result<Vec<(String, Revision)>, Error> {
        let runtime = runtime.to_owned();
        self.owner
            .ask(move |disk| disk.database.tags(&runtime))
            .await
    }

    /// Gives an entry a name, which it takes from any other one.
    pub async fn tag(&self, runtime: &str, name: &str, rev: &str) -> Result<Tagged, Error> {
        let (runtime, name, rev) = (runtime.to_owned(), name.to_owned(), rev.to_owned());
        self.owner
            .ask(move |disk| {
                let database = &disk.database;
                let Some(entry) = database.entry(&runtime, &rev)? else {
                    return Ok(Tagged::NoSuchRevision);
                };
                if database.other_tags(&runtime, &name)? >= MAX_TAGS {
                    return Ok(Tagged::TooMany);
                }
                database.save_tag(&runtime, &name, entry.number)?;
                Ok(Tagged::Done(entry.rev, entry.number))
            })
            .await
    }

    /// Takes a name away; answers whether there was one. The entry is then forgotten like any
    /// other.
    pub async fn remove_tag(&self, runtime: &str, name: &str) -> Result<bool, Error> {
        let (runtime, name) = (runtime.to_owned(), name.to_owned());
        self.owner
            .ask(move |disk| disk.database.remove_tag(&runtime, &name))
            .await
    }
}
