//! Counts failed starts, and finds the flow set before one that does not start. Handles counts and
//! rows; the callers decide when there are too many.

use super::disk::Disk;
use super::flow_files::{CREDENTIALS, FLOWS};
use super::{Error, FALLBACK, Loaded, Reading};
use crypto::{hex, sha256};

/// The name of the fact that counts the starts of a revision: `2 REVISION`.
const STARTS: &str = "starts";
/// The name of the fact that counts how often files were read that ended the process meanwhile:
/// `2 HASH`.
const READINGS: &str = "readings";
/// The name of the fact that holds the revision set aside last.
const SET_ASIDE: &str = "set_aside";

impl Disk {
    /// Counts a reading of the flow files, which may end the process: by their content, because
    /// their revision is not known yet.
    pub(super) fn begin_reading(&mut self) -> Result<Reading, Error> {
        let files = self.read_files()?;
        let hashes = files.hashes();
        let both = [
            hashes.flows.unwrap_or_default(),
            hashes.credentials.unwrap_or_default(),
        ];
        let hash = hex(&sha256(both.as_flattened()));
        let failed = match self.count(READINGS)? {
            Some((count, counted)) if counted == hash => count,
            _ => 0,
        };
        let counted = format!("{} {hash}", failed.saturating_add(1));
        self.database.save_fact(READINGS, &counted)?;
        let rev = match self.database.newest_deployment()? {
            Some(newest) if self.database.files(newest.number)? == files => Some(newest.rev),
            _ => None,
        };
        Ok(Reading { failed, rev })
    }

    /// The flow files have been read.
    pub(super) fn end_reading(&mut self) -> Result<(), Error> {
        self.database.save_fact(READINGS, "")
    }

    /// Counts a start of a revision; answers how many there were before it that neither settled nor
    /// ended well.
    pub(super) fn begin_start(&mut self, rev: &str) -> Result<u32, Error> {
        let before = self.starts_of(rev)?;
        self.counted = true;
        let counted = format!("{} {rev}", before.saturating_add(1));
        self.database.save_fact(STARTS, &counted)?;
        Ok(before)
    }

    /// The start of this process ended well: it does not count.
    pub(super) fn end_start(&mut self) -> Result<(), Error> {
        let Some((count, rev)) = self.starts()?.filter(|_| self.counted) else {
            return Ok(());
        };
        let counted = format!("{} {rev}", count.saturating_sub(1));
        self.database.save_fact(STARTS, &counted)
    }

    /// Whatever was counted does not count.
    pub(super) fn forget_starts(&mut self) -> Result<(), Error> {
        self.counted = false;
        match self.starts()? {
            Some((count, rev)) if count > 0 => self.database.save_fact(STARTS, &format!("0 {rev}")),
            _ => Ok(()),
        }
    }

    fn starts_of(&self, rev: &str) -> Result<u32, Error> {
        let starts = self.starts()?.filter(|(_, counted)| counted == rev);
        Ok(starts.map_or(0, |(count, _)| count))
    }

    fn starts(&self) -> Result<Option<(u32, String)>, Error> {
        self.count(STARTS)
    }

    /// A fact that is a number and what it counts.
    fn count(&self, fact: &str) -> Result<Option<(u32, String)>, Error> {
        let fact = self.database.fact(fact)?;
        Ok(fact.and_then(|fact| {
            let (count, rev) = fact.split_once(' ')?;
            Some((count.parse().ok()?, rev.to_owned()))
        }))
    }

    /// The newest flow set deployed before the active one that differs from it and was not itself
    /// set aside. `None`, if the active one is the result of a fallback.
    pub(super) fn earlier(&self) -> Result<Option<Loaded>, Error> {
        if self.fallen_back()?.is_some() {
            return Ok(None);
        }
        let Some(newest) = self.database.newest_deployment()? else {
            return Ok(None);
        };
        let active = self.database.files(newest.number)?;
        for number in self.database.deployments_before(newest.number)? {
            let files = self.database.files(number)?;
            if files != active {
                return self.parse_files(&files).map(Some);
            }
        }
        Ok(None)
    }

    /// Copies the flow files beside, as `flows.set-aside-REVISION.json`, and records it in the
    /// history.
    pub(super) fn set_aside_active(&mut self, rev: &str) -> Result<(), Error> {
        let files = self.read_files()?;
        for (name, content) in [(FLOWS, files.flows), (CREDENTIALS, files.credentials)] {
            if let (Some(content), Some(stem)) = (content, name.strip_suffix(".json")) {
                self.directory
                    .set_aside(&format!("{stem}.set-aside-{rev}.json"), &content)?;
            }
        }
        self.database.mark_set_aside(rev)?;
        self.database.save_fact(SET_ASIDE, rev)
    }

    /// The revision set aside, if the active flow set is the one that was started instead.
    pub(super) fn fallen_back(&self) -> Result<Option<String>, Error> {
        match self.database.newest_deployment()? {
            Some(newest) if newest.kind == FALLBACK => self.database.fact(SET_ASIDE),
            _ => Ok(None),
        }
    }
}
