//! Sight and merge: cases by hand, and for random flow sets, permissions and submissions, that
//! nothing of what a caller does not see is shown or changed.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::policy::*;
use flows::{FlowError, flow_json};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

fn permissions(names: &[&str]) -> Permissions {
    Permissions::of(names.iter().map(SmolStr::new).collect())
}

fn set(elements: &Json) -> Arc<FlowSet> {
    Arc::new(FlowSet::parse(elements.to_string().as_bytes()).unwrap())
}

fn ids(flows: &FlowSet) -> Vec<&str> {
    flows.nodes().iter().map(|node| node.id.as_str()).collect()
}

/// Two lines, each with a broker and a link to the other, and one broker for both; an unused one,
/// and a subflow of line 4 with its own broker.
fn lines() -> Json {
    json!([
        { "id": "tab3", "type": "tab", "label": "Line 3", "env": [{ "name": "TEAM", "value": "pack" }] },
        { "id": "tab4", "type": "tab", "label": "Line 4" },
        { "id": "broker3", "type": "mqtt-broker" },
        { "id": "broker4", "type": "mqtt-broker" },
        { "id": "both", "type": "mqtt-broker" },
        { "id": "unused", "type": "mqtt-broker" },
        { "id": "sub4", "type": "subflow" },
        { "id": "broker5", "type": "mqtt-broker" },
        { "id": "inner", "type": "mqtt in", "z": "sub4", "x": 1, "y": 1, "broker": "broker5" },
        { "id": "in3", "type": "mqtt in", "z": "tab3", "x": 1, "y": 1, "broker": "broker3", "other": "both", "wires": [["out3"]] },
        { "id": "out3", "type": "link out", "z": "tab3", "x": 1, "y": 1, "links": ["in4", "nowhere"] },
        { "id": "in4", "type": "link in", "z": "tab4", "x": 1, "y": 1, "links": ["out3"], "wires": [["mqtt4"]] },
        { "id": "mqtt4", "type": "mqtt out", "z": "tab4", "x": 1, "y": 1, "broker": "broker4", "other": "both" },
        { "id": "inst4", "type": "subflow:sub4", "z": "tab4", "x": 1, "y": 1 },
    ])
}

