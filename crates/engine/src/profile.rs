//! A profile: the messages that each node received and sent in a time, its errors, and the time
//! that its calls took.

use crate::node_info::NodeInfo;
use flows::FlowSet;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::cmp::Reverse;
use std::rc::Rc;
use std::time::Duration;

/// Nodes that a profile lists, at most; the others are added up. Our choice: more do not fit on a
/// page, and each has less than a hundredth of the time.
const MAX_NODES: usize = 100;

/// The nodes that used most of the engine's time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Its duration.
    pub seconds: f64,
    /// The time that the engine's threads did not wait, together: their nodes, these nodes' input
    /// and output, and the delivery of messages.
    pub busy_seconds: f64,
    /// Messages that wait at its end.
    pub waiting_messages: usize,
    /// The nodes that used most, in that order.
    pub nodes: Vec<NodeUsage>,
    /// All other nodes that were called.
    pub others: Others,
}

/// The use that a node made of the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeUsage {
    /// Its id in the running graph.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name, of a subflow instance at least its subflow's; empty if it has none.
    pub name: String,
    /// The id of its tab; empty for a global config node.
    pub flow: String,
    /// The label of its tab.
    pub flow_label: String,
    /// The names of the subflow instances around it, the outer one first.
    pub path: Vec<String>,
    /// Messages that it received.
    pub messages: u64,
    /// Messages that it sent from each of its outputs, the first one first, to the last that has
    /// sent one. Each goes to all wires of its output.
    #[serde(default)]
    pub outputs: Vec<u64>,
    /// Errors that it reported.
    #[serde(default)]
    pub errors: u64,
    /// The time that its calls took: messages, timers, requests and the results of its own tasks.
    pub seconds: f64,
}

/// Nodes that a profile does not list one by one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Others {
    /// Their number.
    pub nodes: usize,
    /// Messages that they received.
    pub messages: u64,
    /// The time that their calls took.
    pub seconds: f64,
}

/// The calls of a node while a profile is being taken.
pub(crate) struct Used {
    pub info: Rc<NodeInfo>,
    pub messages: u64,
    /// Messages sent, by output.
    pub outputs: Vec<u64>,
    pub errors: u64,
    pub time: Duration,
}

impl Used {
    /// A node that has done nothing yet.
    pub(crate) fn new(info: &Rc<NodeInfo>) -> Self {
        Self {
            info: Rc::clone(info),
            messages: 0,
            outputs: Vec::new(),
            errors: 0,
            time: Duration::ZERO,
        }
    }

    /// Counts messages that an output has sent.
    pub(crate) fn sent(&mut self, output: usize, messages: u64) {
        if self.outputs.len() <= output {
            self.outputs.resize(output + 1, 0);
        }
        self.outputs[output] += messages;
    }
}

impl Profile {
    /// The profile of these nodes. Names are those of `flows`, and ids where it lacks the element.
    pub(crate) fn of(
        seconds: Duration,
        busy: Duration,
        waiting_messages: usize,
        used: impl Iterator<Item = Used>,
        flows: &FlowSet,
    ) -> Self {
        let mut used = by_id(used);
        let time: Duration = used.iter().map(|node| node.time).sum();
        used.sort_unstable_by(|a, b| {
            (Reverse(a.time), &a.info.id).cmp(&(Reverse(b.time), &b.info.id))
        });
        let rest = used.split_off(used.len().min(MAX_NODES));
        Self {
            seconds: seconds.as_secs_f64(),
            // The runtime counts its time when it waits; what it did since is missing.
            busy_seconds: busy.clamp(time.min(seconds), seconds).as_secs_f64(),
            waiting_messages,
            nodes: used.iter().map(|node| NodeUsage::of(node, flows)).collect(),
            others: Others {
                nodes: rest.len(),
                messages: rest.iter().map(|node| node.messages).sum(),
                seconds: rest
                    .iter()
                    .map(|node| node.time)
                    .sum::<Duration>()
                    .as_secs_f64(),
            },
        }
    }

    /// The profile of all threads, of one of each.
    pub(crate) fn of_threads(profiles: Vec<Self>) -> Self {
        let mut profiles = profiles.into_iter();
        let mut all = profiles.next().unwrap_or_default();
        let mut is_sum = false;
        for one in profiles {
            is_sum = true;
            all.seconds = all.seconds.max(one.seconds);
            all.busy_seconds += one.busy_seconds;
            all.waiting_messages += one.waiting_messages;
            all.others.add(&one.others);
            for node in one.nodes {
                match all.nodes.iter_mut().find(|other| other.id == node.id) {
                    // It has moved from one to the other.
                    Some(other) => other.add(&node),
                    None => all.nodes.push(node),
                }
            }
        }
        if is_sum {
            all.nodes.sort_by(|a, b| {
                b.seconds
                    .total_cmp(&a.seconds)
                    .then_with(|| a.id.cmp(&b.id))
            });
            for node in all.nodes.split_off(all.nodes.len().min(MAX_NODES)) {
                all.others.nodes += 1;
                all.others.messages += node.messages;
                all.others.seconds += node.seconds;
            }
        }
        all
    }

    /// The messages that nodes received.
    pub fn messages(&self) -> u64 {
        self.others.messages + self.nodes.iter().map(|node| node.messages).sum::<u64>()
    }
}

impl Others {
    fn add(&mut self, more: &Self) {
        self.nodes += more.nodes;
        self.messages += more.messages;
        self.seconds += more.seconds;
    }
}

