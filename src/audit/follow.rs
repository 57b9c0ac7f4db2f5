//! Reads the log for a sink from its position on, over all its files; knows nothing of where the
//! records go.
//!
//! The file is the queue: a sink keeps only the number of the last record that it has taken, in
//! `audit.sink.NAME`.

use super::files;
use super::record::Read;
use crate::config;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Records of one batch. Our choice: collectors take such batches at once.
const RECORDS: usize = 500;
/// Bytes of one batch; a record has some hundred. Our choice, below the bodies that collectors and
/// proxies take (1 MiB).
const BYTES: usize = 256 << 10;

/// The position of a sink, which the log and the gateway look at.
#[derive(Debug)]
pub struct Follower {
    /// The sink's name.
    pub name: String,
    /// The file that keeps the position.
    file: PathBuf,
    /// The identity of the log.
    log: String,
    /// The number of the last record that it has taken.
    taken: AtomicU64,
    /// The number of the last record that was sent; one that it has not taken is sent again.
    sent: AtomicU64,
    /// True if it did not take records when they were last sent.
    failing: AtomicBool,
    /// True if it lags by more than it may.
    lagging: AtomicBool,
}

impl Follower {
    /// At the position that is stored; a new sink is at the beginning of the log, and one with the
    /// position of another log, too.
    pub(super) fn open(directory: &Path, name: &str, log: &str) -> Self {
        let file = directory.join(format!("audit.sink.{name}"));
        let text = fs::read_to_string(&file).unwrap_or_default();
        let mut words = text.split_ascii_whitespace();
        let taken = words.next().and_then(|number| number.parse().ok());
        // Older versions kept the number only.
        let is_ours = words.next().is_none_or(|of| of == log);
        let taken = taken.filter(|_| is_ours).unwrap_or(0);
        Self {
            name: name.to_owned(),
            file,
            log: log.to_owned(),
            taken: AtomicU64::new(taken),
            sent: AtomicU64::new(taken),
            failing: AtomicBool::new(false),
            lagging: AtomicBool::new(false),
        }
    }

    /// The number of the last record that the sink has taken; 0: none.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The number of the last record that was sent; 0: none.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sets the number of the last record that was sent.
    pub fn set_sent(&self, seq: u64) {
        self.sent.store(seq, Ordering::Relaxed);
    }

    /// Records up to this one were taken: they are not sent again, also after a restart. A power
    /// failure may undo it; then they are sent twice.
    pub fn keep(&self, seq: u64) -> io::Result<()> {
        self.taken.store(seq, Ordering::Relaxed);
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        // Always as many bytes, so that one write replaces the one before.
        let text = format!("{seq:020} {}\n", self.log);
        options.open(&self.file)?.write_all_at(text.as_bytes(), 0)
    }

    /// Returns whether the sink did not take records when they were last sent.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Sets that; returns what it was.
    pub fn set_failing(&self, failing: bool) -> bool {
        self.failing.swap(failing, Ordering::Relaxed)
    }

    /// Returns whether the sink lags by more than it may.
    pub fn is_lagging(&self) -> bool {
        self.lagging.load(Ordering::Relaxed)
    }

    /// Sets that; returns what it was.
    pub fn set_lagging(&self, lagging: bool) -> bool {
        self.lagging.swap(lagging, Ordering::Relaxed)
    }
}

/// All sinks.
#[derive(Debug, Clone, Default)]
pub(super) struct Followers(Arc<[Arc<Follower>]>);

impl Followers {
    /// Those of the config, at the positions that are stored.
    pub(super) fn open(config: &config::Audit, directory: &Path, log: &str) -> Self {
        let sinks = config.sinks.iter();
        Self(
            sinks
                .map(|sink| Arc::new(Follower::open(directory, &sink.name, log)))
                .collect(),
        )
    }

    /// Each of them, in the order of the config.
    pub(super) fn all(&self) -> &[Arc<Follower>] {
        &self.0
    }

    /// Returns whether one lags by more than it may.
    pub(super) fn lag(&self) -> bool {
        self.0.iter().any(|follower| follower.is_lagging())
    }

    /// The number of the last record that every sink has taken. `refuse`: also those that lag by
    /// more than they may keep their records.
    pub(super) fn taken(&self, refuse: bool) -> u64 {
        let waiting = self.0.iter();
        let waiting = waiting.filter(|follower| refuse || !follower.is_lagging());
        waiting
            .map(|follower| follower.taken())
            .min()
            .unwrap_or(u64::MAX)
    }
}

/// A record as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number.
    pub seq: u64,
    /// The name of its event.
    pub event: String,
    /// When it was written, as RFC 3339 writes it.
    pub time: String,
    /// The whole line, JSON, without line feed.
    pub line: String,
}

