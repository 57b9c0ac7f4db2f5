//! Lines of the log that others write: the output of a process that we have started, line by line,
//! and texts of nodes and packages, none of which is longer than it may be.

use std::borrow::Cow;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::time::{Duration, sleep};

/// Bytes of a line; the rest is another line. Our choice: a stack.
const MAX_LINE: usize = 4096;

/// Lines that are read at once, and the pause after them: a process that writes without end waits,
/// and slows down by itself. Our choice: a thousand lines a second.
const LINES: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a text of a node that are logged. Our choice: a large message.
pub(crate) const MAX_TEXT: usize = 64 << 10;

/// The beginning of a text, of so many bytes.
pub(crate) fn beginning(text: &str, bytes: usize) -> Cow<'_, str> {
    let end = text.floor_char_boundary(bytes);
    match text.get(..end) {
        Some(start) if end < text.len() => format!("{start}…").into(),
        _ => text.into(),
    }
}

/// Gives each line of the output to `log`, until it ends.
pub async fn read(output: impl AsyncRead + Unpin, mut log: impl FnMut(&str)) {
    let mut reader = BufReader::with_capacity(MAX_LINE, output);
    // A program may write a line in pieces.
    let mut line = Vec::with_capacity(MAX_LINE);
    let mut lines = 0;
    loop {
        let buffer = reader.fill_buf().await.unwrap_or_default();
        let is_end = buffer.is_empty();
        let rest = &buffer[..buffer.len().min(MAX_LINE - line.len())];
        let end = rest.iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
        let used = end.map_or(rest.len(), |end| end + 1);
        reader.consume(used);
        if end.is_none() && line.len() < MAX_LINE && !is_end {
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        if !text.trim().is_empty() {
            log(text.trim_end());
        }
        if is_end {
            return;
        }
        line.clear();
        lines += 1;
        if lines % LINES == 0 {
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, duplex};

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(beginning("abc", 3), "abc");
        assert_eq!(beginning("abcd", 3), "abc…");
        assert_eq!(beginning("aüb", 2), "a…");
    }

    #[tokio::test]
    async fn lines_that_come_in_pieces_are_whole_and_endless_ones_are_cut() {
        let (mut program, output) = duplex(64);
        let write = async move {
            for piece in ["one", " line", "\n\n  \nan", "other\n"] {
                program.write_all(piece.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
            program.write_all(&[b'x'; MAX_LINE + 3]).await.unwrap();
            program.write_all(b"\nlast").await.unwrap();
        };
        let mut found = Vec::new();
        let read = read(output, |line| found.push(line.to_owned()));
        tokio::join!(write, read);
        let long = "x".repeat(MAX_LINE);
        assert_eq!(found, ["one line", "another", &long, "xxx", "last"]);
    }
}
