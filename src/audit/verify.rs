//! Whether the log is as it was written: every line there, in its place, unchanged.
//!
//! Reads only, so it may run beside the gateway. It detects accidental damage, and tampering that
//! does not also rewrite `audit.head` and all lines after the change. With the public key of the
//! gateway it also detects that, as far as checkpoints reach; lines cut off at the end only a copy
//! on another machine shows.

use super::anchor::Anchor;
use super::checkpoint::Seal;
use super::record::{ChainHash, Read, unhex};
use super::{Event, files, rotation};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A log whose chain is intact.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of lines.
    pub lines: u64,
    /// The lines at which the log was repaired when it was opened.
    pub repairs: Vec<LineRef>,
    /// The records before the first line that rotation has removed.
    pub removed: Option<Removed>,
    /// What the signatures vouch for; `None`: they were not verified.
    pub signed: Option<Signed>,
}

/// The checkpoints of a log, all of them valid.
#[derive(Debug, Default)]
pub struct Signed {
    /// How many there are.
    pub checkpoints: u64,
    /// The number of the last one.
    pub last: u64,
    /// When that was written.
    pub time: String,
    /// The machine that wrote it.
    pub gateway: String,
    /// The lines after it, which the next one will sign.
    pub waiting: u64,
    /// The identity of the log; empty: an older version wrote the checkpoints.
    pub log: String,
}

/// Records that rotation has removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The number of the last one; the first has number 1.
    pub to: u64,
    /// When the first one was written; empty: an older version did not record it.
    pub since: String,
    /// When the last one was written; empty: as before.
    pub until: String,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRef {
    /// The file.
    pub file: Arc<Path>,
    /// The line in it, from 1.
    pub line: u64,
}

/// The first thing that is wrong.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A file cannot be read.
    #[error("{}: {source}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing to verify.
    #[error("{}: there is no audit log here", .0.display())]
    Nothing(PathBuf),
    /// A line is not what it was.
    #[error("{0}: this line was changed")]
    Changed(LineRef),
    /// A line ends before its end.
    #[error("{0}: this line is truncated")]
    Truncated(LineRef),
    /// A line stands where another should.
    #[error("{position}: this line is out of order: it is number {seq}, and {expected} comes here")]
    Reordered {
        /// Its position.
        position: LineRef,
        /// Its number.
        seq: u64,
        /// The number that comes there.
        expected: u64,
    },
    /// Lines are gone before a line.
    #[error("{position}: before this line are missing: numbers {from} to {to}")]
    Missing {
        /// The line.
        position: LineRef,
        /// The first that is gone.
        from: u64,
        /// The last that is gone.
        to: u64,
    },
    /// Lines are gone at the end.
    #[error("{position}: after this line are missing: numbers {from} to {to}")]
    End {
        /// The last line there is.
        position: LineRef,
        /// The first that is gone.
        from: u64,
        /// The last that is gone.
        to: u64,
    },
    /// A checkpoint of another key.
    #[error("{position}: this checkpoint is signed with another key, {key:?}")]
    UnknownKey {
        /// The line.
        position: LineRef,
        /// The name of the key.
        key: String,
    },
    /// A checkpoint whose signature does not fit.
    #[error(
        "{0}: the signature of this checkpoint is not valid: lines up to it were changed, or it was moved"
    )]
    Signature(LineRef),
    /// A checkpoint of another log.
    #[error("{0}: this checkpoint is of another log than those before it, which has begun again")]
    OtherLog(LineRef),
    /// Lines that nothing vouches for.
    #[error(
        "{position}: the numbers {from} to {to} are not signed: they are older than the key, the gateway was killed before it \
         signed them, or another program has written them; compare them with a copy (--seen), or accept them \
         (--accept {from}-{to})"
    )]
    Unsigned {
        /// The first of them.
        position: LineRef,
        /// Its number.
        from: u64,
        /// The number of the last one.
        to: u64,
    },
    /// A line is not as it was received elsewhere.
    #[error("{position}: this line is not as it was received elsewhere, see {seen}")]
    Differs {
        /// The line.
        position: LineRef,
        /// The line that was received.
        seen: LineRef,
    },
    /// A line that was received elsewhere is not in the log.
    #[error("{seen}: number {seq} was received elsewhere, and is missing at the end of the log")]
    Cut {
        /// The line that was received.
        seen: LineRef,
        /// Its number.
        seq: u64,
    },
    /// Lines missing at the end could not be detected.
    #[error("{}: missing or damaged, so it is unknown whether lines are missing at the end", .0.display())]
    Head(PathBuf),
}

