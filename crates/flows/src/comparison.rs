//! Compares two flow sets for people: what was added, removed, changed, moved to another tab or
//! group, or only re-positioned. Unlike `diff`, which tells what must restart, every property
//! counts.

use super::{ElementKind, FlowSet, Node};
use serde_json::{Map, Value};
use smol_str::SmolStr;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How an element differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// It is in the new set only.
    Added,
    /// It is in the old set only.
    Removed,
    /// Properties or credentials differ.
    Changed,
    /// It is on another tab or in another group; other properties may differ too.
    Moved,
    /// Only its place or size in the editor differs.
    Repositioned,
}

/// A property that differs: its name, and its values before and after; `None`: it is not there.
pub type Property = (String, Option<Value>, Option<Value>);

/// An element that differs.
#[derive(Debug)]
pub struct Compared {
    /// The element as it is in the new set, or was in the old one.
    pub node: Arc<Node>,
    /// How it differs.
    pub difference: Difference,
    /// The properties that differ, if it is in both sets.
    pub properties: Vec<Property>,
    /// True if its credentials differ.
    pub credentials: bool,
}

impl Difference {
    /// Its name for clients.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::Moved => "moved",
            Self::Repositioned => "repositioned",
        }
    }

    /// Its place in a list that is to be read: what changes or ends what runs comes first.
    pub fn rank(self) -> u8 {
        match self {
            Self::Changed => 0,
            Self::Moved => 1,
            Self::Removed => 2,
            Self::Added => 3,
            Self::Repositioned => 4,
        }
    }
}

/// The elements that differ, in the order of the new set, the removed ones last. `credentials` are
/// the ids whose credentials differ.
#[allow(clippy::implicit_hasher, reason = "one caller, with the usual hasher")]
pub fn compare(old: &FlowSet, new: &FlowSet, credentials: &HashSet<SmolStr>) -> Vec<Compared> {
    let mut compared = Vec::new();
    // An element that both share differs only through its credentials.
    let nodes: Vec<&Arc<Node>> = if credentials.is_empty() {
        new.not_shared_with(old).collect()
    } else {
        new.nodes().iter().collect()
    };
    for node in nodes {
        let (properties, difference) = match old.get(&node.id) {
            None => (Vec::new(), Difference::Added),
            Some(was) if Arc::ptr_eq(was, node) || was.same_content(node) => {
                (Vec::new(), Difference::Changed)
            }
            Some(was) => {
                let properties = differing_properties(was.object(), node.object());
                let difference = difference(was, node, &properties);
                (properties, difference)
            }
        };
        let secrets = credentials.contains(&node.id);
        if difference != Difference::Added && properties.is_empty() && !secrets {
            continue;
        }
        let difference = match difference {
            Difference::Repositioned if secrets => Difference::Changed,
            other => other,
        };
        compared.push(Compared {
            node: Arc::clone(node),
            difference,
            properties,
            credentials: secrets,
        });
    }
    let removed = old
        .not_shared_with(new)
        .filter(|node| new.get(&node.id).is_none());
    compared.extend(removed.map(|node| Compared {
        node: Arc::clone(node),
        difference: Difference::Removed,
        properties: Vec::new(),
        credentials: credentials.contains(&node.id),
    }));
    for (node, property) in moved_endpoints(old, new) {
        match compared.iter_mut().find(|one| one.node.id == node.id) {
            Some(one) => {
                one.properties.push(property);
                if one.difference == Difference::Repositioned {
                    one.difference = Difference::Changed;
                }
            }
            None => compared.push(Compared {
                node: Arc::clone(node),
                difference: Difference::Changed,
                properties: vec![property],
                credentials: false,
            }),
        }
    }
    compared
}

/// The endpoints of both sets that have another place among each other, as few as explain the new
/// order: of several that take a request, the first one answers.
fn moved_endpoints<'n>(
    old: &'n FlowSet,
    new: &'n FlowSet,
) -> impl Iterator<Item = (&'n Arc<Node>, Property)> {
    let is_one = |node: &&Arc<Node>| node.kind == "http in";
    let kept = |of: &'n FlowSet, other: &FlowSet| {
        let mut places: HashMap<&SmolStr, usize> = HashMap::new();
        for (at, tab) in of.tabs().enumerate() {
            places.insert(&tab.id, at);
        }
        let both = of.nodes().iter().filter(is_one);
        let both = both.filter(|node| other.get(&node.id).as_ref().is_some_and(is_one));
        let mut both: Vec<&Arc<Node>> = both.collect();
        both.sort_by_key(|node| places.get(&node.z));
        both
    };
    let (before, after) = (kept(old, new), kept(new, old));
    let was: HashMap<&SmolStr, usize> = before
        .iter()
        .enumerate()
        .map(|(at, node)| (&node.id, at))
        .collect();
    let order: Vec<usize> = after
        .iter()
        .filter_map(|node| was.get(&node.id).copied())
        .collect();
    let stays = longest_increasing(&order);
    let pairs = after.into_iter().zip(order).enumerate();
    let moved = pairs.filter(move |(at, _)| !stays.contains(at));
    moved.map(|(at, (node, was))| {
        let place = |at: usize| Some(Value::from(at + 1));
        let name = "order among http in nodes".to_owned();
        (node, (name, place(was), place(at)))
    })
}

