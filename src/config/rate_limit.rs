//! Limits of requests, as `"100/m"`: so many at once, and on average in that time.

use super::error::SpannedError;
use super::raw::Entry;
use super::setting::Source;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The expected form, for errors.
pub const EXPECTED: &str = "a number of requests from 1 to 1000000 in a second, minute or hour, such as \"10/s\", \"100/m\" or \"5000/h\"";

/// The most requests of a limit. Our choice: more than a gateway serves in a second.
const MAX_REQUESTS: u64 = 1_000_000;

/// A limit of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// Requests at once, and on average in `period`.
    pub requests: u64,
    /// A second, a minute or an hour.
    pub period: Duration,
}

impl RateLimit {
    /// Reads `100/m`.
    pub fn parse(text: &str) -> Option<Self> {
        let (requests, unit) = text.split_once('/')?;
        let period = match unit {
            "s" => Duration::from_secs(1),
            "m" => Duration::from_mins(1),
            "h" => Duration::from_hours(1),
            _ => return None,
        };
        let is_number = requests.bytes().all(|byte| byte.is_ascii_digit());
        let requests = requests.parse().ok().filter(|_| is_number)?;
        (1..=MAX_REQUESTS)
            .contains(&requests)
            .then_some(Self { requests, period })
    }
}

/// Reads a limit; `None` without the key.
pub(super) fn rate_limit(
    entry: Entry,
    source: &Source<'_>,
) -> Result<Option<RateLimit>, SpannedError> {
    let read = |entry| source.parsed(&entry, EXPECTED, RateLimit::parse);
    entry.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_and_a_unit_and_nothing_else() {
        let limit = RateLimit::parse("100/m").map(|limit| (limit.requests, limit.period));
        assert_eq!(limit, Some((100, Duration::from_mins(1))));
        for text in [
            "",
            "1",
            "/s",
            "0/s",
            "+1/s",
            "1/d",
            "1 / s",
            "1/s/s",
            "1000001/s",
            "-1/s",
            "1.5/s",
        ] {
            assert_eq!(RateLimit::parse(text), None, "{text}");
        }
    }
}
