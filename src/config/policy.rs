//! `[policy]` and `[upstream.policy]`: the rules for deployments.
//!
//! Knows how they are spelled; `crate::policy` applies them.

use super::approval::{Approval, approval};
use super::error::SpannedError;
use super::health::{Health, health};
use super::raw::{self, Entry};
use super::setting::{Source, flag, number};
use croner::Cron;
use flows::Places;
use jiff::tz::TimeZone;
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;

const MINUTE: Duration = Duration::from_mins(1);
const YEAR: Duration = Duration::from_hours(366 * 24);

/// The rules for deployments to one runtime.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// True if nothing may be deployed at all.
    pub read_only: bool,
    /// The times in which nothing may be deployed.
    pub freeze: Vec<FreezeWindow>,
    /// True if a submission must name the revision that it replaces.
    pub require_rev: bool,
    /// The users who may deploy without a revision all the same.
    pub forced: Vec<String>,
    /// True if nodes whose type the runtime lacks are refused.
    pub require_types: bool,
    /// The types of which no node may be added or changed.
    pub forbid_types: Vec<String>,
    /// The types of which only callers with the permission `node-types:TYPE` may add or change
    /// nodes.
    pub restrict_types: Vec<String>,
    /// The largest number of elements of a flow set; `None`: no limit.
    pub max_nodes: Option<usize>,
    /// The largest size of a flow set as JSON, bytes; `None`: no limit.
    pub max_bytes: Option<usize>,
    /// How the flows are watched after a deployment; `None`: they are not.
    pub health: Option<Health>,
    /// The changes that need the approval of a second user.
    pub approval: Approval,
    /// Where flows are to run, in a cluster; `None`: all run in the same engine.
    pub places: Option<Arc<Places>>,
}

/// One `[[policy.freeze]]`: a time, again and again, in which nothing may be deployed.
#[derive(Debug, Clone)]
pub struct FreezeWindow {
    /// When it begins.
    pub cron: Cron,
    /// How long it lasts.
    pub duration: Duration,
    /// The time zone of `cron`.
    pub time_zone: TimeZone,
    /// The reason, for users.
    pub reason: String,
}

/// Converts a table.
pub(super) fn policy(raw: raw::Policy, source: &Source<'_>) -> Result<Policy, SpannedError> {
    const TYPE: &str = "the type of a node, such as \"exec\"";
    let name = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let list = |list, expected| Ok(source.list(list, expected, name)?.unwrap_or_default());
    let approval = approval(&raw, source)?;
    let watched = raw.health.as_ref().map(|raw| health(raw, source));
    let windows = raw.freeze.into_iter().map(|table| window(table, source));
    Ok(Policy {
        read_only: flag(raw.read_only, false)?,
        freeze: windows.collect::<Result<_, _>>()?,
        require_rev: flag(raw.require_rev, false)?,
        forced: list(raw.forced, "the name of a user, such as \"admin\"")?,
        require_types: flag(raw.require_types, false)?,
        forbid_types: list(raw.forbid_types, TYPE)?,
        restrict_types: list(raw.restrict_types, TYPE)?,
        max_nodes: limit(raw.max_nodes, |entry| number(entry, 0, 1..=1_000_000))?,
        max_bytes: limit(raw.max_bytes, |entry| source.size(entry, 0, 2..=1 << 30))?,
        approval,
        health: watched.transpose()?,
        places: None,
    })
}

/// The keys of this table, and those of another one that it does not have.
pub(super) fn over(own: raw::Policy, base: &raw::Policy) -> raw::Policy {
    let base = base.clone();
    let freeze = if own.freeze.is_empty() {
        base.freeze
    } else {
        own.freeze
    };
    raw::Policy {
        read_only: own.read_only.or(base.read_only),
        freeze,
        require_rev: own.require_rev.or(base.require_rev),
        forced: own.forced.or(base.forced),
        require_types: own.require_types.or(base.require_types),
        forbid_types: own.forbid_types.or(base.forbid_types),
        restrict_types: own.restrict_types.or(base.restrict_types),
        max_nodes: own.max_nodes.or(base.max_nodes),
        max_bytes: own.max_bytes.or(base.max_bytes),
        health: own.health.or(base.health),
        approve: own.approve.or(base.approve),
        proposal_lifetime: own.proposal_lifetime.or(base.proposal_lifetime),
        max_proposals: own.max_proposals.or(base.max_proposals),
        max_proposals_per_user: own.max_proposals_per_user.or(base.max_proposals_per_user),
        max_proposal_bytes: own.max_proposal_bytes.or(base.max_proposal_bytes),
        max_proposal_bytes_per_user: (own.max_proposal_bytes_per_user)
            .or(base.max_proposal_bytes_per_user),
    }
}

fn window(table: Spanned<raw::Freeze>, source: &Source<'_>) -> Result<FreezeWindow, SpannedError> {
    const CRON: &str =
        "a cron expression of minute, hour, day, month and weekday, such as \"0 6 * * 1-5\"";
    const ZONE: &str = "the name of a time zone, such as \"UTC\" or \"Europe/Berlin\"";
    const REASON: &str = "a reason for users, of at most 200 characters on one line";
    let span = table.span();
    let raw = table.into_inner();
    let (Some(cron), Some(duration)) = (raw.cron, raw.duration) else {
        let sentence =
            "a freeze window needs cron, when it begins, and duration, how long it lasts";
        return Err(SpannedError::rule(span, sentence));
    };
    let five = |text: &str| text.split_whitespace().count() == 5;
    let zone = |entry| source.parsed(&entry, ZONE, |text| jiff::tz::db().get(text).ok());
    let reason = |entry| {
        source.parsed(&entry, REASON, |text| {
            is_reason(text).then(|| text.to_owned())
        })
    };
    Ok(FreezeWindow {
        cron: source.parsed(&cron, CRON, |text| text.parse().ok().filter(|_| five(text)))?,
        duration: source.duration(Some(duration), Duration::ZERO, MINUTE..=YEAR)?,
        time_zone: raw.time_zone.map_or(Ok(TimeZone::UTC), zone)?,
        reason: raw
            .reason
            .map_or_else(|| Ok("a freeze window of [policy]".to_owned()), reason)?,
    })
}

/// Returns whether this can be shown to users as the reason of a freeze.
pub fn is_reason(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= 200 && !text.contains(char::is_control)
}

/// A limit, or "off".
fn limit(
    entry: Entry,
    read: impl FnOnce(Entry) -> Result<usize, SpannedError>,
) -> Result<Option<usize>, SpannedError> {
    match entry {
        Some(entry) if entry.get_ref().as_str() != Some("off") => read(Some(entry)).map(Some),
        Some(_) | None => Ok(None),
    }
}
