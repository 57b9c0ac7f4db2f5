//! Four eyes, in front of flowgate's own engine and of an upstream: a change that needs approval
//! waits as a proposal, and another user's approval deploys it. `proposal_attacks` has the ways
//! around it.

use crate::client::{Answer, Client, PASSWORD};
use crate::harness::{Gateway, hash, until};
use crate::policies::{Case, cases, keeping, refusal, tab_with};
use serde_json::{Value as Json, json};

/// Lines with four users, who may all change everything; `bob` and `admin` may approve.
pub fn approving(lines: &str) -> String {
    let hash = hash(PASSWORD);
    let user = |name: &str, permissions: &str| {
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = {permissions}\n"
        )
    };
    let writer = r#"["read", "flows.write", "settings.write"]"#;
    [
        format!("[policy]\n{lines}\n"),
        user("admin", r#"["*"]"#),
        user("ann", writer),
        user("eve", writer),
        user("bob", r#"["read", "flows.write", "flows.approve"]"#),
    ]
    .concat()
}

/// Deploys with the active revision, so that the proposal has a base.
pub async fn deploy(gateway: &Client, token: &str, flows: &Json) -> Answer {
    let request = gateway.deployment(token, flows, None);
    request
        .header("Service-Deployment-Type", "nodes")
        .send()
        .await
}

/// The change becomes a proposal; its path.
pub async fn propose(gateway: &Client, token: &str, flows: &Json) -> String {
    let answer = deploy(gateway, token, flows).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.header("location").to_owned()
}

/// `POST` of an action on a proposal.
pub async fn decide(gateway: &Client, token: &str, path: &str, action: &str) -> Answer {
    let request = gateway.post(&format!("{path}/{action}")).token(token);
    let body = if action == "reject" {
        json!({ "reason": "not today" })
    } else {
        json!({})
    };
    request.json(&body).send().await
}

pub async fn read(gateway: &Client, token: &str, path: &str) -> Json {
    let answer = gateway.get(path).token(token).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

pub async fn events(gateway: &Gateway, event: &str) -> Vec<Json> {
    let found = || {
        let audit = gateway.audit().into_iter();
        audit.filter(|line| line["event"] == event).collect()
    };
    until(event, async || {
        let found: Vec<Json> = found();
        !found.is_empty()
    })
    .await;
    found()
}

async fn active(case: &Case) -> Json {
    let token = case.gateway.sign_in("admin").await;
    case.gateway.flows(&token).await["flows"].clone()
}

#[tokio::test]
async fn a_change_that_needs_approval_is_deployed_when_another_user_approves_it() {
    for case in cases(&approving("approve = [\"*\"]")).await {
        let gateway = &case.gateway;
        let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
        let flows = tab_with("a", "comment");
        let answer = deploy(gateway, &ann, &flows).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let path = answer.header("location").to_owned();
        assert_eq!(path, "/gateway/proposals/1");
        let body = answer.json();
        assert_eq!((&body["id"], &body["url"]), (&json!(1), &json!(path)));
        assert!(body["message"].as_str().unwrap().contains("proposal 1"));
        assert_eq!(active(&case).await, json!([]));

        let shown = read(gateway, &bob, &(path.clone() + "?flows=true")).await;
        assert_eq!(
            (&shown["state"], &shown["user"]),
            (&json!("open"), &json!("ann"))
        );
        assert_eq!(
            (&shown["diff"]["added"], &shown["flows"]),
            (&json!(2), &flows)
        );
        assert_eq!(shown["diff"]["flows"][0]["id"], "a");
        let approved = decide(gateway, &bob, &path, "approve").await;
        assert_eq!(approved.status, 200, "{}", approved.text());
        assert_eq!(active(&case).await, flows);
        assert_eq!(gateway.flows(&bob).await["rev"], *approved.rev());

        let shown = read(gateway, &ann, &path).await;
        assert_eq!(
            [&shown["state"], &shown["decided_by"], &shown["rev"]],
            ["approved", "bob", &approved.rev()]
        );
        let open = read(gateway, &ann, "/gateway/proposals?state=open").await;
        assert_eq!(open, json!({ "proposals": [], "next": null }));
        let created = &events(gateway, "proposal.create").await[0];
        assert_eq!(
            (&created["user"], &created["proposal"]),
            (&json!("ann"), &json!(1))
        );
        let approved = &events(gateway, "proposal.approve").await[0];
        assert_eq!(
            (&approved["user"], &approved["proposed_by"]),
            (&json!("bob"), &json!("ann"))
        );
        let deployed = events(gateway, "flows.deploy").await;
        assert_eq!(deployed[0]["proposed_by"], "ann");
        let target = if case.upstream.is_some() {
            "upstream"
        } else {
            "engine"
        };
        let proposed = format!(
            "flowgate_deployments_total{{type=\"nodes\",api_version=\"v2\",result=\"proposed\",target=\"{target}\"}}"
        );
        assert_eq!(gateway.metric(&proposed).await, Some(1.0));
    }
}

#[tokio::test]
async fn the_entry_of_the_history_names_who_proposed_and_who_approved() {
    let gateway = Gateway::with(&approving("approve = [\"*\"]"));
    let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
    let path = propose(&gateway, &ann, &tab_with("a", "comment")).await;
    assert_eq!(decide(&gateway, &bob, &path, "approve").await.status, 200);
    let list = read(&gateway, &ann, "/gateway/deployments").await;
    let entry = &list["deployments"][0];
    assert_eq!(entry["user"], "ann");
    assert_eq!(entry["by"], "token; proposal 1, approved by bob (token)");
}

#[tokio::test]
async fn the_message_of_a_proposal_is_shown_to_those_who_decide_and_kept_with_theirs() {
    for case in cases(&approving("approve = [\"*\"]")).await {
        let gateway = &case.gateway;
        let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
        let request = gateway.deployment(&ann, &tab_with("a", "comment"), None);
        let request = request.header("Service-Deployment-Type", "nodes");
        let proposed = request
            .header("Flowgate-Message", "a new pump")
            .send()
            .await;
        let path = proposed.header("location").to_owned();
        assert_eq!(read(gateway, &bob, &path).await["message"], "a new pump");
        assert_eq!(
            events(gateway, "proposal.create").await[0]["message"],
            "a new pump"
        );
        let approve = gateway.post(&format!("{path}/approve")).token(&bob);
        let approve = approve
            .header("Flowgate-Message", "seen on site")
            .json(&json!({}));
        assert_eq!(approve.send().await.status, 200);
        let list = read(gateway, &ann, "/gateway/deployments").await;
        let entry = &list["deployments"][0];
        assert_eq!(entry["message"], "a new pump / seen on site");
    }
}

#[tokio::test]
async fn starting_and_stopping_all_flows_needs_the_right_to_approve() {
    for case in cases(&approving("approve = [\"p\"]")).await {
        let gateway = &case.gateway;
        let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
        for state in ["stop", "start"] {
            let request = |token: &str| gateway.post("/flows/state").token(token);
            let answer = request(&ann).json(&json!({ "state": state })).send().await;
            let (status, code, rules) = refusal(&answer);
            assert_eq!(
                (status, code.as_str()),
                (403, "policy_refused"),
                "{rules:?}"
            );
            let answer = request(&bob).json(&json!({ "state": state })).send().await;
            assert!((200..300).contains(&answer.status), "{}", answer.text());
        }
    }
}

#[tokio::test]
async fn only_changes_of_the_named_flows_need_approval_with_the_shared_elements_that_they_use() {
    let flows = json!([
        { "id": "p", "type": "tab", "label": "Line 3" },
        { "id": "q", "type": "tab", "label": "Test" },
        { "id": "used", "type": "mqtt-broker", "broker": "a" },
        { "id": "other", "type": "mqtt-broker", "broker": "b" },
        { "id": "p1", "type": "comment", "z": "p", "x": 1, "y": 1, "uses": "used", "wires": [] },
        { "id": "q1", "type": "comment", "z": "q", "x": 1, "y": 1, "uses": "other", "wires": [] },
    ]);
    for case in cases(&approving("approve = [\"Line *\"]")).await {
        let gateway = &case.gateway;
        let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
        assert_eq!(deploy(gateway, &bob, &flows).await.status, 200);
        for (element, key, value, needed) in [
            (4, "x", json!(2), true),
            (5, "x", json!(2), false),
            (2, "broker", json!("c"), true),
            (3, "broker", json!("c"), false),
            // It would get onto the flow, or off it.
            (5, "z", json!("p"), true),
            (4, "z", json!("q"), true),
            (0, "label", json!("Free"), true),
            (1, "label", json!("Line 4"), true),
            // It is used by the flow from then on.
            (4, "uses", json!("other"), true),
        ] {
            let mut changed = flows.clone();
            changed[element][key] = value;
            let answer = deploy(gateway, &ann, &changed).await;
            let expected = if needed { 202 } else { 200 };
            assert_eq!(answer.status, expected, "{element} {key}");
            if needed {
                decide(gateway, &bob, answer.header("location"), "reject").await;
            } else {
                deploy(gateway, &bob, &flows).await;
            }
        }
        let single = gateway.request("DELETE", "/flow/p").token(&ann);
        assert_eq!(single.send().await.status, 202);
        let reload = gateway.deployment(&ann, &flows, None);
        let reload = reload.header("Service-Deployment-Type", "reload");
        let (status, code, message) = refusal(&reload.send().await);
        assert_eq!((status, code.as_str()), (403, "policy_refused"));
        assert!(message.contains("flows.approve"), "{message}");
        assert_eq!(active(&case).await, flows);
    }
}

#[tokio::test]
async fn what_cannot_be_deployed_cannot_be_proposed_and_a_dry_run_tells_of_the_approval() {
    for case in cases(&approving("approve = [\"*\"]\nforbid_types = [\"exec\"]")).await {
        let gateway = &case.gateway;
        let ann = gateway.sign_in("ann").await;
        let (status, code, _) = refusal(&deploy(gateway, &ann, &tab_with("a", "exec")).await);
        assert_eq!((status, code.as_str()), (403, "policy_refused"));
        let list = read(gateway, &ann, "/gateway/proposals").await;
        assert_eq!(list["proposals"], json!([]));
        let check = gateway.post("/gateway/check").token(&ann);
        let check = check.header("Service-Deployment-Type", "nodes");
        let checked = check.json(&tab_with("a", "comment")).send().await.json();
        assert_eq!(
            (&checked["allowed"], &checked["approval"]["nodes"]),
            (&json!(true), &json!(["a", "a1"]))
        );
    }
}

#[tokio::test]
async fn an_editor_is_refused_with_the_number_of_the_proposal() {
    for client in ["node-red-editor", "service-editor"] {
        let gateway = Gateway::with(&approving("approve = [\"*\"]"));
        let form = [
            ("client_id", client),
            ("grant_type", "password"),
            ("scope", ""),
            ("username", "ann"),
            ("password", PASSWORD),
        ];
        let answer = gateway.post("/auth/token").form(&form).send().await;
        let ann = answer.json()["access_token"].as_str().unwrap().to_owned();
        let answer = deploy(&gateway, &ann, &tab_with("a", "comment")).await;
        assert_eq!(answer.status, 403);
        assert_eq!(
            answer.text(),
            "the change waits for the approval of another user as proposal 1: /gateway/proposals/1"
        );
    }
}

#[tokio::test]
async fn a_proposal_is_rejected_with_a_reason_or_taken_back_and_then_closed() {
    for case in cases(&approving("approve = [\"*\"]")).await {
        let gateway = &case.gateway;
        let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
        let rejected = propose(gateway, &ann, &tab_with("a", "comment")).await;
        let without = gateway.post(&format!("{rejected}/reject")).token(&bob);
        assert_eq!(without.json(&json!({})).send().await.status, 400);
        let answer = decide(gateway, &bob, &rejected, "reject").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["reason"], "not today");
        let withdrawn = propose(gateway, &ann, &tab_with("b", "comment")).await;
        let delete = gateway.request("DELETE", &withdrawn).token(&ann);
        assert_eq!(delete.send().await.json()["state"], "withdrawn");
        for (path, state) in [(&rejected, "rejected"), (&withdrawn, "withdrawn")] {
            assert_eq!(read(gateway, &ann, path).await["state"], state);
            for action in ["approve", "reject", "rebase"] {
                let answer = decide(gateway, &bob, path, action).await;
                let (status, code, message) = refusal(&answer);
                assert_eq!((status, code.as_str()), (409, "proposal_closed"));
                assert!(message.ends_with(state), "{message}");
            }
        }
        assert_eq!(active(&case).await, json!([]));
        for event in ["proposal.reject", "proposal.withdraw", "proposal.fail"] {
            events(gateway, event).await;
        }
    }
}

#[tokio::test]
async fn a_stale_proposal_is_rebased_unless_others_have_changed_the_same_elements() {
    let mut flows = tab_with("a", "comment");
    let more = json!({ "id": "a2", "type": "comment", "z": "a", "x": 1, "y": 2, "wires": [] });
    flows.as_array_mut().unwrap().push(more);
    let changed = |element: usize, name: &str| {
        let mut changed = flows.clone();
        changed[element]["name"] = name.into();
        changed
    };
    for case in cases(&approving("approve = [\"*\"]")).await {
        let gateway = &case.gateway;
        let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
        deploy(gateway, &bob, &flows).await;
        let path = propose(gateway, &ann, &changed(1, "of ann")).await;
        let other = propose(gateway, &ann, &changed(2, "of ann")).await;
        deploy(gateway, &bob, &changed(2, "of bob")).await;

        let stale = decide(gateway, &bob, &path, "approve").await;
        assert_eq!(
            (stale.status, stale.code().as_str()),
            (409, "version_mismatch")
        );
        let answer = decide(gateway, &ann, &path, "rebase").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["base"], gateway.flows(&ann).await["rev"]);
        let diff = &read(gateway, &ann, &path).await["diff"];
        assert_eq!(
            (&diff["changed"], &diff["flows"][0]["elements"][0]["id"]),
            (&json!(1), &json!("a1"))
        );
        assert_eq!(decide(gateway, &bob, &path, "approve").await.status, 200);
        let mut both = changed(1, "of ann");
        both[2]["name"] = "of bob".into();
        assert_eq!(active(&case).await, both);

        let (status, code, message) = refusal(&decide(gateway, &ann, &other, "rebase").await);
        assert_eq!((status, code.as_str()), (409, "proposal_conflict"));
        assert!(message.contains(": a2;"), "{message}");
        events(gateway, "proposal.rebase").await;
    }
}

