//! The plan of every observed deployment (docs/reference/node-red-engine.md §1.4):
//! `tests/data/deploy-cases.json` holds what the stock runtime stopped, started and rewired;
//! `flows`, where we restart whole tabs instead (docs/reference/admin-api.md §4.4), has a table of
//! its own here.
#![allow(clippy::unwrap_used, reason = "tests")]

use flows::{DeploymentType, ElementKind, FlowSet, Plan, Submission, diff, plan};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

struct Cases(Value);

impl Cases {
    fn read() -> Self {
        Self(serde_json::from_str(include_str!("data/deploy-cases.json")).unwrap())
    }

    fn all(&self) -> &[Value] {
        self.0["cases"].as_array().unwrap()
    }

    fn base(&self) -> FlowSet {
        FlowSet::parse(self.0["base"].to_string().as_bytes()).unwrap()
    }

    /// The base set with the edit of a case.
    fn after(&self, case: &Value) -> Submission {
        let list = |key: &str| case[key].as_array().cloned().unwrap_or_default();
        let mut elements = self.0["base"].as_array().unwrap().clone();
        elements.retain(|element| !list("remove").contains(&element["id"]));
        for new in list("replace") {
            *elements
                .iter_mut()
                .find(|element| element["id"] == new["id"])
                .unwrap() = new.clone();
        }
        elements.extend(list("add"));
        if case["reverse"] == true {
            elements.reverse();
        }
        Submission::v1(
            &FlowSet::default(),
            Value::Array(elements).to_string().as_bytes(),
        )
        .unwrap()
    }

    fn plan(&self, case: &Value, kind: DeploymentType) -> (FlowSet, FlowSet, Plan) {
        let (old, new) = (self.base(), self.after(case));
        let plan = plan(
            &old,
            &new.flows,
            &diff(&old, &new.flows, &new.credential_ids()),
            kind,
        );
        (old, new.flows, plan)
    }
}

/// An instance stands for itself and all that is inside, config nodes first.
fn expand(flows: &FlowSet, id: &str, kind: &str, out: &mut Vec<String>) {
    out.push(id.to_owned());
    let Some(subflow) = kind.strip_prefix("subflow:") else {
        return;
    };
    let inner = |part| {
        flows
            .nodes()
            .iter()
            .filter(move |node| node.z == subflow && node.part() == part)
    };
    for node in inner(ElementKind::Config).chain(inner(ElementKind::Node)) {
        expand(flows, &format!("{id}-{}", node.id), &node.kind, out);
    }
}

fn expanded(flows: &FlowSet, id: &str) -> Vec<String> {
    let mut ids = Vec::new();
    expand(flows, id, &flows.get(id).unwrap().kind, &mut ids);
    ids
}

fn stops(old: &FlowSet, plan: &Plan) -> String {
    let expand = |stop: &flows::Stop| {
        let mut ids = expanded(old, &stop.id);
        if stop.removed {
            ids[0].push('!');
        }
        ids
    };
    plan.stop
        .iter()
        .flat_map(expand)
        .collect::<Vec<_>>()
        .join(" ")
}

fn starts(new: &FlowSet, plan: &Plan) -> String {
    plan.start
        .iter()
        .flat_map(|id| expanded(new, id))
        .collect::<Vec<_>>()
        .join(" ")
}

/// To rewire an instance is to rewire the inner nodes that feed its outputs.
fn rewires(new: &FlowSet, plan: &Plan) -> String {
    let expand = |id: &smol_str::SmolStr| match new.get(id).unwrap().instance_of() {
        None => vec![id.to_string()],
        Some(subflow) => {
            let outputs = new.get(subflow).unwrap().object()["out"]
                .as_array()
                .unwrap()
                .clone();
            let wires = outputs
                .iter()
                .flat_map(|output| output["wires"].as_array().unwrap().clone());
            wires
                .map(|wire| format!("{id}-{}", wire["id"].as_str().unwrap()))
                .collect()
        }
    };
    plan.rewire
        .iter()
        .flat_map(expand)
        .collect::<Vec<_>>()
        .join(" ")
}

