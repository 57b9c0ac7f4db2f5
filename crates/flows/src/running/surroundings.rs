//! What decides how a node runs besides its own element and its config nodes: the endpoints that
//! answer before it, and the other link nodes of its name.
//!
//! Of several `http in` nodes that take a request the first one answers, in the order of tabs and
//! of elements; and a `link call` that gets the name of its target fails if two have that name.

use super::running_node::RunningNode;
use crate::FlowSet;
use rustc_hash::{FxHashMap, FxHasher};
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// Pairs of endpoints that are compared, at most; with more, each endpoint counts for all behind
/// it. Our choice: a second of an unoptimised build, and hundreds of endpoints with patterns.
const MAX_PAIRS: usize = 1 << 21;

/// The characters of a path that stand for others (path-to-regexp, as Express 4 has it), or begin a
/// variable.
const SPECIAL: &[char] = &[
    ':', '*', '?', '+', '(', ')', '[', ']', '{', '}', '\\', '$', '|', '^', '.', '\0',
];

/// A digest for each node that has such surroundings, by running id.
pub(super) fn of(
    flows: &FlowSet,
    nodes: &FxHashMap<SmolStr, RunningNode>,
) -> FxHashMap<SmolStr, u64> {
    let mut found = endpoints_before(flows, nodes);
    for ids in names(nodes).into_values().filter(|ids| ids.len() > 1) {
        for id in &ids {
            let others: Vec<_> = ids.iter().filter(|other| other != &id).collect();
            found.insert((*id).clone(), digest(&others));
        }
    }
    found
}

/// The running ids of link in nodes by what calls them, their names and ids, sorted.
pub(super) fn names(nodes: &FxHashMap<SmolStr, RunningNode>) -> BTreeMap<String, Vec<&SmolStr>> {
    let mut names: BTreeMap<String, Vec<&SmolStr>> = BTreeMap::new();
    for (id, node) in nodes.iter().filter(|(_, n)| n.node.kind == "link in") {
        // Targets are found by id and by name.
        let name = node.text_of("name");
        if !name.is_empty() && name != id.as_str() {
            names.entry(name).or_default().push(id);
        }
        names.entry(id.to_string()).or_default().push(id);
    }
    for ids in names.values_mut() {
        ids.sort_unstable();
    }
    names
}

/// An `http in` node.
struct Endpoint<'r> {
    id: &'r SmolStr,
    /// Of its tab, of the element that makes it run, and of its own element.
    position: [usize; 3],
    method: String,
    /// As Express compares it.
    path: String,
    /// The bytes of the path that every request has, if some characters stand for others.
    fixed: Option<usize>,
}

impl<'r> Endpoint<'r> {
    fn of(id: &'r SmolStr, node: &RunningNode, positions: &FxHashMap<&SmolStr, usize>) -> Self {
        let position = |id: &SmolStr| positions.get(id).copied().unwrap_or(usize::MAX);
        let url = node.text_of("url").to_lowercase();
        let path = format!("/{}", url.trim_matches('/'));
        // The last character before one may be left out: `/ab?`; and all of `a|b`.
        let end = if path.contains('|') {
            Some(0)
        } else {
            path.find(SPECIAL)
        };
        let before = end.and_then(|at| path.get(..at));
        let fixed =
            before.map(|before| before.len() - before.chars().last().map_or(0, char::len_utf8));
        Self {
            id,
            position: [
                node.tab.as_ref().map_or(0, position),
                position(&node.outermost),
                position(&node.node.id),
            ],
            method: node.text_of("method").to_lowercase(),
            fixed,
            path,
        }
    }

    /// Returns whether some request may be for both.
    fn meets(&self, other: &Self) -> bool {
        let of = |one: &Self| {
            one.path
                .get(..one.fixed.unwrap_or(one.path.len()))
                .unwrap_or_default()
                .to_owned()
        };
        let (a, b) = (of(self), of(other));
        let is_one_path = match (self.fixed, other.fixed) {
            (None, None) => a == b,
            (Some(_), None) => b.starts_with(&a),
            (None, Some(_)) => a.starts_with(&b),
            (Some(_), Some(_)) => a.starts_with(&b) || b.starts_with(&a),
        };
        is_one_path
            && (self.method == other.method
                || [self, other].iter().any(|e| e.method.contains(SPECIAL)))
    }
}