#[tokio::test]
async fn open_proposals_are_limited_per_user_and_in_all_by_number_and_bytes() {
    let limits = "approve = [\"*\"]\nmax_proposals_per_user = 2\nmax_proposals = 3\nmax_proposal_bytes_per_user = \"4KiB\"\n\
                  max_proposal_bytes = \"5KiB\"";
    for case in cases(&approving(limits)).await {
        let gateway = &case.gateway;
        let (ann, eve) = (gateway.sign_in("ann").await, gateway.sign_in("eve").await);
        let small = tab_with("a", "comment");
        let large = |bytes: usize| {
            let mut large = small.clone();
            large[1]["info"] = "x".repeat(bytes).into();
            large
        };
        let refused = async |token: &str, flows: &Json| {
            let answer = deploy(gateway, token, flows).await;
            let (status, code, _) = refusal(&answer);
            (status, code)
        };
        let too_large = (413, "proposals_too_large".to_owned());
        let too_many = (429, "too_many_proposals".to_owned());
        assert_eq!(refused(&ann, &large(4096)).await, too_large);
        propose(gateway, &ann, &large(3500)).await;
        assert_eq!(
            refused(&ann, &large(1000)).await,
            too_large,
            "both together"
        );
        assert_eq!(refused(&eve, &large(2000)).await, too_large, "those of all");
        let second = propose(gateway, &ann, &small).await;
        let other = tab_with("b", "comment");
        assert_eq!(refused(&ann, &other).await, too_many);
        propose(gateway, &eve, &small).await;
        assert_eq!(refused(&eve, &other).await, too_many, "those of all");
        let delete = gateway.request("DELETE", &second).token(&ann);
        assert_eq!(delete.send().await.status, 200);
        propose(gateway, &ann, &small).await;
    }
}

