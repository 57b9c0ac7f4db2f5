//! Dates as text: ISO 8601, JavaScript's long form and moment.js' format tokens.
//!
//! Local time is that of the process (`TZ`); the moment itself is always an argument.

use chrono::{DateTime, Datelike, Local, Offset, TimeZone, Timelike, Utc};
use std::fmt::Write;

/// `toISOString`; `None` for an invalid date.
pub fn iso(ms: f64) -> Option<String> {
    let time = utc(ms)?;
    let year = time.year();
    // Years beyond four digits are written with sign and six digits (ECMA-262 §21.4.1.32).
    let year = if (0..=9999).contains(&year) {
        format!("{year:04}")
    } else {
        format!("{year:+07}")
    };
    Some(format!("{year}{}", time.format("-%m-%dT%H:%M:%S%.3fZ")))
}

/// `Date.prototype.toString`, without the name of the zone where only its offset is known.
pub fn long_text(ms: f64) -> String {
    let Some(time) = local(ms) else {
        return "Invalid Date".to_owned();
    };
    let zone = if time.offset().fix().local_minus_utc() == 0 {
        " (Coordinated Universal Time)"
    } else {
        ""
    };
    format!("{}{zone}", time.format("%a %b %d %Y %H:%M:%S GMT%z"))
}

/// Milliseconds of a text in ISO 8601 form, as `new Date(text)` reads it; `None` if it is not one.
pub fn parse(text: &str) -> Option<f64> {
    let ms = |time: DateTime<Utc>| time.timestamp_millis() as f64;
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(ms(time.to_utc()));
    }
    if let Ok(time) = DateTime::parse_from_rfc2822(text) {
        return Some(ms(time.to_utc()));
    }
    // A bare day is UTC, a day with a time is local (ECMA-262 §21.4.1.32).
    if let Ok(day) = text.parse::<chrono::NaiveDate>() {
        return day.and_hms_opt(0, 0, 0).map(|t| ms(t.and_utc()));
    }
    let time = text.parse::<chrono::NaiveDateTime>().ok()?;
    Local
        .from_local_datetime(&time)
        .earliest()
        .map(|t| ms(t.to_utc()))
}

