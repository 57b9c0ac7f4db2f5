//! Reads the flow files, and compares them with those that the last deployment wrote. Changes
//! nothing on disk.

use super::credentials::{self, Opened};
use super::disk::Disk;
use super::flow_files::{CREDENTIALS, FLOWS, FlowFiles};
use super::{Error, Loaded};
use crypto::sha256;
use flows::{Credentials, FlowSet};
use serde::de::IgnoredAny;

impl Disk {
    /// Reads the flow files. A missing file is empty, as in Node-RED; a broken one is an error.
    pub(super) fn load(&mut self) -> Result<Loaded, Error> {
        let files = self.read_files()?;
        let newest = self.database.newest_deployment()?;
        if files.flows.is_none() && newest.is_some() {
            tracing::warn!("{FLOWS} is gone: taken as an outside edit that empties the flow set");
        }
        super::step();
        let mut loaded = self.parse_files(&files)?;
        let unread = files.credentials.as_deref().filter(|_| loaded.locked);
        self.unread = unread.map(sha256);
        if let Some(newest) = newest
            && self.same_content(newest.number, &files, &loaded)?
        {
            loaded.rev = Some(newest.rev);
        }
        Ok(loaded)
    }

    /// Returns the files' content if it is not that of the last deployment. Broken files hold
    /// nothing that could be kept: they are no edit, and the next deployment sets them aside.
    pub(super) fn edited_outside(&self) -> Result<Option<Loaded>, Error> {
        if self.intact()?.is_some() {
            return Ok(None);
        }
        let files = self.read_files()?;
        let newest = self.database.newest_deployment()?;
        if newest.is_none() && files == FlowFiles::default() {
            return Ok(None);
        }
        let loaded = match self.parse_files(&files) {
            Err(Error::Invalid { what, reason }) => {
                tracing::warn!(what, reason, "edited outside, and broken");
                return Ok(None);
            }
            other => other?,
        };
        let same = newest.map_or(Ok(false), |newest| {
            self.same_content(newest.number, &files, &loaded)
        })?;
        Ok((!same).then_some(loaded))
    }

    pub(super) fn parse_files(&self, files: &FlowFiles) -> Result<Loaded, Error> {
        let (flows, inside) = files
            .flows
            .as_deref()
            .map_or_else(|| Ok(Default::default()), parse_all)?;
        let opened = match &files.credentials {
            None => Some(Credentials::default()),
            Some(file) => {
                credentials::open(file, &self.secrets()?).map(|opened| opened.credentials)
            }
        };
        let locked = opened.is_none();
        if locked {
            tracing::warn!(
                "{CREDENTIALS} cannot be decrypted with storage.credential_secret or the generated secret: the flows \
                 start without credentials. It stays as it is until a deployment has new credentials for all nodes that had \
                 some, and a copy as {CREDENTIALS}.undecryptable from the next one on"
            );
        }
        // A flow set made elsewhere may have secrets in it: they are kept as credentials, like
        // those of a deployment.
        let credentials = match opened {
            Some(credentials) if !inside.nodes.is_empty() => credentials.merge(&inside, &flows),
            opened => opened.unwrap_or_default(),
        };
        Ok(Loaded {
            flows,
            credentials,
            locked,
            rev: None,
        })
    }

    /// Whether the files have the content of a deployment, however they are formatted or encrypted.
    fn same_content(&self, number: i64, files: &FlowFiles, loaded: &Loaded) -> Result<bool, Error> {
        let written = self.database.files(number)?;
        if written == *files {
            return Ok(true);
        }
        let flows = written.flows == files.flows
            || written.flows.is_some_and(|flows| {
                parse(&flows).is_ok_and(|flows| flows.same_content(&loaded.flows))
            });
        if !flows || written.credentials == files.credentials {
            return Ok(flows);
        }
        let secrets = self.secrets()?;
        let open = |file: Option<&[u8]>| match file {
            None => Some(Credentials::default()),
            Some(file) => {
                credentials::open(file, &secrets).map(|Opened { credentials, .. }| credentials)
            }
        };
        // Credentials that cannot be decrypted cannot be compared: they do not count as an edit.
        Ok(loaded.locked
            || open(files.credentials.as_deref()) == open(written.credentials.as_deref()))
    }
}

/// Parses the content of `flows.json`; the error names the file and the place.
pub(super) fn parse(content: &[u8]) -> Result<FlowSet, Error> {
    parse_all(content).map(|(flows, _)| flows)
}

/// The same with the credentials that stand in it.
fn parse_all(content: &[u8]) -> Result<(FlowSet, Credentials), Error> {
    // Editors on Windows put a byte order mark in front of the text.
    let text = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    FlowSet::parse_with_credentials(text).map_err(|malformed| Error::Invalid {
        what: FLOWS.into(),
        reason: match serde_json::from_slice::<Vec<IgnoredAny>>(text) {
            Err(error) => error.to_string(),
            Ok(_) => malformed.0,
        },
    })
}
