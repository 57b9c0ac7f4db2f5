//! The history, read while the gateway runs: entries, and the flow sets that they name.

use super::credentials;
use super::disk::Disk;
use super::{Error, Revision, Store, load};
use flows::{Credentials, FlowSet};

/// The entries to be listed.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Only those older than this revision.
    pub before: Option<String>,
    /// Only those of this user.
    pub user: Option<String>,
    /// Only those since then, in seconds since 1970.
    pub since: u64,
    /// The most entries.
    pub limit: usize,
}

/// A flow set of the history, with its entry.
#[derive(Debug)]
pub struct Past {
    /// Its entry.
    pub revision: Revision,
    /// The flow set as JSON, without credentials.
    pub flows: Vec<u8>,
    /// Its credentials; `None`: no secret that flowgate has now decrypts them.
    pub credentials: Option<Credentials>,
}

impl Past {
    /// The flow set, parsed.
    pub fn set(&self) -> Result<FlowSet, Error> {
        load::parse(&self.flows)
    }
}

impl Store {
    /// Entries of the history, newest first; `None`: it has no revision `before`.
    pub async fn page(&self, page: Page) -> Result<Option<Vec<Revision>>, Error> {
        self.owner.ask(move |disk| disk.page(&page)).await
    }

    /// One entry of the history; `None`: it has no such revision.
    pub async fn entry(&self, rev: &str) -> Result<Option<Revision>, Error> {
        let rev = rev.to_owned();
        let entry = move |disk: &mut Disk| disk.database.entry(&rev, disk.history);
        Ok(self.owner.ask(entry).await?.map(|(_, revision)| revision))
    }

    /// The flow set of one entry; `None`: the history has no such revision.
    pub async fn past(&self, rev: &str) -> Result<Option<Past>, Error> {
        let rev = rev.to_owned();
        self.owner.ask(move |disk| disk.past(&rev)).await
    }
}

impl Disk {
    fn page(&self, page: &Page) -> Result<Option<Vec<Revision>>, Error> {
        let before = match &page.before {
            None => None,
            Some(rev) => match self.database.entry(rev, self.history)? {
                None => return Ok(None),
                Some((number, _)) => Some(number),
            },
        };
        self.database.page(page, before, self.history).map(Some)
    }

    fn past(&self, rev: &str) -> Result<Option<Past>, Error> {
        let Some((number, revision)) = self.database.entry(rev, self.history)? else {
            return Ok(None);
        };
        let files = self.database.files(number)?;
        let credentials = match &files.credentials {
            None => Some(Credentials::default()),
            Some(file) => {
                credentials::open(file, &self.secrets()?).map(|opened| opened.credentials)
            }
        };
        Ok(Some(Past {
            revision,
            flows: files.flows.unwrap_or_default(),
            credentials,
        }))
    }
}
