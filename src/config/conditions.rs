//! `[auth] step_up` and `permission_networks`: permissions that a user may use under a condition
//! only.

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
    /// Permissions that need a recent second factor; `flows.write:FLOW` for some flows.
    pub step_up: Vec<String>,
    /// How long a second factor is recent.
    pub step_up_after: Duration,
    /// Permissions with the networks from which they may be used.
    pub networks: Vec<(String, Arc<Networks>)>,
}

impl Conditions {
    /// Returns whether there is none.
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
        names.push(stepped(name, entry.span())?);
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

/// A permission for all flows: a network is none of a flow.
fn whole(name: String, span: std::ops::Range<usize>) -> Result<String, SpannedError> {
    if name.starts_with("flows.read:") || name.starts_with("flows.write:") {
        let sentence = "a condition is for a whole permission: name it without the flows";
        return Err(SpannedError::rule(span, sentence));
    }
    Ok(name)
}

/// A permission that a second factor can be asked for: also the changes of some flows. Those that
/// flows share belong to them.
fn stepped(name: String, span: std::ops::Range<usize>) -> Result<String, SpannedError> {
    let sentence = match name.strip_prefix("flows.write:") {
        Some("shared") => "name the flows: what they share with others is withheld with them",
        Some(_) => return Ok(name),
        None => return whole(name, span),
    };
    Err(SpannedError::rule(span, sentence))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::config::Config;
    use std::path::Path;

    fn refusal(line: &str) -> Option<String> {
        let text = format!("[auth]\n{line}\n");
        let parsed = Config::parse(&text, "test.toml", Path::new(""));
        parsed.err().map(|error| error.to_string())
    }

    #[test]
    fn a_second_factor_is_asked_for_changes_of_some_flows_and_a_network_for_whole_permissions() {
        for line in [
            "step_up = [\"flows.write:Line1*\", \"flows.approve\", \"*\"]",
            "permission_networks = { \"flows.write\" = [\"::1\"] }",
        ] {
            assert_eq!(refusal(line), None);
        }
        for (line, sentence) in [
            ("step_up = [\"flows.read:Line1\"]", "without the flows"),
            ("step_up = [\"flows.write:shared\"]", "name the flows"),
            (
                "permission_networks = { \"flows.write:Line1\" = [\"::1\"] }",
                "without the flows",
            ),
        ] {
            assert!(refusal(line).unwrap().contains(sentence), "{line}");
        }
    }
}
