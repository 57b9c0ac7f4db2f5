//! `approve`: the flows whose changes need a second user. A change of a flow is what needs the
//! right to that flow: an element on it before or after, a shared element or a config node that it
//! uses, its place among the others, and what makes anything run otherwise that is on it, or
//! nothing at all.

use super::changes::{Change, changes, is_reordered};
use super::globals::{Globals, global_configs};
use super::rights::{SHARED, differing, fits};
use super::shared::{GLOBAL_CONFIG, Place, References, place};
use super::{Deployment, Rule, Violation, Who, types, violation};
use crate::config::Policy;
use flows::running::Runs;
use flows::{ElementKind, FlowSet, Node};
use smol_str::SmolStr;
use std::cell::{LazyCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The permission to approve the changes of others; who holds it needs no approval.
pub const APPROVE: &str = "flows.approve";
/// The pattern for every change, of flows or not.
const EVERYTHING: &str = "*";

/// Returns whether [`needs_approval`] can find anything, for this caller.
pub fn approval_applies(policy: &Policy, who: Who<'_>) -> bool {
    !policy.approval.flows.is_empty() && !who.permissions.cover(APPROVE)
}

/// The changes that need the approval of another user; `None`: the caller may deploy.
pub fn needs_approval(
    policy: &Policy,
    who: Who<'_>,
    deployment: &Deployment<'_>,
) -> Option<Violation> {
    if !approval_applies(policy, who) {
        return None;
    }
    let guarded = Guarded::new(&policy.approval.flows, deployment);
    let changes = changes(deployment);
    let runs = LazyCell::new(|| [deployment.before, deployment.after].map(Runs::of));
    let shared = LazyCell::new(|| guarded.used(&runs));
    let uses = |id: &SmolStr| shared.iter().any(|used| used.contains(id));
    let concerned = changes.iter().filter(|change| guarded.has(change, uses));
    let mut nodes: Vec<&Arc<Node>> = concerned.filter_map(Change::node).collect();
    let globals = Globals::differing(deployment);
    if !globals.is_empty() && guarded.read(&globals, &shared) {
        nodes.retain(|node| node.kind != GLOBAL_CONFIG);
        nodes.extend(global_configs(deployment));
    }
    let differs = !changes.is_empty() || is_reordered(deployment);
    if nodes.is_empty() && differs {
        nodes = differing(&runs, |flow| guarded.is(flow), |_| true);
    }
    if nodes.is_empty() && differs {
        nodes = guarded.confused(&runs);
    }
    if nodes.is_empty() && !changes.is_empty() {
        // Guarded flows may turn out to use one that begins to run with its tab, or ends with it.
        let [was, is] = &*runs;
        let ended = was.differing_config_nodes(is);
        let differing = ended.chain(is.differing_config_nodes(was));
        nodes = differing.filter(|node| uses(&node.id)).collect();
    }
    if nodes.is_empty() {
        nodes = guarded.moved();
    }
    if nodes.is_empty() {
        let stops = types::stop_everything(deployment, &changes)?;
        let rule = Rule::Approve;
        return Some(Violation { rule, ..stops });
    }
    violation(
        Rule::Approve,
        &nodes,
        "these changes need the approval of another user",
    )
}

/// The refusal of such changes by an anonymous caller, who can propose nothing.
pub fn unproposable(needed: Violation) -> Violation {
    let message = format!("{}; only users can propose some", needed.message);
    Violation { message, ..needed }
}

/// The refusal of an `action` that concerns every flow and that no proposal can hold.
pub(super) fn of_all_flows(policy: &Policy, who: Who<'_>, action: &str) -> Option<Violation> {
    approval_applies(policy, who).then(|| Violation {
        rule: Rule::Approve,
        nodes: Vec::new(),
        message: format!("changes need approval here, so {action} needs the permission {APPROVE}"),
    })
}

/// The flows whose changes need approval.
struct Guarded<'a> {
    patterns: &'a [String],
    deployment: &'a Deployment<'a>,
    /// The flows that were asked for.
    known: RefCell<HashMap<SmolStr, bool>>,
}

impl<'a> Guarded<'a> {
    fn new(patterns: &'a [String], deployment: &'a Deployment<'a>) -> Self {
        Self {
            patterns,
            deployment,
            known: RefCell::default(),
        }
    }

    fn lists(&self, pattern: &str) -> bool {
        self.patterns.iter().any(|listed| listed == pattern)
    }

