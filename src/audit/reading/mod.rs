//! Reads the log for people: pages of its newest records, its chain part by part, and all of it as
//! it stands.
//!
//! The files are read with handles of their own, so a reader never delays the writer. Each call
//! reads a limited number of bytes, however large the log is; the number of a record is the cursor,
//! which rotation does not change.

mod backwards;
mod copy;
mod page;
mod part;

pub use copy::Section;
pub use page::{Page, Query};
pub use part::{ChainFault, ChainPart};

use super::files;
use super::record::Read;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read as _, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The longest line in bytes that is read; those of the log have less than 2 KiB. Our choice, as
/// that of a sink's batch.
const MAX_LINE: usize = 256 << 10;
/// Below this number of bytes a line is searched one by one. Our choice: one read.
const LINEAR: u64 = 64 << 10;

/// The files of the log.
#[derive(Debug, Clone)]
pub struct LogFiles {
    directory: PathBuf,
}

/// A file of the log.
#[derive(Debug)]
pub struct LogFile {
    /// The number of its first record.
    first: u64,
    path: PathBuf,
    /// The file that is written, which may get another name meanwhile.
    current: Option<File>,
}

impl LogFiles {
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// The files, oldest first.
    pub fn list(&self) -> io::Result<Vec<LogFile>> {
        // Opened before the others are listed: if it is rotated meanwhile, it is among them.
        let path = self.directory.join(files::CURRENT);
        let current = match File::open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let rotated = files::rotated(&self.directory)?.into_iter();
        let mut list: Vec<LogFile> = rotated
            .map(|(first, path)| LogFile::rotated(first, path))
            .collect();
        let Some(file) = current else {
            return Ok(list);
        };
        let mut line = Vec::new();
        BufReader::new((&file).take(MAX_LINE as u64)).read_until(b'\n', &mut line)?;
        let first = Read::parse(&line).map(|read| read.seq);
        let first = first.filter(|first| list.iter().all(|rotated| rotated.first != *first));
        list.extend(first.map(|first| LogFile {
            first,
            path,
            current: Some(file),
        }));
        Ok(list)
    }
}

impl LogFile {
    fn rotated(first: u64, path: PathBuf) -> Self {
        Self {
            first,
            path,
            current: None,
        }
    }

    /// Opens it, with the length of its whole lines; `None`: rotation has removed it.
    pub fn open(self) -> io::Result<Option<(File, u64)>> {
        let is_current = self.current.is_some();
        let file = match self.current.map_or_else(|| File::open(&self.path), Ok) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        let whole = if is_current {
            whole_lines(&file, length)?
        } else {
            length
        };
        Ok(Some((file, whole)))
    }
}

/// The length without a last line that is being written.
fn whole_lines(file: &File, length: u64) -> io::Result<u64> {
    let begin = length.saturating_sub(MAX_LINE as u64);
    let mut tail = vec![0; usize::try_from(length - begin).unwrap_or_default()];
    file.read_exact_at(&mut tail, begin)?;
    let end = tail.iter().rposition(|byte| *byte == b'\n');
    Ok(end.map_or(begin, |end| begin + end as u64 + 1))
}

/// The offset of the first record with this number or a higher one, before `length`: by bisection,
/// as records are in order. Lines that are none of the log are passed over.
fn find(file: &File, length: u64, number: u64) -> io::Result<u64> {
    let (mut low, mut high) = (0, length);
    while high - low > LINEAR {
        let middle = low + (high - low) / 2;
        match record_after(file, middle, high)? {
            Some((offset, found)) if found < number => low = offset,
            Some(_) | None => high = middle,
        }
    }
    let mut lines = Lines::new(file, low, length)?;
    while let Some((offset, line)) = lines.next()? {
        if Read::parse(line).is_some_and(|read| read.seq >= number) {
            return Ok(offset);
        }
    }
    Ok(length)
}

/// The first record whose line begins after this offset: where, and its number.
fn record_after(file: &File, offset: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    let mut lines = Lines::new(file, offset, end)?;
    // The rest of the line at the offset.
    lines.next()?;
    while let Some((offset, line)) = lines.next()? {
        if let Some(read) = Read::parse(line) {
            return Ok(Some((offset, read.seq)));
        }
    }
    Ok(None)
}

/// The lines of a file between two offsets, without line feeds.
struct Lines<'f> {
    reader: BufReader<io::Take<&'f File>>,
    offset: u64,
    line: Vec<u8>,
}

impl<'f> Lines<'f> {
    fn new(mut file: &'f File, from: u64, to: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(from))?;
        Ok(Self {
            reader: BufReader::with_capacity(64 << 10, file.take(to.saturating_sub(from))),
            offset: from,
            line: Vec::new(),
        })
    }

    /// The offset of the next line, and its bytes.
    fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        self.line.clear();
        let offset = self.offset;
        let mut limited = (&mut self.reader).take(MAX_LINE as u64);
        let read = limited.read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        if read == MAX_LINE && !self.line.ends_with(b"\n") {
            return Err(too_long());
        }
        self.offset += read as u64;
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        Ok(Some((offset, line)))
    }
}

fn too_long() -> io::Error {
    let text = "a line of the audit log is longer than 256 KiB";
    io::Error::new(ErrorKind::InvalidData, text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
