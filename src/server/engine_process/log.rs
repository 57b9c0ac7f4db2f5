//! The log of the engine's process, as lines of our log: it writes JSON, and a crash writes text.

use serde_json::{Map, Value};
use tracing::Level;

/// A line of the process.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    pub(super) level: Level,
    pub(super) text: String,
}

impl Line {
    /// Reads a line. One that is no record of a log was written by a panic, an allocator or a
    /// loader: a warning.
    pub(super) fn read(line: &str) -> Self {
        match serde_json::from_str::<Map<String, Value>>(line) {
            Ok(record) => Self::of_record(record),
            Err(_) => Self {
                level: Level::WARN,
                text: line.to_owned(),
            },
        }
    }

    fn of_record(mut record: Map<String, Value>) -> Self {
        let level = record.shift_remove("level");
        let level = level.as_ref().and_then(Value::as_str);
        let level = level.and_then(|level| level.parse().ok());
        let message = record.shift_remove("message");
        let mut text = message.as_ref().map(plain).unwrap_or_default();
        for (name, value) in &record {
            if !matches!(name.as_str(), "timestamp" | "target") {
                text = format!("{text} {name}={}", plain(value));
            }
        }
        Self {
            level: level.unwrap_or(Level::WARN),
            text,
        }
    }

    /// Logs it.
    pub(super) fn log(&self) {
        let text = &*self.text;
        match self.level {
            Level::ERROR => tracing::error!(process = "engine", "{text}"),
            Level::WARN => tracing::warn!(process = "engine", "{text}"),
            Level::INFO => tracing::info!(process = "engine", "{text}"),
            Level::DEBUG => tracing::debug!(process = "engine", "{text}"),
            Level::TRACE => tracing::trace!(process = "engine", "{text}"),
        }
    }
}

/// A text as it is, all else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_its_level_its_message_and_its_fields() {
        let record = r#"{"timestamp":"2026-01-01T00:00:00Z","level":"ERROR","message":"it failed","node":"n1","count":3,"target":"flowgate"}"#;
        let expected = Line {
            level: Level::ERROR,
            text: "it failed node=n1 count=3".to_owned(),
        };
        assert_eq!(Line::read(record), expected);
    }

    #[test]
    fn what_is_no_record_is_a_warning() {
        for line in ["memory allocation of 8 bytes failed", "[1]", "{"] {
            let expected = Line {
                level: Level::WARN,
                text: line.to_owned(),
            };
            assert_eq!(Line::read(line), expected);
        }
    }
}
