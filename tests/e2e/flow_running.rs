//! Rights to single flows and four eyes are decided on what runs: running ids, variables, config
//! nodes and types; on flowgate's own engine and in front of an upstream.

use crate::client::{Answer, PASSWORD};
use crate::harness::{Gateway, hash, until};
use crate::node_red::NodeRed;
use crate::policies::{Case, cases, refusal};
use serde_json::{Value as Json, json};

/// `admin`; `ann`, who holds `Mine` and reads nothing else; `eve`, who holds it and reads all;
/// `writer`, who may change all, but not `Line*` alone.
fn users() -> String {
    let hash = hash(PASSWORD);
    let user = |name: &str, permissions: &str| {
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = [{permissions}]\n"
        )
    };
    let others = r#""context.read", "context.write", "inject.write", "debug.write", "status.read""#;
    let policy = "[policy]\napprove = [\"Line*\"]\n".to_owned();
    policy
        + &user("admin", r#""*""#)
        + &user("ann", &format!(r#""flows.write:Mine*", {others}"#))
        + &user(
            "eve",
            &format!(r#""flows.read", "flows.write:Mine*", {others}"#),
        )
        + &user("writer", r#""flows.read", "flows.write""#)
}

fn node(id: &str, z: &str, kind: &str, more: &Json) -> Json {
    let mut node = json!({ "id": id, "z": z, "type": kind, "x": 1, "y": 1, "wires": [] });
    let more = more.as_object().unwrap().clone();
    node.as_object_mut().unwrap().extend(more);
    node
}

fn variable(name: &str, kind: &str, value: &str) -> Json {
    json!({ "name": name, "type": kind, "value": value })
}

/// A guarded line with an instance of a subflow, a listener and a broker that it names by a
/// variable of all flows, and the flow of `ann`.
fn flows() -> Vec<Json> {
    let code = "context.set('secret', 'of the line'); return msg;";
    let set = json!({ "rules": [{ "t": "set", "p": "point", "pt": "flow", "to": "SETPOINT", "tot": "env" }], "wires": [[]] });
    vec![
        json!({ "id": "mine", "type": "tab", "label": "Mine" }),
        json!({ "id": "line", "type": "tab", "label": "Line 3" }),
        json!({ "id": "other-tab", "type": "tab", "label": "Other" }),
        json!({ "id": "sub", "type": "subflow", "name": "S", "in": [{ "x": 1, "y": 1, "wires": [{ "id": "fn" }] }], "out": [] }),
        node(
            "fn",
            "sub",
            "function",
            &json!({ "func": code, "outputs": 1 }),
        ),
        node("ln", "line", "subflow:sub", &json!({})),
        node(
            "start",
            "line",
            "inject",
            &json!({ "props": [], "wires": [["ln", "set"]] }),
        ),
        node("set", "line", "change", &set),
        json!({ "id": "wl", "type": "websocket-listener", "path": "/hidden", "wholemsg": "false" }),
        node(
            "in",
            "line",
            "websocket in",
            &json!({ "server": "wl", "client": "" }),
        ),
        json!({ "id": "globals", "type": "global-config", "env": [variable("SETPOINT", "str", "20"), variable("BROKER", "str", "br"), variable("UNUSED", "str", "1")] }),
        json!({ "id": "br", "type": "mqtt-broker", "broker": "127.0.0.1", "port": "1", "autoConnect": false }),
        node(
            "out",
            "line",
            "mqtt out",
            &json!({ "topic": "t", "broker": "${BROKER}" }),
        ),
        node("note", "mine", "comment", &json!({})),
        json!({ "id": "wo", "type": "websocket-listener", "path": "/own", "wholemsg": "false" }),
        node(
            "own",
            "mine",
            "websocket in",
            &json!({ "server": "wo", "client": "" }),
        ),
        json!({ "id": "mine-config", "type": "mqtt-broker", "z": "mine", "broker": "127.0.0.1", "port": "1", "autoConnect": false }),
    ]
}

async fn deployed() -> [Case; 2] {
    let cases = cases(&users()).await;
    for case in &cases {
        let token = case.gateway.sign_in("admin").await;
        case.gateway.deploy(&token, &flows().into()).await;
    }
    cases
}

/// Deploys what the user is shown, changed.
async fn deploy(gateway: &Gateway, user: &str, change: impl FnOnce(&mut Vec<Json>)) -> Answer {
    let token = gateway.sign_in(user).await;
    deploy_by(gateway, &token, change).await
}

async fn deploy_by(gateway: &Gateway, token: &str, change: impl FnOnce(&mut Vec<Json>)) -> Answer {
    let mut shown = gateway.flows(token).await["flows"].clone();
    change(shown.as_array_mut().unwrap());
    let request = gateway.deployment(token, &shown, None);
    request
        .header("Service-Deployment-Type", "nodes")
        .send()
        .await
}

async fn add(gateway: &Gateway, user: &str, added: &[Json]) -> Answer {
    deploy(gateway, user, |all| all.extend(added.iter().cloned())).await
}

fn find<'f>(all: &'f mut [Json], id: &str) -> &'f mut Json {
    all.iter_mut().find(|one| one["id"] == id).unwrap()
}

async fn whole(gateway: &Gateway) -> Json {
    let token = gateway.sign_in("admin").await;
    gateway.flows(&token).await["flows"].clone()
}

#[tokio::test]
async fn an_id_that_runs_inside_a_subflow_instance_is_refused_to_everyone_and_named() {
    for case in deployed().await {
        let gateway = &case.gateway;
        let hidden = [
            vec![node("ln-fn", "mine", "comment", &json!({}))],
            vec![node("ln:status", "mine", "comment", &json!({}))],
            // The context of a node, as Node-RED names it.
            vec![node("start:line", "mine", "comment", &json!({}))],
            // An instance that makes the id of a hidden tab.
            vec![
                json!({ "id": "mine-sub", "type": "subflow", "in": [], "out": [] }),
                node("tab", "mine-sub", "comment", &json!({})),
                node("other", "mine", "subflow:mine-sub", &json!({})),
            ],
            vec![json!({ "id": "global", "type": "tab", "label": "Mine too" })],
        ];
        for added in hidden {
            for user in ["ann", "eve", "writer", "admin"] {
                let answer = add(gateway, user, &added).await;
                let (status, _, message) = refusal(&answer);
                assert_eq!(status, 400, "{user} {added:?}: {message}");
                assert!(message.contains("give the element another id"), "{message}");
            }
        }
        assert_eq!(whole(gateway).await, Json::from(flows()));
    }
}

#[tokio::test]
async fn the_nodes_inside_an_instance_are_those_of_the_flow_of_the_instance() {
    let [case, _] = deployed().await;
    let gateway = &case.gateway;
    let added = [
        json!({ "id": "msub", "type": "subflow", "in": [{ "x": 1, "y": 1, "wires": [{ "id": "mfn" }] }], "out": [] }),
        node(
            "mfn",
            "msub",
            "function",
            &json!({ "func": "context.set('key', 'of ann')", "outputs": 1 }),
        ),
        node(
            "min",
            "msub",
            "inject",
            &json!({ "props": [], "wires": [["mfn"]] }),
        ),
        node("mi", "mine", "subflow:msub", &json!({})),
    ];
    let answer = add(gateway, "ann", &added).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let (ann, admin) = (gateway.sign_in("ann").await, gateway.sign_in("admin").await);
    let inject = async |token: &str, id: &str| {
        let request = gateway.post(&format!("/inject/{id}")).token(token);
        request.json(&json!({})).send().await.status
    };
    let read = async |token: &str, id: &str| {
        let request = gateway.get(&format!("/context/node/{id}")).token(token);
        request.send().await.text()
    };
    assert_eq!(inject(&admin, "start").await, 200);
    until("the line's node has run", async || {
        read(&admin, "ln-fn").await.contains("of the line")
    })
    .await;
    assert!(!read(&ann, "ln-fn").await.contains("of the line"));
    assert_eq!(inject(&ann, "ln-fn").await, 404);
    assert_eq!(inject(&ann, "mi-min").await, 200);
    until("the own node has run", async || {
        read(&ann, "mi-mfn").await.contains("of ann")
    })
    .await;
    // A wire into the hidden instance.
    let wired = add(
        gateway,
        "ann",
        &[node(
            "w",
            "mine",
            "inject",
            &json!({ "props": [], "wires": [["ln-fn"]] }),
        )],
    )
    .await;
    assert_eq!(wired.status, 403, "{}", wired.text());
}

#[tokio::test]
async fn a_global_config_on_the_own_tab_is_refused_and_sets_no_variable_of_others() {
    let lost = |z: &str| json!({ "id": "gc", "type": "global-config", "z": z, "env": [variable("SETPOINT", "str", "666")] });
    for case in deployed().await {
        let gateway = &case.gateway;
        for user in ["ann", "eve"] {
            // A tab that is missing is no tab: the node would be global.
            for z in ["mine", "Mine 9", ""] {
                let note = node("uses", "mine", "comment", &json!({ "name": "gc" }));
                let answer = add(gateway, user, &[lost(z), note]).await;
                assert_eq!(answer.status, 403, "{user} {z}: {}", answer.text());
            }
        }
        // One that is there already counts for nothing in the engine, as in Node-RED.
        let answer = add(gateway, "admin", &[lost("mine")]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        if case.upstream.is_some() {
            continue;
        }
        let admin = gateway.sign_in("admin").await;
        let start = gateway.post("/inject/start").token(&admin);
        assert_eq!(start.json(&json!({})).send().await.status, 200);
        until("the set point is known", async || {
            let read = gateway.get("/context/flow/line/point").token(&admin);
            let text = read.send().await.text();
            assert!(!text.contains("666"), "{text}");
            text.contains("20")
        })
        .await;
    }
}

#[tokio::test]
async fn a_variable_of_all_flows_needs_the_approval_of_the_flows_that_use_it() {
    for case in deployed().await {
        let gateway = &case.gateway;
        let set = async |name: &str, value: &str| {
            let answer = deploy(gateway, "writer", |all| {
                let variables = find(all, "globals")["env"].as_array_mut().unwrap();
                let one = variables.iter_mut().find(|one| one["name"] == name);
                one.unwrap()["value"] = value.into();
            });
            answer.await.status
        };
        assert_eq!(set("UNUSED", "2").await, 200);
        assert_eq!(set("SETPOINT", "666").await, 202);
        assert_eq!(set("BROKER", "mine-config").await, 202);
        let other = json!({ "id": "globals-2", "type": "global-config", "env": [variable("SETPOINT", "str", "1")] });
        assert_eq!(add(gateway, "writer", &[other]).await.status, 202);
        let broker = deploy(gateway, "writer", |all| {
            find(all, "br")["broker"] = "elsewhere".into();
        });
        assert_eq!(broker.await.status, 202);
        let own = deploy(gateway, "writer", |all| {
            find(all, "wo")["path"] = "/new".into();
        });
        assert_eq!(own.await.status, 200);
    }
}

/// Ways in which a variable of the tab, `P`, becomes the text `wl`.
fn ways() -> Vec<(&'static str, Vec<Json>)> {
    vec![
        ("str", vec![variable("P", "str", "wl")]),
        ("json", vec![variable("P", "json", "\"wl\"")]),
        ("a list", vec![variable("P", "json", "[\"wl\"]")]),
        ("jsonata", vec![variable("P", "jsonata", "\"w\"&\"l\"")]),
        ("bin", vec![variable("P", "bin", "[119,108]")]),
        ("conf-type", vec![variable("P", "conf-type", "wl")]),
        (
            "env",
            vec![
                variable("A", "str", "w"),
                variable("B", "str", "l"),
                variable("P", "env", "${A}${B}"),
            ],
        ),
        (
            "env of bin",
            vec![variable("B", "bin", "[108]"), variable("P", "env", "w${B}")],
        ),
        (
            "env of jsonata",
            vec![
                variable("B", "jsonata", "\"l\""),
                variable("P", "env", "w${B}"),
            ],
        ),
        (
            "process",
            vec![variable("P", "env", "FLOWGATE_TEST_LISTENER")],
        ),
        ("context", vec![variable("P", "flow", "key")]),
    ]
}

#[tokio::test]
async fn a_hidden_config_node_is_used_by_no_variable_of_any_type_anywhere() {
    for case in deployed().await {
        let gateway = &case.gateway;
        let ann = gateway.sign_in("ann").await;
        for property in ["${P}", "$(P)"] {
            let user = |z: &str| {
                node(
                    "borrows",
                    z,
                    "websocket in",
                    &json!({ "server": property, "client": "" }),
                )
            };
            for (way, variables) in ways() {
                let on_tab = deploy_by(gateway, &ann, |all| {
                    find(all, "mine")["env"] = variables.clone().into();
                    all.push(user("mine"));
                });
                let mut member = user("mine");
                member["g"] = "group".into();
                let subflow = json!({ "id": "bsub", "type": "subflow", "in": [], "out": [], "env": variables });
                let plain = json!({ "id": "bsub", "type": "subflow", "in": [], "out": [] });
                let instance = |more: &Json| node("binst", "mine", "subflow:bsub", more);
                let added = [
                    vec![
                        json!({ "id": "group", "type": "group", "z": "mine", "nodes": ["borrows"], "env": variables }),
                        member,
                    ],
                    vec![subflow, user("bsub"), instance(&json!({}))],
                    vec![plain, user("bsub"), instance(&json!({ "env": variables }))],
                ];
                let on_tab = on_tab.await;
                assert_eq!(on_tab.status, 403, "{way}: {}", on_tab.text());
                for added in added {
                    let answer =
                        deploy_by(gateway, &ann, |all| all.extend(added.iter().cloned())).await;
                    assert_eq!(answer.status, 403, "{way} {added:?}: {}", answer.text());
                }
            }
        }
        // By a config node of the own tab, and the other way round.
        let config = [
            json!({ "id": "ownc", "type": "websocket-client", "z": "mine", "path": "ws://127.0.0.1:1", "tls": "${P}" }),
            node(
                "o",
                "mine",
                "comment",
                &json!({ "deep": { "list": ["${P}"] } }),
            ),
        ];
        for (name, value) in [("P", "wl"), ("P", "br")] {
            let answer = deploy(gateway, "ann", |all| {
                find(all, "mine")["env"] = json!([variable(name, "str", value)]);
                all.extend(config.iter().cloned());
            });
            assert_eq!(answer.await.status, 403);
        }
        // The own one may be named so.
        let own = deploy(gateway, "ann", |all| {
            find(all, "mine")["env"] = json!([variable("P", "str", "wo")]);
            find(all, "own")["server"] = "${P}".into();
        });
        let own = own.await;
        assert_eq!(own.status, 200, "{}", own.text());
        // A value that is known when it runs only, of a property that names no config node.
        let url = node("url", "mine", "comment", &json!({ "name": "${HOST}" }));
        let url = add(gateway, "ann", &[url]).await;
        assert_eq!(url.status, 200, "{}", url.text());
    }
}

#[tokio::test]
async fn a_config_node_that_other_flows_miss_is_not_provided_by_the_own_tab() {
    for case in deployed().await {
        let gateway = &case.gateway;
        let missing = node(
            "missing",
            "line",
            "mqtt out",
            &json!({ "topic": "t", "broker": "gone" }),
        );
        assert_eq!(add(gateway, "admin", &[missing]).await.status, 200);
        let broker = json!({ "id": "gone", "type": "mqtt-broker", "z": "mine", "broker": "mine", "port": "1", "autoConnect": false });
        for user in ["ann", "eve"] {
            let answer = add(gateway, user, std::slice::from_ref(&broker)).await;
            assert_eq!(answer.status, 403, "{user}: {}", answer.text());
        }
        let mut elsewhere = broker;
        elsewhere["z"] = "other-tab".into();
        let answer = add(gateway, "writer", &[elsewhere]).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    }
}

#[tokio::test]
async fn a_node_of_an_unknown_type_that_would_stop_all_flows_is_refused_to_users_of_some() {
    for case in deployed().await {
        let gateway = &case.gateway;
        let strange = node("strange", "mine", "no such type", &json!({}));
        let instance = node("strange", "mine", "subflow:none", &json!({}));
        for added in [strange.clone(), instance] {
            for user in ["ann", "eve"] {
                let answer = add(gateway, user, std::slice::from_ref(&added)).await;
                let (status, _, message) = refusal(&answer);
                assert_eq!(status, 403, "{message}");
                assert!(
                    message.contains("no flow starts") && message.contains("strange"),
                    "{message}"
                );
            }
            let answer = add(gateway, "writer", std::slice::from_ref(&added)).await;
            assert_eq!(answer.status, 202, "{}", answer.text());
        }
        // A palette can arrive later.
        let answer = add(gateway, "admin", &[strange]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[tokio::test]
async fn in_front_of_a_node_red_an_id_that_is_there_already_opens_no_hidden_node() {
    let red = NodeRed::open();
    let gateway = Gateway::with(&(red.config() + &users()));
    let admin = gateway.sign_in("admin").await;
    gateway.deploy(&admin, &flows().into()).await;
    // Past the gateway, or before an update of it.
    let mut all = flows();
    all.push(node("ln-fn", "mine", "comment", &json!({})));
    red.deploy(&all.into()).await;
    let ann = gateway.sign_in("ann").await;
    for (method, path) in [("GET", "/context/node/ln-fn"), ("POST", "/inject/ln-fn")] {
        let answer = gateway.request(method, path).token(&ann).send().await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
}
