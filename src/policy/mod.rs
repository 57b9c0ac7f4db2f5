//! Policies on deployments: whether a submission may replace the active flow set, and if not, every
//! reason.
//!
//! Pure: no input or output, no clock. Each kind of rules has a file. [`closed()`] and
//! [`without_rev`] need no flow set; [`verdict`] compares two: the elements that differ, and for
//! callers of some flows what both run. [`Sight`] is what a caller sees of one, and [`merged`] what
//! a deployment of that leads to.

mod approval;
mod changes;
mod closed;
mod globals;
mod links;
mod locks;
mod merge;
#[cfg(feature = "engine")]
mod places;
mod rights;
mod shared;
mod sight;
mod sizes;
mod types;

pub use crate::auth::FLOWS_WRITE as WRITE;
pub use crate::metrics::PolicyRule as Rule;
pub use approval::{APPROVE, approval_applies, needs_approval, unproposable};
pub use closed::{Freeze, closed};
pub use merge::{merged, refused, widened};
pub use rights::{deployment_type, restarted};
pub use sight::Sight;

use crate::auth::Permissions;
use crate::config::Policy;
use changes::changes;
use flows::running::Runs;
use flows::{FlowSet, Node};
use smol_str::SmolStr;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use types::adds_types;

/// The permission to change what is locked.
const UNLOCK: &str = "flows.unlock";

/// The caller who wants to deploy.
#[derive(Debug, Clone, Copy)]
pub struct Who<'a> {
    /// The user's name; empty: anonymous.
    pub user: &'a str,
    /// The caller's permissions there.
    pub permissions: &'a Permissions,
}

/// A deployment as it is asked for.
#[derive(Clone, Copy)]
pub struct Deployment<'a> {
    /// The active flow set.
    pub before: &'a FlowSet,
    /// The flow set to be active.
    pub after: &'a FlowSet,
    /// The nodes whose credentials are sent.
    pub sent: &'a HashSet<SmolStr>,
    /// The types of nodes that the runtime has; `None`: not known, and not asked for.
    pub types: Option<&'a Types>,
}

impl<'a> Deployment<'a> {
    /// For a runtime whose types are not known.
    pub fn new(before: &'a FlowSet, after: &'a FlowSet, sent: &'a HashSet<SmolStr>) -> Self {
        Self {
            before,
            after,
            sent,
            types: None,
        }
    }
}

/// Whether the runtime has a type of nodes.
pub type Types = dyn Fn(&str) -> bool + Send + Sync;

/// One rule that a deployment violates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The ids of the elements that violate it, in the order of the flow set.
    pub nodes: Vec<SmolStr>,
    /// A sentence for the user, which names the first of them.
    pub message: String,
}

/// All rules that a deployment violates; empty: it is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict(pub Vec<Violation>);

impl Verdict {
    /// Nothing, or the verdict as an error.
    pub fn allowed(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }

    /// The same for a caller who may not see all elements: a violation by others names none.
    #[must_use]
    pub fn naming_only(mut self, sees: impl Fn(&str) -> bool) -> Self {
        for violation in &mut self.0 {
            if !violation.nodes.iter().all(|id| sees(id)) {
                violation.nodes.retain(|id| sees(id));
                "this would change flows that you may not change"
                    .clone_into(&mut violation.message);
            }
        }
        self
    }