/// Records in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The records.
    pub records: Vec<Record>,
    /// How many before and between them are not in the log any more.
    pub missing: u64,
}

/// Reads the log in order.
pub struct Reader {
    directory: PathBuf,
    /// The number of the next record.
    next: u64,
    /// The file that has it, and the offset to read from.
    file: Option<(File, u64)>,
}

impl Reader {
    /// After the last record that the follower has taken.
    pub(super) fn new(directory: &Path, follower: &Follower) -> Self {
        Self {
            directory: directory.to_owned(),
            next: follower.taken() + 1,
            file: None,
        }
    }

    /// The number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Continues after a log that ends before the position: it was replaced by an older one.
    pub fn not_after(&mut self, last: u64) {
        if self.next > last + 1 {
            (self.next, self.file) = (last + 1, None);
        }
    }

    /// The next records up to this number, as many as a batch has.
    pub fn read(&mut self, up_to: u64) -> io::Result<Batch> {
        let mut batch = Batch::default();
        if self.file.is_none() {
            // The newest that begins with it or before, or the oldest there is.
            let all = self.all()?;
            let before = all.iter().rposition(|(first, _)| *first <= self.next);
            self.open(all.into_iter().nth(before.unwrap_or(0)), &mut batch)?;
        }
        while batch.records.is_empty() && self.next <= up_to {
            if self.read_file(up_to, &mut batch)? {
                continue;
            }
            let mut all = self.all()?.into_iter();
            let Some(following) = all.find(|(first, _)| *first >= self.next) else {
                break;
            };
            self.open(Some(following), &mut batch)?;
        }
        Ok(batch)
    }

    /// Continues with this file; records between are missing.
    fn open(&mut self, file: Option<(u64, PathBuf)>, batch: &mut Batch) -> io::Result<()> {
        let Some((first, path)) = file else {
            return Err(io::Error::new(ErrorKind::NotFound, "there is no audit log"));
        };
        self.file = Some((File::open(path)?, 0));
        batch.missing += first.saturating_sub(self.next);
        self.next = self.next.max(first);
        Ok(())
    }

    /// The files, oldest first, with the number of the first record of each.
    fn all(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut all = files::rotated(&self.directory)?;
        let current = self.directory.join(files::CURRENT);
        if current.exists()
            && let Some(beginning) = files::beginning(&current)?
        {
            all.push((beginning.seq, current));
        }
        Ok(all)
    }

