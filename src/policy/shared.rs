//! Shared elements (config nodes on no tab, subflows and what is in them), config nodes on tabs,
//! and the flows that use them: as it is written, and as it runs.

use flows::running::{Runs, Unresolved, each_key, is_value_text};
use flows::{ElementKind, FlowSet, Node};
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::{HashMap, HashSet};

/// Where an element belongs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// On a tab.
    Flow(&'a SmolStr),
    /// Among the shared elements: itself, or the subflow that it is in.
    Shared(&'a SmolStr),
}

/// The type of the nodes that have variables for all flows, and whose change restarts all, wherever
/// they are.
pub(super) const GLOBAL_CONFIG: &str = "global-config";

pub(super) fn place<'a>(node: &'a Node, flows: &FlowSet) -> Place<'a> {
    match node.part() {
        ElementKind::Tab => Place::Flow(&node.id),
        ElementKind::Subflow => Place::Shared(&node.id),
        ElementKind::Group | ElementKind::Config | ElementKind::Node => {
            if node.z.is_empty() || node.kind == GLOBAL_CONFIG {
                Place::Shared(&node.id)
            } else if flows.subflow(&node.z).is_some() {
                Place::Shared(&node.z)
            } else {
                Place::Flow(&node.z)
            }
        }
    }
}

