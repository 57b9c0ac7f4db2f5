//! The lines of a file from its end to its beginning.

use super::{MAX_LINE, too_long};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The bytes that are read at a time. Our choice: some hundred records.
const BLOCK: u64 = 64 << 10;

/// Reads the lines before an offset, last one first.
pub(super) struct Backwards {
    file: File,
    /// The offset of the bytes that are held.
    begin: u64,
    held: Vec<u8>,
}

impl Backwards {
    /// `end` is the offset after a line feed, or the beginning.
    pub(super) fn new(file: File, end: u64) -> Self {
        Self {
            file,
            begin: end,
            held: Vec::new(),
        }
    }

    /// The next line, without line feed; `None` at the beginning of the file.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let lines = self.held.strip_suffix(b"\n").unwrap_or(&self.held);
            let feed = lines.iter().rposition(|byte| *byte == b'\n');
            if feed.is_none() && self.begin > 0 {
                if lines.len() > MAX_LINE {
                    return Err(too_long());
                }
                self.read_block()?;
                continue;
            }
            if lines.is_empty() && self.held.is_empty() {
                return Ok(None);
            }
            let begin = feed.map_or(0, |feed| feed + 1);
            let line = lines[begin..].to_vec();
            self.held.truncate(begin);
            return Ok(Some(line));
        }
    }

    /// Puts the block before those that are held.
    fn read_block(&mut self) -> io::Result<()> {
        let begin = self.begin.saturating_sub(BLOCK);
        let length = usize::try_from(self.begin - begin).unwrap_or_default();
        let mut block = vec![0; length];
        self.file.read_exact_at(&mut block, begin)?;
        block.append(&mut self.held);
        (self.begin, self.held) = (begin, block);
        Ok(())
    }
}
