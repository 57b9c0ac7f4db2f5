//! Selects the files to remove, and sums up all that rotation has removed.

use super::files;
use super::record::{Read, rfc3339};
use crate::config;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// All records that rotation has removed, since the first file of the log. Each file begins with
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Removed {
    /// The number of the first.
    pub(super) from: u64,
    /// The number of the last.
    pub(super) to: u64,
    /// The time of the first; empty: an older version did not record it.
    pub(super) since: String,
    /// The time of the last.
    pub(super) until: String,
}

/// A file that may be removed.
struct Old {
    first: u64,
    last: u64,
    since: String,
    until: String,
}

/// The files that one rotation removes.
pub(super) struct Removal {
    /// The files, oldest first.
    pub(super) paths: Vec<PathBuf>,
    /// The account after that.
    pub(super) account: Option<Removed>,
}

impl Removed {
    /// From the first line of a file; `None`: nothing was removed.
    pub(super) fn of(read: &Read) -> Option<Self> {
        (read.removed_to > 0).then(|| Self {
            // Files of an older version name the last one only.
            from: read.removed_from.max(1),
            to: read.removed_to,
            since: read.removed_since.clone(),
            until: read.removed_until.clone(),
        })
    }

    /// Reads the summary from the newest file that has one.
    pub(super) fn find(directory: &Path) -> io::Result<Option<Self>> {
        for path in files::all(directory)?.iter().rev() {
            let removed = files::first_line(path)?.as_ref().and_then(Self::of);
            if removed.is_some() {
                return Ok(removed);
            }
        }
        Ok(None)
    }

    /// Its fields of a line.
    pub(super) fn add_to(&self, fields: &mut Value) {
        fields["removed_from"] = self.from.into();
        fields["removed_to"] = self.to.into();
        fields["removed_since"] = json!(self.since);
        fields["removed_until"] = json!(self.until);
    }
}

/// The size of the log at some time.
pub(super) struct Usage {
    /// Bytes of all its files.
    pub bytes: u64,
    /// Seconds since 1970.
    pub now: u64,
    /// The number of the last record that every sink has taken.
    pub taken: u64,
}

/// Chooses the files to be removed now: those beyond `keep` and, while the log is nearly full,
/// others; never one with a record younger than `keep_for` or not taken by a sink, or whose end
/// cannot be read.
pub(super) fn choose(
    directory: &Path,
    limits: &config::Audit,
    before: Option<&Removed>,
    Usage { bytes, now, taken }: Usage,
) -> io::Result<Removal> {
    let all = files::rotated(directory)?;
    let mut removal = Removal {
        paths: Vec::new(),
        account: before.cloned(),
    };
    let mut left = all.len();
    let mut size = bytes;
    for (at, (first, path)) in all.iter().enumerate() {
        let wanted = left > limits.keep || size >= nearly(limits.max_size);
        // A file's records are older than the first one of the file that follows it.
        let following = match all.get(at + 1) {
            Some((_, path)) => files::beginning(path)?.and_then(|beginning| beginning.time),
            None => Some(now),
        };
        let young = |time| now.saturating_sub(time) < limits.keep_for.as_secs();
        if !wanted || following.is_none_or(young) {
            break;
        }
        let Some(old) = Old::read(*first, path)? else {
            break;
        };
        if old.last > taken {
            break;
        }
        (left, size) = (left - 1, size.saturating_sub(fs::metadata(path)?.len()));
        removal.account = Some(old.added_to(removal.account));
        removal.paths.push(path.clone());
    }
    Ok(removal)
}

/// Bytes at which a log of that size is nearly full.
pub(super) fn nearly(max_size: u64) -> u64 {
    max_size / 5 * 4
}

/// Bytes after which only the reserve of a log of that size is left.
pub(super) fn reserve(max_size: u64) -> u64 {
    max_size / 10 * 9
}

impl Old {
    /// `None`: it does not end with a record.
    fn read(first: u64, path: &Path) -> io::Result<Option<Self>> {
        let time = |time: Option<u64>| time.map_or_else(String::new, rfc3339);
        let since = files::beginning(path)?.and_then(|beginning| beginning.time);
        let ending = files::ending(path)?;
        Ok(ending.last.map(|last| Self {
            first,
            last: last.seq,
            since: time(since),
            until: time(ending.time),
        }))
    }

    /// The account with this file. Records that something else has removed before it are not in it:
    /// they stay missing.
    fn added_to(self, account: Option<Removed>) -> Removed {
        match account {
            // Removal was recorded before, and then interrupted.
            Some(account) if self.first <= account.to + 1 && self.last <= account.to => account,
            Some(account) if self.first <= account.to + 1 => Removed {
                to: self.last,
                until: self.until,
                ..account
            },
            _ => Removed {
                from: self.first,
                to: self.last,
                since: self.since,
                until: self.until,
            },
        }
    }
}
