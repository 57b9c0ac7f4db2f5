//! Policies on deployments, in front of flowgate's own engine and of an upstream: what violates one
//! is refused with its name, and nothing changes.

use crate::client::Answer;
use crate::harness::{Gateway, program, until};
use crate::mock_upstream::{Action, MockUpstream, ok, status};
use crate::node_red::NodeRed;
use serde_json::{Value as Json, json};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

/// A gateway with its own engine, or in front of an upstream.
pub struct Case {
    pub gateway: Gateway,
    /// Until the test ends.
    pub upstream: Option<MockUpstream>,
}

/// Both, with these lines of TOML.
pub async fn cases(lines: &str) -> [Case; 2] {
    let upstream = keeping().await;
    [
        Case {
            gateway: Gateway::with(lines),
            upstream: None,
        },
        Case {
            gateway: Gateway::with(&(upstream.config() + lines)),
            upstream: Some(upstream),
        },
    ]
}

/// An upstream that keeps its flows as a runtime does; its revision is the number of their changes.
pub async fn keeping() -> MockUpstream {
    let state = Arc::new(Mutex::new((json!([]), 0)));
    MockUpstream::start(move |request| {
        let (flows, count) = &mut *state.lock().unwrap();
        let body = request.split_once("\r\n\r\n").unwrap().1;
        if request.starts_with("POST /flows ") {
            let sent: Json = serde_json::from_str(body).unwrap();
            *flows = sent.get("flows").unwrap_or(&sent).clone();
            *count += 1;
        } else if !request.starts_with("GET ") {
            return Action::Respond(status("204 No Content", "text/plain", ""));
        }
        if request.starts_with("GET /nodes ") {
            let sets = json!([{ "types": KEPT_TYPES, "enabled": true }]);
            return Action::Respond(ok("application/json", &sets.to_string()));
        }
        let shown = json!({ "flows": flows, "rev": count.to_string() });
        Action::Respond(ok("application/json", &shown.to_string()))
    })
    .await
}

/// The types of nodes that such an upstream has.
const KEPT_TYPES: [&str; 18] = [
    "change",
    "comment",
    "debug",
    "exec",
    "function",
    "global-config",
    "http in",
    "http response",
    "inject",
    "link call",
    "link in",
    "link out",
    "mqtt in",
    "mqtt out",
    "mqtt-broker",
    "websocket in",
    "websocket-client",
    "websocket-listener",
];

/// A tab with one node of this type.
pub fn tab_with(id: &str, kind: &str) -> Json {
    json!([
        { "id": id, "type": "tab", "label": format!("tab {id}") },
        { "id": format!("{id}1"), "type": kind, "z": id, "x": 1, "y": 1, "wires": [] },
    ])
}

impl Case {
    async fn deploy(&self, user: &str, flows: &Json) -> Answer {
        let token = self.gateway.sign_in(user).await;
        self.gateway.deployment(&token, flows, None).send().await
    }

    async fn flows(&self) -> Json {
        let token = self.gateway.sign_in("admin").await;
        self.gateway.flows(&token).await["flows"].clone()
    }
}

/// Status, code and message.
pub fn refusal(answer: &Answer) -> (u16, String, String) {
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    (answer.status, answer.code(), message)
}

#[tokio::test]
async fn a_submission_without_a_revision_is_refused_except_to_users_who_may_force() {
    for case in cases("[policy]\nrequire_rev = true\nforced = [\"admin\"]").await {
        let gateway = &case.gateway;
        let flows = tab_with("a", "comment");
        let (status, code, message) = refusal(&case.deploy("deployer", &flows).await);
        assert_eq!((status, code.as_str()), (428, "rev_required"));
        assert!(message.contains("GET /flows"), "{message}");
        assert_eq!(case.flows().await, json!([]));

        let token = gateway.sign_in("deployer").await;
        let v1 = gateway.post("/flows").token(&token).json(&flows);
        assert_eq!(v1.send().await.status, 428);
        let rev = gateway.flows(&token).await["rev"]
            .as_str()
            .unwrap()
            .to_owned();
        let with = gateway.deployment(&token, &flows, Some(&rev)).send().await;
        assert_eq!(with.status, 200, "{}", with.text());
        assert_eq!(case.deploy("admin", &json!([])).await.status, 200);
    }
}