    /// Returns whether the flow of this id is guarded, as it is or as it is to be.
    fn is(&self, id: &SmolStr) -> bool {
        if let Some(is) = self.known.borrow().get(id) {
            return *is;
        }
        let is = [self.deployment.before, self.deployment.after]
            .into_iter()
            .any(|flows| {
                self.patterns
                    .iter()
                    .map(String::as_str)
                    .any(fits(flows, id))
            });
        self.known.borrow_mut().insert(id.clone(), is);
        is
    }

    /// The shared elements and config nodes that guarded flows use, or may turn out to use, as they
    /// are and as they are to be.
    fn used(&self, [was, is]: &'a [Runs; 2]) -> [HashSet<&'a SmolStr>; 2] {
        let Deployment { before, after, .. } = *self.deployment;
        [(before, after, was), (after, before, is)].map(|(flows, other, runs)| {
            References::of(flows, other, runs).maybe_used_by(|flow| self.is(flow))
        })
    }

    /// Returns whether guarded flows may read one of these variables.
    fn read(&self, globals: &Globals, used: &[HashSet<&SmolStr>; 2]) -> bool {
        let Deployment { before, after, .. } = *self.deployment;
        let mut sets = [before, after].into_iter().zip(used);
        sets.any(|(flows, used)| globals.are_read(flows, |flow| self.is(flow), used))
    }

    fn has(&self, change: &Change<'_>, uses: impl Fn(&SmolStr) -> bool) -> bool {
        let on = |node: Option<&Arc<Node>>, flows: &FlowSet| {
            node.is_some_and(|node| match place(node, flows) {
                Place::Flow(id) => {
                    self.is(id) || (node.part() == ElementKind::Config && uses(&node.id))
                }
                Place::Shared(id) => self.lists(SHARED) || uses(id),
            })
        };
        self.lists(EVERYTHING)
            || on(change.before, self.deployment.before)
            || on(change.after, self.deployment.after)
    }

