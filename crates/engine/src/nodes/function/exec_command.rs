//! Builds the command line of an exec node: its command, followed by the message's value and a
//! fixed text. Pure.

use smol_str::SmolStr;
use value::{Failure, Message, Path, Value, coerce};

/// A command and what is put behind it.
pub(super) struct Command {
    pub start: SmolStr,
    /// The property whose text is put behind it.
    pub value: Option<Path>,
    /// The text at the end of the line.
    pub append: SmolStr,
}

impl Command {
    /// The command line for a message. Its text goes in as it stands: a flow that lets clients
    /// choose a payload that is put behind a command lets them run commands, as in Node-RED.
    pub(super) fn line(&self, message: &Message) -> Result<String, Failure> {
        let mut line = self.start.to_string();
        if let Some(path) = &self.value {
            let value = path.try_read_message(message)?;
            if !matches!(value, Value::Undefined) {
                line.push(' ');
                line.push_str(&coerce::to_text(&value));
            }
        }
        if !self.append.is_empty() {
            line.push(' ');
            line.push_str(&self.append);
        }
        Ok(line)
    }
}

/// The words of a command line: separated by spaces, except within double quotes. Quotes around a
/// whole word are taken off; nothing else is special (observed).
pub(super) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return words;
        }
        let end = word_end(rest);
        let (word, after) = rest.split_at(end);
        // A quote that never closes only separates.
        rest = if end == 0 {
            after.get(1..).unwrap_or_default()
        } else {
            after
        };
        if end > 0 {
            let inner = word.strip_prefix('"').and_then(|w| w.strip_suffix('"'));
            words.push(inner.unwrap_or(word).to_owned());
        }
    }
}

/// The end of the word at the beginning of the text.
fn word_end(text: &str) -> usize {
    let mut end = 0;
    while let Some(c) = text.get(end..).and_then(|rest| rest.chars().next()) {
        if c == '"' {
            match text.get(end + 1..).and_then(|rest| rest.find('"')) {
                Some(length) => end += length + 2,
                None => return end,
            }
        } else if c.is_whitespace() {
            return end;
        } else {
            end += c.len_utf8();
        }
    }
    end
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_into_words_as_in_node_red() {
        assert_eq!(words(r#"echo "hi there" x"#), ["echo", "hi there", "x"]);
        assert_eq!(words("a 'a b' c\\ d"), ["a", "'a", "b'", "c\\", "d"]);
        assert_eq!(
            words(r#"a"b c"d "x" ""  "y" \"q"#),
            [r#"a"b c"d"#, "x", "", "y", "\\", "q"]
        );
        assert!(words("  ").is_empty());
    }

    #[test]
    fn the_value_and_extra_arguments_are_appended_to_the_command() {
        let line = |value: Option<&str>, append: &str, payload: Value| {
            let command = Command {
                start: "echo hi".into(),
                value: value.map(|v| Path::parse_message(v).unwrap()),
                append: append.into(),
            };
            command.line(&Message::with_payload(payload))
        };
        let numbers = Value::array(vec![1.0.into(), 2.0.into()]);
        assert_eq!(
            line(Some("payload"), "tail", numbers).unwrap(),
            "echo hi 1,2 tail"
        );
        assert_eq!(
            line(Some("payload"), "", Value::Null).unwrap(),
            "echo hi null"
        );
        assert_eq!(line(Some("nope"), "", Value::Null).unwrap(), "echo hi");
        assert_eq!(line(None, "", "x".into()).unwrap(), "echo hi");
        assert!(line(Some("a.b"), "", "x".into()).is_err());
    }
}
