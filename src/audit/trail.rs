//! The log as it is written: one line after the other, each with the hash of the one before, in files that are changed
//! for new ones when they are large or old; or on standard output.
//!
//! What a crash or somebody else has done to the files is noticed when they are opened, and written down. Nothing is
//! ever thrown away but the oldest files. Never used by two threads.

use super::line::{Entry, Link};
use super::{Actor, Event, files};
use crate::config;
use crate::store::step;
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The log.
pub(super) struct Trail {
    config: config::Audit,
    directory: PathBuf,
    out: Out,
    head: File,
    last: Link,
    /// What was written in `last` is surely on disk.
    synced: bool,
}

enum Out {
    File(Current),
    Stdout,
}

/// The file that is written.
struct Current {
    file: File,
    length: u64,
    /// The number of its first line; `None`: it has none yet.
    first: Option<u64>,
    /// When its first line was written.
    since: u64,
    /// Behind `length` may stand a part of a line that could not be written.
    torn: bool,
}

impl Trail {
    /// Opens the log where it ends, repairs that end and writes down that it did.
    pub(super) fn open(config: &config::Audit, directory: &Path, now: u64) -> io::Result<Self> {
        let head = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(directory.join(files::HEAD))?;
        let known = files::head(directory)?;
        let (out, last, repairs) = if config.stdout {
            (Out::Stdout, known.unwrap_or(Link::START), Vec::new())
        } else {
            let (current, last, repairs) = find_end(directory, known, now)?;
            (Out::File(current), last, repairs)
        };
        let mut trail = Self {
            config: config.clone(),
            directory: directory.to_owned(),
            out,
            head,
            last,
            synced: true,
        };
        for facts in repairs {
            tracing::warn!(%facts, "the audit log was not as it should be; it is continued");
            trail.write(&entry(Event::Repaired, facts, now))?;
        }
        trail.sync()?;
        Ok(trail)
    }

    /// Writes one line. After an error the log is as before.
    pub(super) fn append(&mut self, entry: &Entry) -> io::Result<()> {
        if let Some(first) = self.is_full(entry.now)
            && let Err(error) = self.rotate(first, entry.now)
        {
            // A file that is too large is better than no line.
            tracing::error!(%error, "the audit log cannot be continued in a new file");
        }
        self.write(entry)
    }

    /// Makes all lines durable. Only then they are counted as written in `audit.head`: a power failure never lets it
    /// tell of lines that are not there.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.synced {
            return Ok(());
        }
        match &mut self.out {
            Out::File(current) => {
                step();
                current.file.sync_data()?;
            }
            Out::Stdout => io::stdout().flush()?,
        }
        let head = files::head_text(&self.last);
        self.head.write_all_at(head.as_bytes(), 0)?;
        self.synced = true;
        Ok(())
    }

    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let line = self.last.next(entry);
        let written = Link::after(self.last.seq + 1, line.as_bytes());
        let line = format!("{line}\n");
        step();
        match &mut self.out {
            Out::File(current) => current.write(line.as_bytes())?,
            Out::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(line.as_bytes())?;
                stdout.flush()?;
            }
        }
        if let Out::File(current) = &mut self.out
            && current.first.is_none()
        {
            (current.first, current.since) = (Some(written.seq), entry.now);
        }
        self.last = written;
        self.synced = false;
        Ok(())
    }

    /// The number of the file's first line, if the file is large or old enough.
    fn is_full(&self, now: u64) -> Option<u64> {
        let Out::File(current) = &self.out else {
            return None;
        };
        let old = now.saturating_sub(current.since) >= self.config.rotate_age.as_secs();
        let large = current.length >= self.config.rotate_size;
        current.first.filter(|_| old || large)
    }

    /// Goes on in a new file, whose first line tells which was before and what was removed.
    fn rotate(&mut self, first: u64, now: u64) -> io::Result<()> {
        self.sync()?;
        let name = files::rotated_name(first);
        let current = self.directory.join(files::CURRENT);
        let before = self.directory.join(&name);
        if before.exists() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, name));
        }
        step();
        fs::rename(&current, &before)?;
        step();
        self.out = Out::File(Current::open(&current)?);
        sync_directory(&self.directory)?;

        // Told before it is done: what is gone without a word of it counts as missing.
        let files = files::rotated(&self.directory)?;
        let (old, kept) = files.split_at(files.len().saturating_sub(self.config.keep));
        let next = kept.first().map_or(self.last.seq + 1, |(first, _)| *first);
        let facts = if old.is_empty() {
            json!({ "before": name })
        } else {
            json!({ "before": name, "removed_to": next.saturating_sub(1) })
        };
        self.write(&entry(Event::Rotated, facts, now))?;
        self.sync()?;
        for (_, path) in old {
            step();
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

impl Current {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            file,
            length,
            first: None,
            since: 0,
            torn: false,
        })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.length)?;
            self.torn = false;
        }
        if let Err(error) = self.file.write_all(line) {
            // What a full disk took of the line is no line: the next one must not stand behind it.
            self.torn = self.file.set_len(self.length).is_err();
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }
}