    /// The link calls of guarded flows whose messages name their target, if other names than before
    /// stand for several.
    fn confused<'r>(&self, [was, is]: &'r [Runs; 2]) -> Vec<&'r Arc<Node>> {
        if was.ambiguous_names() == is.ambiguous_names() {
            return Vec::new();
        }
        let calls = is.nodes().map(|(_, node)| node);
        let calls = calls.filter(|node| node.calls_by_name());
        let guarded = calls.filter(|node| node.tab.as_ref().is_some_and(|tab| self.is(tab)));
        guarded.map(|node| &node.node).collect()
    }

    /// The guarded tabs that get another place among each other.
    fn moved(&self) -> Vec<&'a Arc<Node>> {
        let Deployment { before, after, .. } = *self.deployment;
        let kept = |of: &'a FlowSet, in_other: &'a FlowSet| {
            let tabs = of.tabs().filter(|tab| in_other.get(&tab.id).is_some());
            tabs.filter(|tab| self.is(&tab.id))
        };
        let pairs = kept(before, after).zip(kept(after, before));
        let moved = pairs.filter(|(old, new)| old.id != new.id);
        moved.map(|(_, tab)| tab).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::auth::Permissions;
    use crate::config::Approval;

    const BEFORE: &str = concat!(
        r#"{"id":"p","type":"tab","label":"Line 3","env":[{"name":"TEAM","value":"packing"}]},"#,
        r#"{"id":"q","type":"tab","label":"Test"},{"id":"r","type":"tab","label":"Line 4"},"#,
        r#"{"id":"s","type":"subflow"},{"id":"s1","type":"x","z":"s","x":1},"#,
        r#"{"id":"p1","type":"subflow:s","z":"p","x":1},{"id":"q1","type":"x","z":"q","x":1},"#,
        r#"{"id":"c","type":"config"}"#
    );

    fn set(elements: &str) -> FlowSet {
        FlowSet::parse(format!("[{elements}]").as_bytes()).unwrap()
    }

    /// Replaces one text of the flow set by another.
    fn edit(from: &str, to: &str) -> String {
        assert!(BEFORE.contains(from), "{from}");
        BEFORE.replace(from, to)
    }

    /// Returns the ids that need approval when the caller with these permissions deploys this flow
    /// set.
    fn needed(patterns: &[&str], permissions: &[&str], after: &str) -> String {
        let policy = Policy {
            approval: Approval {
                flows: patterns.iter().map(ToString::to_string).collect(),
                ..Approval::default()
            },
            ..Policy::default()
        };
        let permissions = Permissions::of(permissions.iter().map(SmolStr::new).collect());
        let who = Who {
            user: "ann",
            permissions: &permissions,
        };
        let (before, after) = (set(BEFORE), set(after));
        let sent = HashSet::new();
        let deployment = Deployment::new(&before, &after, &sent);
        let found = needs_approval(&policy, who, &deployment);
        found.map_or_else(String::new, |found| found.nodes.join(" "))
    }

    fn change_p1() -> String {
        edit(r#""z":"p","x":1"#, r#""z":"p","x":2"#)
    }

    fn change_q1() -> String {
        edit(r#""z":"q","x":1"#, r#""z":"q","x":2"#)
    }

    fn change_s1() -> String {
        edit(r#""z":"s","x":1"#, r#""z":"s","x":2"#)
    }

    fn change_config() -> String {
        edit(r#""type":"config""#, r#""type":"other""#)
    }

    #[test]
    fn patterns_name_flows_by_id_label_or_variable() {
        for (pattern, p1, q1) in [
            ("p", "p1", ""),
            ("Line ?", "p1", ""),
            ("TEAM=pack*", "p1", ""),
            ("Test", "", "q1"),
            ("*", "p1", "q1"),
            ("nothing", "", ""),
        ] {
            assert_eq!(
                needed(&[pattern], &["flows.write"], &change_p1()),
                p1,
                "{pattern}"
            );
            assert_eq!(
                needed(&[pattern], &["flows.write"], &change_q1()),
                q1,
                "{pattern}"
            );
        }
        assert_eq!(needed(&["p", "q"], &["write"], &change_q1()), "q1");
        assert_eq!(needed(&[], &["flows.write"], &change_p1()), "");
    }

    #[test]
    fn a_shared_element_counts_for_the_flows_that_use_it() {
        let with = |pattern: &str, after: &str| needed(&[pattern], &["flows.write"], after);
        assert_eq!(
            [with("p", &change_s1()), with("q", &change_s1())],
            ["s1", ""]
        );
        assert_eq!(
            [
                with("shared", &change_s1()),
                with("shared", &change_config())
            ],
            ["s1", "c"]
        );
        assert_eq!(
            [with("p", &change_config()), with("*", &change_config())],
            ["", "c"]
        );
        // From then on, or until then.
        let used = edit(r#""z":"q","x":1"#, r#""z":"q","x":1,"uses":"c""#);
        assert_eq!(with("q", &used), "q1");
        assert_eq!(with("p", &edit(r#""subflow:s""#, r#""other""#)), "p1");
    }

    #[test]
    fn a_move_to_or_from_a_flow_and_another_order_of_such_flows_need_approval() {
        let moved = edit(r#""type":"x","z":"q""#, r#""type":"x","z":"p""#);
        assert_eq!(needed(&["p"], &["flows.write"], &moved), "q1");
        assert_eq!(needed(&["q"], &["flows.write"], &moved), "q1");
        assert_eq!(needed(&["r"], &["flows.write"], &moved), "");
        let label = edit(r#""label":"Test""#, r#""label":"Line 5""#);
        assert_eq!(needed(&["Line*"], &["flows.write"], &label), "q");
        let test = r#"{"id":"q","type":"tab","label":"Test"}"#;
        let line = r#"{"id":"r","type":"tab","label":"Line 4"}"#;
        let order = edit(&format!("{test},{line}"), &format!("{line},{test}"));
        assert_eq!(needed(&["q", "r"], &["flows.write"], &order), "r q");
        assert_eq!(needed(&["p", "r"], &["flows.write"], &order), "");
    }

    #[test]
    fn who_may_approve_needs_no_approval_and_a_reload_needs_that_permission() {
        for (names, expected) in [
            (&["*"][..], ""),
            (&["flows.write", "flows.approve"], ""),
            (&["write"], "p1"),
            (&["flows.write"], "p1"),
        ] {
            assert_eq!(needed(&["*"], names, &change_p1()), expected, "{names:?}");
            let mut policy = Policy::default();
            policy.approval.flows = vec!["*".to_owned()];
            let permissions = Permissions::of(names.iter().map(SmolStr::new).collect());
            let who = Who {
                user: "ann",
                permissions: &permissions,
            };
            assert_eq!(
                of_all_flows(&policy, who, "a reload").is_some(),
                !expected.is_empty()
            );
        }
    }
}
