//! Decodes chunks (RFC 9112 §7.1). Chunks that have been received together are given as one piece,
//! moved together in place: every piece that is passed on costs framing of its own.

use super::InvalidResponse;
use bytes::{Buf, Bytes, BytesMut};
use httparse::{EMPTY_HEADER, Status};
use hyper::body::Frame;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// Bytes of a line with the size of a chunk; extensions count. Our choice: sixteen digits are
/// enough for any size.
const SIZE_LINE: usize = 1024;
/// Bytes and fields of the trailers. Our choice: as much as a client's may have.
const TRAILERS: usize = 16 * 1024;
const TRAILER_FIELDS: usize = 100;

/// The chunks that are still to come.
#[derive(Debug, Default)]
pub(super) struct Chunked {
    next: Next,
    /// Trailers that stand behind a piece that was given.
    trailers: Option<Box<HeaderMap>>,
}

/// What comes next.
#[derive(Debug, Default, Clone, Copy)]
enum Next {
    /// The line with a size.
    #[default]
    Size,
    /// Data, at least one byte.
    Data(u64),
    /// The end of the line after data.
    DataEnd,
    /// Trailers and the empty line.
    Trailers,
    /// Nothing.
    End,
}

impl Chunked {
    /// Takes a frame off what has been received: all its data, or the trailers.
    pub(super) fn next(
        &mut self,
        received: &mut BytesMut,
    ) -> Result<Option<Frame<Bytes>>, InvalidResponse> {
        let data = match self.trailers {
            None => self.data(received)?,
            Some(_) => Bytes::new(),
        };
        if !data.is_empty() {
            return Ok(Some(Frame::data(data)));
        }
        let trailers = self.trailers.take();
        Ok(trailers.map(|trailers| Frame::trailers(*trailers)))
    }

    /// Returns whether the last frame has been taken.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.next, Next::End) && self.trailers.is_none()
    }

    /// The data of all chunks that have been received.
    fn data(&mut self, received: &mut BytesMut) -> Result<Bytes, InvalidResponse> {
        // Bytes that have been read, and bytes of data before them.
        let (mut read, mut data) = (0, 0);
        loop {
            let rest = received.get(read..).unwrap_or_default();
            let used = match self.next {
                Next::Data(left) => {
                    let all = usize::try_from(left).unwrap_or(usize::MAX);
                    let count = all.min(rest.len());
                    if read > data {
                        received.copy_within(read..read + count, data);
                    }
                    data += count;
                    self.next = match left - count as u64 {
                        0 => Next::DataEnd,
                        left => Next::Data(left),
                    };
                    count
                }
                _ => self.framing(rest)?,
            };
            if used == 0 {
                break;
            }
            read += used;
            if data == 0 {
                // The first chunk stays where it is.
                received.advance(read);
                read = 0;
            }
        }
        let pieces = received.split_to(data).freeze();
        received.advance(read - data);
        Ok(pieces)
    }

    /// Reads what stands between data; with the number of its bytes, 0: it is not complete.
    fn framing(&mut self, rest: &[u8]) -> Result<usize, InvalidResponse> {
        match (self.next, rest) {
            (Next::Size, _) => {
                let Some((size, length)) = size_line(rest)? else {
                    return Ok(0);
                };
                self.next = match size {
                    0 => Next::Trailers,
                    size => Next::Data(size),
                };
                Ok(length)
            }
            (Next::DataEnd, [b'\r', b'\n', ..]) => {
                self.next = Next::Size;
                Ok(2)
            }
            (Next::DataEnd, [] | [b'\r']) | (Next::Data(_) | Next::End, _) => Ok(0),
            (Next::DataEnd, _) => Err(InvalidResponse::Chunk),
            (Next::Trailers, [b'\r', b'\n', ..]) => {
                self.next = Next::End;
                Ok(2)
            }
            (Next::Trailers, _) => {
                let Some((trailers, length)) = trailers(rest)? else {
                    return Ok(0);
                };
                self.trailers = Some(Box::new(trailers));
                self.next = Next::End;
                Ok(length)
            }
        }
    }
}

/// The size of a chunk, and the bytes of its line; `None`: the line is not complete. Extensions
/// have no meaning here.
fn size_line(rest: &[u8]) -> Result<Option<(u64, usize)>, InvalidResponse> {
    let line = rest.get(..SIZE_LINE).unwrap_or(rest);
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        let short = rest.len() < SIZE_LINE;
        return short.then_some(None).ok_or(InvalidResponse::Chunk);
    };
    let size = line.get(..end).and_then(|line| line.strip_suffix(b"\r"));
    let size = size.and_then(size_of).ok_or(InvalidResponse::Chunk)?;
    Ok(Some((size, end + 1)))
}