fn seen(names: &[&str]) -> Vec<String> {
    let shown = Sight::of(&permissions(names), &set(&lines())).shown();
    ids(&shown).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_caller_sees_the_flows_that_the_permission_names_and_the_shared_elements_that_they_use() {
    let line3 = ["tab3", "broker3", "both", "in3", "out3"];
    for name in [
        "flows.read:tab3",
        "flows.read:Line?3",
        "flows.read:TEAM=pack",
        "flows.write:tab3",
    ] {
        assert_eq!(seen(&[name]), line3, "{name}");
    }
    let line4 = [
        "tab4", "broker4", "both", "sub4", "broker5", "inner", "in4", "mqtt4", "inst4",
    ];
    assert_eq!(seen(&["flows.read:tab4"]), line4);
    let shared = [
        "broker3", "broker4", "both", "unused", "sub4", "broker5", "inner",
    ];
    assert_eq!(seen(&["flows.read:shared"]), shared);
    assert_eq!(seen(&["flows.read:tab9"]), [""; 0]);
    let all = ids(&set(&lines())).len();
    for names in [&["*"][..], &["read"], &["flows.read", "flows.write:tab3"]] {
        assert_eq!(seen(names).len(), all, "{names:?}");
    }
}

#[test]
fn links_to_what_is_not_seen_are_left_out_and_put_back() {
    let before = set(&lines());
    let sight = Sight::of(&permissions(&["flows.write:tab3"]), &before);
    let shown = sight.shown();
    let out = shown.get("out3").unwrap().object();
    assert_eq!(out["links"], json!(["nowhere"]));
    assert_eq!(merged(&sight, &shown).unwrap(), before.nodes());

    let changed = shown.to_json().replace(r#"["nowhere"]"#, r#"["in3"]"#);
    let changed = FlowSet::parse(changed.as_bytes()).unwrap();
    let whole = FlowSet::new(merged(&sight, &changed).unwrap()).unwrap();
    let out = whole.get("out3").unwrap().object();
    assert_eq!(out["links"], json!(["in3", "in4"]));
}

/// The refusal of a submission of these elements beside the own ones, by a user of line 3; empty:
/// none.
fn refusal(added: &Json, changed: impl Fn(String) -> String) -> String {
    let permissions = permissions(&["flows.write:tab3", "flows.write:Line?9"]);
    let sight = Sight::of(&permissions, &set(&lines()));
    let mut own: Json = serde_json::from_str(&changed(sight.shown().to_json())).unwrap();
    own.as_array_mut()
        .unwrap()
        .extend(added.as_array().unwrap().clone());
    match merged(&sight, &set(&own)) {
        Err(refused) => refused.to_string(),
        Ok(all) => {
            let after = Sight::of(&permissions, &Arc::new(FlowSet::new(all).unwrap()));
            widened(&sight, &after).to_string()
        }
    }
}

#[test]
fn a_submission_that_uses_what_is_not_seen_is_refused_and_names_only_its_own_ids() {
    let same = |own: String| own;
    let refused =
        |id: &str| format!("the submission uses ids of elements that you may not read: \"{id}\"");
    let node = |extra: Json| {
        let mut node =
            json!({ "id": "new", "type": "x", "z": "tab3", "x": 1, "y": 1, "wires": [] });
        let extra = extra.as_object().unwrap().clone();
        node.as_object_mut().unwrap().extend(extra);
        json!([node])
    };
    // The id of a hidden element, by itself or as a place or target.
    let taken = json!([{ "id": "mqtt4", "type": "x", "z": "tab3", "x": 1, "y": 1 }]);
    assert_eq!(refusal(&taken, same), refused("mqtt4"));
    assert_eq!(
        refusal(&node(json!({ "z": "tab4" })), same),
        refused("tab4")
    );
    assert_eq!(
        refusal(&node(json!({ "z": "sub4" })), same),
        refused("sub4")
    );
    let wired = node(json!({ "wires": [["in3"], ["mqtt4"]] }));
    assert_eq!(refusal(&wired, same), refused("mqtt4"));
    let linked = node(json!({ "links": ["in4"] }));
    assert_eq!(refusal(&linked, same), refused("in4"));
    for links in [json!(["${IN}"]), json!(["$(IN)"])] {
        let named = links[0].as_str().unwrap().to_owned();
        let linked = node(json!({ "type": "link call", "links": links }));
        assert_eq!(refusal(&linked, same), refused(&named));
    }
    let escaped = refusal(&json!([]), |own| {
        own.replace("\"nowhere\"", "\"\\u0069n4\"")
    });
    assert_eq!(escaped, refused("in4"));
    // A reference that would show and lend a shared element of others.
    let widened = "the submission uses ids of elements that you may not read";
    for extra in [
        json!({ "broker": "broker4" }),
        json!({ "deep": { "list": ["unused"] } }),
        json!({ "type": "subflow:sub4" }),
        json!({ "broker": "brok\u{65}r4" }),
    ] {
        assert_eq!(refusal(&node(extra), same), widened);
    }
    // Nothing of that.
    let line9 = json!([{ "id": "tab9", "type": "tab", "label": "Line 9" }]);
    assert_eq!(refusal(&node(json!({ "wires": [["in3"]] })), same), "");
    assert_eq!(refusal(&line9, same), "");
    // What the caller has stopped using is not seen any more, and is sent again all the same.
    assert_eq!(
        refusal(&json!([{ "id": "unused", "type": "mqtt-broker" }]), same),
        ""
    );
}

#[test]
fn the_nodes_of_a_missing_tab_are_not_taken_over_by_a_tab_of_that_id() {
    let flows = set(&json!([
        { "id": "tab3", "type": "tab" },
        { "id": "lost", "type": "x", "z": "orphanage", "x": 1, "y": 1 },
    ]));
    let permissions = permissions(&["flows.write:tab3", "flows.write:Mine"]);
    let sight = Sight::of(&permissions, &flows);
    let submitted = set(&json!([
        { "id": "tab3", "type": "tab" },
        { "id": "orphanage", "type": "tab", "label": "Mine" },
    ]));
    let all = Arc::new(FlowSet::new(merged(&sight, &submitted).unwrap()).unwrap());
    assert!(!widened(&sight, &Sight::of(&permissions, &all)).0.is_empty());
}

/// An instance of a subflow on each line; a comment of line 3 has the id of the node inside that of
/// line 4.
fn instances() -> Arc<FlowSet> {
    set(&json!([
        { "id": "tab3", "type": "tab" }, { "id": "tab4", "type": "tab" }, { "id": "sub", "type": "subflow" },
        { "id": "fn", "type": "x", "z": "sub", "x": 1, "y": 1 }, { "id": "conf", "type": "c", "z": "sub" },
        { "id": "i3", "type": "subflow:sub", "z": "tab3", "x": 1, "y": 1 },
        { "id": "i4", "type": "subflow:sub", "z": "tab4", "x": 1, "y": 1 },
        { "id": "i4-fn", "type": "comment", "z": "tab3", "x": 1, "y": 1 },
    ]))
}

#[test]
fn a_node_inside_an_instance_is_seen_with_its_flow_and_an_id_of_two_only_with_both() {
    let sight = Sight::of(&permissions(&["flows.write:tab3"]), &instances());
    for (id, is_seen) in [
        ("i3", true),
        ("i3-fn", true),
        ("i3-conf", true),
        ("i4-fn", false),
        ("i4-conf", false),
        ("fn", true),
        ("i3-none", false),
    ] {
        assert_eq!(sight.sees(id), is_seen, "{id}");
        assert_eq!(
            sight.sees_running(id, "tab3"),
            is_seen || id == "i3-none",
            "{id}"
        );
    }
    assert!(!sight.sees_running("unknown", "tab4/i4") && sight.sees_running("unknown", "tab3/i3"));
    // The element itself is the user's still, who may give it another id.
    assert!(sight.shown().get("i4-fn").is_some());
}

#[test]
fn the_config_node_inside_an_instance_of_others_is_not_used_by_its_running_id() {
    let before = instances();
    let permissions = permissions(&["flows.write:tab3"]);
    let sight = Sight::of(&permissions, &before);
    let with = |server: &str| {
        let mut all: Json = serde_json::from_str(&sight.shown().to_json()).unwrap();
        let own =
            json!({ "id": "own", "type": "x", "z": "tab3", "x": 1, "y": 1, "server": server });
        all.as_array_mut().unwrap().push(own);
        let all = FlowSet::new(merged(&sight, &set(&all)).unwrap()).unwrap();
        widened(&sight, &Sight::of(&permissions, &Arc::new(all)))
            .0
            .is_empty()
    };
    assert!(with("i3-conf") && !with("i4-conf") && !with("${PROCESS}"));
}

#[test]
fn a_violation_by_elements_that_are_not_seen_names_none_of_them() {
    let violation = |nodes: &[&str]| Violation {
        rule: Rule::Flows,
        nodes: nodes.iter().map(SmolStr::new).collect(),
        message: format!("wrong: {nodes:?}"),
    };
    let verdict = Verdict(vec![violation(&["mine"]), violation(&["mine", "foreign"])]);
    let verdict = verdict.naming_only(|id| id == "mine");
    assert_eq!(verdict.0[0], violation(&["mine"]));
    assert_eq!(verdict.0[1].nodes, ["mine"]);
    assert!(!verdict.to_string().contains("foreign"), "{verdict}");
}

/// One element of a random flow set: what it is, where, and what it refers to.
type Made = (u8, Index, Vec<Index>, Vec<Index>);

fn made() -> impl Strategy<Value = Vec<Made>> {
    let references = || vec(any::<Index>(), 0..3);
    vec((0..6_u8, any::<Index>(), references(), references()), 1..24)
}

/// Elements whose ids and names contain each other in no way; each element has its own secret.
fn flows(made: &[Made]) -> Json {
    let kinds: Vec<u8> = made.iter().map(|(kind, ..)| *kind).collect();
    let id = |i: usize| format!("id{i:03}");
    let containers = |wanted: &[u8]| -> Vec<usize> {
        let all = kinds.iter().enumerate();
        let fits = all.filter(|(_, kind)| wanted.contains(kind));
        fits.map(|(i, _)| i).collect()
    };
    let (places, configs) = (containers(&[0, 1]), containers(&[2, 3]));
    let subflows = containers(&[1]);
    let elements = made.iter().enumerate().map(|(i, (kind, at, uses, links))| {
        let mut one = json!({ "id": id(i), "name": format!("secret{i:03}") });
        let pick =
            |from: &[usize], at: &Index| (!from.is_empty()).then(|| id(from[at.index(from.len())]));
        match kind {
            0 => one["type"] = "tab".into(),
            1 => one["type"] = "subflow".into(),
            2 | 3 => one["type"] = "config".into(),
            kind => {
                (one["x"], one["y"], one["type"]) = (1.into(), 1.into(), "node".into());
                one["z"] = pick(&places, at).into();
                if one["z"].is_null() {
                    one.as_object_mut().unwrap().remove("z");
                }
                let in_subflow = subflows.iter().any(|i| one["z"] == id(*i));
                // An instance inside a subflow could contain itself.
                if *kind == 5
                    && !in_subflow
                    && let Some(subflow) = pick(&subflows, at)
                {
                    one["type"] = format!("subflow:{subflow}").into();
                }
            }
        }
        if *kind > 1 {
            let all: Vec<usize> = (0..made.len()).collect();
            let links: Vec<_> = links.iter().filter_map(|at| pick(&all, at)).collect();
            one["links"] = json!(links);
            one["wires"] = json!([links]);
            let uses = uses.iter().filter_map(|at| pick(&configs, at));
            one["uses"] = uses.collect();
        }
        one
    });
    elements.collect()
}

/// The elements that may be seen, found in another way: from each element to those that it uses.
fn expected(flows: &Json, tabs: &BTreeSet<String>, shared: bool) -> BTreeSet<String> {
    let all = flows.as_array().unwrap();
    let kind = |id: &Json| {
        let found = all.iter().find(|one| one["id"] == *id);
        found.map_or("", |one| one["type"].as_str().unwrap())
    };
    let is_shared = |one: &Json| match one["type"].as_str().unwrap() {
        "tab" => false,
        "subflow" => true,
        _ => one["z"].is_null() || kind(&one["z"]) == "subflow",
    };
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let add = |seen: &mut BTreeSet<String>, one: &Json| {
        seen.insert(one["id"].as_str().unwrap().to_owned())
    };
    for one in all {
        let flow = one["z"].as_str().or(one["id"].as_str()).unwrap();
        if (shared && is_shared(one)) || (!is_shared(one) && tabs.contains(flow)) {
            add(&mut seen, one);
        }
    }
    loop {
        let before = seen.len();
        for user in all {
            if !seen.contains(user["id"].as_str().unwrap()) {
                continue;
            }
            let text = user.to_string();
            for one in all {
                let id = one["id"].as_str().unwrap();
                // With a subflow all that is in it, and with what is in it the subflow.
                let inside = one["z"] == user["id"] || user["z"] == one["id"];
                let named = text.contains(&format!("\"{id}\""));
                let instance = text.contains(&format!("\"subflow:{id}\""));
                if is_shared(one) && (inside || named || instance) {
                    add(&mut seen, one);
                }
            }
        }
        if seen.len() == before {
            return seen;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn nothing_of_what_is_not_seen_is_shown_and_a_flow_set_that_is_sent_back_changes_nothing(
        made in made(), tabs in vec(any::<Index>(), 0..4), shared in any::<bool>(),
    ) {
        let elements = flows(&made);
        let flows = set(&elements);
        let tabs: BTreeSet<String> = tabs.iter().map(|at| format!("id{:03}", at.index(made.len()))).collect();
        let mut names: Vec<String> = tabs.iter().map(|tab| format!("flows.read:{tab}")).collect();
        names.push(if shared { "flows.read:shared" } else { "flows.read:none" }.to_owned());
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let sight = Sight::of(&permissions(&names), &flows);
        let shown = sight.shown();
        let seen: BTreeSet<String> = ids(&shown).into_iter().map(str::to_owned).collect();
        prop_assert_eq!(&seen, &expected(&elements, &tabs, shared));

        // The bodies of GET /flows, and of GET /flow/ID for every id; one that is not seen is
        // unknown.
        let mut text = shown.to_json();
        for id in flows.nodes().iter().map(|node| node.id.as_str()).chain(["global"]) {
            match flow_json(&shown, id) {
                Ok(flow) => text += &flow,
                Err(unknown) => prop_assert_eq!(unknown, FlowError::NoSuchFlow),
            }
        }
        for node in flows.nodes() {
            let secret = node.id.replace("id", "secret");
            let is_seen = sight.sees(&node.id);
            prop_assert_eq!(text.contains(&format!("\"{secret}\"")), is_seen, "{}", text);
            // A node of no tab or of a missing one is named only where it is seen, too.
            prop_assert!(is_seen || !text.contains(node.id.as_str()), "{} in {}", node.id, text);
        }
        let merged = merged(&sight, &shown).unwrap();
        prop_assert_eq!(merged, flows.nodes());
    }

    #[test]
    fn what_is_not_seen_stays_as_it_is_and_where_it_is_whatever_is_submitted(
        made in made(), other in made(), tab in any::<Index>(),
    ) {
        let before = set(&flows(&made));
        let by = permissions(&[&format!("flows.write:id{:03}", tab.index(made.len()))]);
        let sight = Sight::of(&by, &before);
        let hidden = |flows: &[Arc<Node>]| -> Vec<Arc<Node>> {
            flows.iter().filter(|node| sight.hides(&node.id)).cloned().collect()
        };
        let submitted = set(&flows(&other));
        if let Ok(all) = merged(&sight, &submitted) {
            prop_assert_eq!(hidden(&all), hidden(before.nodes()));
            for node in submitted.nodes() {
                prop_assert!(all.iter().any(|one| one.id == node.id));
            }
        }
    }
}