/// References to shared elements and config nodes. An element refers to another if any value in it,
/// however deep, is the id, or is the type of its instances: more than those that Node-RED counts,
/// and never fewer. So does a node that runs, by the values of its variables; one whose value is
/// not known before it runs may refer to any config node.
pub(super) struct References<'a> {
    flows: [&'a FlowSet; 2],
    runs: &'a Runs,
    /// To nodes inside instances of subflows, by their running ids.
    inside: Vec<(Source<'a>, &'a SmolStr)>,
    /// By elements on flows: the flow, and the element that is used.
    from_flows: Vec<(&'a SmolStr, &'a SmolStr)>,
    /// By shared elements and config nodes.
    from_others: HashMap<&'a SmolStr, Vec<&'a SmolStr>>,
    /// By flows and by others: references whose target is not known.
    unresolved_flows: Vec<(&'a SmolStr, Unresolved)>,
    unresolved_others: HashMap<&'a SmolStr, Vec<Unresolved>>,
}

impl<'a> References<'a> {
    /// Those in `flows`, also to elements that only the `other` flow set still has, or has already.
    pub(super) fn of(flows: &'a FlowSet, other: &'a FlowSet, runs: &'a Runs) -> Self {
        let mut found = Self {
            flows: [flows, other],
            runs,
            inside: Vec::new(),
            from_flows: Vec::new(),
            from_others: HashMap::new(),
            unresolved_flows: Vec::new(),
            unresolved_others: HashMap::new(),
        };
        let has_odd_ids = [flows, other].into_iter().any(has_odd_ids);
        for node in flows.nodes() {
            let from = Source::of(node, flows);
            if has_odd_ids || node.text.contains('\\') {
                each_key(&Json::Object(node.object()), &mut |key| {
                    found.add(from, key);
                });
            } else {
                // Nothing is escaped: every second piece between quotes is a text.
                let texts = node.text.split('"').skip(1).step_by(2);
                texts.for_each(|text| found.add(from, text));
            }
        }
        for running in runs.with_variables() {
            let Some(outermost) = flows.get(&running.outermost) else {
                continue;
            };
            let from = Source::of(outermost, flows);
            running.each_key(|key| found.add(from, key));
            for unresolved in running.unresolved() {
                found.add_unresolved(from, unresolved);
            }
        }
        found
    }

    fn add(&mut self, from: Source<'a>, text: &str) {
        // A text may be an id that itself begins like the type of an instance.
        self.add_id(from, text);
        if let Some(id) = text.strip_prefix("subflow:") {
            self.add_id(from, id);
        }
    }

    fn add_id(&mut self, from: Source<'a>, id: &str) {
        let target = |of: &'a FlowSet| used_as(of.get(id)?, of);
        let [flows, other] = self.flows;
        let inside = self.runs.inside(id);
        if let Some((id, _)) = inside {
            self.inside.push((from, id));
        }
        let definition = || used_as(flows.get(&inside?.1.node.id)?, flows);
        let found = target(flows).or_else(|| target(other)).or_else(definition);
        let Some(target) = found else {
            return;
        };
        if let Some(flow) = from.flow {
            self.from_flows.push((flow, target));
        }
        if let Some(user) = from.other.filter(|user| *user != target) {
            self.from_others.entry(user).or_default().push(target);
        }
    }

    fn add_unresolved(&mut self, from: Source<'a>, unresolved: &Unresolved) {
        if let Some(flow) = from.flow {
            self.unresolved_flows.push((flow, unresolved.clone()));
        }
        if let Some(user) = from.other {
            let of_user = self.unresolved_others.entry(user).or_default();
            of_user.push(unresolved.clone());
        }
    }

    /// The shared elements and config nodes that such flows use, directly or through others that
    /// `passes`. Linear.
    pub(super) fn used_by(
        &self,
        is: impl Fn(&SmolStr) -> bool,
        passes: impl Fn(&SmolStr) -> bool,
    ) -> HashSet<&'a SmolStr> {
        let direct = self.from_flows.iter().filter(|(flow, _)| is(flow));
        let mut used = HashSet::new();
        self.follow(
            direct.map(|(_, target)| *target).collect(),
            &mut used,
            passes,
        );
        used
    }

    /// The references that such flows make, and the elements that they use: from what to what.
    /// Those to nodes inside instances of subflows are to their running ids, too.
    pub(super) fn made_by<'r>(
        &'r self,
        is: impl Fn(&SmolStr) -> bool + Copy + 'r,
        uses: impl Fn(&SmolStr) -> bool + Copy + 'r,
    ) -> impl Iterator<Item = (&'a SmolStr, &'a SmolStr)> + 'r {
        let by_flows = self
            .from_flows
            .iter()
            .copied()
            .filter(move |(flow, _)| is(flow));
        let by_others = self.from_others.iter().filter(move |(user, _)| uses(user));
        let by_others = by_others.flat_map(|(user, targets)| targets.iter().map(|to| (*user, *to)));
        let inside = self.inside.iter().flat_map(move |(from, id)| {
            let flow = from.flow.filter(|flow| is(flow));
            let other = from.other.filter(|user| uses(user));
            flow.into_iter().chain(other).map(|from| (from, *id))
        });
        by_flows.chain(by_others).chain(inside)
    }

    /// The shared elements and config nodes that such flows use or may turn out to use.
    pub(super) fn maybe_used_by(&self, is: impl Fn(&SmolStr) -> bool) -> HashSet<&'a SmolStr> {
        let mut used = self.used_by(&is, |_| true);
        let on_flows = self.unresolved_flows.iter().filter(|(flow, _)| is(flow));
        let mut left: Vec<&Unresolved> = on_flows.map(|(_, unresolved)| unresolved).collect();
        let of = |id: &SmolStr| self.unresolved_others.get(id).into_iter().flatten();
        left.extend(used.iter().copied().flat_map(of));
        let mut seen = HashSet::new();
        while let Some(unresolved) = left.pop() {
            if !seen.insert(unresolved.kind) {
                continue;
            }
            let [flows, other] = self.flows.map(|set| set.nodes().iter());
            let fits = flows.chain(other).filter(|node| unresolved.may_be(node));
            let mut more = HashSet::new();
            self.follow(fits.map(|node| &node.id).collect(), &mut more, |_| true);
            let new = more.into_iter().filter(|id| used.insert(id));
            left.extend(new.flat_map(of));
        }
        used
    }

    fn follow(
        &self,
        mut left: Vec<&'a SmolStr>,
        used: &mut HashSet<&'a SmolStr>,
        passes: impl Fn(&SmolStr) -> bool,
    ) {
        while let Some(id) = left.pop() {
            if used.insert(id) && passes(id) {
                left.extend(self.from_others.get(id).into_iter().flatten());
            }
        }
    }
}

/// The user in a reference: a config node on a tab is one by itself, too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    /// The flow, if it is on one.
    pub(super) flow: Option<&'a SmolStr>,
    /// The shared element, or the config node.
    pub(super) other: Option<&'a SmolStr>,
}

impl<'a> Source<'a> {
    pub(super) fn of(node: &'a Node, flows: &FlowSet) -> Self {
        let flow = match place(node, flows) {
            Place::Flow(flow) => Some(flow),
            Place::Shared(_) => None,
        };
        let other = used_as(node, flows);
        Self { flow, other }
    }
}

/// The id by which an element is used by others: its own, or that of its subflow; `None`: it is no
/// element to be used.
fn used_as<'a>(node: &'a Node, flows: &FlowSet) -> Option<&'a SmolStr> {
    match place(node, flows) {
        Place::Shared(id) => Some(id),
        Place::Flow(_) => (node.part() == ElementKind::Config).then_some(&node.id),
    }
}

/// Returns whether some id can be written as a value that is no text.
fn has_odd_ids(flows: &FlowSet) -> bool {
    let mut nodes = flows.nodes().iter();
    nodes.any(|node| node.part() != ElementKind::Node && is_value_text(&node.id))
}
