//! Follows the requests of an HTTP/1.1 connection as they come in, and finds what hyper reads
//! kindly and another program might read differently: lines that end in a bare LF, a length beside
//! or within another one, encodings that are more than `chunked`, fragments. Such a request gets no
//! response but 400, and is the connection's last.
//!
//! Inspects the bytes, decides, and changes nothing. Input that hyper itself refuses passes here:
//! hyper ends the connection too. So both agree where each request ends, for as long as there are
//! requests.

use crate::http::FramingError;
use memchr::memchr;

/// The bytes of a line that are inspected: more than any length or size needs, unless it is padded
/// with blanks or zeros.
const LOOKED_AT: usize = 64;

/// The parser's position in the requests of a connection.
#[derive(Debug, Default)]
pub(super) struct Heads {
    expects: Expects,
    begun: Begun,
    /// Heads begun.
    count: u32,
    length: Option<u64>,
    encodings: u8,
    flaw: Option<FramingError>,
}

/// The element that comes next.
#[derive(Debug, Default, Clone, Copy)]
enum Expects {
    /// A request line, perhaps after empty ones (RFC 9112 §2.2).
    #[default]
    Request,
    Field,
    /// So many bytes of a body.
    Body(u64),
    ChunkSize,
    /// So many bytes of a chunk.
    Chunk(u64),
    ChunkEnd,
    Trailer,
}

/// From here on nothing may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The head of this request, counted from 1, is whole and has a flaw.
    Head(u32, FramingError),
    /// The body is broken.
    Body,
}

/// A line that has come in part.
#[derive(Debug)]
struct Begun {
    start: [u8; LOOKED_AT],
    length: usize,
    last: u8,
}

/// A whole line, without its LF.
#[derive(Debug, Clone, Copy)]
struct Line<'l> {
    /// The inspected part.
    start: &'l [u8],
    length: usize,
    last: u8,
}

impl Heads {
    /// Inspects received bytes. An error contains the number that may still pass.
    pub(super) fn received(&mut self, bytes: &[u8]) -> Result<(), (usize, Stop)> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if let Expects::Body(left) | Expects::Chunk(left) = self.expects {
                rest = self.skip(left, rest);
                continue;
            }
            let end = memchr(b'\n', rest);
            let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
            if matches!(self.expects, Expects::Request) && memchr(b'#', piece).is_some() {
                self.flaw = Some(FramingError::Fragment);
            }
            rest = after.get(1..).unwrap_or_default();
            let stop = |stop| (bytes.len() - rest.len(), stop);
            if end.is_some() && self.begun.length == 0 {
                self.line(Line::of(piece)).map_err(stop)?;
                continue;
            }
            self.begun.add(piece);
            if end.is_some() {
                let begun = std::mem::take(&mut self.begun);
                self.line(begun.line()).map_err(stop)?;
            }
        }
        Ok(())
    }

    fn skip<'b>(&mut self, left: u64, bytes: &'b [u8]) -> &'b [u8] {
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left - here as u64;
        self.expects = match self.expects {
            Expects::Chunk(_) if left == 0 => Expects::ChunkEnd,
            Expects::Chunk(_) => Expects::Chunk(left),
            _ if left == 0 => Expects::Request,
            _ => Expects::Body(left),
        };
        bytes.get(here..).unwrap_or_default()
    }

    fn line(&mut self, line: Line<'_>) -> Result<(), Stop> {
        match self.expects {
            Expects::Request if line.is_empty() => {}
            Expects::Request | Expects::Field => return self.head(line),
            Expects::ChunkSize => {
                self.expects = match line.chunk_size().ok_or(Stop::Body)? {
                    0 => Expects::Trailer,
                    size => Expects::Chunk(size),
                };
            }
            Expects::ChunkEnd if line.is_empty() && line.is_crlf() => {
                self.expects = Expects::ChunkSize;
            }
            // hyper takes a bare LF for a part of the trailer, others for its end.
            Expects::Trailer if !line.is_crlf() => return Err(Stop::Body),
            Expects::Trailer if line.is_empty() => self.expects = Expects::Request,
            Expects::Trailer => {}
            Expects::ChunkEnd | Expects::Body(_) | Expects::Chunk(_) => return Err(Stop::Body),
        }
        Ok(())
    }

    /// A line of a head.
    fn head(&mut self, line: Line<'_>) -> Result<(), Stop> {
        if !line.is_crlf() {
            self.flaw = Some(FramingError::BareLineFeed);
        }
        match self.expects {
            Expects::Field if line.is_empty() => return self.body(),
            Expects::Field => self.field(line),
            _ => self.count = self.count.wrapping_add(1),
        }
        self.expects = Expects::Field;
        Ok(())
    }

    fn field(&mut self, line: Line<'_>) {
        // All other names cost no more than this look at a letter.
        if !matches!(line.start.first(), Some(b'C' | b'c' | b'T' | b't')) {
            return;
        }
        let Some((name, value)) = line.name_and_value() else {
            return;
        };
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value).filter(|_| !line.is_long());
            if length.is_none() || self.length.is_some() {
                self.flaw = Some(FramingError::Length);
            }
            self.length = Some(length.unwrap_or_default());
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.encodings = self.encodings.saturating_add(1);
            if self.encodings > 1 || line.is_long() || !value.eq_ignore_ascii_case(b"chunked") {
                self.flaw = Some(FramingError::Encoding);
            }
        }
    }

    /// Determines the body after a complete head.
    fn body(&mut self) -> Result<(), Stop> {
        let length = self.length.take();
        let chunked = std::mem::take(&mut self.encodings) > 0;
        if chunked && length.is_some() {
            self.flaw = Some(FramingError::Length);
        }
        if let Some(flaw) = self.flaw {
            return Err(Stop::Head(self.count, flaw));
        }
        self.expects = match length {
            _ if chunked => Expects::ChunkSize,
            None | Some(0) => Expects::Request,
            Some(length) => Expects::Body(length),
        };
        Ok(())
    }
}

