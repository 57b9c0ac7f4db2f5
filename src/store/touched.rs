//! Finds the elements that a deployment touches: those that differ from the deployment before it.

use super::disk::Disk;
use super::written::Written;
use super::{ENGINE, Error, Record, Store, load};
use flows::{Credentials, FlowSet, Submission, Touched, touched};
use smol_str::SmolStr;
use std::collections::HashSet;

/// A flow set to compare with, and its credentials; without them credentials are not compared.
type Side = (FlowSet, Option<Credentials>);

impl Store {
    /// The elements whose credentials a runtime's deployments after this revision have changed, as
    /// far as its history tells.
    pub async fn credentials_since(
        &self,
        runtime: &str,
        rev: &str,
    ) -> Result<HashSet<SmolStr>, Error> {
        let (runtime, rev) = (runtime.to_owned(), rev.to_owned());
        self.owner
            .ask(move |disk| disk.database.credentials_since(&runtime, &rev))
            .await
    }
}

impl Disk {
    /// Compared with the deployment that this process has made last.
    pub(super) fn touched_since(written: &Written, record: &Record) -> Vec<Touched> {
        let credentials = if *written.credentials == *record.credentials {
            HashSet::new()
        } else {
            written.credentials.differing(&record.credentials)
        };
        touched(&written.flows, &record.flows, &credentials)
    }

    /// Compared with the newest deployment of the history. One that cannot be read stops no
    /// deployment.
    pub(super) fn touched_since_newest(&self, record: &Record) -> Vec<Touched> {
        match self.newest_set() {
            Ok((flows, credentials)) => {
                let differing = credentials.map(|was| was.differing(&record.credentials));
                touched(&flows, &record.flows, &differing.unwrap_or_default())
            }
            Err(error) => {
                tracing::error!(%error, "the history does not say which nodes this deployment touches");
                Vec::new()
            }
        }
    }

    fn newest_set(&self) -> Result<Side, Error> {
        let Some(newest) = self.database.newest(ENGINE)? else {
            return Ok((FlowSet::default(), Some(Credentials::default())));
        };
        let files = self.database.files(newest.number)?;
        let flows = load::parse(files.flows.as_deref().unwrap_or(b"[]"))?;
        Ok((flows, self.opened(&files)?))
    }

    /// Finds what the deployments of a version without these lists have touched, credentials aside.
    /// An entry that cannot be read, or whose predecessor is forgotten, gets no list.
    pub(super) fn list_touched(&mut self) -> Result<(), Error> {
        let Some(newest) = self.database.unlisted()? else {
            return Ok(());
        };
        let mut found = Vec::new();
        // The flow set read last, and its number.
        let mut last: Option<(i64, FlowSet)> = None;
        for (number, is_deployed, is_first) in self.database.up_to(newest)? {
            let Ok(files) = self.database.files(number) else {
                continue;
            };
            let before = match (&last, self.database.parent(number)?) {
                (Some((last, flows)), Some(parent)) if *last == parent => Some(flows),
                _ => None,
            };
            let text = files.flows.unwrap_or_default();
            let none = FlowSet::default();
            let Ok(submission) = Submission::v1(before.unwrap_or(&none), &text) else {
                continue;
            };
            let flows = submission.flows;
            if before.is_some() || is_first {
                let before = before.unwrap_or(&none);
                found.push((number, touched(before, &flows, &HashSet::new())));
            }
            if is_deployed {
                last = Some((number, flows));
            }
        }
        self.database.list_touched(&found)
    }
}
