//! The files of the audit log in the data directory: their names, and how one begins and ends.
//!
//! `audit.log` is written; `audit.log.N` are those before it, named after the number of their first
//! line. `audit.head` names the last line known to be durable: without it, lines missing at the end
//! could not be detected. `audit.id` has the identity of the log, which no log that begins again
//! has.

use super::record::{ChainHash, Read, seconds, unhex};
use crypto::hex;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read as _, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file that is written.
pub(super) const CURRENT: &str = "audit.log";
/// The file that records the last durable line.
pub(super) const HEAD: &str = "audit.head";

/// The file that has the identity of the log.
const ID: &str = "audit.id";

/// Bytes looked at for the last line; a longer one makes us read the whole file. Ours have less
/// than 2 KiB.
const LAST: u64 = 64 << 10;

/// The beginning of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beginning {
    /// The number of its first line.
    pub(super) seq: u64,
    /// The time of that line, seconds since 1970; `None`: it has none.
    pub(super) time: Option<u64>,
}

/// The end of a file.
#[derive(Debug)]
pub(super) struct Ending {
    /// Its last whole line; `None`: it has none that is ours.
    pub(super) last: Option<ChainHash>,
    /// When that was written, seconds since 1970.
    pub(super) time: Option<u64>,
    /// The offset of the end of its last whole line.
    pub(super) whole: u64,
    /// The bytes after that: a line that was not written completely.
    pub(super) torn: Vec<u8>,
}

/// The name that a file gets when it is full.
pub(super) fn rotated_name(first: u64) -> String {
    format!("{CURRENT}.{first:010}")
}

/// The files before the one that is written, oldest first, with the numbers in their names.
pub(super) fn rotated(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(CURRENT)?.strip_prefix('.'))
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok());
        found.extend(number.map(|number| (number, entry.path())));
    }
    found.sort_unstable();
    Ok(found)
}

/// The whole log: all its files, oldest first.
pub(super) fn all(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<_> = rotated(directory)?
        .into_iter()
        .map(|(_, path)| path)
        .collect();
    let current = directory.join(CURRENT);
    if current.exists() {
        files.push(current);
    }
    Ok(files)
}

/// The last line known to be durable; `None`: unknown.
pub(super) fn head(directory: &Path) -> io::Result<Option<ChainHash>> {
    match fs::read_to_string(directory.join(HEAD)) {
        Ok(text) => Ok(parse_head(&text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Always as many bytes, so that one write replaces the one before.
pub(super) fn head_text(link: &ChainHash) -> String {
    format!("{:020} {}\n", link.seq, hex(&link.hash))
}

pub(super) fn parse_head(text: &str) -> Option<ChainHash> {
    let (seq, hash) = text.trim_end().split_once(' ')?;
    let link = ChainHash {
        seq: seq.parse().ok()?,
        hash: unhex(hash)?,
    };
    (head_text(&link) == text).then_some(link)
}

/// The identity of the log; `None`: it has none yet.
pub(super) fn id(directory: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(directory.join(ID)) {
        Ok(text) => Ok(parse_id(text.trim_end())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Keeps the identity of the log.
pub(super) fn write_id(directory: &Path, id: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(directory.join(ID))?;
    file.write_all(format!("{id}\n").as_bytes())?;
    file.sync_all()
}

/// Makes the identity of a log that begins.
pub(super) fn new_id() -> String {
    hex(&crypto::random::<16>())
}

pub(super) fn parse_id(text: &str) -> Option<String> {
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (digits && text.len() == 32).then(|| text.to_owned())
}

/// Returns the beginning of a file; `None`: it is empty or does not begin with a record.
pub(super) fn beginning(path: &Path) -> io::Result<Option<Beginning>> {
    Ok(first_line(path)?.map(|read| Beginning {
        seq: read.seq,
        time: seconds(&read.time),
    }))
}

/// The first line of a file; `None`: it is empty, or that is none of ours.
pub(super) fn first_line(path: &Path) -> io::Result<Option<Read>> {
    let mut line = Vec::new();
    BufReader::new(File::open(path)?.take(LAST)).read_until(b'\n', &mut line)?;
    Ok(Read::parse(&line))
}

/// The end of a file.
pub(super) fn ending(path: &Path) -> io::Result<Ending> {
    let length = fs::metadata(path)?.len();
    let tail = tail(path, length.saturating_sub(LAST))?;
    let tail = if tail.split(|byte| *byte == b'\n').count() < 3 {
        self::tail(path, 0)?
    } else {
        tail
    };
    let end = tail.iter().rposition(|byte| *byte == b'\n');
    let (lines, torn) = tail.split_at(end.map_or(0, |end| end + 1));
    let line = lines.strip_suffix(b"\n").unwrap_or_default();
    let begin = line.iter().rposition(|byte| *byte == b'\n');
    let line = &line[begin.map_or(0, |begin| begin + 1)..];
    let read = Read::parse(line);
    Ok(Ending {
        last: read.as_ref().map(|read| ChainHash::after(read.seq, line)),
        time: read.and_then(|read| seconds(&read.time)),
        whole: length - torn.len() as u64,
        torn: torn.to_vec(),
    })
}

/// The bytes from there to the end that the file has now; a pipe or a device has none.
fn tail(path: &Path, from: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(length.saturating_sub(from))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