    /// Adds records of the open file; false: it has no more.
    fn read_file(&mut self, up_to: u64, batch: &mut Batch) -> io::Result<bool> {
        let Some((file, offset)) = &mut self.file else {
            return Ok(false);
        };
        let mut bytes = vec![0; BYTES];
        let length = read_at(file, &mut bytes, *offset)?;
        let mut any = false;
        for line in bytes[..length].split_inclusive(|byte| *byte == b'\n') {
            let Some(text) = line.strip_suffix(b"\n") else {
                break;
            };
            let read = Read::parse(text);
            let seq = read.as_ref().map_or(self.next, |read| read.seq);
            if seq > up_to || batch.records.len() >= RECORDS {
                break;
            }
            any = true;
            *offset += line.len() as u64;
            let Some(read) = read.filter(|read| read.seq >= self.next) else {
                continue;
            };
            batch.missing += read.seq - self.next;
            self.next = read.seq + 1;
            batch.records.push(Record {
                seq: read.seq,
                event: read.event,
                time: read.time,
                line: String::from_utf8_lossy(text).into_owned(),
            });
        }
        if !any && length == BYTES {
            let text = "a line of the audit log is longer than 256 KiB";
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        Ok(any)
    }
}

fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], offset + length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::{Actor, Audit, Event};
    use super::*;
    use crate::config::{Config, DEFAULT};
    use crate::metrics::Metrics;
    use serde_json::json;
    use tempfile::TempDir;

    const NOW: u64 = 1_700_000_000;
    const DAY: u64 = 86_400;

    /// Files of some lines, of which those are kept that are younger than two days, and a sink.
    fn config(on_failure: &str) -> config::Audit {
        let before = DEFAULT.split("\n[audit]\n").next().unwrap();
        let text = format!(
            "{before}\n[audit]\nrotate_size = \"1KiB\"\nkeep = 1\nkeep_for = \"2d\"\non_failure = \"{on_failure}\"\n[[audit.sink]]\ntype = \"syslog\"\nurl = \"tcp://127.0.0.1:9\"\n"
        );
        let config = Config::parse(&text, "gateway.toml", Path::new("")).unwrap();
        config.audit
    }

    fn open(place: &TempDir, on_failure: &str, now: u64) -> Audit {
        Audit::open(&config(on_failure), place.path(), Metrics::new(), now).unwrap()
    }

    fn write(audit: &Audit, count: u64, now: u64) {
        for number in 0..count {
            let facts = json!({ "number": number });
            audit.record(Event::TokenCreate, &Actor::program(), now, facts);
        }
    }

    /// The numbers of all records up to this one, and how many are missing.
    fn numbers(reader: &mut Reader, up_to: u64) -> (Vec<u64>, u64) {
        let (mut numbers, mut missing) = (Vec::new(), 0);
        loop {
            let batch = reader.read(up_to).unwrap();
            missing += batch.missing;
            if batch.records.is_empty() {
                return (numbers, missing);
            }
            numbers.extend(batch.records.iter().map(|record| record.seq));
        }
    }

    #[test]
    fn records_are_read_in_order_over_all_files_and_once() {
        let place = TempDir::new().unwrap();
        let audit = open(&place, "refuse", NOW);
        let mut reader = audit.reader(&audit.followers()[0]);
        write(&audit, 30, NOW);
        let lines = audit.durable_lines();
        drop(audit);
        let last = *lines.borrow();
        assert!(last > 30, "files have rotated: {last}");
        assert_eq!(numbers(&mut reader, 10), ((1..=10).collect(), 0));
        assert_eq!(numbers(&mut reader, last), ((11..=last).collect(), 0));
        let audit = open(&place, "refuse", NOW);
        write(&audit, 2000, NOW);
        audit.followers()[0].keep(last).unwrap();
        drop(audit);
        let audit = open(&place, "refuse", NOW);
        let now = *audit.durable_lines().borrow();
        assert_eq!(audit.followers()[0].taken(), last);
        let mut again = audit.reader(&audit.followers()[0]);
        assert_eq!(numbers(&mut reader, now), ((last + 1..=now).collect(), 0));
        assert_eq!(numbers(&mut again, now), ((last + 1..=now).collect(), 0));
    }

    #[test]
    fn rotation_keeps_what_a_sink_has_not_taken_unless_it_lags_and_on_failure_is_continue() {
        for (on_failure, lagging, kept) in [
            ("refuse", false, true),
            ("refuse", true, true),
            ("continue", false, true),
            ("continue", true, false),
        ] {
            let place = TempDir::new().unwrap();
            let audit = open(&place, on_failure, NOW);
            audit.followers()[0].set_lagging(lagging);
            let mut reader = audit.reader(&audit.followers()[0]);
            write(&audit, 20, NOW);
            write(&audit, 20, NOW + 5 * DAY);
            let lines = audit.durable_lines();
            drop(audit);
            let (numbers, missing) = numbers(&mut reader, *lines.borrow());
            assert_eq!(missing == 0, kept, "{on_failure} {lagging}");
            assert_eq!(numbers[0], missing + 1);
            assert_eq!(numbers.last(), Some(&*lines.borrow()));
        }
    }

    #[test]
    fn a_log_that_begins_again_is_read_from_its_first_record() {
        let place = TempDir::new().unwrap();
        let audit = open(&place, "refuse", NOW);
        write(&audit, 20, NOW);
        audit.followers()[0].keep(20).unwrap();
        drop(audit);
        assert_eq!(open(&place, "refuse", NOW).followers()[0].taken(), 20);
        for path in files::all(place.path()).unwrap() {
            fs::remove_file(path).unwrap();
        }
        for file in ["audit.head", "audit.id"] {
            fs::remove_file(place.path().join(file)).unwrap();
        }
        let audit = open(&place, "refuse", NOW);
        assert_eq!(audit.followers()[0].taken(), 0);
        // The position of an older version is that of this log.
        drop(audit);
        fs::write(
            place.path().join("audit.sink.syslog"),
            "00000000000000000003\n",
        )
        .unwrap();
        assert_eq!(open(&place, "refuse", NOW).followers()[0].taken(), 3);
    }

    #[test]
    fn records_that_an_operator_has_removed_are_counted_as_missing() {
        let place = TempDir::new().unwrap();
        let audit = open(&place, "refuse", NOW);
        let mut reader = audit.reader(&audit.followers()[0]);
        write(&audit, 20, NOW);
        let lines = audit.durable_lines();
        drop(audit);
        let last = *lines.borrow();
        let rotated = files::rotated(place.path()).unwrap();
        let (first, path) = &rotated[1];
        fs::remove_file(path).unwrap();
        let (numbers, missing) = numbers(&mut reader, last);
        assert_eq!(missing, rotated[2].0 - first);
        assert_eq!(numbers.len() as u64 + missing, last);
    }
}
