//! Parses topic filters as Node-RED does: `+` is one level, a last level `#` all below.
//!
//! Node-RED makes a regular expression of it. One that cannot be compiled kills the process (seen:
//! `a{2,1}`), and one with many `+` in a level keeps it busy for ever, so only what is harmless
//! there is a pattern here.

use super::frame::TOPIC;

/// The topics of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(String);

impl Pattern {
    /// Reads a subscription; `None`: it means no topic, and must not be passed on.
    pub(super) fn parse(text: String) -> Option<Self> {
        let level = |level: &str| level == "+" || !level.contains(['+', '{', '}']);
        let plain = !text.is_empty() && text.len() <= TOPIC && !text.contains(char::is_control);
        (plain && text.split('/').all(level)).then_some(Self(text))
    }

    /// As it was written.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this topic is meant.
    pub(super) fn covers(&self, topic: &str) -> bool {
        let (levels, below) = match self.0.strip_suffix("/#") {
            Some(levels) => (levels, true),
            None => (self.0.as_str(), false),
        };
        let mut topic = topic.split('/');
        let same = levels.split('/').all(|wanted| {
            let level = topic.next();
            level.is_some_and(|level| level == wanted || (wanted == "+" && !level.is_empty()))
        });
        same && (below || topic.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(pattern: &str, topic: &str) -> bool {
        Pattern::parse(pattern.to_owned()).is_some_and(|pattern| pattern.covers(topic))
    }

    #[test]
    fn a_plus_is_one_level_and_a_last_hash_all_below() {
        for (pattern, topic) in [
            ("debug", "debug"),
            ("status/#", "status/a"),
            ("status/#", "status/a/b"),
            ("status/#", "status"),
            ("+/a", "status/a"),
            ("status/+", "status/a"),
            ("+/+", "status/a"),
            ("+/#", "notification/node/added"),
            ("notification/+/added", "notification/node/added"),
            ("a.b*[c]", "a.b*[c]"),
            ("#", "#"),
        ] {
            assert!(covers(pattern, topic), "{pattern} {topic}");
        }
        for (pattern, topic) in [
            ("#", "debug"),
            ("#", "status/a"),
            ("debug", "debug/x"),
            ("debug", "Debug"),
            ("status/#", "statusx"),
            ("status/+", "status/a/b"),
            ("status/+", "status/"),
            ("+", "status/a"),
            ("#/a", "status/a"),
            ("a.b", "axb"),
            ("status/", "status/a"),
            ("", ""),
        ] {
            assert!(!covers(pattern, topic), "{pattern} {topic}");
        }
    }

    #[test]
    fn patterns_that_could_break_node_red_are_refused() {
        for text in ["", "a{2,1}", "++++x", "a+", "a/b+/c", "a\nb", "a\0", "}"] {
            assert_eq!(Pattern::parse(text.to_owned()), None, "{text}");
        }
        assert_eq!(Pattern::parse("a".repeat(TOPIC + 1)), None);
    }
}