fn check(key: &str, kind: DeploymentType) {
    let cases = Cases::read();
    assert_eq!(cases.all().len(), 52);
    for case in cases.all() {
        let (old, new, plan) = cases.plan(case, kind);
        let expected = if case[key].is_null() {
            &cases.all()[0][key]
        } else {
            &case[key]
        };
        let text = |what: &str| expected[what].as_str().unwrap_or_default();
        assert_eq!(
            stops(&old, &plan),
            text("stops"),
            "stops of {}",
            case["edit"]
        );
        assert_eq!(
            starts(&new, &plan),
            text("starts"),
            "starts of {}",
            case["edit"]
        );
        assert_eq!(
            rewires(&new, &plan),
            text("rewired"),
            "rewired of {}",
            case["edit"]
        );
        assert_eq!(
            plan.everything,
            kind != DeploymentType::Nodes,
            "{}",
            case["edit"]
        );
    }
}

#[test]
fn nodes_stops_starts_and_rewires_exactly_what_was_observed() {
    check("nodes", DeploymentType::Nodes);
}

#[test]
fn full_stops_and_starts_everything_in_the_observed_order() {
    check("full", DeploymentType::Full);
}

#[test]
fn reload_is_like_full() {
    check("full", DeploymentType::Reload);
}

/// Row 52 of the table, whose sets were not recorded: `a` has a free text that is the id of `d`,
/// and `d` changes.
#[test]
fn a_free_text_that_equals_an_id_is_a_reference() {
    let parse = |json: String| FlowSet::parse(json.as_bytes()).unwrap();
    let base = Cases::read().0["base"]
        .to_string()
        .replace(r#""name":"n_a""#, r#""name":"n_a","foo":"d""#);
    let (old, new) = (parse(base.clone()), parse(base.replace("n_d", "renamed")));
    let plan = plan(
        &old,
        &new,
        &diff(&old, &new, &HashSet::new()),
        DeploymentType::Nodes,
    );
    assert_eq!(
        (stops(&old, &plan).as_str(), starts(&new, &plan).as_str()),
        ("d a", "a d")
    );
}

/// Which flows a `flows` deployment restarts, and which global config nodes; `-` in front: it only
/// stops, `+`: it only starts.
const FLOWS: &[(&str, &str)] = &[
    ("01", ""),
    ("02", "T1"),
    ("03", ""),
    ("04", "T1"),
    ("05", "T1"),
    ("06", "T1"),
    ("07", "T1"),
    ("08", "T1"),
    ("09", "T1"),
    ("10", "T1"),
    ("11", "T1"),
    ("12", "T1 T2 cfgA cfgB"),
    ("13", "T1 cfgB"),
    ("14", "T1"),
    ("15", "T1 T2 -cfgA cfgB"),
    ("16", ""),
    ("17", "T1"),
    ("18", ""),
    ("19", "-T2"),
    ("20", "+T3"),
    ("21", "-T2"),
    ("22", "+T9"),
    ("23", "T1"),
    ("24", "T1"),
    ("25", ""),
    ("26", "T1"),
    ("27", "T1"),
    ("28", "T1 T2"),
    ("29", ""),
    ("30", "T1 T2"),
    ("31", "T1 T2"),
    ("32", "T1 T2"),
    ("33", "T1 T2"),
    ("34", "T1 T2"),
    ("35", "T1 T2"),
    ("36", "T1"),
    ("37", "T1"),
    ("38", "T1"),
    ("39", "T1"),
    ("40", "T1 T2"),
    ("41", "T1 T2"),
    ("42", "T1"),
    ("43", "T1"),
    ("44", "T1 T2"),
    ("45", "T2"),
    ("46", "T1"),
    ("47", "GC T1 T2 cfgA cfgB"),
    ("48", ""),
    ("49", ""),
    ("50", "T1"),
    ("51", "T1"),
    ("53", "T1 T2"),
];

/// The tabs of these ids (of a global config node: itself), each of which must be there with all
/// its running nodes.
fn whole<'a>(flows: &FlowSet, ids: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let ids: BTreeSet<&str> = ids.collect();
    let place = |id: &str| {
        flows
            .get(id)
            .map(|node| {
                if node.z.is_empty() {
                    node.id.clone()
                } else {
                    node.z.clone()
                }
            })
            .unwrap()
    };
    let places: BTreeSet<String> = ids.iter().map(|id| place(id).to_string()).collect();
    for node in flows
        .nodes()
        .iter()
        .filter(|node| flows.runs(node) && places.contains(node.z.as_str()))
    {
        assert!(
            ids.contains(node.id.as_str()),
            "{} is left out of its flow",
            node.id
        );
    }
    places
}