/// A time as local time, in moment.js' format; unknown letters stay as they are.
pub fn format(ms: f64, format: &str) -> String {
    match local(ms) {
        Some(time) => format_time(&time, format),
        None => "Invalid date".to_owned(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "out of range values saturate and are refused by chrono"
)]
fn utc(ms: f64) -> Option<DateTime<Utc>> {
    if ms.is_nan() {
        None
    } else {
        DateTime::from_timestamp_millis(ms as i64)
    }
}

fn local(ms: f64) -> Option<DateTime<Local>> {
    utc(ms).map(|time| time.with_timezone(&Local))
}

/// Longest first within a letter, so that the first that fits is the right one.
const TOKENS: [&str; 44] = [
    "YYYY", "YY", "Qo", "Q", "MMMM", "MMM", "Mo", "MM", "M", "DDDD", "DDDo", "DDD", "Do", "DD",
    "D", "dddd", "ddd", "dd", "do", "d", "E", "WW", "W", "GGGG", "HH", "H", "hh", "h", "kk", "k",
    "mm", "m", "ss", "s", "SSS", "SS", "S", "ZZ", "Z", "LLLL", "LTS", "LT", "LL", "L",
];

fn format_time<Z: TimeZone>(time: &DateTime<Z>, format: &str) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some(c) = rest.chars().next() {
        if let Some((literal, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
            out.push_str(literal);
            rest = after;
        } else if let Some((token, after)) = TOKENS
            .iter()
            .find_map(|t| Some((*t, rest.strip_prefix(t)?)))
        {
            write_token(&mut out, time, token);
            rest = after;
        } else {
            match c {
                'A' => out.push_str(if time.hour() < 12 { "AM" } else { "PM" }),
                'a' => out.push_str(if time.hour() < 12 { "am" } else { "pm" }),
                'X' => out.push_str(&time.timestamp().to_string()),
                'x' => out.push_str(&time.timestamp_millis().to_string()),
                'l' => out.push_str(&format_time(time, "M/D/YYYY")),
                other => out.push(other),
            }
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    out
}

fn write_token<Z: TimeZone>(out: &mut String, time: &DateTime<Z>, token: &str) {
    let name = |pattern: &str| time.naive_local().format(pattern).to_string();
    let milliseconds = time.timestamp_subsec_millis();
    let quarter = time.month0() / 3 + 1;
    let weekday = time.weekday().num_days_from_sunday();
    let hour12 = time.hour12().1;
    let hour24 = if time.hour() == 0 { 24 } else { time.hour() };
    // Writing to a String cannot fail.
    let _ = match token {
        "YYYY" => write!(out, "{:04}", time.year()),
        "YY" => write!(out, "{:02}", time.year().rem_euclid(100)),
        "GGGG" => write!(out, "{:04}", time.iso_week().year()),
        "Q" => write!(out, "{quarter}"),
        "Qo" => write!(out, "{}", ordinal(quarter)),
        "MMMM" => out.write_str(&name("%B")),
        "MMM" => out.write_str(&name("%b")),
        "MM" => write!(out, "{:02}", time.month()),
        "Mo" => write!(out, "{}", ordinal(time.month())),
        "M" => write!(out, "{}", time.month()),
        "DDDD" => write!(out, "{:03}", time.ordinal()),
        "DDDo" => write!(out, "{}", ordinal(time.ordinal())),
        "DDD" => write!(out, "{}", time.ordinal()),
        "Do" => write!(out, "{}", ordinal(time.day())),
        "DD" => write!(out, "{:02}", time.day()),
        "D" => write!(out, "{}", time.day()),
        "dddd" => out.write_str(&name("%A")),
        "ddd" => out.write_str(&name("%a")),
        "dd" => out.write_str(name("%a").get(..2).unwrap_or_default()),
        "do" => write!(out, "{}", ordinal(weekday)),
        "d" => write!(out, "{weekday}"),
        "E" => write!(out, "{}", time.weekday().number_from_monday()),
        "WW" => write!(out, "{:02}", time.iso_week().week()),
        "W" => write!(out, "{}", time.iso_week().week()),
        "HH" => write!(out, "{:02}", time.hour()),
        "H" => write!(out, "{}", time.hour()),
        "hh" => write!(out, "{hour12:02}"),
        "h" => write!(out, "{hour12}"),
        "kk" => write!(out, "{hour24:02}"),
        "k" => write!(out, "{hour24}"),
        "mm" => write!(out, "{:02}", time.minute()),
        "m" => write!(out, "{}", time.minute()),
        "ss" => write!(out, "{:02}", time.second()),
        "s" => write!(out, "{}", time.second()),
        "SSS" => write!(out, "{milliseconds:03}"),
        "SS" => write!(out, "{:02}", milliseconds / 10),
        "S" => write!(out, "{}", milliseconds / 100),
        "ZZ" => out.write_str(&offset(time, "")),
        "Z" => out.write_str(&offset(time, ":")),
        "LTS" => out.write_str(&format_time(time, "h:mm:ss A")),
        "LT" => out.write_str(&format_time(time, "h:mm A")),
        "LLLL" => out.write_str(&format_time(time, "dddd, MMMM D, YYYY h:mm A")),
        "LL" => out.write_str(&format_time(time, "MMMM D, YYYY")),
        _ => out.write_str(&format_time(time, "MM/DD/YYYY")),
    };
}

fn offset<Z: TimeZone>(time: &DateTime<Z>, colon: &str) -> String {
    let minutes = time.offset().fix().local_minus_utc() / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    format!(
        "{sign}{:02}{colon}{:02}",
        minutes.abs() / 60,
        minutes.abs() % 60
    )
}

fn ordinal(n: u32) -> String {
    let suffix = match (n % 100, n % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(format: &str) -> String {
        let time = utc(1_795_203_905_042.0).unwrap_or_default();
        format_time(&time, format)
    }

    #[test]
    fn iso_texts_are_those_of_javascript() {
        assert_eq!(iso(0.0).as_deref(), Some("1970-01-01T00:00:00.000Z"));
        assert_eq!(
            iso(1_795_203_905_042.0).as_deref(),
            Some("2026-11-20T19:45:05.042Z")
        );
        assert_eq!(iso(f64::NAN), None);
        assert_eq!(parse("2026-11-20T19:45:05.042Z"), Some(1_795_203_905_042.0));
        assert_eq!(parse("1970-01-02"), Some(86_400_000.0));
        assert_eq!(parse("yesterday"), None);
    }

    #[test]
    fn moment_format_tokens_are_supported() {
        assert_eq!(
            formatted("YYYY-MM-DD HH:mm:ss.SSS Z"),
            "2026-11-20 19:45:05.042 +00:00"
        );
        assert_eq!(
            formatted("dddd ddd dd D Do DDD Q"),
            "Friday Fri Fr 20 20th 324 4"
        );
        assert_eq!(
            formatted("h:mm a [at] A MMMM YY"),
            "7:45 pm at PM November 26"
        );
        assert_eq!(formatted("X x"), "1795203905 1795203905042");
    }
}