/// Verifies the whole log of a data directory, with its beginning and its end.
pub fn verify(directory: &Path) -> Result<Report, VerifyError> {
    verify_anchored(directory, None)
}

/// Verifies the whole log of a data directory; the line that is kept next to it must be there.
pub fn verify_anchored(directory: &Path, anchor: Option<&Anchor>) -> Result<Report, VerifyError> {
    whole(directory, anchor).map(|(_, report)| report)
}

pub(super) fn whole(
    directory: &Path,
    anchor: Option<&Anchor>,
) -> Result<(Vec<Line>, Report), VerifyError> {
    let unreadable = |source| VerifyError::Unreadable {
        file: directory.to_owned(),
        source,
    };
    // Before the lines: those that are written meanwhile come after it.
    let head = files::head(directory).map_err(unreadable)?;
    let paths = files::all(directory).map_err(unreadable)?;
    if paths.is_empty() && head.is_none() && anchor.is_none() {
        return Err(VerifyError::Nothing(directory.to_owned()));
    }
    let lines = lines(&paths)?;
    if let Some(anchor) = anchor {
        has_line(&lines, anchor.line, directory)?;
    }
    let Some(head) = head else {
        return Err(VerifyError::Head(directory.join(files::HEAD)));
    };
    let mut report = chain(&lines, Some(head))?;
    report.removed = begins(&lines)?;
    match lines.last() {
        Some(last) if last.link.seq >= head.seq => Ok((lines, report)),
        None if head.seq == 0 => Ok((lines, report)),
        last => Err(VerifyError::End {
            position: last.map_or_else(
                || LineRef::beginning_of(directory),
                |last| last.position.clone(),
            ),
            from: last.map_or(0, |last| last.link.seq) + 1,
            to: head.seq,
        }),
    }
}

/// Checks that a whole log has the line that is kept next to it, unless rotation has removed that.
fn has_line(lines: &[Line], kept: ChainHash, directory: &Path) -> Result<(), VerifyError> {
    let last = lines.last();
    match lines.iter().rfind(|line| line.link.seq == kept.seq) {
        Some(line) if line.link == kept => Ok(()),
        Some(line) => Err(VerifyError::Changed(line.position.clone())),
        None if last.map_or(0, |last| last.link.seq) < kept.seq => Err(VerifyError::End {
            position: last.map_or_else(
                || LineRef::beginning_of(directory),
                |last| last.position.clone(),
            ),
            from: last.map_or(0, |last| last.link.seq) + 1,
            to: kept.seq,
        }),
        None => Ok(()),
    }
}

/// Verifies some files of a log, oldest first, by themselves: lines before and after them are not
/// checked.
pub fn verify_files(paths: &[PathBuf]) -> Result<Report, VerifyError> {
    part(paths).map(|(_, report)| report)
}

pub(super) fn part(paths: &[PathBuf]) -> Result<(Vec<Line>, Report), VerifyError> {
    let lines = lines(paths)?;
    let mut report = chain(&lines, None)?;
    report.removed = begins(&lines).unwrap_or_default();
    Ok((lines, report))
}

/// The parts of a line that are kept.
pub(super) struct Line {
    pub(super) position: LineRef,
    pub(super) link: ChainHash,
    prev: [u8; 32],
    repair: bool,
    /// The signature of a checkpoint.
    pub(super) seal: Option<Box<Seal>>,
    /// The records that rotation had removed when it began this file.
    removed: Option<Box<rotation::Removed>>,
}

pub(super) fn lines(paths: &[PathBuf]) -> Result<Vec<Line>, VerifyError> {
    // All are opened first: the gateway may give them other names meanwhile.
    let open = |path: &PathBuf| {
        let file = File::open(path).map_err(|source| VerifyError::Unreadable {
            file: path.clone(),
            source,
        });
        file.map(|file| (Arc::from(path.as_path()), BufReader::new(file)))
    };
    let files: Vec<(Arc<Path>, _)> = paths.iter().map(open).collect::<Result<_, _>>()?;
    let mut lines = Vec::new();
    for (path, mut file) in files {
        for number in 1.. {
            let mut bytes = Vec::new();
            let read = file.read_until(b'\n', &mut bytes);
            let read = read.map_err(|source| VerifyError::Unreadable {
                file: path.to_path_buf(),
                source,
            })?;
            if read == 0 {
                break;
            }
            let position = LineRef {
                file: Arc::clone(&path),
                line: number,
            };
            lines.push(line(position, &bytes)?);
        }
    }
    Ok(lines)
}

