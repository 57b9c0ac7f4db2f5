//! The log as it is written: one line after the other, each with the hash of the one before, in
//! files that are changed for new ones when they are large or old; or on standard output.
//!
//! Damage done to the files by a crash or another program is detected on opening, and recorded.
//! Nothing is ever removed but the oldest files, as [`rotation`] chooses them. Never used by two
//! threads.

use super::anchor::{self, Anchor};
use super::checkpoint::Signer;
use super::follow::Followers;
use super::health::Health;
use super::record::{ChainHash, Entry};
use super::rotation::{self, Removal, Removed, Usage};
use super::{Event, files};
use crate::config;
use crate::store::step;
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// The log.
pub(super) struct Log {
    config: config::Audit,
    directory: PathBuf,
    out: Out,
    head: File,
    last: ChainHash,
    /// True if all lines up to `last` are durable.
    synced: bool,
    /// Bytes of the files before the one that is written.
    rotated: u64,
    /// The records that rotation has removed so far.
    removed: Option<Removed>,
    /// When it was last seen that nothing may be removed while the log is full.
    full_at: Option<u64>,
    signer: Option<Signer>,
    /// The sinks, whose records are not removed.
    followers: Followers,
    /// The number of the last line that is durable.
    durable: watch::Sender<u64>,
    /// That line.
    end: watch::Sender<ChainHash>,
    /// The identity of the log.
    id: String,
    /// True if the log was cut or changed while the gateway did not run.
    damaged: bool,
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

impl Log {
    /// Opens the log where it ends, repairs that end and writes down that it did. `anchor` is a
    /// line that it must have.
    pub(super) fn open(
        config: &config::Audit,
        directory: &Path,
        anchor: Option<&Anchor>,
        now: u64,
    ) -> io::Result<Self> {
        let mut repairs = Vec::new();
        let known = anchor::known_end(directory, anchor, &mut repairs)?;
        let id = anchor::identity(directory, anchor)?;
        let head = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(directory.join(files::HEAD))?;
        let (out, last) = if config.stdout {
            (Out::Stdout, known.unwrap_or(ChainHash::START))
        } else {
            let (current, last) = find_end(directory, known, &mut repairs, now)?;
            if let Some(anchor) = anchor.filter(|anchor| anchor.line.seq < last.seq) {
                repairs.extend(anchor.fault(directory)?);
            }
            (Out::File(current), last)
        };
        let signer = config.signing_key.as_ref();
        let signer = signer.map(|path| Signer::open(path, config.checkpoint, last.seq, &id));
        let mut trail = Self {
            signer: signer.transpose().map_err(io::Error::other)?,
            config: config.clone(),
            directory: directory.to_owned(),
            out,
            head,
            last,
            synced: true,
            rotated: 0,
            removed: None,
            full_at: None,
            followers: Followers::open(config, directory, &id),
            durable: watch::Sender::new(last.seq),
            end: watch::Sender::new(last),
            id,
            damaged: repairs.iter().any(|facts| facts["reason"] != HALF_WRITTEN),
        };
        if !config.stdout {
            trail.rotated = rotated_size(directory)?;
            trail.removed = Removed::find(directory)?;
        }
        for facts in repairs {
            tracing::warn!(%facts, "the audit log was not as it should be; it is continued");
            trail.write(&Entry::of_program(Event::Repaired, facts, now))?;
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
        self.make_room(entry)?;
        self.write(entry)?;
        self.checkpoint_if_due(entry.now);
        Ok(())
    }

    /// Signs the lines that wait for it, if they have waited for long enough; false: nothing was
    /// written.
    pub(super) fn checkpoint_if_due(&mut self, now: u64) -> bool {
        let last = self.last.seq;
        let signer = self.signer.as_ref();
        signer.is_some_and(|signer| signer.is_due(last, now)) && self.checkpoint(now)
    }

    /// Signs the lines that wait for it; false: nothing was written. A failure is logged, and the
    /// next record tries again.
    pub(super) fn checkpoint(&mut self, now: u64) -> bool {
        let signer = self.signer.as_ref().filter(|signer| signer.is_behind());
        let Some(entry) = signer.map(|signer| signer.entry(now)) else {
            return false;
        };
        let written = self.write(&entry);
        if let Err(error) = &written {
            tracing::error!(%error, "a checkpoint of the audit log cannot be written");
        }
        written.is_ok()
    }

    /// The sinks.
    pub(super) fn followers(&self) -> &Followers {
        &self.followers
    }

    /// The number of the last line that is durable, each time it changes.
    pub(super) fn durable_lines(&self) -> watch::Receiver<u64> {
        self.durable.subscribe()
    }

    /// The last line that is durable, each time it changes.
    pub(super) fn end(&self) -> watch::Receiver<ChainHash> {
        self.end.subscribe()
    }

    /// The identity of the log.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns whether the log was cut or changed while the gateway did not run.
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Bytes of all files, and how many they may have.
    pub(super) fn size(&self) -> (u64, u64) {
        let current = match &self.out {
            Out::File(current) => current.length,
            Out::Stdout => 0,
        };
        (self.rotated + current, self.config.max_size)
    }

    /// Whether the log fills up.
    pub(super) fn health(&self) -> Health {
        match self.size() {
            (used, max) if used >= max => Health::Full,
            (used, max) if used >= rotation::reserve(max) => Health::Reserve,
            (used, max) if used >= rotation::nearly(max) => Health::Filling,
            _ => Health::Well,
        }
    }

    /// Makes all lines durable. Only then does `audit.head` count them: after a power failure it
    /// never includes lines that are missing.
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
        self.end.send_replace(self.last);
        self.durable.send_replace(self.last.seq);
        Ok(())
    }

    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = self.last.next(entry);
        if let Some(signer) = self
            .signer
            .as_ref()
            .filter(|_| entry.event == Event::Checkpoint)
        {
            line = signer.sign(&line);
        }
        let written = ChainHash::after(self.last.seq + 1, line.as_bytes());
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
        if let Some(signer) = &mut self.signer {
            signer.written(entry.event, written.seq, entry.now);
        }
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

