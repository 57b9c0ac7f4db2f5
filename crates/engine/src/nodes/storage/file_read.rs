//! Reads a file piece by piece: whole, as lines, or as chunks. Runs on blocking threads;
//! independent of messages.

use super::errno::failure;
use formats::encoding::Encoding;
use std::fs::File;
use std::io::Read;
use value::{Failure, Value};

/// The number of bytes read at a time, as Node.js' read streams do by default.
pub(super) const CHUNK: usize = 64 * 1024;

/// In which pieces a file becomes messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Format {
    /// One text.
    Text,
    /// One buffer.
    Buffer,
    /// A text a line.
    Lines,
    /// A buffer a chunk.
    Stream,
}

impl Format {
    /// Returns whether a file becomes several messages, numbered in `msg.parts`.
    pub(super) fn is_sequence(self) -> bool {
        matches!(self, Self::Lines | Self::Stream)
    }
}

/// A file that is being read.
pub(super) struct Reading {
    file: File,
    format: Format,
    encoding: Encoding,
    /// Bytes read and not yet returned: the beginning of a line, or the piece that may be the last.
    rest: Vec<u8>,
}

/// The result of one step of reading.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// The next pieces, in order.
    pub(super) pieces: Vec<Value>,
    /// True if they are the last.
    pub(super) last: bool,
}

impl Reading {
    pub(super) fn open(path: &str, format: Format, encoding: Encoding) -> Result<Self, Failure> {
        Ok(Self {
            file: File::open(path).map_err(|e| failure(&e, "open", path))?,
            format,
            encoding,
            rest: Vec::new(),
        })
    }

    /// Reads on.
    pub(super) fn step(&mut self) -> Result<Step, Failure> {
        let by_chunks = match self.format {
            Format::Lines => self.encoding.has_byte_lines(),
            Format::Stream => true,
            Format::Text | Format::Buffer => false,
        };
        let before = self.rest.len();
        let limit = if by_chunks { CHUNK as u64 } else { u64::MAX };
        let read = (&mut self.file).take(limit).read_to_end(&mut self.rest);
        read.map_err(|e| failure(&e, "read", ""))?;
        // `take` was not used up: this was the end.
        let last = ((self.rest.len() - before) as u64) < limit;
        let pieces = match self.format {
            Format::Text => vec![Value::from(self.encoding.decode(&self.rest).as_ref())],
            Format::Buffer => vec![Value::buffer(std::mem::take(&mut self.rest))],
            Format::Lines => self.lines(last),
            Format::Stream => self.chunks(last),
        };
        Ok(Step { pieces, last })
    }

    fn lines(&mut self, last: bool) -> Vec<Value> {
        if !self.encoding.has_byte_lines() {
            let text = self.encoding.decode(&self.rest);
            return text.split('\n').map(Value::from).collect();
        }
        let end = if last {
            self.rest.len()
        } else {
            match self.rest.iter().rposition(|b| *b == b'\n') {
                Some(at) => at,
                None => return Vec::new(),
            }
        };
        let tail = self.rest.split_off(end);
        let whole = std::mem::replace(&mut self.rest, tail);
        if !last {
            self.rest.remove(0);
        }
        let lines = whole.split(|b| *b == b'\n');
        lines
            .map(|line| Value::from(self.encoding.decode(line).as_ref()))
            .collect()
    }

    /// One chunk is kept back until it is known whether it is the last.
    fn chunks(&mut self, last: bool) -> Vec<Value> {
        let mut pieces = Vec::new();
        while self.rest.len() > CHUNK || (last && !self.rest.is_empty()) {
            let tail = self.rest.split_off(self.rest.len().min(CHUNK));
            pieces.push(Value::buffer(std::mem::replace(&mut self.rest, tail)));
        }
        pieces
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn read(content: &[u8], format: Format, encoding: &str) -> Vec<Value> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, content).unwrap();
        let encoding = Encoding::named(encoding).unwrap();
        let mut reading = Reading::open(path.to_str().unwrap(), format, encoding).unwrap();
        let mut pieces = Vec::new();
        loop {
            let step = reading.step().unwrap();
            pieces.extend(step.pieces);
            if step.last {
                return pieces;
            }
        }
    }

    #[test]
    fn lines_end_at_line_feeds_and_the_last_may_be_empty() {
        let shown = |content: &[u8]| format!("{:?}", read(content, Format::Lines, "none"));
        assert_eq!(shown(b"l1\nl2\n\nl4"), r#"["l1", "l2", "", "l4"]"#);
        assert_eq!(shown(b"l1\r\nl2\n"), r#"["l1\r", "l2", ""]"#);
        assert_eq!(shown(b""), r#"[""]"#);
        let wide = read(b"a\0\n\0b\0", Format::Lines, "ucs2");
        assert_eq!(format!("{wide:?}"), r#"["a", "b"]"#);
    }

    #[test]
    fn lines_over_chunk_borders_stay_whole() {
        let line = "x".repeat(CHUNK / 2 + 7);
        let content = [line.as_str(); 9].join("\n");
        let lines = read(content.as_bytes(), Format::Lines, "none");
        assert_eq!(lines.len(), 9);
        assert!(lines.iter().all(|l| l.as_str() == Some(line.as_str())));
    }

    #[test]
    fn chunks_are_64_kib_and_an_empty_file_has_none() {
        let sizes = |n: usize| -> Vec<usize> {
            let pieces = read(&vec![0; n], Format::Stream, "none");
            let size = |piece: Value| match piece {
                Value::Buffer(bytes) => bytes.len(),
                _ => 0,
            };
            pieces.into_iter().map(size).collect()
        };
        assert_eq!(sizes(200_000), [65536, 65536, 65536, 3392]);
        assert_eq!(sizes(65536 * 2), [65536, 65536]);
        assert!(sizes(0).is_empty());
    }
}
