//! Verifies the chain of the log part by part: each call goes on at the record where the one before
//! ended, so that its time and memory are limited. [`verify`](super::super::verify()) does the same
//! at once, with signatures.

use super::{Lines, LogFile, LogFiles, find};
use crate::audit::record::{ChainHash, Read, unhex};
use crate::audit::rotation::Removed;
use crate::audit::{Event, files};
use std::io;
use std::path::Path;

/// Bytes of a part. Our choice: some 30,000 records, a fraction of a second.
const MAX_BYTES: usize = 8 << 20;

/// A part of the chain.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ChainPart {
    /// The number of its first record; 0: the log has none.
    pub from: u64,
    /// The number of its last record up to which the chain is intact.
    pub to: u64,
    /// The time of that record, as RFC 3339 writes it.
    pub time: String,
    /// The next part begins with this record; `None`: this was the last part.
    pub next: Option<u64>,
    /// The number of records at which the log was repaired when it was opened.
    pub repairs: u64,
    /// The number of the last checkpoint in it; its signature is not verified.
    pub checkpoint: Option<u64>,
    /// Records that rotation has removed before the first one.
    pub removed: u64,
    /// The first fault.
    pub fault: Option<ChainFault>,
}

/// A fault of the chain; it is behind the last record of its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// A line is none of the log.
    #[error("after number {0}, a line was changed: it is none of the log")]
    Unreadable(u64),
    /// A line does not have the hash of the one before.
    #[error("number {0} or the line before it was changed")]
    Changed(u64),
    /// Lines are missing, or are in another order.
    #[error("numbers {0} to {1} are missing, or out of order")]
    Missing(u64, u64),
    /// `audit.head` is missing or damaged.
    #[error(
        "audit.head is missing or damaged, so it is unknown whether lines are missing at the end"
    )]
    Head,
}

impl LogFiles {
    /// Verifies the part that begins with this record; 0: with the oldest. An error: a file cannot
    /// be read.
    pub fn verify_part(&self, from: u64) -> io::Result<ChainPart> {
        // Before the lines: those that are written meanwhile come after it.
        let head = files::head(&self.directory)?;
        let mut part = Part::new(head);
        for file in self.files_since(from)? {
            let Some((file, length)) = file.open()? else {
                continue;
            };
            let begin = match part.last {
                None => find(&file, length, from)?,
                Some(_) => 0,
            };
            let mut lines = Lines::new(&file, begin, length)?;
            while let Some((_, line)) = lines.next()? {
                if part.last.is_none() {
                    part.begins(line, from, &self.directory)?;
                }
                if !part.follows(line) || part.is_full() {
                    return Ok(part.found);
                }
            }
        }
        Ok(part.end())
    }

    /// The files from the one with this record on.
    fn files_since(&self, from: u64) -> io::Result<impl Iterator<Item = LogFile>> {
        let list = self.list()?;
        let first = list.iter().rposition(|file| file.first <= from);
        Ok(list.into_iter().skip(first.unwrap_or(0)))
    }
}

struct Part {
    head: Option<ChainHash>,
    last: Option<ChainHash>,
    bytes: usize,
    found: ChainPart,
}

impl Part {
    fn new(head: Option<ChainHash>) -> Self {
        Self {
            head,
            last: None,
            bytes: 0,
            found: ChainPart::default(),
        }
    }

    /// Checks the first record: unless it is the one to begin with, it is the oldest, and rotation
    /// must have removed those before it.
    fn begins(&mut self, line: &[u8], from: u64, directory: &Path) -> io::Result<()> {
        let Some(read) = Read::parse(line).filter(|read| read.seq != from) else {
            return Ok(());
        };
        if read.seq == 1 {
            self.last = Some(ChainHash::START);
            return Ok(());
        }
        let gone = read.seq.saturating_sub(1);
        let removed = Removed::find(directory)?.filter(|removed| removed.from == 1);
        let known = removed.map_or(0, |removed| removed.to);
        if known < gone {
            self.found.fault = Some(ChainFault::Missing(known + 1, gone));
        } else {
            self.found.removed = gone;
        }
        Ok(())
    }

    /// Checks the next line; false: there is a fault.
    fn follows(&mut self, line: &[u8]) -> bool {
        if self.found.fault.is_some() {
            return false;
        }
        let before = self.last;
        let number = before.map_or(0, |before| before.seq);
        let read = Read::parse(line).and_then(|read| Some((unhex(&read.prev)?, read)));
        let Some((prev, read)) = read else {
            self.found.fault = Some(ChainFault::Unreadable(number));
            return false;
        };
        let this = ChainHash::after(read.seq, line);
        let fault = match before {
            Some(before) if read.seq != before.seq + 1 => {
                let last = read.seq.saturating_sub(1).max(before.seq + 1);
                Some(ChainFault::Missing(before.seq + 1, last))
            }
            Some(before) if prev != before.hash => Some(ChainFault::Changed(read.seq)),
            _ if self
                .head
                .is_some_and(|head| head.seq == this.seq && head.hash != this.hash) =>
            {
                Some(ChainFault::Changed(read.seq))
            }
            _ => None,
        };
        if fault.is_some() {
            self.found.fault = fault;
            return false;
        }
        self.take(this, &read);
        self.bytes += line.len();
        true
    }

    fn take(&mut self, this: ChainHash, read: &Read) {
        if self.found.from == 0 {
            self.found.from = this.seq;
        }
        self.found.to = this.seq;
        self.found.time.clone_from(&read.time);
        self.found.repairs += u64::from(read.event == Event::Repaired.name());
        if read.event == Event::Checkpoint.name() {
            self.found.checkpoint = Some(this.seq);
        }
        self.last = Some(this);
    }

    /// Returns whether the part ends here; the next one begins with its last record, so that the
    /// link between them is verified.
    fn is_full(&mut self) -> bool {
        let is_full = self.bytes >= MAX_BYTES;
        if is_full {
            self.found.next = Some(self.found.to);
        }
        is_full
    }

    /// After the last line: `audit.head` must not name a later one.
    fn end(mut self) -> ChainPart {
        let last = self.found.to;
        self.found.fault = match self.head {
            _ if self.found.fault.is_some() => self.found.fault,
            None => Some(ChainFault::Head),
            Some(head) if head.seq > last => Some(ChainFault::Missing(last + 1, head.seq)),
            Some(_) => None,
        };
        self.found
    }
}
