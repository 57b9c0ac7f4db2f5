//! Time zones by their names: the machine's own, and all others of the IANA database, which is part of the program.

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{OffsetName, Tz, TzOffset};

/// The name of the machine's time zone: from `TZ`, else from the link `/etc/localtime`, else UTC.
pub(super) fn own() -> String {
    let named = |text: String| {
        let name = text
            .trim_start_matches(':')
            .rsplit_once("zoneinfo/")
            .map(|(_, name)| name.to_owned());
        name.unwrap_or(text)
    };
    let link = || {
        Some(
            std::fs::read_link("/etc/localtime")
                .ok()?
                .to_str()?
                .to_owned(),
        )
    };
    let variable = std::env::var("TZ").ok().filter(|tz| !tz.is_empty());
    let name = variable
        .or_else(link)
        .map_or_else(|| "UTC".to_owned(), named);
    if name == "Etc/UTC" {
        "UTC".to_owned()
    } else {
        name
    }
}

/// The number of seconds that a zone is ahead of UTC at a time, milliseconds since 1970; `None`: there is no such zone.
/// Names match in any letter case (ECMA-402 §6.5).
pub(super) fn offset(zone: &str, at: f64) -> Option<i32> {
    Some(offset_at(zone, at)?.fix().local_minus_utc())
}

/// The abbreviation of a zone at a time: `CET`, `EDT`, `+03`.
pub(super) fn short(zone: &str, at: f64) -> Option<String> {
    offset_at(zone, at)?.abbreviation().map(str::to_owned)
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a time of JavaScript is whole and in range"
)]
fn offset_at(zone: &str, at: f64) -> Option<TzOffset> {
    let zone = Tz::from_str_insensitive(zone).ok()?;
    let at = DateTime::from_timestamp_millis(at as i64)?;
    Some(zone.offset_from_utc_datetime(&at.naive_utc()))
}
