//! Makes deployments durable, and finishes at a start one that a crash interrupted.
//!
//! 1. Both new files are written beside the old ones and forced to disk: a full disk shows here, where nothing has changed.
//! 2. One transaction adds the history row. It names the hashes of the files before and after. The deployment is made.
//! 3. The files are renamed into place, the directory is forced to disk, the row is marked written.
//!
//! A start that finds an unmarked row, and on disk nothing but its files before or after, repeats step 3 from the row.
//! Any other file was written by another program, and is not overwritten.

use super::database::Deployment;
use super::disk::Disk;
use super::flow_files::{CREDENTIALS, FLOWS, FlowFiles, Hashes};
use super::{Error, Record, Revision, credentials, load};
use flows::Credentials;

impl Disk {
    /// Makes a deployment durable. After an error everything is as before.
    pub(super) fn commit(&mut self, record: &Record) -> Result<(), Error> {
        let old = self.read_files()?;
        let new = FlowFiles {
            flows: Some(record.flows.to_json().into_bytes()),
            credentials: self.credentials_file(&record.credentials, old.credentials.as_deref())?,
        };
        let hashes = (old.hashes(), new.hashes());
        self.set_aside_unreadable(&old, hashes.0, &new, record.at)?;
        let outcome = self
            .stage(&old, &new)
            .and_then(|()| self.exchange(record, &old, &new, hashes));
        if outcome.is_err() {
            self.directory.discard(CREDENTIALS);
            self.directory.discard(FLOWS);
        }
        outcome
    }

    /// Adds a flow set to the history and leaves the files alone.
    pub(super) fn keep(&mut self, record: &Record) -> Result<(), Error> {
        let files = FlowFiles {
            flows: Some(record.flows.to_json().into_bytes()),
            credentials: self.credentials_file(&record.credentials, None)?,
        };
        self.database
            .add(&record.into(), &files, None, self.history)?;
        Ok(())
    }

    /// Finishes a deployment that a crash interrupted between its history row and its files.
    pub(super) fn bring_forward(&mut self) -> Result<(), Error> {
        // Files that were staged and never put in place belong to an unacknowledged deployment.
        self.directory.discard(CREDENTIALS);
        self.directory.discard(FLOWS);
        let Some(deployment) = self
            .database
            .newest_deployment()?
            .filter(|newest| newest.pending)
        else {
            return Ok(());
        };
        let old = self.read_files()?;
        if !is_interrupted(&deployment, old.hashes()) {
            tracing::warn!(
                rev = deployment.rev,
                "the flow files were edited outside after an interrupted deployment"
            );
            return Ok(());
        }
        let new = self.database.files(deployment.number)?;
        self.stage(&old, &new)?;
        self.put_in_place(&old, &new)?;
        tracing::info!(
            rev = deployment.rev,
            "an interrupted deployment was finished"
        );
        self.database.mark_written(deployment.number)
    }

    /// Returns the credentials file with the wanted content: the present one if it has it, else a new one.
    fn credentials_file(
        &self,
        wanted: &Credentials,
        present: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
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

    /// Keeps files that cannot be parsed or decrypted: they may still be worth something to their owner.
    fn set_aside_unreadable(
        &self,
        old: &FlowFiles,
        hashes: Hashes,
        new: &FlowFiles,
        now: u64,
    ) -> Result<(), Error> {
        let written = self
            .database
            .newest_deployment()?
            .map(|newest| newest.after)
            .unwrap_or_default();
        if let Some(flows) = &old.flows
            && hashes.flows != written.flows
            && load::parse(flows).is_err()
        {
            self.directory
                .set_aside(&format!("{FLOWS}.broken-{now}"), flows)?;
        }
        if let Some(file) = &old.credentials
            && old.credentials != new.credentials
            && credentials::open(file, &self.secrets()?).is_none()
        {
            self.directory
                .set_aside(&format!("{CREDENTIALS}.undecryptable"), file)?;
        }
        Ok(())
    }

    fn stage(&self, old: &FlowFiles, new: &FlowFiles) -> Result<(), Error> {
        for change in old.changes(new) {
            self.directory.stage(change.name, change.new)?;
        }
        Ok(())
    }

    /// From the history row on: everything, or everything back.
    fn exchange(
        &mut self,
        record: &Record,
        old: &FlowFiles,
        new: &FlowFiles,
        hashes: (Hashes, Hashes),
    ) -> Result<(), Error> {
        let number = self
            .database
            .add(&record.into(), new, Some(hashes), self.history)?;
        if let Err(error) = self.put_in_place(old, new) {
            if let Err(error) = self.take_back(number, old, new) {
                tracing::error!(%error, rev = record.rev, "a deployment that failed could not be taken back");
            }
            return Err(error);
        }
        if let Err(error) = self.database.mark_written(number) {
            tracing::warn!(%error, rev = record.rev, "the files of a deployment will be compared at the next start");
        }
        Ok(())
    }

    fn put_in_place(&self, old: &FlowFiles, new: &FlowFiles) -> Result<(), Error> {
        for change in old.changes(new) {
            if let Some(old) = change.old
                && let Err(error) = self.directory.back_up(change.name, old)
            {
                tracing::warn!(%error, "no backup was kept; the history has the earlier flow set");
            }
            self.directory.put_in_place(change.name)?;
        }
        self.directory.sync()
    }

    fn take_back(&self, number: i64, old: &FlowFiles, new: &FlowFiles) -> Result<(), Error> {
        for change in old.changes(new) {
            if self.directory.read(change.name)?.as_deref() == change.old {
                continue;
            }
            match change.old {
                Some(content) => self.directory.replace(change.name, content)?,
                None => self.directory.remove(change.name)?,
            }
        }
        self.database.take_back(number)
    }
}

/// Whether the files are those before or after a deployment, or one of each, as a crash can leave them.
fn is_interrupted(deployment: &Deployment, files: Hashes) -> bool {
    let Deployment { before, after, .. } = deployment;
    (files.flows == before.flows || files.flows == after.flows)
        && (files.credentials == before.credentials || files.credentials == after.credentials)
}

impl From<&Record> for Revision {
    fn from(record: &Record) -> Self {
        Self {
            rev: record.rev.clone(),
            user: record.user.clone(),
            kind: record.kind.clone(),
            at: record.at,
        }
    }
}