/// The size in a line. Some servers pad it with blanks.
fn size_of(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let (size, rest) = line.split_at(digits.count());
    if rest
        .iter()
        .any(|byte| byte.is_ascii_control() && *byte != b'\t')
    {
        return None;
    }
    let rest = rest.trim_ascii_start();
    if !rest.is_empty() && !rest.starts_with(b";") {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()
}

/// The trailers, and their bytes; `None`: they are not complete.
fn trailers(rest: &[u8]) -> Result<Option<(HeaderMap, usize)>, InvalidResponse> {
    let mut fields = [EMPTY_HEADER; TRAILER_FIELDS];
    let parsed = httparse::parse_headers(rest, &mut fields);
    let Status::Complete((length, fields)) = parsed.map_err(|_| InvalidResponse::Trailers)? else {
        let short = rest.len() <= TRAILERS;
        return short.then_some(None).ok_or(InvalidResponse::Trailers);
    };
    // To a reader that looks for the empty line alone, a bare line feed ends no line: there the
    // trailers would go on.
    let mut lines = rest.get(..length).unwrap_or_default();
    while let Some(end) = lines.iter().position(|byte| *byte == b'\n') {
        if !lines[..end].ends_with(b"\r") {
            return Err(InvalidResponse::Trailers);
        }
        lines = &lines[end + 1..];
    }
    let field = |field: &httparse::Header<'_>| {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(field.value).ok()?))
    };
    let trailers: Option<HeaderMap> = fields.iter().map(field).collect();
    let trailers = trailers.filter(|_| length <= TRAILERS);
    Ok(Some((trailers.ok_or(InvalidResponse::Trailers)?, length)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn chunks_received_together_are_one_piece() {
        let mut received = BytesMut::from("3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\nHTTP/1.1");
        let mut chunks = Chunked::default();
        let frame = chunks.next(&mut received).unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "abcde");
        assert!(chunks.is_ended());
        assert_eq!(received, "HTTP/1.1");
    }

    #[test]
    fn trailers_come_after_the_last_data() {
        let mut received = BytesMut::from("1\r\na\r\n0\r\nX-A: 1\r\nX-A: 2\r\n\r\n");
        let mut chunks = Chunked::default();
        let data = chunks.next(&mut received).unwrap().unwrap();
        assert!(data.is_data() && !chunks.is_ended());
        let trailers = chunks.next(&mut received).unwrap().unwrap();
        let trailers = trailers.into_trailers().unwrap();
        assert_eq!(trailers.get_all("x-a").iter().count(), 2);
        assert!(chunks.is_ended());
    }

    #[test]
    fn lines_of_trailers_end_with_both_characters() {
        for trailers in ["X: 1\n\r\n", "X: 1\r\nY: 2\n\r\n", "X: 1\r\n\n", "X: 1\n\n"] {
            let mut received = BytesMut::from(&*format!("0\r\n{trailers}"));
            let refused = Chunked::default().next(&mut received);
            assert_eq!(
                refused.unwrap_err(),
                InvalidResponse::Trailers,
                "{trailers:?}"
            );
        }
    }

    #[test]
    fn a_chunk_size_has_one_spelling() {
        for (line, size) in [
            ("a\r\n", 10),
            ("0A\r\n", 10),
            ("a \r\n", 10),
            ("a;b=\"c\"\r\n", 10),
            ("a ;b\r\n", 10),
            ("ffffffffffffffff\r\n", u64::MAX),
        ] {
            assert_eq!(
                size_line(line.as_bytes()),
                Ok(Some((size, line.len()))),
                "{line:?}"
            );
        }
        for line in [
            "\r\n",
            ";a\r\n",
            " a\r\n",
            "a\n",
            "a\r\r\n",
            "a;b\rc\r\n",
            "a;b\0\r\n",
            "a b\r\n",
            "+a\r\n",
            "-a\r\n",
            "0xa\r\n",
            "10000000000000000\r\n",
        ] {
            assert_eq!(
                size_line(line.as_bytes()),
                Err(InvalidResponse::Chunk),
                "{line:?}"
            );
        }
        assert_eq!(size_line(b"a\r"), Ok(None));
        let long = format!("a;{}", "b".repeat(SIZE_LINE));
        assert_eq!(size_line(long.as_bytes()), Err(InvalidResponse::Chunk));
    }

    #[test]
    fn data_ends_where_its_size_says_and_trailers_are_limited() {
        for (text, flaw) in [
            ("1\r\nab\r\n".to_owned(), InvalidResponse::Chunk),
            ("1\r\na\n0\r\n\r\n".to_owned(), InvalidResponse::Chunk),
            (
                "0\r\nno field\r\n\r\n".to_owned(),
                InvalidResponse::Trailers,
            ),
            (
                format!("0\r\nx: {}\r\n\r\n", "y".repeat(TRAILERS)),
                InvalidResponse::Trailers,
            ),
            (
                format!("0\r\nx: {}", "y".repeat(TRAILERS)),
                InvalidResponse::Trailers,
            ),
            (
                format!("0\r\n{}\r\n", "x: y\r\n".repeat(TRAILER_FIELDS + 1)),
                InvalidResponse::Trailers,
            ),
        ] {
            let read = Chunked::default().next(&mut BytesMut::from(text.as_str()));
            assert_eq!(read.err(), Some(flaw), "{text:.40}");
        }
    }
}