#[tokio::test]
async fn nodes_of_forbidden_types_are_refused_to_everyone_by_every_way_and_named() {
    for case in cases("[policy]\nforbid_types = [\"exec\"]").await {
        let gateway = &case.gateway;
        let mut flows = tab_with("a", "exec");
        flows[1]["name"] = "<img src=x>".into();
        let answer = case.deploy("admin", &flows).await;
        let (status, code, message) = refusal(&answer);
        assert_eq!((status, code.as_str()), (403, "policy_refused"));
        assert!(message.ends_with("exec a1 (\"<img src=x>\")"), "{message}");
        // The stock editor shows the body as HTML.
        assert!(!answer.text().contains('<'), "{}", answer.text());

        let token = gateway.sign_in("admin").await;
        let nodes =
            json!({ "nodes": [{ "id": "e", "type": "exec", "x": 1, "y": 1, "wires": [] }] });
        let single = gateway.post("/flow").token(&token).json(&nodes);
        assert_eq!(refusal(&single.send().await).0, 403);
        assert_eq!(case.flows().await, json!([]));
        let violations = r#"flowgate_policy_violations_total{rule="forbid_types"}"#;
        assert_eq!(gateway.metric(violations).await, Some(2.0));

        let refused = gateway
            .audit()
            .into_iter()
            .find(|line| line["event"] == "flows.deploy.fail");
        let refused = refused.unwrap();
        assert_eq!(
            (&refused["reason"], &refused["rules"]),
            (&json!("policy"), &json!(["forbid_types"]))
        );
    }
}

#[tokio::test]
async fn nodes_of_restricted_types_need_their_permission_to_be_added_or_changed_not_to_stay() {
    let hash = crate::harness::hash(crate::client::PASSWORD);
    let user = |name: &str, more: &str| {
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = [\"flows.read\", \"flows.write\"{more}]\n"
        )
    };
    let users =
        user("admin", ", \"*\"") + &user("deployer", "") + &user("shell", ", \"node-types:exec\"");
    for case in cases(&format!("[policy]\nrestrict_types = [\"exec\"]\n{users}")).await {
        let flows = tab_with("a", "exec");
        let (status, _, message) = refusal(&case.deploy("deployer", &flows).await);
        assert_eq!(status, 403);
        assert!(message.contains("node-types:TYPE: exec a1"), "{message}");
        assert_eq!(case.deploy("shell", &flows).await.status, 200);

        let mut more = flows.clone();
        more.as_array_mut()
            .unwrap()
            .push(json!({ "id": "b", "type": "tab" }));
        assert_eq!(case.deploy("deployer", &more).await.status, 200);
        more[1]["x"] = 2.into();
        assert_eq!(case.deploy("deployer", &more).await.status, 403);
        assert_eq!(case.deploy("deployer", &json!([])).await.status, 200);
    }
}

#[tokio::test]
async fn locked_tabs_change_only_with_the_permission_to_unlock() {
    for case in cases("").await {
        let gateway = &case.gateway;
        let mut flows = tab_with("a", "comment");
        flows[0]["locked"] = true.into();
        assert_eq!(case.deploy("deployer", &flows).await.status, 200);

        let mut changed = flows.clone();
        changed[1]["name"] = "other".into();
        let (status, code, message) = refusal(&case.deploy("deployer", &changed).await);
        assert_eq!((status, code.as_str()), (403, "policy_refused"));
        assert!(
            message.ends_with("flows.unlock: comment a1 (\"other\")"),
            "{message}"
        );
        changed[0]["locked"] = false.into();
        assert_eq!(case.deploy("deployer", &changed).await.status, 403);
        assert_eq!(case.deploy("deployer", &json!([])).await.status, 403);
        let token = gateway.sign_in("deployer").await;
        let remove = gateway.request("DELETE", "/flow/a").token(&token);
        assert_eq!(remove.send().await.status, 403);
        let replace = gateway.request("PUT", "/flow/a").token(&token);
        let replace = replace.json(&json!({ "label": "b", "nodes": [] }));
        assert_eq!(replace.send().await.status, 403);
        assert_eq!(case.flows().await, flows);

        assert_eq!(case.deploy("deployer", &flows).await.status, 200);
        assert_eq!(case.deploy("admin", &changed).await.status, 200);
        assert_eq!(case.deploy("deployer", &json!([])).await.status, 200);
    }
}

