//! Makes deployments durable.
//!
//! 1. Both new files are written beside the old ones: a full disk shows here, where nothing has changed.
//! 2. One transaction adds the history row, mostly the difference to the row before. The deployment is made.
//! 3. The files are renamed into place. [`Disk::sync_written`] forces them to disk, a moment later, and marks the row
//!    written.
//!
//! A start that finds an unmarked row has [`super::recovery`] compare the files with it.

use super::database::Content;
use super::disk::Disk;
use super::flow_files::{Before, CREDENTIALS, FLOWS, FlowFiles};
use super::written::Written;
use super::{ENGINE, Error, Record, credentials, load};
use crypto::sha256;
use flows::{FlowSet, Patch, Touched};
use std::iter::once;
use std::sync::Arc;

/// Every so many deployments the history has a whole flow set. Our choice: 31 differences are read
/// in milliseconds.
pub(super) const WHOLE_EVERY: usize = 32;

/// A difference longer than this part of its flow set is not kept: the whole set is.
pub(super) const LONGEST_DIFFERENCE: usize = 4;

/// What a deployment writes.
struct Change {
    /// True if the file of the flows is replaced.
    new_flows: bool,
    /// The new credentials file; `None`: unchanged.
    new_credentials: Option<Vec<u8>>,
    /// The credentials file before it, if it is replaced.
    old_credentials: Option<Vec<u8>>,
    before: Before,
    /// The number of the row that this one is the difference to, and the difference; `None`: it has
    /// the whole set.
    patch: Option<(i64, String)>,
    /// The credentials file of the row; `None`: as in the row that it builds upon, or none.
    credentials: Option<Vec<u8>>,
    differences: usize,
    /// The elements that differ from the deployment before.
    touched: Vec<Touched>,
}

impl Change {
    /// The names of the files that it replaces. The credentials come first, as in
    /// [`FlowFiles::each`].
    fn replaced(&self) -> impl Iterator<Item = &'static str> {
        let credentials = self.new_credentials.is_some().then_some(CREDENTIALS);
        let flows = self.new_flows.then_some(FLOWS);
        credentials.into_iter().chain(flows)
    }
}

impl Disk {
    /// Makes a deployment durable. After an error everything is as before.
    pub(super) fn commit(&mut self, record: &Record) -> Result<(), Error> {
        self.commit_if(record, || true).map(drop)
    }

    /// The same, if `permitted` then answers yes: it is asked when the history has the row.
    /// Otherwise everything is as before. Answers whether it was done.
    pub(super) fn commit_if(
        &mut self,
        record: &Record,
        permitted: impl FnOnce() -> bool,
    ) -> Result<bool, Error> {
        let change = match self.intact()? {
            Some(written) => self.change(written, record)?,
            None => self.change_of_unknown(record)?,
        };
        let made = self.make(record, &change, permitted);
        let Ok(Some(number)) = made else {
            self.directory.discard(CREDENTIALS);
            self.directory.discard(FLOWS);
            return made.map(|_| false);
        };
        if change.new_credentials.is_some() {
            self.unread = None;
        }
        // Without their ids the files are compared by content.
        self.written = self.file_ids().ok().map(|files| Written {
            number,
            flows: Arc::clone(&record.flows),
            credentials: Arc::clone(&record.credentials),
            differences: change.differences,
            files,
        });
        self.unsynced = Some(number);
        Ok(true)
    }

    /// Adds a flow set to the history and leaves the files alone.
    pub(super) fn keep(&mut self, record: &Record) -> Result<(), Error> {
        let credentials = self.credentials_file(record, None)?;
        let content = Content {
            base: None,
            text: &record.flows.to_json(),
            credentials: credentials.as_deref(),
            touched: &self.touched_since_newest(record),
        };
        self.database
            .add(&record.revision, &content, None, &self.retention)?;
        Ok(())
    }

