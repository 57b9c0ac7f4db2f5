//! `[auth] step_up` and `permission_networks`: permissions that a user may use under a condition only.

use super::error::SpannedError;
use super::networks::{Networks, allowed};
use super::raw::{Entry, List, Lists};
use super::route;
use super::setting::Source;
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

/// The conditions of permissions.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// Permissions that need a recent second factor.
    pub step_up: Vec<String>,
    /// How long a second factor is recent.
    pub step_up_after: Duration,
    /// Permissions with the networks from which they may be used.
    pub networks: Vec<(String, Arc<Networks>)>,
}

impl Conditions {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.step_up.is_empty() && self.networks.is_empty()
    }
}

pub(super) fn conditions(
    step_up: &List,
    after: Entry,
    networks: Lists,
    source: &Source<'_>,
) -> Result<Conditions, SpannedError> {
    let mut names = Vec::new();
    for entry in step_up.iter().flat_map(Spanned::get_ref) {
        let name = source.parsed(entry, route::PERMISSION, route::permission)?;
        names.push(whole(name, entry.span())?);
    }
    let mut limited = Vec::new();
    for (name, list) in networks.map(Spanned::into_inner).unwrap_or_default() {
        let span = name.span();
        let Some(permission) = route::permission(name.get_ref()) else {
            return Err(SpannedError::value(span, route::PERMISSION));
        };
        let permission = whole(permission, span)?;
        limited.extend(allowed(Some(list), source)?.map(|networks| (permission, networks)));
    }
    Ok(Conditions {
        step_up: names,
        step_up_after: source.duration(after, 15 * MINUTE, SECOND..=DAY)?,
        networks: limited,
    })
}

/// A permission for all flows. For some of them it would be none of the conditions of a user who has it for all.
fn whole(name: String, span: std::ops::Range<usize>) -> Result<String, SpannedError> {
    if name.starts_with("flows.read:") || name.starts_with("flows.write:") {
        let sentence = "a condition is for a whole permission: name it without the flows";
        return Err(SpannedError::rule(span, sentence));
    }
    Ok(name)
}
