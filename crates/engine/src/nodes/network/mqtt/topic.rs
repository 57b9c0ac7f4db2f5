//! Topics of MQTT: which may be published to, which may be subscribed to, and which of them match.

/// Returns whether messages may be published to this topic, by Node-RED's rule.
pub(super) fn may_publish(topic: &str) -> bool {
    !topic.is_empty()
        && !topic.contains(['+', '#', '\u{8}', '\u{c}', '\n', '\r', '\t', '\u{b}', '\0'])
}

/// Returns whether this is a topic filter: wildcards stand alone in their level, `#` in the last
/// one.
pub(super) fn may_subscribe(filter: &str) -> bool {
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let wild = level.contains(['+', '#']);
        let last = levels.peek().is_none();
        if wild && level != "+" && !(level == "#" && last) {
            return false;
        }
    }
    true
}

/// Returns whether a filter takes a topic. As in Node-RED, `+` is no empty level, and
/// `$share/<group>/` is left out.
pub(super) fn matches(filter: &str, topic: &str) -> bool {
    if filter == "#" {
        return true;
    }
    let filter = filter
        .strip_prefix("$share/")
        .and_then(|rest| rest.split_once('/'))
        .map_or(filter, |(_, filter)| filter);
    let mut levels = topic.split('/');
    for wanted in filter.split('/') {
        match (wanted, levels.next()) {
            ("#", _) => return true,
            ("+", Some(level)) if !level.is_empty() => {}
            (wanted, Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_filters_match_as_in_the_mqtt_standard() {
        let table = [
            ("a/b", "a/b", true),
            ("a/b", "a/b/c", false),
            ("a/+", "a/b", true),
            ("a/+", "a/b/c", false),
            ("a/+/c", "a/b/c", true),
            ("a/#", "a", true),
            ("a/#", "a/b/c", true),
            ("#", "a/b", true),
            ("$share/g/a/+", "a/b", true),
            ("a.b", "axb", false),
        ];
        for (filter, topic, expected) in table {
            assert_eq!(matches(filter, topic), expected, "{filter} {topic}");
        }
    }

    #[test]
    fn wildcards_are_allowed_only_at_valid_positions() {
        for good in ["#", "+", "a/+/b", "a/#", "+/+/#", "a", "/a", "$share/g/a"] {
            assert!(may_subscribe(good), "{good}");
        }
        for bad in ["a#", "#/a", "a/b+", "a/#/b", "++"] {
            assert!(!may_subscribe(bad), "{bad}");
        }
        assert!(
            may_publish("a/b c") && !may_publish("a/+") && !may_publish("") && !may_publish("#")
        );
    }
}
