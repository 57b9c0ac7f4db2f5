//! The history, read while the gateway runs: entries, and the flow sets that they name.

use super::credentials;
use super::database::DATABASE;
use super::disk::Disk;
use super::flow_files::FlowFiles;
use super::{Error, Revision, Store};
use flows::{Credentials, FlowSet, Submission};

/// The entries to be listed.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Only those of this runtime.
    pub runtime: String,
    /// Only those older than this one: a revision, or the number of an entry.
    pub before: Option<String>,
    /// Only those of this user.
    pub user: Option<String>,
    /// Only those since then, in seconds since 1970.
    pub since: u64,
    /// Only those that touched the element of this id.
    pub node: Option<String>,
    /// Only those that touched an element of this flow.
    pub flow: Option<String>,
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
    /// The flow set, parsed; elements that are the same in another one are shared with that, and
    /// read quickly.
    pub fn set(&self, other: &FlowSet) -> Result<FlowSet, Error> {
        let parsed = Submission::v1(other, &self.flows);
        parsed.map(|parsed| parsed.flows).map_err(|malformed| {
            let what = format!("{DATABASE}, entry {}", self.revision.number);
            let reason = malformed.0;
            Error::Invalid { what, reason }
        })
    }
}

impl Store {
    /// Entries of the history, newest first; `None`: it has no entry `before`.
    pub async fn page(&self, page: Page) -> Result<Option<Vec<Revision>>, Error> {
        self.owner.ask(move |disk| disk.page(&page)).await
    }

    /// One entry of a runtime's history; `None`: it has no such revision.
    pub async fn entry(&self, runtime: &str, rev: &str) -> Result<Option<Revision>, Error> {
        let (runtime, rev) = (runtime.to_owned(), rev.to_owned());
        self.owner
            .ask(move |disk| disk.database.entry(&runtime, &rev))
            .await
    }

    /// The flow set of one entry; `None`: the runtime's history has no such revision.
    pub async fn past(&self, runtime: &str, rev: &str) -> Result<Option<Past>, Error> {
        let (runtime, rev) = (runtime.to_owned(), rev.to_owned());
        self.owner.ask(move |disk| disk.past(&runtime, &rev)).await
    }
}

impl Disk {
    fn page(&self, page: &Page) -> Result<Option<Vec<Revision>>, Error> {
        let before = match &page.before {
            None => None,
            Some(before) => match self.number(&page.runtime, before)? {
                None => return Ok(None),
                number => number,
            },
        };
        self.database.page(page, before).map(Some)
    }

    /// The number of an entry that a client names by its revision, or by the number itself.
    pub(super) fn number(&self, runtime: &str, entry: &str) -> Result<Option<i64>, Error> {
        let revision = self.database.entry(runtime, entry)?;
        Ok(revision.map_or_else(|| entry.parse().ok(), |revision| Some(revision.number)))
    }

    fn past(&self, runtime: &str, rev: &str) -> Result<Option<Past>, Error> {
        let Some(revision) = self.database.entry(runtime, rev)? else {
            return Ok(None);
        };
        let files = self.database.files(revision.number)?;
        Ok(Some(Past {
            revision,
            credentials: self.opened(&files)?,
            flows: files.flows.unwrap_or_default(),
        }))
    }

    /// The credentials of flow files; `None`: no secret decrypts them.
    pub(super) fn opened(&self, files: &FlowFiles) -> Result<Option<Credentials>, Error> {
        let Some(file) = &files.credentials else {
            return Ok(Some(Credentials::default()));
        };
        let opened = credentials::open(file, &self.secrets()?);
        Ok(opened.map(|opened| opened.credentials))
    }
}