    /// The change from what was written last.
    fn change(&self, written: &Written, record: &Record) -> Result<Change, Error> {
        let patch = Patch::between(&written.flows, &record.flows);
        let same = patch.is_empty(&written.flows);
        let (mut old_credentials, mut new_credentials) = (None, None);
        if *written.credentials != *record.credentials {
            old_credentials = self.directory.read(CREDENTIALS)?;
            new_credentials = self.credentials_file(record, old_credentials.as_deref())?;
        }
        let is_short = same || patch.text.len() <= record.flows.json_size() / LONGEST_DIFFERENCE;
        let is_due = written.differences + 1 >= WHOLE_EVERY.min(self.retention.earlier + 1);
        let (patch, credentials) = if is_short && !is_due {
            (Some((written.number, patch.text)), new_credentials.clone())
        } else if let Some(new) = &new_credentials {
            (None, Some(new.clone()))
        } else {
            (None, self.directory.read(CREDENTIALS)?)
        };
        Ok(Change {
            new_flows: !same,
            new_credentials,
            old_credentials,
            before: Before::default(),
            differences: patch.as_ref().map_or(0, |_| written.differences + 1),
            patch,
            credentials,
            touched: Self::touched_since(written, record),
        })
    }

    /// The change from whatever the files are.
    fn change_of_unknown(&self, record: &Record) -> Result<Change, Error> {
        let old = self.read_files()?;
        let flows = record.flows.to_json();
        let credentials = self.credentials_file(record, old.credentials.as_deref())?;
        let is_new = |new: &Vec<u8>| old.credentials.as_ref() != Some(new);
        let change = Change {
            before: old.hashes(),
            new_flows: old.flows.as_deref() != Some(flows.as_bytes()),
            new_credentials: credentials.clone().filter(is_new),
            old_credentials: old.credentials.clone(),
            patch: None,
            credentials,
            differences: 0,
            touched: self.touched_since_newest(record),
        };
        self.set_aside_unreadable(&old, &change, record.revision.at)?;
        Ok(change)
    }

    /// Returns the credentials file with the wanted content: the present one if it has it, else a
    /// new one. The present one, if it could not be decrypted when it was loaded and the deployment
    /// has no credentials.
    fn credentials_file(
        &self,
        record: &Record,
        present: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let wanted = &*record.credentials;
        if let Some(file) = present
            && self.unread == Some(sha256(file))
        {
            if wanted.nodes.is_empty() {
                return Ok(Some(file.to_owned()));
            }
            self.replaces_all(record)?;
        }
        if present.is_none() && wanted.nodes.is_empty() {
            return Ok(None);
        }
        let secrets = self.secrets()?;
        if let Some(file) = present
            && credentials::open(file, &secrets)
                .is_some_and(|opened| opened.current && opened.credentials == *wanted)
        {
            return Ok(Some(file.to_owned()));
        }
        let secret = match secrets.into_iter().next() {
            Some(secret) => secret,
            None => credentials::make_secret(&self.directory)?,
        };
        credentials::seal(wanted, &secret).map(Some)
    }

    /// Refuses a deployment that has no new credentials for a node that has some which cannot be
    /// decrypted. The history tells which do; without that, all credentials could be lost for those
    /// of one node.
    fn replaces_all(&self, record: &Record) -> Result<(), Error> {
        let known = self.database.with_credentials(ENGINE)?;
        let is_known = !known.is_empty();
        let mut nodes: Vec<_> = known
            .into_iter()
            .filter(|id| {
                let has_new = record.credentials.nodes.contains_key(id.as_str());
                record.flows.get(id).is_some() && !has_new
            })
            .collect();
        if is_known && nodes.is_empty() {
            return Ok(());
        }
        nodes.sort_unstable();
        Err(Error::UnreadableCredentials { nodes })
    }