    /// Room for one more record: in a full log the program's own records are written, and others
    /// once files have become old enough to be removed.
    fn make_room(&mut self, entry: &Entry) -> io::Result<()> {
        if self.health() != Health::Full {
            self.full_at = None;
            return Ok(());
        }
        if self.full_at != Some(entry.now) {
            let first = self.full_at.replace(entry.now).is_none();
            let removable = !self.removal(entry.now)?.paths.is_empty();
            if removable && let Some(first) = self.first() {
                self.rotate(first, entry.now)?;
            }
            if self.health() != Health::Full {
                self.full_at = None;
                return Ok(());
            }
            if first {
                let facts = json!({ "bytes": self.size().0, "max_size": self.config.max_size });
                self.write(&Entry::of_program(Event::Full, facts, entry.now))?;
            }
        }
        if entry.event.is_of_process() {
            return Ok(());
        }
        Err(io::Error::new(
            ErrorKind::StorageFull,
            "audit.max_size is reached, and no file is older than audit.keep_for, or a sink has not taken it",
        ))
    }

    /// The number of the first line of the file that is written, if it has one.
    fn first(&self) -> Option<u64> {
        match &self.out {
            Out::File(current) => current.first,
            Out::Stdout => None,
        }
    }

    /// The removal that a rotation would do now.
    fn removal(&self, now: u64) -> io::Result<Removal> {
        let usage = Usage {
            bytes: self.size().0,
            now,
            taken: self.followers.taken(self.config.refuse),
        };
        rotation::choose(&self.directory, &self.config, self.removed.as_ref(), usage)
    }

    /// Continues in a new file, whose first line names the file before and the records removed.
    fn rotate(&mut self, first: u64, now: u64) -> io::Result<()> {
        self.checkpoint(now);
        self.sync()?;
        let name = files::rotated_name(first);
        let current = self.directory.join(files::CURRENT);
        let before = self.directory.join(&name);
        if before.exists() {
            return Err(io::Error::new(ErrorKind::AlreadyExists, name));
        }
        step();
        fs::rename(&current, &before)?;
        step();
        self.out = Out::File(Current::open(&current)?);
        self.rotated = rotated_size(&self.directory)?;
        sync_directory(&self.directory)?;

        // Recorded before it is done: files removed without a record count as missing.
        let removal = self.removal(now)?;
        let mut facts = json!({ "before": name });
        if let Some(account) = &removal.account {
            account.add_to(&mut facts);
        }
        self.write(&Entry::of_program(Event::Rotated, facts, now))?;
        self.sync()?;
        self.removed = removal.account;
        for path in removal.paths {
            step();
            fs::remove_file(path)?;
        }
        self.rotated = rotated_size(&self.directory)?;
        Ok(())
    }
}

/// Bytes of the files before the one that is written.
fn rotated_size(directory: &Path) -> io::Result<u64> {
    let files = files::rotated(directory)?;
    let sizes = files.iter().map(|(_, path)| Ok(fs::metadata(path)?.len()));
    sizes.sum()
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
            // A part written before the disk was full is cut off: the next line must not follow it.
            self.torn = self.file.set_len(self.length).is_err();
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }
}

/// The reason of the only repair that a crash makes necessary.
const HALF_WRITTEN: &str = "a half-written line";

/// Finds the end of the log, and adds the repairs to record.
fn find_end(
    directory: &Path,
    known: Option<ChainHash>,
    repairs: &mut Vec<Value>,
    now: u64,
) -> io::Result<(Current, ChainHash)> {
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
                repairs.push(json!({ "reason": HALF_WRITTEN, "bytes": bytes, "kept": kept }));
            }
        }
    }
    if last.is_none() {
        // Right after a change of files, or without the newest one.
        let before = files::rotated(directory)?.pop();
        let ending = before.map(|(_, path)| files::ending(&path)).transpose()?;
        last = ending.and_then(|ending| ending.last);
    }
    let found = last.unwrap_or(ChainHash::START);
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
        (current.first, current.since) = (Some(beginning.seq), beginning.time.unwrap_or(0));
    }
    Ok((current, last))
}

/// Renames a file that the log cannot continue; returns the new name.
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