#[tokio::test]
async fn a_reload_applies_another_policy_and_an_upstream_has_its_own() {
    let upstream = keeping().await;
    let lines = |own: &str| {
        format!(
            "[policy]\nmax_nodes = 1\nrequire_rev = true\n{}{own}",
            upstream.config()
        )
    };
    let gateway = Gateway::with(&lines(
        "[upstream.policy]\nmax_nodes = 2\nrequire_rev = false",
    ));
    let token = gateway.sign_in("deployer").await;
    let flows = tab_with("a", "comment");
    let deploy = async |flows| gateway.deployment(&token, flows, None).send().await;
    assert_eq!(deploy(&flows).await.status, 200);
    assert!(
        gateway
            .reload(&lines("[upstream.policy]\nrequire_rev = false"))
            .await
    );
    let mut more = flows.clone();
    more.as_array_mut()
        .unwrap()
        .push(json!({ "id": "b", "type": "tab" }));
    let (status, _, message) = refusal(&deploy(&more).await);
    assert_eq!(
        (status, message.as_str()),
        (403, "the flows have 3 elements, and at most 1 are allowed")
    );
    assert!(gateway.reload(&lines("")).await);
    assert_eq!(deploy(&flows).await.status, 428);
}

#[tokio::test]
async fn types_that_the_runtime_lacks_are_refused() {
    let red = NodeRed::open();
    let policy = "[policy]\nrequire_types = true";
    for gateway in [
        Gateway::with(policy),
        Gateway::with(&(red.config() + policy)),
    ] {
        let token = gateway.sign_in("admin").await;
        let deploy = async |flows: Json| gateway.deployment(&token, &flows, None).send().await;
        let (status, _, message) = refusal(&deploy(tab_with("a", "unheard-of")).await);
        assert_eq!(status, 403);
        assert!(message.ends_with("these nodes: unheard-of a1"), "{message}");
        let known = deploy(tab_with("a", "inject")).await;
        assert_eq!(known.status, 200, "{}", known.text());
    }
}

