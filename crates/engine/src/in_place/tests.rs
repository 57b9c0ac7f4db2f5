//! Random edits, one deployment after the other, lead to what the last flow set alone leads to.

use super::*;
use crate::Engine;
use crate::context::Contexts;
use crate::event_loop::ChangeRequest;
use crate::metrics::{Metrics, Uncounted};
use crate::settings::Settings;
use crate::state::EngineState;
use flows::{DeploymentType, diff, plan};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashSet};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// Two tabs with a group, a subflow and its instance, links, listeners and a config node.
fn flows() -> Vec<Json> {
    vec![
        json!({ "id": "t1", "type": "tab", "label": "One" }),
        json!({ "id": "t2", "type": "tab", "label": "Two" }),
        json!({ "id": "s", "type": "subflow", "in": [{ "wires": [{ "id": "si" }] }], "out": [{ "wires": [{ "id": "si", "port": 0 }] }] }),
        json!({ "id": "si", "type": "change", "z": "s", "x": 1, "y": 1, "wires": [[]] }),
        json!({ "id": "g", "type": "group", "z": "t1", "nodes": ["a"] }),
        json!({ "id": "a", "type": "change", "z": "t1", "g": "g", "x": 1, "y": 1, "wires": [["b", "i"]] }),
        json!({ "id": "b", "type": "switch", "z": "t1", "x": 1, "y": 1, "wires": [["out"], ["a"]] }),
        json!({ "id": "i", "type": "subflow:s", "z": "t1", "x": 1, "y": 1, "wires": [["b"]] }),
        json!({ "id": "out", "type": "link out", "z": "t1", "mode": "link", "links": ["in"], "x": 1, "y": 1, "wires": [] }),
        json!({ "id": "in", "type": "link in", "z": "t2", "links": [], "x": 1, "y": 1, "wires": [["c"]] }),
        json!({ "id": "c", "type": "comment", "z": "t2", "uses": "config", "x": 1, "y": 1, "wires": [["d"]] }),
        json!({ "id": "d", "type": "change", "z": "t2", "x": 1, "y": 1, "wires": [] }),
        json!({ "id": "done", "type": "complete", "z": "t2", "scope": ["c"], "x": 1, "y": 1, "wires": [["d"]] }),
        json!({ "id": "caught", "type": "catch", "z": "t1", "scope": null, "x": 1, "y": 1, "wires": [["b"]] }),
        json!({ "id": "config", "type": "global-config", "env": [] }),
        json!({ "id": "proxy", "type": "http proxy", "url": "" }),
    ]
}

/// An edit of one element: its position in the list, and what.
#[derive(Debug, Clone)]
enum Edit {
    Property(usize, u8),
    Wires(usize, Vec<&'static str>),
    Move(usize),
    Disable(usize),
    Fail(usize),
    Remove(usize),
    Nothing,
}

fn edits() -> impl Strategy<Value = Edit> {
    let at = 0..flows().len();
    let target = prop::sample::select(vec!["a", "b", "c", "d", "i", "in", "si", "gone"]);
    let wires = prop::collection::vec(target, 0..3);
    prop_oneof![
        4 => (at.clone(), any::<u8>()).prop_map(|(at, value)| Edit::Property(at, value)),
        4 => (at.clone(), wires).prop_map(|(at, wires)| Edit::Wires(at, wires)),
        1 => at.clone().prop_map(Edit::Move),
        1 => at.clone().prop_map(Edit::Disable),
        1 => at.clone().prop_map(Edit::Fail),
        1 => at.prop_map(Edit::Remove),
        1 => Just(Edit::Nothing),
    ]
}

impl Edit {
    fn make(&self, flows: &mut Vec<Json>) {
        let (Self::Property(at, _)
        | Self::Wires(at, _)
        | Self::Move(at)
        | Self::Disable(at)
        | Self::Fail(at)
        | Self::Remove(at)) = self
        else {
            return;
        };
        let at = at % flows.len();
        let element = &mut flows[at];
        match self {
            Self::Property(_, value) => element["name"] = format!("named {value}").into(),
            Self::Wires(_, wires) => element["wires"] = json!([wires]),
            Self::Move(_) => element["z"] = "t2".into(),
            Self::Disable(_) => element["d"] = (element["d"] != true).into(),
            // A switch whose rules are no list does not start.
            Self::Fail(_) => {
                let failing = element["rules"] == 1;
                element["rules"] = if failing { json!([]) } else { json!(1) };
            }
            Self::Remove(_) if flows.len() > 1 => drop(flows.remove(at)),
            Self::Remove(_) | Self::Nothing => {}
        }
    }
}

/// A thread of the engine that is driven by hand.
struct Driven {
    thread: Thread,
    flows: Arc<FlowSet>,
    _engine: Engine,
}

impl Driven {
    fn new() -> Self {
        let engine = Engine::start(Settings::default(), Arc::new(Uncounted)).unwrap();
        let (node_events, _) = mpsc::unbounded_channel();
        let metrics: Arc<dyn Metrics> = Arc::new(Uncounted);
        let shared = Arc::clone(&engine.0);
        let state = EngineState::new(
            Settings::default(),
            &shared,
            0,
            Contexts::default(),
            node_events,
            Arc::clone(&metrics),
        );
        let (closed, _) = mpsc::unbounded_channel();
        Self {
            thread: Thread::new(state, shared, 0, metrics, closed),
            flows: Arc::default(),
            _engine: engine,
        }
    }

