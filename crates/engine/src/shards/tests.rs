use super::*;
use serde_json::json;

fn set(elements: &Json) -> Arc<FlowSet> {
    Arc::new(FlowSet::parse(elements.to_string().as_bytes()).unwrap())
}

fn places(tabs: &[(&str, &str)]) -> Places {
    let tabs = tabs
        .iter()
        .map(|(tab, shard)| ((*tab).to_owned(), (*shard).to_owned()));
    Places {
        tabs: tabs.collect(),
        ..Places::default()
    }
}

fn tab(id: &str, label: &str) -> Json {
    json!({ "id": id, "type": "tab", "label": label })
}

fn node(tab: &str, id: &str, kind: &str, mut more: Json) -> Json {
    let object = more.as_object_mut().unwrap();
    let own = json!({ "id": id, "type": kind, "z": tab, "x": 1, "y": 1 });
    object.extend(own.as_object().unwrap().clone());
    more
}

fn endpoint(tab: &str, id: &str, url: &str) -> Json {
    node(
        tab,
        id,
        "http in",
        json!({ "method": "get", "url": url, "wires": [] }),
    )
}

/// The sentences about what is misplaced.
fn misplaced(flows: &Json, places: &Places) -> Vec<String> {
    let refused = Shards::of(&set(flows), places).refused(&Shards::default());
    refused.into_iter().map(|found| found.message).collect()
}

#[test]
fn a_flow_is_where_its_label_or_id_has_a_place_and_the_others_are_in_the_main_shard() {
    let flows = set(&json!([
        tab("a", "Line 1"),
        tab("b", "Line 2"),
        tab("c", "Line 3"),
        endpoint("a", "a1", "/a"),
        endpoint("b", "b1", "/b"),
        endpoint("c", "c1", "/c/:id"),
    ]));
    let shards = Shards::of(&flows, &places(&[("Line 2", "east"), ("c", "west")]));
    let found = ["a", "a1", "b", "b1", "c1", "?"].map(|id| shards.of_element(id).to_owned());
    assert_eq!(found, ["", "", "east", "east", "west", ""]);
    let endpoints = shards.endpoints("/api/");
    let at = |path: &str| endpoints.find(&Method::GET, path).to_owned();
    let found = ["/api/a", "/api/b", "/API/c/7", "/b", "/api/c"].map(at);
    assert_eq!(found, ["", "east", "west", "", ""]);
    assert_eq!(endpoints.find(&Method::POST, "/api/b"), "");
    for method in [Method::HEAD, Method::OPTIONS] {
        assert_eq!(endpoints.find(&method, "/api/b"), "east");
    }
}

#[test]
fn the_flows_of_other_shards_are_disabled_with_the_config_nodes_that_only_they_use() {
    let broker = json!({ "id": "broker", "type": "mqtt-broker", "broker": "h" });
    let flows = set(&json!([
        tab("a", ""),
        tab("b", ""),
        broker,
        node(
            "b",
            "b1",
            "mqtt in",
            json!({ "broker": "broker", "wires": [] })
        ),
        endpoint("a", "a1", "/a"),
    ]));
    let shards = Shards::of(&flows, &places(&[("b", "east")]));
    let runs = |name: &str| {
        let part = shards.part(name);
        assert_eq!(part.nodes().len(), flows.nodes().len());
        let running = part.nodes().iter().filter(|node| part.runs(node));
        running.map(|node| node.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(runs(""), ["a1"]);
    assert_eq!(runs("east"), ["broker", "b1"]);
    let main = shards.part("");
    assert!(main.get("b").unwrap().text.contains("\"disabled\":true"));
    assert!(Arc::ptr_eq(
        main.get("a1").unwrap(),
        flows.get("a1").unwrap()
    ));
}

#[test]
fn what_belongs_together_is_in_the_main_shard_and_refused_if_its_places_differ() {
    let broker = json!({ "id": "broker", "type": "mqtt-broker", "name": "Hall" });
    let uses = |tab: &str, id: &str| {
        node(
            tab,
            id,
            "mqtt in",
            json!({ "broker": "broker", "wires": [] }),
        )
    };
    let flows = json!([
        tab("a", "Line 1"),
        tab("b", "Line 2"),
        broker,
        uses("a", "a1"),
        uses("b", "b1")
    ]);
    let apart = places(&[("a", "east"), ("b", "west")]);
    let found = misplaced(&flows, &apart);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("\"Line 1\" on \"east\", \"Line 2\" on \"west\""),
        "{found:?}"
    );
    let shards = Shards::of(&set(&flows), &apart);
    assert_eq!(["a1", "b1"].map(|id| shards.of_element(id)), ["", ""]);
    // With the main engine as well.
    assert_eq!(misplaced(&flows, &places(&[("a", "east")])).len(), 1);
    assert!(misplaced(&flows, &places(&[("a", "east"), ("b", "east")])).is_empty());
    // What was so before is not refused again.
    let again = Shards::of(&set(&flows), &apart).refused(&shards);
    assert!(again.is_empty(), "{again:?}");
}

#[test]
fn the_global_context_is_the_main_shards_unless_a_flow_has_its_own() {
    let flows = json!([
        tab("a", "Line 1"),
        node(
            "a",
            "a1",
            "function",
            json!({ "func": "global.set('x', 1)", "wires": [] })
        ),
    ]);
    let mut places = places(&[("a", "east")]);
    let found = misplaced(&flows, &places);
    assert!(found[0].contains("own_global_context"), "{found:?}");
    places.own_globals.insert("Line 1".to_owned());
    assert!(misplaced(&flows, &places).is_empty());
    assert_eq!(Shards::of(&set(&flows), &places).of_element("a1"), "east");
}

#[test]
fn a_deployment_moves_no_flow_to_another_shard() {
    let flows = |label: &str| set(&json!([tab("a", label), endpoint("a", "a1", "/a")]));
    let places = places(&[("Line 1", "east")]);
    let shards = |label: &str| Shards::of(&flows(label), &places);
    let moved = shards("Line 2").refused(&shards("Line 1"));
    assert_eq!(moved[0].tabs, ["a"]);
    assert!(
        moved[0]
            .message
            .contains("from \"east\" to the main engine"),
        "{moved:?}"
    );
    assert!(shards("Line 1").refused(&Shards::default()).is_empty());
}

#[test]
fn endpoints_in_subflows_are_where_their_instances_are_and_paths_have_no_variables() {
    let flows = |url: &str| {
        json!([
            { "id": "outer", "type": "subflow" }, { "id": "inner", "type": "subflow" },
            node("outer", "o1", "subflow:inner", json!({ "wires": [] })),
            endpoint("inner", "i1", url),
            tab("a", ""), tab("b", ""),
            node("b", "b1", "subflow:outer", json!({ "wires": [] })),
        ])
    };
    let places = places(&[("b", "east")]);
    let endpoints = Shards::of(&set(&flows("/x")), &places).endpoints("/");
    assert_eq!(endpoints.find(&Method::GET, "/x"), "east");
    let found = misplaced(&flows("/${X}"), &places);
    assert!(found[0].contains("variables"), "{found:?}");
}
