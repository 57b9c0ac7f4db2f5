//! `[audit]`: the destination of audit records, and the behaviour while they cannot be written.

use super::error::SpannedError;
use super::setting::{Source, number};
use super::{Audit, audit_sink, raw};
use std::time::Duration;
use toml::Spanned;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

pub(super) fn audit(raw: raw::Audit, source: &Source<'_>) -> Result<Audit, SpannedError> {
    let stdout = raw.to.map(|entry| {
        source.parsed(&entry, "\"file\" or \"stdout\"", |text| match text {
            "file" => Some(false),
            "stdout" => Some(true),
            _ => None,
        })
    });
    let refuse = raw.on_failure.map(|entry| {
        source.parsed(&entry, "\"refuse\" or \"continue\"", |text| match text {
            "refuse" => Some(true),
            "continue" => Some(false),
            _ => None,
        })
    });
    let rotate_size = source.size(raw.rotate_size, 16 << 20, (1 << 10)..=(1 << 30))?;
    let keep = number(raw.keep, 10, 1..=10_000)?;
    // Room for the files of an older configuration, and for the one that is written.
    let default = (1 << 30).max(rotate_size * (keep as u64 + 1));
    let span = raw.max_size.as_ref().map(Spanned::span);
    let max_size = source.size(raw.max_size, default, (1 << 10)..=(1 << 50))?;
    if let Some(span) = span.filter(|_| max_size < 2 * rotate_size) {
        let sentence = "audit.max_size must be at least twice audit.rotate_size, so that a full file can be followed by another";
        return Err(SpannedError::rule(span, sentence));
    }
    let stdout = stdout.transpose()?.unwrap_or(false);
    if let Some(sink) = raw.sink.first().filter(|_| stdout) {
        let sentence =
            "sinks read the file of the audit log, and audit.to = \"stdout\" writes none";
        return Err(SpannedError::rule(sink.span(), sentence));
    }
    Ok(Audit {
        off: false,
        stdout,
        rotate_size,
        rotate_age: source.duration(raw.rotate_age, 7 * DAY, SECOND..=365 * DAY)?,
        keep,
        keep_for: source.duration(raw.keep_for, 90 * DAY, SECOND..=3650 * DAY)?,
        max_size,
        refuse: refuse.transpose()?.unwrap_or(true),
        signing_key: raw
            .signing_key
            .as_ref()
            .map(|entry| source.path(entry))
            .transpose()?,
        checkpoint: source.duration(raw.checkpoint, MINUTE, SECOND..=60 * MINUTE)?,
        sinks: audit_sink::sinks(raw.sink, source)?,
    })
}
