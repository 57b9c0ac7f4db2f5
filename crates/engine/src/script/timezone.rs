//! Time zones by their names: the machine's own, and all others of the IANA database, which is part
//! of the program.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Milliseconds of the 400 years after which the calendar repeats: 146,097 days, whole weeks.
const CYCLE: i64 = 146_097 * 86_400_000;

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

/// The number of seconds that a zone is ahead of UTC at a time, milliseconds since 1970; `None`:
/// there is no such zone. Names match in any letter case (ECMA-402 §6.5).
pub(super) fn offset(zone: &str, at: f64) -> Option<i32> {
    Some(jiff::tz::db().get(zone).ok()?.to_offset(time(at)).seconds())
}

/// The abbreviation of a zone at a time: `CET`, `EDT`, `+03`.
pub(super) fn short(zone: &str, at: f64) -> Option<String> {
    let zone: TimeZone = jiff::tz::db().get(zone).ok()?;
    let info = zone.to_offset_info(time(at));
    Some(info.abbreviation().to_owned())
}

/// A time with the same offset in every zone, in the years that the library knows: rules of the
/// future repeat, and there are none of the distant past.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a time of JavaScript is whole and in range"
)]
fn time(at: f64) -> Timestamp {
    let at = match at as i64 {
        at if at > 10 * CYCLE => at % CYCLE + 9 * CYCLE,
        at => at,
    };
    Timestamp::from_millisecond(at).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMER: f64 = 1_783_000_000_000.0;

    #[test]
    fn zones_have_their_offsets_and_abbreviations_in_any_letter_case() {
        for (zone, seconds, name) in [
            ("Europe/Berlin", 7200, "CEST"),
            ("europe/berlin", 7200, "CEST"),
            ("America/New_York", -14_400, "EDT"),
            ("US/Pacific", -25_200, "PDT"),
            ("Asia/Calcutta", 19_800, "IST"),
            ("Europe/Istanbul", 10_800, "+03"),
            ("UTC", 0, "UTC"),
            ("Etc/GMT+5", -18_000, "-05"),
        ] {
            assert_eq!(offset(zone, SUMMER), Some(seconds), "{zone}");
            assert_eq!(short(zone, SUMMER).as_deref(), Some(name), "{zone}");
        }
        assert_eq!(offset("Atlantis/Poseidonis", SUMMER), None);
    }

    #[test]
    fn zones_have_an_offset_at_every_time_of_javascript() {
        #[allow(clippy::cast_precision_loss, reason = "a whole number of milliseconds")]
        let later = SUMMER + (600 * CYCLE) as f64;
        assert_eq!(offset("Europe/Berlin", later), Some(7200));
        assert_eq!(offset("Europe/Berlin", 8.64e15), Some(7200));
        // Local mean time.
        assert_eq!(offset("Europe/Berlin", -8.64e15), Some(3208));
    }
}