impl Default for Begun {
    fn default() -> Self {
        Self {
            start: [0; LOOKED_AT],
            length: 0,
            last: 0,
        }
    }
}

impl Begun {
    fn add(&mut self, piece: &[u8]) {
        let Some(&last) = piece.last() else { return };
        let room = self.start.get_mut(self.length..).unwrap_or_default();
        for (place, byte) in room.iter_mut().zip(piece) {
            *place = *byte;
        }
        self.last = last;
        self.length = self.length.saturating_add(piece.len());
    }

    fn line(&self) -> Line<'_> {
        Line {
            start: self.start.get(..self.length).unwrap_or(&self.start),
            length: self.length,
            last: self.last,
        }
    }
}

impl<'l> Line<'l> {
    fn of(line: &'l [u8]) -> Self {
        Self {
            start: line.get(..LOOKED_AT).unwrap_or(line),
            length: line.len(),
            last: line.last().copied().unwrap_or_default(),
        }
    }

    /// Returns whether it ends as every line of HTTP must (RFC 9112 §2.2).
    fn is_crlf(&self) -> bool {
        self.last == b'\r'
    }

    fn is_empty(&self) -> bool {
        self.length == usize::from(self.is_crlf())
    }

    fn is_long(&self) -> bool {
        self.length > LOOKED_AT
    }

    /// The inspected part, without the CR.
    fn text(&self) -> &'l [u8] {
        self.start.strip_suffix(b"\r").unwrap_or(self.start)
    }

    fn name_and_value(&self) -> Option<(&'l [u8], &'l [u8])> {
        let text = self.text();
        let colon = memchr(b':', text)?;
        let (name, value) = text.split_at(colon);
        Some((name, value.get(1..).unwrap_or_default().trim_ascii()))
    }

    /// The size of a chunk, whatever extension follows (RFC 9112 §7.1).
    fn chunk_size(&self) -> Option<u64> {
        let text = self.text();
        let digits = text.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let (size, after) = text.split_at(digits);
        let after = after.trim_ascii_start();
        let size = u64::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()?;
        let whole =
            digits < LOOKED_AT && self.is_crlf() && (after.is_empty() || after.starts_with(b";"));
        whole.then_some(size)
    }
}

/// A length: digits, of which the first is zero only if it is the only one.
fn number(text: &[u8]) -> Option<u64> {
    let plain = text.iter().all(u8::is_ascii_digit) && (text == b"0" || !text.starts_with(b"0"));
    let text = std::str::from_utf8(text).ok().filter(|_| plain)?;
    text.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