    /// The rules.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        self.0.iter().map(|violation| violation.rule)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, violation) in self.0.iter().enumerate() {
            let separator = if i > 0 { "; " } else { "" };
            write!(f, "{separator}{}", violation.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Verdict {}

/// For users of an editor, and for those who write programs.
const WITHOUT_REV: &str = "deployments need a revision here, so that no changes of others are overwritten unseen: in an \
    editor, load the flows again or merge them; a program sends version v2 with the \"rev\" of GET /flows";

/// Whether a submission must name a revision and does not.
pub fn without_rev(policy: &Policy, who: Who<'_>) -> Verdict {
    let forced = || policy.forced.iter().any(|user| user == who.user);
    if !policy.require_rev || (!who.user.is_empty() && forced()) {
        return Verdict::default();
    }
    Verdict(vec![Violation {
        rule: Rule::Rev,
        nodes: Vec::new(),
        message: WITHOUT_REV.to_owned(),
    }])
}

/// Returns whether [`verdict`] can find anything, for this caller, in any deployment.
pub fn applies(policy: &Policy, who: Who<'_>) -> bool {
    policy.places.is_some()
        || policy.require_types
        || !policy.forbid_types.is_empty()
        || !policy.restrict_types.is_empty()
        || policy.max_nodes.is_some()
        || policy.max_bytes.is_some()
        || !who.permissions.cover(UNLOCK)
        || !who.permissions.cover(WRITE)
        || who.permissions.reads_some_flows()
}

/// Whether the caller may let the runtime read its storage again.
pub fn reload(policy: &Policy, who: Who<'_>) -> Verdict {
    let found = [
        rights::reload(who),
        approval::of_all_flows(policy, who, "a reload"),
    ];
    Verdict(found.into_iter().flatten().collect())
}

/// Returns whether the caller may start or stop all flows.
pub fn start_or_stop(policy: &Policy, who: Who<'_>) -> Verdict {
    let found = approval::of_all_flows(policy, who, "starting or stopping all flows");
    Verdict(found.into_iter().collect())
}

/// Returns whether the runtime must be asked for its types, to judge a deployment by this caller.
pub fn needs_types(policy: &Policy, who: Who<'_>, before: &FlowSet, after: &FlowSet) -> bool {
    let is_limited = || !who.permissions.cover(WRITE) || approval_applies(policy, who);
    policy.require_types || (is_limited() && adds_types(before, after))
}

/// The tabs on which something runs after a change that did not run before, or in another way, and
/// those on which something has ended.
pub fn running_otherwise(before: &FlowSet, after: &FlowSet) -> HashSet<SmolStr> {
    let [was, is] = [before, after].map(Runs::of);
    let tabs = was.differing_tabs(&is).chain(is.differing_tabs(&was));
    tabs.cloned().collect()
}

/// Compares a deployment with the rules.
pub fn verdict(policy: &Policy, who: Who<'_>, deployment: &Deployment<'_>) -> Verdict {
    if !applies(policy, who) {
        return Verdict::default();
    }
    let changes = changes(deployment);
    let mut violations = sizes::check(policy, deployment);
    violations.extend(types::check(policy, who, deployment, &changes));
    if !who.permissions.cover(UNLOCK) {
        violations.extend(locks::check(deployment, &changes));
    }
    violations.extend(rights::check(who, deployment, &changes));
    #[cfg(feature = "engine")]
    violations.extend(places::check(policy, deployment));
    Verdict(violations)
}

/// The number of elements that a message names. Our choice: more do not fit into an editor's
/// notification.
const NAMED: usize = 5;

/// A violation by some elements; none if there are no elements.
fn violation(rule: Rule, nodes: &[&Arc<Node>], reason: &str) -> Option<Violation> {
    let first: Vec<String> = nodes.iter().take(NAMED).map(|node| named(node)).collect();
    let more = match nodes.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!nodes.is_empty()).then(|| Violation {
        rule,
        nodes: nodes.iter().map(|node| node.id.clone()).collect(),
        message: format!("{reason}: {}{more}", first.join(", ")),
    })
}

/// Characters of a name that a message shows. Our choice, as for paths in the audit log.
const NAME: usize = 64;

/// An element for a message: its type, id and name.
fn named(node: &Node) -> String {
    let object = node.object();
    let name = ["name", "label"]
        .iter()
        .find_map(|key| object.get(*key)?.as_str());
    let short = |text: &str| -> String {
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        plain.take(NAME).collect()
    };
    let (kind, id) = (short(&node.kind), short(&node.id));
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("{kind} {id} (\"{}\")", short(name)),
        None => format!("{kind} {id}"),
    }
}

#[cfg(test)]
mod tests;