fn line(position: LineRef, bytes: &[u8]) -> Result<Line, VerifyError> {
    let Some(bytes) = bytes.strip_suffix(b"\n") else {
        return Err(VerifyError::Truncated(position));
    };
    let read = Read::parse(bytes).and_then(|read| Some((unhex(&read.prev)?, read)));
    let Some((prev, read)) = read else {
        return Err(VerifyError::Changed(position));
    };
    Ok(Line {
        position,
        link: ChainHash::after(read.seq, bytes),
        prev,
        repair: read.event == Event::Repaired.name(),
        seal: (read.event == Event::Checkpoint.name()).then(|| Box::new(Seal::of(&read, bytes))),
        removed: (read.event == Event::Rotated.name())
            .then(|| rotation::Removed::of(&read).map(Box::new))
            .flatten(),
    })
}

/// Whether each line follows the one before; `head` vouches for the last one.
fn chain(lines: &[Line], head: Option<ChainHash>) -> Result<Report, VerifyError> {
    let mut report = Report::default();
    for (at, line) in lines.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| lines.get(at));
        match before {
            Some(before) => follows(lines, at, before)?,
            None if line.link.seq == 1 && line.prev != ChainHash::START.hash => {
                return Err(VerifyError::Changed(line.position.clone()));
            }
            None => {}
        }
        report.lines += 1;
        if line.repair {
            report.repairs.push(line.position.clone());
        }
    }
    let vouched = head.and_then(|head| {
        lines
            .iter()
            .find(|line| line.link.seq == head.seq)
            .zip(Some(head))
    });
    match vouched {
        Some((line, head)) if line.link.hash != head.hash => {
            Err(VerifyError::Changed(line.position.clone()))
        }
        Some(_) | None => Ok(report),
    }
}

/// Whether the line at `at` follows the one before.
fn follows(lines: &[Line], at: usize, before: &Line) -> Result<(), VerifyError> {
    let line = &lines[at];
    let (seq, expected) = (line.link.seq, before.link.seq + 1);
    let position = line.position.clone();
    if seq != expected {
        let elsewhere = lines[at..].iter().any(|line| line.link.seq == expected);
        return Err(if seq < expected || elsewhere {
            VerifyError::Reordered {
                position,
                seq,
                expected,
            }
        } else {
            VerifyError::Missing {
                position,
                from: expected,
                to: seq - 1,
            }
        });
    }
    if line.prev == before.link.hash {
        return Ok(());
    }
    // One of both was changed: not this one, if the next still has its hash.
    let confirmed = lines
        .get(at + 1)
        .is_none_or(|next| next.prev == line.link.hash);
    let changed = if confirmed { before } else { line };
    Err(VerifyError::Changed(changed.position.clone()))
}

/// Returns the records missing before the first line: the gateway itself must have removed them.
fn begins(lines: &[Line]) -> Result<Option<Removed>, VerifyError> {
    let Some(first) = lines.first().filter(|first| first.link.seq > 1) else {
        return Ok(None);
    };
    let accounts = lines.iter().filter_map(|line| line.removed.as_deref());
    let removed = accounts.max_by_key(|removed| removed.to);
    let missing = |from, to| VerifyError::Missing {
        position: first.position.clone(),
        from,
        to,
    };
    let gone = first.link.seq - 1;
    match removed {
        None => Err(missing(1, gone)),
        Some(removed) if removed.from > 1 => Err(missing(1, removed.from - 1)),
        Some(removed) if removed.to < gone => Err(missing(removed.to + 1, gone)),
        Some(removed) => Ok(Some(Removed {
            to: gone,
            since: removed.since.clone(),
            until: removed.until.clone(),
        })),
    }
}

impl LineRef {
    /// The place before the first line of a log.
    fn beginning_of(directory: &Path) -> Self {
        Self {
            file: directory.join(files::CURRENT).into(),
            line: 0,
        }
    }
}

impl fmt::Display for LineRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}
