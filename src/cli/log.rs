//! Sets up the log: standard error, text or JSON lines, and its level.
//!
//! Nodes and packages say a part of what is in it: each event is one line, in which each character
//! is seen.

use crate::config::Log;
use crate::visible_json;
use std::io::{self, IsTerminal, Write};

/// The beginning of a sequence that sets the colour of text in a terminal.
const COLOUR: &str = "\u{1b}[";

/// Starts logging; a logger that was started before stays.
pub(super) fn start(config: &Log) {
    let (is_json, has_colours) = (config.json, io::stderr().is_terminal());
    let log = tracing_subscriber::fmt()
        .with_max_level(config.level)
        // It would report on standard error, with a panic, that standard error cannot be written.
        .log_internal_errors(false)
        .with_ansi(has_colours)
        .with_writer(move || Visible {
            out: io::stderr(),
            is_json,
            has_colours,
        });
    // An error means that this process has a logger already: then that one is used.
    let _ = if is_json {
        log.json().flatten_event(true).try_init()
    } else {
        log.try_init()
    };
}

/// Writes events, of which each comes as a whole, as lines that look like what they are.
struct Visible<W> {
    out: W,
    is_json: bool,
    has_colours: bool,
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let mut line = if self.is_json {
            visible_json::escaped(text.to_owned())
        } else if self.has_colours {
            coloured(text)
        } else {
            visible_json::line(text).into_owned()
        };
        line.push('\n');
        self.out.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A line with the colours that it has; the logger escapes those in what others say.
fn coloured(text: &str) -> String {
    let mut parts = text.split(COLOUR);
    let first = visible_json::line(parts.next().unwrap_or_default());
    let mut line = first.into_owned();
    for part in parts {
        let end = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        if end.starts_with('m') {
            line.push_str(COLOUR);
        } else {
            line.push_str("\\u{1b}[");
        }
        line.push_str(&visible_json::line(part));
    }
    line
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn written(event: &str, is_json: bool, has_colours: bool) -> String {
        let mut out = Vec::new();
        let mut visible = Visible {
            out: &mut out,
            is_json,
            has_colours,
        };
        visible.write_all(event.as_bytes()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_event_is_one_line_whatever_nodes_say() {
        let event = "INFO a\nFAKE b\u{202e}\u{1b}[2K\n";
        let plain = "INFO a\\nFAKE b\\u{202e}\\u{1b}[2K\n";
        assert_eq!(written(event, false, false), plain);
        assert_eq!(written(event, false, true), plain);
        let green = "\u{1b}[2m2026\u{1b}[0m \u{1b}[32mINFO\u{1b}[0m a\n";
        assert_eq!(written(green, false, true), green);
        assert_eq!(
            written("{\"message\":\"a\\nb\u{202e}\"}\n", true, false),
            "{\"message\":\"a\\nb\\u202e\"}\n"
        );
    }
}