#[tokio::test]
async fn an_upstream_that_does_not_show_its_flows_gets_no_deployment_that_a_policy_may_refuse() {
    let upstream = MockUpstream::start(|request| {
        Action::Respond(if request.starts_with("GET /flows") {
            ok("application/json", r#"{"flows":[{}],"rev":"1"}"#)
        } else {
            ok("application/json", r#"{"rev":"2"}"#)
        })
    })
    .await;
    let gateway = Gateway::with(&(upstream.config() + "[policy]\nmax_nodes = 100"));
    let token = gateway.sign_in("admin").await;
    let answer = gateway.deployment(&token, &json!([]), None).send().await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (502, "upstream_invalid_answer")
    );
    let sent = upstream
        .received()
        .into_iter()
        .any(|request| request.bytes.starts_with("POST"));
    assert!(!sent);
}

#[tokio::test]
async fn a_dry_run_reports_every_reason_and_every_finding_and_changes_nothing() {
    for case in cases("[policy]\nforbid_types = [\"exec\"]").await {
        let gateway = &case.gateway;
        let mut flows = tab_with("a", "inject");
        assert_eq!(case.deploy("admin", &flows).await.status, 200);
        let token = gateway.sign_in("reader").await;
        let check = |body: Json| {
            let request = gateway.post("/gateway/check").token(&token);
            let request = request.header("Service-API-Version", "v2");
            request
                .header("Service-Deployment-Type", "nodes")
                .json(&body)
                .send()
        };
        let rules = |list: &Json| -> Vec<(String, Json)> {
            let list = list.as_array().unwrap().iter();
            list.map(|found| {
                (
                    found["rule"].as_str().unwrap().to_owned(),
                    found["nodes"].clone(),
                )
            })
            .collect()
        };
        flows[1]["type"] = "exec".into();
        flows[1]["wires"] = json!([["gone"]]);
        let answer = check(json!({ "flows": flows, "rev": "another" })).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let checked = answer.json();
        assert_eq!(checked["allowed"], false);
        let expected = [
            ("permission", json!([])),
            ("rev", json!([])),
            ("forbid_types", json!(["a1"])),
            ("flows", json!(["a1"])),
        ];
        let expected = expected.map(|(rule, nodes)| (rule.to_owned(), nodes));
        assert_eq!(rules(&checked["violations"]), expected);
        let wire = ("dangling_wire".to_owned(), json!(["a1"]));
        assert!(rules(&checked["findings"]).contains(&wire), "{checked}");
        assert_eq!(
            (&checked["stop"], &checked["start"]),
            (&json!(["a1"]), &json!(["a1"]))
        );

        let before = gateway.flows(&token).await;
        assert_eq!(before["flows"], tab_with("a", "inject"));
        let malformed = check(json!({ "flows": [{ "id": "a" }] })).await;
        assert_eq!(
            (malformed.status, malformed.code().as_str()),
            (400, "invalid_flows")
        );
    }
}

#[tokio::test]
async fn while_it_is_read_only_or_in_a_freeze_window_nothing_is_deployed_started_or_stopped() {
    let window = "[[policy.freeze]]\ncron = \"* * * * *\"\nduration = \"1h\"\nreason = \"line 3\"";
    for (policy, words) in [
        ("[policy]\nread_only = true", "read-only"),
        (window, ": line 3"),
    ] {
        for case in cases(policy).await {
            let gateway = &case.gateway;
            let token = gateway.sign_in("admin").await;
            let flows = tab_with("a", "comment");
            let reload = gateway.deployment(&token, &flows, None);
            let state = gateway.post("/flows/state").token(&token);
            for request in [
                gateway.deployment(&token, &flows, None),
                reload.header("Service-Deployment-Type", "reload"),
                gateway
                    .post("/flow")
                    .token(&token)
                    .json(&json!({ "nodes": [] })),
                gateway
                    .request("PUT", "/flow/global")
                    .token(&token)
                    .json(&json!({})),
                gateway.request("DELETE", "/flow/a").token(&token),
                state.json(&json!({ "state": "stop" })),
            ] {
                let (status, code, message) = refusal(&request.send().await);
                assert_eq!((status, code.as_str()), (403, "policy_refused"));
                assert!(message.contains(words), "{message}");
            }
            assert_eq!(case.flows().await, json!([]));
        }
    }
}

#[tokio::test]
async fn a_commanded_freeze_outlasts_a_restart_and_ends_by_command_or_at_its_time() {
    let gateway = Gateway::start();
    let deploy = async |gateway: &Gateway| {
        let token = gateway.sign_in("admin").await;
        gateway.deployment(&token, &json!([]), None).send().await
    };
    let command = async |gateway: &Gateway, arguments: &[&str]| {
        let mut command = program(gateway.directory.path(), arguments);
        command.stdout(Stdio::piped());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = output.await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.success(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (_, said, error) = command(&gateway, &["freeze", "2h", "line 3 is running"]).await;
    assert!(said.starts_with("frozen until 2"), "{error}");
    let (status, _, message) = refusal(&deploy(&gateway).await);
    assert!(
        status == 403 && message.ends_with(": line 3 is running"),
        "{message}"
    );

    let gateway = gateway.restart().await;
    assert_eq!(deploy(&gateway).await.status, 403);
    let (_, said, _) = command(&gateway, &["unfreeze"]).await;
    assert_eq!(said, "unfrozen\n");
    assert_eq!(deploy(&gateway).await.status, 200);
    let names = ["freeze", "unfreeze"];
    let events = gateway.audit().into_iter();
    let events = events.filter(|line| names.iter().any(|name| line["event"] == *name));
    assert_eq!(events.count(), 2);

    assert!(command(&gateway, &["freeze", "1s", "a moment"]).await.0);
    until("the freeze has ended", async || {
        deploy(&gateway).await.status == 200
    })
    .await;
    let (fine, _, error) = command(&gateway, &["freeze", "2h", ""]).await;
    assert!(!fine && error.contains("a reason of 1 to 200"), "{error}");
}