    /// Keeps files that cannot be parsed or decrypted: they may still be worth something to their
    /// owner. Credentials that stay are kept too: a later deployment may replace them.
    fn set_aside_unreadable(
        &self,
        old: &FlowFiles,
        change: &Change,
        now: u64,
    ) -> Result<(), Error> {
        if let Some(flows) = &old.flows
            && change.new_flows
            && load::parse(flows).is_err()
        {
            self.directory
                .set_aside(&format!("{FLOWS}.broken-{now}"), flows)?;
        }
        if let Some(file) = &old.credentials
            && credentials::open(file, &self.secrets()?).is_none()
        {
            self.directory
                .set_aside(&format!("{CREDENTIALS}.undecryptable"), file)?;
        }
        Ok(())
    }

    /// Writes the row and the files: everything, or everything back. Answers the row's number;
    /// `None`: not permitted.
    fn make(
        &mut self,
        record: &Record,
        change: &Change,
        permitted: impl FnOnce() -> bool,
    ) -> Result<Option<i64>, Error> {
        self.stage(&record.flows, change)?;
        let whole;
        let (base, text) = if let Some((base, patch)) = &change.patch {
            (Some(*base), patch.as_str())
        } else {
            whole = record.flows.to_json();
            (None, whole.as_str())
        };
        let content = Content {
            base,
            text,
            credentials: change.credentials.as_deref(),
            touched: &change.touched,
        };
        let number = self.database.add(
            &record.revision,
            &content,
            Some(change.before),
            &self.retention,
        )?;
        let made = if permitted() {
            self.replicate_deployment(record, change.new_flows, change.new_credentials.as_deref())
                .and_then(|()| self.put_in_place(change.replaced()))
                .map(|()| Some(number))
        } else {
            Ok(None)
        };
        if !matches!(made, Ok(Some(_)))
            && let Err(error) = self.take_back(number, change)
        {
            let rev = &record.revision.rev;
            tracing::error!(%error, rev, "a deployment that failed could not be taken back");
        }
        made
    }

    /// Writes new contents beside their files.
    fn stage(&self, flows: &FlowSet, change: &Change) -> Result<(), Error> {
        if let Some(content) = &change.new_credentials {
            self.directory
                .stage(CREDENTIALS, once(content.as_slice()))?;
        }
        if change.new_flows {
            self.directory
                .stage(FLOWS, flows.json_pieces().map(str::as_bytes))?;
        }
        Ok(())
    }

    /// Moves staged contents over their files, which stay as backups.
    pub(super) fn put_in_place(
        &self,
        names: impl Iterator<Item = &'static str>,
    ) -> Result<(), Error> {
        for name in names {
            if let Err(error) = self.directory.back_up(name) {
                tracing::warn!(%error, "no backup was kept; the history has the earlier flow set");
            }
            self.directory.put_in_place(name)?;
        }
        Ok(())
    }

    /// Makes a deployment undone whose flows could not be put in place: only its credentials can
    /// have been.
    fn take_back(&self, number: i64, change: &Change) -> Result<(), Error> {
        let present = || self.directory.read(CREDENTIALS);
        if change.new_credentials.is_some() && present()? != change.old_credentials {
            match &change.old_credentials {
                Some(content) => self.directory.replace(CREDENTIALS, content)?,
                None => self.directory.remove(CREDENTIALS)?,
            }
        }
        self.database.take_back(number)
    }

    /// Forces the files of the newest deployment to disk, with their backups, and marks its row
    /// written.
    pub(super) fn sync_written(&mut self) {
        let Some(number) = self.unsynced.take() else {
            return;
        };
        let synced = [CREDENTIALS, FLOWS]
            .into_iter()
            .try_for_each(|name| self.directory.sync_file(name))
            .and_then(|()| self.directory.sync())
            .and_then(|()| self.database.mark_written(number));
        if let Err(error) = synced {
            tracing::warn!(%error, "the flow files will be compared with the history at the next start");
        }
    }
}