    /// Deploys these elements; true: in place.
    fn deploy(&mut self, elements: &[Json]) -> bool {
        let text = Json::from(elements).to_string();
        let submission = flows::Submission::v1(&self.flows, text.as_bytes()).unwrap();
        let new = Arc::new(submission.flows);
        let difference = diff(&self.flows, &new, &HashSet::new());
        let change = Change::Apply {
            plan: plan(&self.flows, &new, &difference, DeploymentType::Nodes),
            flows: Arc::clone(&new),
            credentials: Arc::default(),
        };
        self.flows = new;
        self.thread.begin_change(ChangeRequest::alone(change).0);
        let change = &self.thread.closing.as_ref().unwrap().change;
        let in_place = self.thread.in_place(change).is_some();
        assert!(self.thread.finish_change().is_continue());
        in_place
    }

    /// Each node with all that a deployment decides about it.
    fn shape(&self) -> BTreeMap<SmolStr, Json> {
        let id = |slot: &u32| {
            self.thread.slots[*slot as usize]
                .as_ref()
                .map(|s| s.info.id.to_string())
        };
        let taken = self.thread.slots.iter().zip(0u32..);
        let taken = taken.filter_map(|(slot, number)| Some((slot.as_ref()?, number)));
        let shape = taken.map(|(slot, number)| {
            let wires: Vec<Vec<_>> = slot.wires.by_output().map(|w| w.iter().map(id).collect()).collect();
            let (info, group) = (&slot.info, self.thread.state.queue.group(number));
            let mut joined: Vec<_> = (0u32..).zip(&self.thread.slots).filter_map(|(other, taken)| {
                let other_group = self.thread.state.queue.group(other);
                taken.as_ref().filter(|_| other_group == group).map(|taken| taken.info.id.to_string())
            }).collect();
            joined.sort();
            let caught = self.thread.state.listeners.flow(&info.container.z).map(|flow| flow.catching(info));
            let caught: Vec<_> = caught.iter().flatten().map(id).collect();
            let shape = json!({
                "runs": slot.node.is_some(), "wires": wires, "watched": slot.watched, "config": slot.config,
                "name": info.name.as_deref(), "kind": info.kind().as_str(), "path": info.container.path.as_str(),
                "groups": info.container.groups.iter().map(SmolStr::as_str).collect::<Vec<_>>(),
                "joined": joined, "caught": caught, "found": self.thread.state.directory.get(&info.id) == Some(number),
            });
            (info.id.clone(), shape)
        });
        shape.collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn edits_one_after_the_other_lead_to_what_the_last_flow_set_leads_to(edits in prop::collection::vec(edits(), 1..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let mut edited = Driven::new();
            let mut elements = flows();
            edited.deploy(&elements);
            for edit in &edits {
                edit.make(&mut elements);
                edited.deploy(&elements);
            }
            let mut fresh = Driven::new();
            fresh.deploy(&elements);
            prop_assert_eq!(edited.shape(), fresh.shape());
            Ok(())
        })?;
    }
}

#[test]
fn a_node_with_another_property_or_other_wires_is_changed_in_place() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let mut driven = Driven::new();
        let mut elements = flows();
        assert!(!driven.deploy(&elements));
        assert!(driven.deploy(&elements), "nothing");
        for at in [5, 6, 10, 11, 15] {
            Edit::Property(at, 1).make(&mut elements);
            assert!(driven.deploy(&elements), "{at}");
        }
        Edit::Wires(5, vec!["i", "gone"]).make(&mut elements);
        assert!(driven.deploy(&elements));
        Edit::Wires(5, vec!["c"]).make(&mut elements);
        assert!(!driven.deploy(&elements), "it joins the tabs");
        Edit::Property(5, 2).make(&mut elements);
        assert!(!driven.deploy(&elements), "its wires lead to another tab");
        Edit::Wires(5, vec![]).make(&mut elements);
        driven.deploy(&elements);
        Edit::Fail(6).make(&mut elements);
        assert!(driven.deploy(&elements));
        Edit::Property(5, 3).make(&mut elements);
        assert!(
            !driven.deploy(&elements),
            "the node that has failed is tried again"
        );
        for at in [0, 2, 3, 4, 7, 8, 9, 12, 13, 14] {
            Edit::Property(at, 1).make(&mut elements);
            assert!(!driven.deploy(&elements), "{at}");
        }
    });
}