/// Digests of the endpoints that come before each and may take its requests.
fn endpoints_before(
    flows: &FlowSet,
    nodes: &FxHashMap<SmolStr, RunningNode>,
) -> FxHashMap<SmolStr, u64> {
    let endpoints = || nodes.iter().filter(|(_, node)| node.node.kind == "http in");
    if endpoints().nth(1).is_none() {
        return FxHashMap::default();
    }
    let positions = flows
        .nodes()
        .iter()
        .enumerate()
        .map(|(at, node)| (&node.id, at));
    let positions = positions.collect();
    let mut all: Vec<Endpoint<'_>> = endpoints()
        .map(|(id, node)| Endpoint::of(id, node, &positions))
        .collect();
    all.sort_unstable_by_key(|endpoint| endpoint.position);
    let patterns = all
        .iter()
        .filter(|endpoint| endpoint.fixed.is_some())
        .count();
    let mut found = FxHashMap::default();
    if patterns * all.len() > MAX_PAIRS {
        let mut before = FxHasher::default();
        for endpoint in &all {
            found.insert(endpoint.id.clone(), before.finish());
            endpoint.id.hash(&mut before);
        }
        return found;
    }
    // Paths without patterns are found by their text.
    let mut literal: FxHashMap<(&str, &str), Vec<usize>> = FxHashMap::default();
    let mut pattern: Vec<usize> = Vec::new();
    for (at, endpoint) in all.iter().enumerate() {
        let key = (endpoint.method.as_str(), endpoint.path.as_str());
        let mut before: Vec<&SmolStr> = Vec::new();
        let meeting = |other: &&usize| all[**other].meets(endpoint);
        before.extend(pattern.iter().filter(meeting).map(|other| all[*other].id));
        if endpoint.fixed.is_some() {
            let literals = literal.values().flatten().filter(meeting);
            before.extend(literals.map(|other| all[*other].id));
            pattern.push(at);
        } else {
            let same = literal.entry(key).or_default();
            before.extend(same.iter().map(|other| all[*other].id));
            same.push(at);
        }
        if !before.is_empty() {
            before.sort_unstable();
            found.insert(endpoint.id.clone(), digest(&before));
        }
    }
    found
}

fn digest(ids: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    ids.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::Runs;
    use crate::FlowSet;

    const TABS: &str = r#"{"id":"t","type":"tab"},{"id":"u","type":"tab"}"#;

    fn runs(elements: &[String]) -> Runs {
        let flows = format!("[{TABS},{}]", elements.join(","));
        Runs::of(&FlowSet::parse(flows.as_bytes()).unwrap())
    }

    fn endpoint(id: &str, z: &str, method: &str, url: &str) -> String {
        format!(
            r#"{{"id":"{id}","type":"http in","z":"{z}","x":1,"y":1,"method":"{method}","url":"{url}","wires":[]}}"#
        )
    }

    /// Returns whether `g` runs in another way with these elements before or after it than alone.
    fn changes(before: &[String], after: &[String]) -> bool {
        let own = endpoint("g", "t", "get", "/guard");
        let with = [before, std::slice::from_ref(&own), after].concat();
        let (alone, with) = (runs(&[own]), runs(&with));
        let mut differing = alone.differing(&with, |_| true, |_| true);
        differing.any(|node| node.id == "g")
    }

    #[test]
    fn an_endpoint_depends_on_those_before_it_that_may_take_its_requests() {
        for (url, takes) in [
            ("/guard", true),
            ("guard/", true),
            ("/GUARD", true),
            ("/:any", true),
            ("/guar?d", true),
            ("/guards?", true),
            ("/*", true),
            ("(.*)", true),
            ("${PATH}", true),
            ("/other|/guard", true),
            ("/guard.", true),
            ("/guards", false),
            ("/guard/:id", true), // of `/guard/:id?` it would be; too many are better than one too few
            ("/other/:id", false),
            ("/", false),
        ] {
            let other = [endpoint("o", "t", "get", url)];
            assert_eq!(changes(&other, &[]), takes, "{url}");
            assert!(!changes(&[], &other), "{url} behind it");
        }
        assert!(!changes(&[endpoint("o", "t", "post", "/guard")], &[]));
        // The tabs come first in the order.
        assert!(!changes(&[endpoint("o", "u", "get", "/guard")], &[]));
    }

    #[test]
    fn a_link_in_depends_on_others_of_its_name() {
        let link = |id: &str, name: &str| {
            format!(
                r#"{{"id":"{id}","type":"link in","z":"t","x":1,"y":1,"name":"{name}","links":[],"wires":[]}}"#
            )
        };
        let alone = runs(&[link("a", "lib")]);
        let differs = |other: &str| {
            let with = runs(&[link("a", "lib"), link("b", other)]);
            alone.differing(&with, |_| true, |_| true).count() == 1
        };
        assert!(differs("lib") && differs("a") && !differs("other") && !differs(""));
    }

    #[test]
    fn ten_thousand_endpoints_are_compared_in_bounded_time() {
        let all: Vec<String> = (0..10_000)
            .map(|n| endpoint(&format!("e{n}"), "t", "get", &format!("/:a{n}")))
            .collect();
        let first = runs(&all);
        let mut other = all;
        other.swap(0, 1);
        assert!(first.differing(&runs(&other), |_| true, |_| true).count() >= 2);
    }
}