#[test]
fn flows_restarts_every_flow_with_a_modified_node_whole_and_no_other() {
    let cases = Cases::read();
    assert_eq!(FLOWS.len(), cases.all().len());
    for (case, (number, expected)) in cases.all().iter().zip(FLOWS) {
        assert!(case["edit"].as_str().unwrap().starts_with(number));
        let (old, new, plan) = cases.plan(case, DeploymentType::Flows);
        let stopped = whole(&old, plan.stop.iter().map(|stop| stop.id.as_str()));
        let started = whole(&new, plan.start.iter().map(smol_str::SmolStr::as_str));
        let sign = |place: &String| match (stopped.contains(place), started.contains(place)) {
            (true, false) => "-",
            (false, _) => "+",
            (true, true) => "",
        };
        let found: BTreeSet<String> = stopped
            .union(&started)
            .map(|place| format!("{}{place}", sign(place)))
            .collect();
        let expected: BTreeSet<String> = expected.split_whitespace().map(Into::into).collect();
        assert_eq!(found, expected, "{}", case["edit"]);
        assert!(
            plan.rewire.is_empty() && !plan.everything,
            "{}",
            case["edit"]
        );
    }
}

#[test]
fn flows_marks_only_removed_nodes_as_removed() {
    let cases = Cases::read();
    let (_, _, plan) = cases.plan(&cases.all()[8], DeploymentType::Flows);
    let removed: Vec<_> = plan
        .stop
        .iter()
        .filter(|stop| stop.removed)
        .map(|stop| stop.id.as_str())
        .collect();
    assert_eq!(removed, ["b"]);
}

#[test]
fn against_an_empty_flow_set_every_type_starts_everything() {
    let new = Cases::read().base();
    let old = FlowSet::default();
    for kind in [
        DeploymentType::Full,
        DeploymentType::Nodes,
        DeploymentType::Flows,
        DeploymentType::Reload,
    ] {
        let plan = plan(&old, &new, &diff(&old, &new, &HashSet::new()), kind);
        assert_eq!(
            plan.start.len(),
            new.nodes().iter().filter(|node| new.runs(node)).count()
        );
        assert!(plan.stop.is_empty() && plan.rewire.is_empty());
    }
}

/// Whatever is deployed after whatever: what was running, without the stops, with the starts, is
/// what is to run.
#[test]
fn a_plan_ends_with_exactly_the_nodes_that_are_to_run() {
    let cases = Cases::read();
    let mut sets: Vec<FlowSet> = cases
        .all()
        .iter()
        .map(|case| cases.after(case).flows)
        .collect();
    // The tab T1 becomes a subflow, and is gone while its nodes stay.
    let base = cases.0["base"].to_string();
    let tab = r#""id":"T1","type":"tab""#;
    for other in [r#""id":"T1","type":"subflow""#, r#""id":"T0","type":"tab""#] {
        sets.push(FlowSet::parse(base.replace(tab, other).as_bytes()).unwrap());
    }
    let running = |flows: &FlowSet| -> BTreeSet<String> {
        flows
            .nodes()
            .iter()
            .filter(|node| flows.runs(node))
            .map(|node| node.id.to_string())
            .collect()
    };
    let pairs = (0..sets.len()).flat_map(|i| [0, 52, 53].map(|j| [(i, j), (j, i)]));
    for (i, j) in pairs.flatten() {
        let (old, new) = (&sets[i], &sets[j]);
        let diff = diff(old, new, &HashSet::new());
        for kind in [
            DeploymentType::Full,
            DeploymentType::Nodes,
            DeploymentType::Flows,
        ] {
            let plan = plan(old, new, &diff, kind);
            let mut now = running(old);
            assert!(plan.stop.iter().all(|stop| now.remove(stop.id.as_str())));
            assert!(plan.start.iter().all(|id| now.insert(id.to_string())));
            assert_eq!(now, running(new));
        }
    }
}