#[tokio::test]
async fn credentials_wait_encrypted_are_shown_to_nobody_and_reach_the_runtime() {
    let mut flows = tab_with("a", "comment");
    let broker = json!({ "id": "m", "type": "mqtt-broker", "broker": "b", "credentials": { "user": "u", "password": "hunter2" } });
    flows.as_array_mut().unwrap().push(broker);
    for case in cases(&approving("approve = [\"*\"]")).await {
        let gateway = &case.gateway;
        let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
        let path = propose(gateway, &ann, &flows).await;
        let shown = read(gateway, &bob, &(path.clone() + "?flows=true")).await;
        let diff = &shown["diff"]["flows"][1]["elements"][0];
        assert_eq!(
            (&diff["id"], &diff["credentials"]),
            (&json!("m"), &json!("changed"))
        );
        let list = read(gateway, &bob, "/gateway/proposals").await;
        assert!(!(shown.to_string() + &list.to_string()).contains("hunter2"));
        for file in std::fs::read_dir(gateway.data("")).unwrap() {
            let file = file.unwrap().path();
            let content = std::fs::read(&file).unwrap_or_default();
            let found = content.windows(7).any(|text| text == b"hunter2");
            assert!(!found, "{}", file.display());
        }
        let approved = decide(gateway, &bob, &path, "approve").await;
        assert_eq!(approved.status, 200, "{}", approved.text());
        if let Some(upstream) = &case.upstream {
            let sent = upstream.received();
            let sent = sent
                .iter()
                .find(|request| request.bytes.starts_with("POST"));
            let body = sent.unwrap().bytes.split_once("\r\n\r\n").unwrap().1;
            let body: Json = serde_json::from_str(body).unwrap();
            assert_eq!(body["flows"][2]["credentials"]["password"], "hunter2");
        } else {
            let admin = gateway.sign_in("admin").await;
            let shown = read(gateway, &admin, "/credentials/mqtt-broker/m").await;
            assert_eq!(shown, json!({ "user": "u", "has_password": true }));
        }
    }
}

