use super::*;
use serde_json::{Value as Json, json};

/// The tabs `a`, `b` … that have to be together; those of the first thread are in brackets.
fn groups(elements: &Json) -> String {
    groups_of(elements, false)
}

fn groups_of(elements: &Json, hosts_functions: bool) -> String {
    let tabs = ["a", "b", "c"].map(|id| json!({"id": id, "type": "tab", "label": "global"}));
    let all: Vec<Json> = tabs
        .into_iter()
        .chain(elements.as_array().unwrap().iter().cloned())
        .collect();
    let flows = FlowSet::parse(Json::from(all).to_string().as_bytes()).unwrap();
    let groups = partition(&flows, hosts_functions, &FxHashSet::default());
    let shown = groups.iter().filter_map(|group| {
        let tabs = group.members.iter().map(|(id, _)| id.as_str());
        let tabs: String = tabs.filter(|id| matches!(*id, "a" | "b" | "c")).collect();
        match (tabs.is_empty(), group.is_on_first) {
            (true, _) => None,
            (false, true) => Some(format!("[{tabs}]")),
            (false, false) => Some(tabs),
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn node(id: &str, z: &str, kind: &str, more: &Json) -> Json {
    let mut node = json!({"id": id, "z": z, "type": kind, "x": 1, "y": 1, "wires": []});
    for (key, value) in more.as_object().unwrap() {
        node[key] = value.clone();
    }
    node
}

/// A node on each of two tabs.
fn two(kinds: [&str; 2], more: [Json; 2]) -> Json {
    let [first, second] = more;
    json!([
        node("n1", "a", kinds[0], &first),
        node("n2", "b", kinds[1], &second)
    ])
}

#[test]
fn flows_that_name_each_other_are_together() {
    let with = |first: Json, config: &Json| {
        json!([
            first,
            node("n2", "b", "mqtt in", &json!({"broker": "config"})),
            config,
            {"id": "of both", "type": "tls-config"},
        ])
    };
    let config = json!({"id": "config", "type": "mqtt-broker", "tls": "of both"});
    let table = [
        (json!({}), "a b c"),
        (json!({"wires": [["n2"]]}), "ab c"),
        (json!({"links": ["n2"]}), "ab c"),
        (json!({"scope": ["n2"]}), "ab c"),
        (json!({"rules": [{"deep": ["config"]}]}), "ab c"),
        (json!({"tls": "of both"}), "ab c"),
        (json!({"escaped": "confi\u{67}"}), "ab c"),
        (json!({"config": "a key", "other": "n1"}), "a b c"),
    ];
    for (more, expected) in table {
        let elements = with(node("n1", "a", "change", &more), &config);
        assert_eq!(groups(&elements), expected, "{more}");
    }
}

#[test]
fn what_a_subflow_names_counts_for_the_flows_that_have_an_instance() {
    let subflows = |inside: &Json, uses: [&str; 2]| {
        json!([
            {"id": "s", "type": "subflow", "in": [], "out": []},
            {"id": "outer", "type": "subflow", "in": [], "out": []},
            node("in-outer", "outer", "subflow:s", &json!({})),
            node("inside", "s", "function", inside),
            node("i1", "a", uses[0], &json!({})),
            node("i2", "b", uses[1], &json!({})),
            {"id": "broker", "type": "mqtt-broker"},
        ])
    };
    let table = [
        (json!({}), ["subflow:s", "subflow:s"], "a b c"),
        (
            json!({"b": "broker"}),
            ["subflow:s", "subflow:outer"],
            "ab c",
        ),
        (json!({"b": "broker"}), ["subflow:s", "debug"], "a b c"),
        (
            json!({"func": "global.get('x')"}),
            ["debug", "subflow:outer"],
            "a [b] c",
        ),
        (
            json!({"link": "i1-inside"}),
            ["subflow:s", "subflow:s"],
            "ab c",
        ),
    ];
    for (inside, uses, expected) in table {
        let elements = subflows(&inside, uses);
        assert_eq!(groups(&elements), expected, "{inside} {uses:?}");
    }
}

#[test]
fn nodes_that_may_use_the_global_context_are_on_the_first_thread() {
    let table = [
        (
            "change",
            json!({"rules": [{"t": "set", "pt": "global"}]}),
            "[a] b c",
        ),
        (
            "inject",
            json!({"props": [{"vt": "jsonata", "v": "$globalContext('x')"}]}),
            "[a] b c",
        ),
        (
            "function",
            json!({"func": "eval('glo' + 'bal')"}),
            "[a] b c",
        ),
        (
            "function",
            json!({"func": "// gl\u{f6}bal", "name": "global", "info": "global"}),
            "a b c",
        ),
        ("template", json!({"template": "{{global.x}}"}), "[a] b c"),
        ("template", json!({"template": "{{payload}}"}), "a b c"),
        ("template", json!({"template": ""}), "[a] b c"),
        (
            "comment",
            json!({"info": "global", "more": "global"}),
            "a b c",
        ),
        ("of a package", json!({}), "[a] b c"),
    ];
    for (kind, more, expected) in table {
        assert_eq!(
            groups(&json!([node("n", "a", kind, &more)])),
            expected,
            "{kind} {more}"
        );
    }
    let escaped = r#"[{"id":"n","z":"a","type":"function","x":1,"y":1,"func":"\u0067lobal.get(1)"},{"id":"a","type":"tab"}]"#;
    let groups = partition(
        &FlowSet::parse(escaped.as_bytes()).unwrap(),
        false,
        &FxHashSet::default(),
    );
    assert!(groups[0].is_on_first);
}

#[test]
fn functions_with_modules_are_with_the_node_host_if_it_runs_some() {
    let function = json!([node(
        "n",
        "a",
        "function",
        &json!({"libs": [{"var": "x", "module": "x"}]})
    )]);
    assert_eq!(groups_of(&function, false), "a b c");
    assert_eq!(groups_of(&function, true), "[a] b c");
}

#[test]
fn nodes_that_meet_outside_the_flow_set_are_together() {
    let udp = ["udp in", "udp out"];
    let tcp = ["tcp in", "tcp out"];
    let table = [
        (
            udp,
            [json!({"port": "9"}), json!({"port": "9", "outport": ""})],
            "ab c",
        ),
        (
            udp,
            [json!({"port": 9}), json!({"port": "1", "outport": "9"})],
            "ab c",
        ),
        (
            udp,
            [json!({"port": "9"}), json!({"port": "9", "outport": "8"})],
            "a b c",
        ),
        (udp, [json!({"port": "${P}"}), json!({"port": "9"})], "ab c"),
        (tcp, [json!({}), json!({"beserver": "client"})], "a b c"),
        (tcp, [json!({}), json!({"beserver": "reply"})], "ab c"),
        (
            ["link in", "link call"],
            [json!({}), json!({"linkType": "static"})],
            "a b c",
        ),
        (
            ["link in", "link call"],
            [json!({}), json!({"linkType": "dynamic"})],
            "[ab] c",
        ),
    ];
    for (kinds, more, expected) in table {
        let elements = two(kinds, more.clone());
        assert_eq!(groups(&elements), expected, "{kinds:?} {more:?}");
    }
}

#[test]
fn listeners_on_one_path_are_together() {
    let listeners = |paths: [&str; 2]| {
        json!([
            {"id": "l1", "type": "websocket-listener", "path": paths[0]},
            {"id": "l2", "type": "websocket-listener", "path": paths[1]},
            node("n1", "a", "websocket in", &json!({"server": "l1"})),
            node("n2", "b", "websocket in", &json!({"server": "l2"})),
        ])
    };
    assert_eq!(groups(&listeners(["/x", "/y"])), "a b c");
    assert_eq!(groups(&listeners(["/x", "X/"])), "ab c");
    assert_eq!(groups(&listeners(["/x", "${P}"])), "ab c");
}

#[test]
fn an_unnamed_tab_is_on_the_first_thread() {
    let elements = json!([
        node("n", "no tab", "debug", &json!({"other": "m"})),
        node("m", "a", "debug", &json!({}))
    ]);
    assert_eq!(groups(&elements), "[a] b c");
}

#[test]
fn functions_weigh_more_than_other_nodes_also_inside_subflows() {
    let elements = json!([
        {"id": "s", "type": "subflow"}, {"id": "outer", "type": "subflow"}, {"id": "a", "type": "tab"},
        {"id": "b", "type": "tab"}, {"id": "c", "type": "tls-config"},
        node("f", "s", "function", &json!({})), node("i", "outer", "subflow:s", &json!({})),
        node("i1", "a", "subflow:outer", &json!({})), node("i2", "a", "subflow:s", &json!({})),
        node("n", "b", "debug", &json!({})),
    ]);
    let flows = FlowSet::parse(elements.to_string().as_bytes()).unwrap();
    let weights: Vec<usize> = partition(&flows, false, &FxHashSet::default())
        .iter()
        .map(|group| group.weight)
        .collect();
    assert_eq!(weights, [102 + 101, 1, 1]);
}