/// The positions of a longest part of the numbers that increases.
fn longest_increasing(numbers: &[usize]) -> HashSet<usize> {
    // The position of the smallest end of each length, and what comes before each.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(numbers.len());
    for (at, number) in numbers.iter().enumerate() {
        let length = ends.partition_point(|end| numbers[*end] < *number);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    std::iter::successors(ends.last().copied(), |at| before[*at]).collect()
}

/// The flow of an element: a tab's or subflow's own id, else that which it is on; empty: none.
pub fn flow_of(node: &Node) -> &SmolStr {
    match node.part() {
        ElementKind::Tab | ElementKind::Subflow => &node.id,
        ElementKind::Group | ElementKind::Config | ElementKind::Node => &node.z,
    }
}

/// The properties that differ between two elements.
pub fn differing_properties(mut old: Map<String, Value>, new: Map<String, Value>) -> Vec<Property> {
    let mut properties = Vec::new();
    for (key, after) in new {
        let before = old.shift_remove(&key);
        // As they are written: one who decides on the others decides on these.
        if before.as_ref().map(Value::to_string) != Some(after.to_string()) {
            properties.push((key, before, Some(after)));
        }
    }
    properties.extend(
        old.into_iter()
            .map(|(key, before)| (key, Some(before), None)),
    );
    properties
}

fn difference(old: &Node, new: &Node, properties: &[Property]) -> Difference {
    let is_place = |(key, ..): &Property| matches!(key.as_str(), "x" | "y" | "w" | "h");
    if old.z != new.z || old.group != new.group {
        Difference::Moved
    } else if properties.iter().all(is_place) {
        Difference::Repositioned
    } else {
        Difference::Changed
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn set(elements: &str) -> FlowSet {
        FlowSet::parse(format!("[{elements}]").as_bytes()).unwrap()
    }

    #[test]
    fn another_order_of_endpoints_is_shown_at_as_few_as_explain_it() {
        let node =
            |id: &str, z: &str| format!(r#"{{"id":"{id}","type":"http in","z":"{z}","x":1}}"#);
        let tab = |id: &str| format!(r#"{{"id":"{id}","type":"tab"}}"#);
        let [tab1, tab2] = ["t", "u"].map(tab);
        let [one, two, three] = [("a", "t"), ("b", "t"), ("c", "u")].map(|(id, z)| node(id, z));
        let old = [&tab1, &tab2, &one, &two, &three]
            .map(String::as_str)
            .join(",");
        let moved = |new: &[&String]| {
            let new: Vec<&str> = new.iter().map(|element| element.as_str()).collect();
            compared(&old, &new.join(","), &[])
        };
        assert_eq!(moved(&[&tab1, &tab2, &two, &one, &three]).len(), 1);
        assert_eq!(
            moved(&[&tab2, &tab1, &one, &two, &three]),
            ["c changed order among http in nodes"]
        );
        // Where elements of different tabs stand among each other does not matter.
        assert!(moved(&[&tab1, &tab2, &three, &one, &two]).is_empty());
    }

    #[test]
    fn the_longest_part_that_increases_stays() {
        let found = |numbers: &[usize]| {
            let mut found: Vec<usize> = longest_increasing(numbers).into_iter().collect();
            found.sort_unstable();
            found
        };
        assert_eq!(found(&[0, 1, 2]), [0, 1, 2]);
        assert_eq!(found(&[2, 0, 1, 3]), [1, 2, 3]);
        assert_eq!(found(&[3, 2, 1]).len(), 1);
        assert!(found(&[]).is_empty());
    }

    /// `id difference property…` of each element that differs.
    fn compared(old: &str, new: &str, secrets: &[&str]) -> Vec<String> {
        let secrets = secrets.iter().map(|id| SmolStr::from(*id)).collect();
        let line = |found: &Compared| {
            let names = found.properties.iter().map(|(name, ..)| name.as_str());
            let words = [found.node.id.as_str(), found.difference.name()];
            words.into_iter().chain(names).collect::<Vec<_>>().join(" ")
        };
        let found = compare(&set(old), &set(new), &secrets);
        found.iter().map(line).collect()
    }

    const NODE: &str = r#"{"id":"n","type":"x","z":"a","g":"g","x":1,"y":1,"name":"N"}"#;

    #[test]
    fn each_kind_of_difference_has_its_name() {
        let was = |new: &str| compared(NODE, new, &[]).join("; ");
        assert_eq!(was(&NODE.replace("\"x\":1", "\"x\":2")), "n repositioned x");
        assert_eq!(was(&NODE.replace('N', "M")), "n changed name");
        assert_eq!(was(&NODE.replace("\"a\"", "\"b\"")), "n moved z");
        assert_eq!(was(&NODE.replace("\"g\":\"g\",", "")), "n moved g");
        assert_eq!(was(r#"{"id":"m","type":"x"}"#), "m added; n removed");
    }

    #[test]
    fn the_order_of_keys_and_elements_is_no_difference() {
        let reordered = r#"{"type":"x","id":"n","name":"N","z":"a","y":1.0,"x":1,"g":"g"}"#;
        assert_eq!(compared(NODE, reordered, &[]), [""; 0]);
        let two = r#"{"id":"a","type":"x"},{"id":"b","type":"x"}"#;
        let swapped = r#"{"id":"b","type":"x"},{"id":"a","type":"x"}"#;
        assert_eq!(compared(two, swapped, &[]), [""; 0]);
    }

    #[test]
    fn other_credentials_alone_are_a_change() {
        assert_eq!(compared(NODE, NODE, &["n"]), ["n changed"]);
    }
}