/// Where the log ends, and what must be written down about that.
fn find_end(
    directory: &Path,
    known: Option<Link>,
    now: u64,
) -> io::Result<(Current, Link, Vec<Value>)> {
    let mut repairs = Vec::new();
    let path = directory.join(files::CURRENT);
    let mut last = None;
    if path.exists() {
        let ending = files::ending(&path)?;
        if ending.whole > 0 && ending.last.is_none() {
            let kept = set_aside(&path, now)?;
            repairs.push(json!({ "reason": "its last line is none of the log", "kept": kept }));
        } else {
            last = ending.last;
            if !ending.torn.is_empty() {
                let kept = keep_torn(&path, &ending, now)?;
                let bytes = ending.torn.len();
                repairs
                    .push(json!({ "reason": "a half-written line", "bytes": bytes, "kept": kept }));
            }
        }
    }
    if last.is_none() {
        // Right after a change of files, or without the newest one.
        let before = files::rotated(directory)?.pop();
        let ending = before.map(|(_, path)| files::ending(&path)).transpose()?;
        last = ending.and_then(|ending| ending.last);
    }
    let found = last.unwrap_or(Link::START);
    let last = match known {
        Some(known) if known.seq > found.seq => {
            let missing = known.seq - found.seq;
            repairs.push(json!({ "reason": "lines are missing", "lines": missing }));
            known
        }
        Some(known) if known.seq == found.seq && known.hash != found.hash => {
            repairs.push(json!({ "reason": "the last line was changed", "line": found.seq }));
            known
        }
        Some(_) | None => found,
    };
    let mut current = Current::open(&path)?;
    if let Some(beginning) = files::beginning(&path)? {
        (current.first, current.since) = (Some(beginning.seq), beginning.time);
    }
    Ok((current, last, repairs))
}

/// Moves a file away that nobody can continue; gives its new name.
fn set_aside(path: &Path, now: u64) -> io::Result<String> {
    let name = format!("{}.damaged-{now}", files::CURRENT);
    fs::rename(path, path.with_file_name(&name))?;
    Ok(name)
}

/// Moves the half-written line at a file's end into a file of its own; gives that one's name.
fn keep_torn(path: &Path, ending: &files::Ending, now: u64) -> io::Result<String> {
    let name = format!("{}.torn-{now}", files::CURRENT);
    let mut kept = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path.with_file_name(&name))?;
    kept.write_all(&ending.torn)?;
    kept.sync_all()?;
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(ending.whole)?;
    file.sync_all()?;
    Ok(name)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    // The working directory is the empty path.
    let path = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    File::open(path)?.sync_all()
}

/// What the log tells of itself.
fn entry(event: Event, facts: Value, now: u64) -> Entry {
    Entry {
        event,
        actor: Actor::program(),
        now,
        facts,
    }
}