async fn sign_in_at(mount: &str, gateway: &Client, user: &str) -> String {
    let form = [
        ("client_id", "service-admin"),
        ("grant_type", "password"),
        ("scope", ""),
        ("username", user),
        ("password", PASSWORD),
    ];
    let request = gateway.post(&format!("{mount}/auth/token")).form(&form);
    let answer = request.send().await;
    answer.json()["access_token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn proposals_survive_a_restart_and_are_those_of_one_runtime() {
    let upstreams = [keeping().await, keeping().await];
    let lines = |n: usize| {
        let lines = upstreams[n].config_with(&format!("name = \"u{n}\"\npath = \"/u{n}\""));
        lines.replace("[upstream]", "[[upstream]]")
    };
    let lines = approving("approve = [\"*\"]") + &lines(0) + &lines(1);
    let gateway = Gateway::with(&lines);
    let ann = sign_in_at("/u0", &gateway, "ann").await;
    let request = gateway.post("/u0/flows").token(&ann);
    let answer = request.json(&tab_with("a", "comment")).send().await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let path = answer.header("location").to_owned();
    assert_eq!(path, "/u0/gateway/proposals/1");

    let gateway = gateway.restart().await;
    let bob = sign_in_at("/u0", &gateway, "bob").await;
    let other = path.replace("u0", "u1");
    let elsewhere = gateway.get(&other).token(&bob).send().await;
    assert_eq!(elsewhere.status, 404);
    assert_eq!(decide(&gateway, &bob, &other, "approve").await.status, 404);
    let approved = decide(&gateway, &bob, &path, "approve").await;
    assert_eq!(approved.status, 200, "{}", approved.text());
    let shown = read(&gateway, &bob, "/u0/flows").await;
    assert_eq!(shown["flows"], tab_with("a", "comment"));
}

#[tokio::test]
async fn proposals_are_listed_page_by_page_and_a_wrong_question_is_explained() {
    let gateway = Gateway::with(&approving("approve = [\"*\"]"));
    let ann = gateway.sign_in("ann").await;
    for id in ["a", "b", "c"] {
        propose(&gateway, &ann, &tab_with(id, "comment")).await;
    }
    let numbers = |page: &Json| -> Vec<u64> {
        let list = page["proposals"].as_array().unwrap().iter();
        list.map(|entry| entry["id"].as_u64().unwrap()).collect()
    };
    let first = read(&gateway, &ann, "/gateway/proposals?limit=2").await;
    assert_eq!((numbers(&first), &first["next"]), (vec![3, 2], &json!(2)));
    let rest = read(&gateway, &ann, "/gateway/proposals?before=2").await;
    assert_eq!((numbers(&rest), &rest["next"]), (vec![1], &Json::Null));
    for (path, status, message) in [
        (
            "?state=new",
            400,
            "state must be open, approved, rejected, withdrawn or expired",
        ),
        ("?before=x", 400, "before must be the number of a proposal"),
        (
            "?limit=0",
            400,
            "limit must be a whole number from 1 to 200",
        ),
        ("/4", 404, "there is no such proposal"),
        ("/x", 404, "there is no such proposal"),
    ] {
        let request = gateway.get(&format!("/gateway/proposals{path}"));
        let answer = request.token(&ann).send().await;
        let shown = answer.json()["message"].clone();
        assert_eq!((answer.status, shown), (status, json!(message)), "{path}");
    }
}