/// A node that a deployment has replaced counts as one with its successor.
fn by_id(used: impl Iterator<Item = Used>) -> Vec<Used> {
    let mut nodes: FxHashMap<_, Used> = FxHashMap::default();
    for node in used {
        let sum = nodes.entry(node.info.id.clone());
        let sum = sum.or_insert_with(|| Used::new(&node.info));
        for (output, messages) in node.outputs.iter().enumerate() {
            sum.sent(output, *messages);
        }
        sum.errors += node.errors;
        sum.messages += node.messages;
        sum.time += node.time;
    }
    nodes.into_values().collect()
}

impl NodeUsage {
    fn add(&mut self, more: &Self) {
        let count = self.outputs.len().max(more.outputs.len());
        self.outputs.resize(count, 0);
        for (sum, messages) in self.outputs.iter_mut().zip(&more.outputs) {
            *sum += messages;
        }
        self.messages += more.messages;
        self.errors += more.errors;
        self.seconds += more.seconds;
    }

    fn of(used: &Used, flows: &FlowSet) -> Self {
        let info = &used.info;
        let mut around = info.container.path.split('/');
        let flow = around.next().unwrap_or_default();
        Self {
            id: info.id.to_string(),
            kind: info.kind().to_string(),
            name: match &info.name {
                None if info.kind().starts_with("subflow:") => name(info.alias(), flows),
                own => own.as_deref().unwrap_or_default().to_owned(),
            },
            flow: flow.to_owned(),
            flow_label: name(flow, flows),
            path: around.map(|instance| name(instance, flows)).collect(),
            messages: used.messages,
            outputs: used.outputs.clone(),
            errors: used.errors,
            seconds: used.time.as_secs_f64(),
        }
    }
}

/// The names of an element.
#[derive(Deserialize, Default)]
struct Named {
    #[serde(default)]
    label: SmolStr,
    name: Option<SmolStr>,
}

/// The name of a tab or a subflow instance: its own, else that of its subflow, else its id.
fn name(id: &str, flows: &FlowSet) -> String {
    let Some(element) = flows.get(id) else {
        return id.to_owned();
    };
    let definition = element.instance_of().and_then(|id| flows.subflow(id));
    let mut names = [Some(element), definition]
        .into_iter()
        .flatten()
        .flat_map(|element| {
            let named: Named = serde_json::from_str(&element.text).unwrap_or_default();
            [named.label, named.name.unwrap_or_default()]
        });
    names
        .find(|name| !name.is_empty())
        .map_or_else(|| id.to_owned(), |name| name.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::node_info::Container;

    fn used(id: &str, path: &str, messages: u64, millis: u64) -> Used {
        Used {
            info: Rc::new(NodeInfo::of(
                id,
                "change",
                Container {
                    z: "t".into(),
                    path: path.into(),
                    ..Container::default()
                },
            )),
            messages,
            outputs: vec![0, messages],
            errors: 1,
            time: Duration::from_millis(millis),
        }
    }

    fn profile(used: Vec<Used>, flows: &str) -> Profile {
        let flows = FlowSet::parse(flows.as_bytes()).unwrap();
        let (seconds, busy) = (Duration::from_secs(10), Duration::from_secs(2));
        Profile::of(seconds, busy, 0, used.into_iter(), &flows)
    }

    #[test]
    fn the_nodes_that_used_most_come_first_and_the_rest_is_added_up() {
        let used = (0..150).map(|n| used(&format!("n{n}"), "t", 1, n));
        let profile = profile(used.collect(), "[]");
        let ids = profile.nodes.iter().map(|node| node.id.as_str());
        let expected: Vec<String> = (50..150).rev().map(|n| format!("n{n}")).collect();
        assert!(ids.eq(expected.iter().map(String::as_str)));
        assert_eq!((profile.others.nodes, profile.others.messages), (50, 50));
        assert!((profile.others.seconds - 1.225).abs() < 1e-9);
        assert_eq!(profile.messages(), 150);
        assert!(
            (profile.busy_seconds - 10.0).abs() < 1e-9,
            "no more than its duration"
        );
    }

    #[test]
    fn a_node_that_was_replaced_counts_as_one_with_its_successor() {
        let twice = vec![used("a", "t", 2, 10), used("a", "t", 3, 20)];
        let [node] = profile(twice, "[]").nodes.try_into().unwrap();
        assert_eq!((node.messages, node.seconds), (5, 0.03));
        assert_eq!((node.outputs, node.errors), (vec![0, 5], 2));
    }

    #[test]
    fn tabs_and_subflow_instances_have_their_names() {
        let flows = r#"[
            {"id": "t", "type": "tab", "label": "Orders"},
            {"id": "s", "type": "subflow", "name": "Retry"},
            {"id": "i", "type": "subflow:s", "z": "t", "wires": []},
            {"id": "j", "type": "subflow:s", "z": "t", "name": "Again", "wires": []}
        ]"#;
        let all = vec![
            used("1", "t/i", 0, 3),
            used("2", "t/j", 0, 2),
            used("3", "gone", 0, 1),
        ];
        let nodes = profile(all, flows).nodes;
        let names = nodes
            .iter()
            .map(|node| (node.flow_label.as_str(), node.path.join("/")));
        let expected = [("Orders", "Retry"), ("Orders", "Again"), ("gone", "")];
        assert!(names.eq(expected.map(|(label, path)| (label, path.to_owned()))));
        let instance = Used {
            info: Rc::new(NodeInfo::of("i", "subflow:s", Container::default())),
            ..used("i", "t", 0, 1)
        };
        assert_eq!(profile(vec![instance], flows).nodes[0].name, "Retry");
    }
}
