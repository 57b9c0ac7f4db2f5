//! `[audit]`: where it is written who did what, and what happens while it cannot be.

use super::entry::{Source, number};
use super::error::Fault;
use super::{Audit, raw};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);

pub(super) fn audit(raw: raw::Audit, source: &Source<'_>) -> Result<Audit, Fault> {
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
    Ok(Audit {
        stdout: stdout.transpose()?.unwrap_or(false),
        rotate_size: source.size(raw.rotate_size, 16 << 20, (1 << 10)..=(1 << 30))?,
        rotate_age: source.duration(raw.rotate_age, 7 * DAY, SECOND..=365 * DAY)?,
        keep: number(raw.keep, 10, 1..=10_000)?,
        refuse: refuse.transpose()?.unwrap_or(true),
    })
}
