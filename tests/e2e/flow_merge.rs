//! Deployments of users who see some flows: they change these, and everything else stays as it is;
//! on flowgate's own engine and in front of an upstream.

use crate::client::{Answer, PASSWORD};
use crate::harness::{Gateway, flow_set, hash, public, restart_marker, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::multiple_upstreams::sign_in;
use crate::node_red::NodeRed;
use crate::policies::{Case, cases, refusal};
use serde_json::{Value as Json, json};

/// `admin`, and for each line a user who holds it.
fn users() -> String {
    let hash = hash(PASSWORD);
    let user = |name: &str, permissions: &str| {
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = [{permissions}]\n"
        )
    };
    let of = |line: u8| format!(r#""flows.write:Line?{line}*", "credentials.read""#);
    user("admin", r#""*""#) + &user("ann", &of(3)) + &user("ben", &of(4))
}

/// Two lines that are mixed in their order; each uses a broker of its own, and both a third one.
fn lines() -> Json {
    json!([
        { "id": "tab4", "type": "tab", "label": "Line 4" },
        { "id": "tab3", "type": "tab", "label": "Line 3" },
        { "id": "broker4", "type": "mqtt-broker" },
        { "id": "node3", "type": "comment", "z": "tab3", "x": 1, "y": 1, "uses": "broker3", "also": "both", "wires": [] },
        { "id": "node4", "type": "comment", "z": "tab4", "x": 1, "y": 1, "uses": "broker4", "also": "both", "wires": [] },
        { "id": "broker3", "type": "mqtt-broker" },
        { "id": "both", "type": "mqtt-broker" },
        { "id": "out3", "type": "link out", "z": "tab3", "x": 1, "y": 2, "links": ["in4"], "wires": [] },
        { "id": "in4", "type": "link in", "z": "tab4", "x": 1, "y": 2, "links": ["out3"], "wires": [[]] },
    ])
}

const LINE_3: [&str; 5] = ["tab3", "node3", "broker3", "both", "out3"];

async fn deployed() -> [Case; 2] {
    let cases = cases(&users()).await;
    for case in &cases {
        let token = case.gateway.sign_in("admin").await;
        case.gateway.deploy(&token, &lines()).await;
    }
    cases
}

async fn active(gateway: &Gateway, user: &str) -> Json {
    let token = gateway.sign_in(user).await;
    gateway.flows(&token).await
}

async fn whole(gateway: &Gateway) -> Json {
    active(gateway, "admin").await["flows"].clone()
}

fn element<'f>(flows: &'f mut Json, id: &str) -> &'f mut Json {
    let mut all = flows.as_array_mut().unwrap().iter_mut();
    all.find(|one| one["id"] == id).unwrap()
}

fn ids(flows: &Json) -> Vec<&str> {
    let all = flows.as_array().unwrap().iter();
    all.map(|one| one["id"].as_str().unwrap()).collect()
}

fn without(mut flows: Json, id: &str) -> Json {
    flows.as_array_mut().unwrap().retain(|one| one["id"] != id);
    flows
}

#[tokio::test]
async fn a_user_deploys_the_own_flow_as_the_editor_does_and_the_others_stay() {
    for case in deployed().await {
        let gateway = &case.gateway;
        let token = gateway.sign_in("ann").await;
        let shown = gateway.flows(&token).await;
        assert_eq!(ids(&shown["flows"]), LINE_3);
        assert_eq!(shown["flows"][4]["links"], json!([]));
        let rev = shown["rev"].as_str().unwrap().to_owned();
        assert_eq!(active(gateway, "admin").await["rev"], *rev);

        // What comes back unchanged changes nothing, links to others included.
        let same = gateway.deployment(&token, &shown["flows"], Some(&rev));
        let same = same.send().await;
        assert_eq!(same.status, 200, "{}", same.text());
        assert_eq!(whole(gateway).await, lines());

        // A change, a removal and an addition.
        let mut own = without(shown["flows"].clone(), "out3");
        element(&mut own, "node3")["name"] = "changed".into();
        let added =
            json!({ "id": "new3", "type": "comment", "z": "tab3", "x": 9, "y": 9, "wires": [] });
        own.as_array_mut().unwrap().push(added.clone());
        let changed = gateway.deployment(&token, &own, Some(&same.rev()));
        let changed = changed.send().await;
        assert_eq!(changed.status, 200, "{}", changed.text());
        let mut expected = without(lines(), "out3");
        element(&mut expected, "node3")["name"] = "changed".into();
        let is = whole(gateway).await;
        for id in ids(&lines()).into_iter().filter(|id| *id != "out3") {
            assert_eq!(
                is.as_array().unwrap().iter().find(|one| one["id"] == id),
                expected
                    .as_array()
                    .unwrap()
                    .iter()
                    .find(|one| one["id"] == id)
            );
        }
        assert!(is.as_array().unwrap().contains(&added));
        assert!(!ids(&is).contains(&"out3"));
        // The revision is that of the whole, and a stale one is refused.
        assert_eq!(active(gateway, "ann").await["rev"], changed.rev());
        let stale = gateway.deployment(&token, &own, Some(&rev)).send().await;
        assert_eq!(
            (stale.status, stale.code().as_str()),
            (409, "version_mismatch")
        );
        // Version v1 answers as it does to all.
        let v1 = gateway.post("/flows").token(&token).json(&own).send().await;
        assert_eq!(v1.status, 204, "{}", v1.text());
        assert_eq!(whole(gateway).await, is);
    }
}

#[tokio::test]
async fn single_flows_are_those_of_what_the_user_sees() {
    for case in deployed().await {
        let gateway = &case.gateway;
        let token = gateway.sign_in("ann").await;
        let request = |method: &str, path: &str| gateway.request(method, path).token(&token);
        for (method, path) in [
            ("GET", "/flow/tab4"),
            ("PUT", "/flow/tab4"),
            ("DELETE", "/flow/tab4"),
            ("DELETE", "/flow/unknown"),
        ] {
            let mut request = request(method, path);
            if method == "PUT" {
                request = request.json(&json!({ "label": "Line 3", "nodes": [] }));
            }
            let answer = request.send().await;
            assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text());
        }
        let global = request("GET", "/flow/global").send().await.json();
        assert_eq!(ids(&global["configs"]), ["broker3", "both"]);
        assert_eq!(whole(gateway).await, lines());

        let flow = json!({ "label": "Line 3 b", "nodes": [{ "id": "b3", "type": "comment", "x": 1, "y": 1, "wires": [] }] });
        let added = request("POST", "/flow").json(&flow).send().await;
        assert_eq!(added.status, 200, "{}", added.text());
        let id = added.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(ids(&whole(gateway).await)[9..], [id.as_str(), "b3"]);

        let flow = json!({ "label": "Line 3 c", "nodes": [] });
        let replaced = request("PUT", &format!("/flow/{id}")).json(&flow);
        let replaced = replaced.send().await;
        assert_eq!((replaced.status, &replaced.json()["id"]), (200, &json!(id)));
        let removed = request("DELETE", &format!("/flow/{id}")).send().await;
        assert_eq!(removed.status, 204, "{}", removed.text());
        assert_eq!(whole(gateway).await, lines());
    }
}

/// A flow of the runtime may have an endpoint at `/flows`, and the account is not meant for that.
#[tokio::test]
async fn a_single_flow_that_is_sent_with_the_whole_goes_to_the_admin_api_and_to_no_endpoint() {
    let behind = MockUpstream::start(|_| {
        let flows = json!({ "flows": lines(), "rev": "1" });
        Action::Respond(ok("application/json", &flows.to_string()))
    });
    let behind = behind.await;
    let upstream = format!(
        "[upstream]\nurl = \"http://{}\"\nhealth = \"1h\"\nadmin_root = \"/admin\"\n",
        behind.address
    );
    let gateway = Gateway::with(&(upstream + &users()));
    let token = sign_in(&gateway, "/admin", "ann", "").await.json();
    let token = token["access_token"].as_str().unwrap();
    let flow = json!({ "label": "Line 3b", "nodes": [] });
    let added = gateway.post("/admin/flow").token(token).json(&flow);
    assert_eq!(added.send().await.status, 200);
    let requests = behind.received();
    assert!(
        requests
            .iter()
            .any(|one| one.bytes.starts_with("POST /admin/flows "))
    );
    for request in requests {
        let line = request.bytes.lines().next().unwrap();
        assert!(line.contains(" /admin/"), "{line}");
    }
}

#[tokio::test]
async fn submissions_with_elements_of_others_are_refused_and_name_nothing_of_them() {
    for case in deployed().await {
        let gateway = &case.gateway;
        let token = gateway.sign_in("ann").await;
        let own = gateway.flows(&token).await["flows"].clone();
        let with = |added: Json| {
            let mut all = own.clone();
            all.as_array_mut().unwrap().push(added);
            json!({ "flows": all })
        };
        let node = |id: &str, z: &str, uses: &str| json!({ "id": id, "type": "comment", "z": z, "x": 1, "y": 1, "uses": uses, "wires": [] });
        let mut beside = json!({ "flows": own });
        beside["credentials"] = json!({ "broker4": { "user": "x" } });
        for (submission, named) in [
            (with(node("node4", "tab3", "")), "node4"),
            (with(node("new", "tab4", "")), "tab4"),
            (with(node("new", "tab3", "broker4")), ""),
            (
                with(json!({ "id": "broker4", "type": "mqtt-broker", "name": "" })),
                "broker4",
            ),
            (beside, "broker4"),
        ] {
            for kind in ["full", "nodes", "flows"] {
                let request = gateway.post("/flows").token(&token).json(&submission);
                let request = request.header("Service-API-Version", "v2");
                let answer: Answer = request.header("Service-Deployment-Type", kind).send().await;
                let (status, code, message) = refusal(&answer);
                assert_eq!(
                    (status, code.as_str()),
                    (403, "policy_refused"),
                    "{message}"
                );
                assert!(
                    message.contains(named) && !message.contains("Line 4"),
                    "{message}"
                );
            }
            let check = gateway.post("/gateway/check").token(&token);
            let check = check.header("Service-API-Version", "v2").json(&submission);
            let checked = check.send().await.json();
            assert_eq!(checked["allowed"], false);
            assert_eq!(checked["violations"][0]["rule"], "flows");
        }
        // An element that both use is seen, and stays as it is.
        let mut shared = own.clone();
        element(&mut shared, "both")["name"] = "mine".into();
        let answer = gateway.deployment(&token, &shared, None).send().await;
        let (status, _, message) = refusal(&answer);
        assert_eq!(status, 403);
        assert!(
            message.contains("both") && !message.contains('4'),
            "{message}"
        );
        assert_eq!(whole(gateway).await, lines());
    }
}

#[tokio::test]
async fn credentials_of_the_own_flow_are_stored_and_those_of_others_are_kept() {
    for (i, case) in deployed().await.iter().enumerate() {
        let gateway = &case.gateway;
        let admin = gateway.sign_in("admin").await;
        let mut flows = lines();
        element(&mut flows, "broker4")["credentials"] = json!({ "user": "ben" });
        gateway.deploy_as("nodes", &admin, &flows).await;
        let token = gateway.sign_in("ann").await;
        let mut own = gateway.flows(&token).await["flows"].clone();
        element(&mut own, "broker3")["credentials"] = json!({ "user": "ann", "password": "" });
        let answer = gateway.deployment(&token, &own, None).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        if i == 0 {
            let user = async |id: &str| {
                let path = format!("/credentials/mqtt-broker/{id}");
                gateway.get(&path).token(&admin).send().await.json()["user"].clone()
            };
            assert_eq!(
                (user("broker3").await, user("broker4").await),
                (json!("ann"), json!("ben"))
            );
        } else {
            // The upstream gets them as they were sent, inside the node, and none of other nodes.
            let mut is = whole(gateway).await;
            let sent = &element(&mut is, "broker3")["credentials"];
            assert_eq!(*sent, json!({ "user": "ann", "password": "" }));
            assert!(element(&mut is, "broker4").get("credentials").is_none());
        }
    }
}

#[tokio::test]
async fn of_fifty_deployments_of_single_flows_with_one_revision_exactly_one_wins_and_nothing_foreign_changes()
 {
    for case in deployed().await {
        let gateway = &case.gateway;
        let mut attempts = Vec::new();
        let mut shown = Vec::new();
        for user in ["ann", "ben"] {
            let token = gateway.sign_in(user).await;
            shown.push((token.clone(), gateway.flows(&token).await));
        }
        let rev = shown[0].1["rev"].as_str().unwrap().to_owned();
        for n in 0..50 {
            let (token, own) = &shown[n % 2];
            let mut own = own["flows"].clone();
            let node = ["node3", "node4"][n % 2];
            element(&mut own, node)["name"] = format!("number {n}").into();
            let kind = ["full", "nodes", "flows"][n % 3];
            let request = gateway.deployment(token, &own, Some(&rev));
            let request = request.header("Service-Deployment-Type", kind);
            attempts.push(tokio::spawn(if n % 4 < 2 {
                request.send()
            } else {
                request.http2().send()
            }));
        }
        let mut winners = Vec::new();
        for (n, attempt) in attempts.into_iter().enumerate() {
            let answer = attempt.await.unwrap();
            match answer.status {
                200 => winners.push((n, answer.rev())),
                status => assert_eq!((status, answer.code().as_str()), (409, "version_mismatch")),
            }
        }
        let [(winner, rev)] = winners.as_slice() else {
            panic!("winners: {winners:?}")
        };
        let mut expected = lines();
        let node = ["node3", "node4"][winner % 2];
        element(&mut expected, node)["name"] = format!("number {winner}").into();
        let active = active(gateway, "admin").await;
        assert_eq!((&active["flows"], &active["rev"]), (&expected, &json!(rev)));
    }
}

/// Three endpoints on two tabs, which show when they were started.
fn marked() -> Json {
    let mut second = restart_marker("aa", "/aa");
    second.remove(0);
    for node in &mut second {
        node["z"] = "a".into();
    }
    flow_set(&[restart_marker("a", "/a"), second, restart_marker("b", "/b")])
}

const PATHS: [&str; 3] = ["/a", "/aa", "/b"];

async fn markers(gateway: &Gateway) -> Vec<String> {
    let mut markers = Vec::new();
    for path in PATHS {
        // Node-RED answers a deployment before its endpoints are there again.
        let mut marker = String::new();
        until("the endpoint is there", async || {
            let answer = gateway.get(path).send().await;
            marker = answer.text();
            answer.status == 200
        })
        .await;
        markers.push(marker);
    }
    markers
}

/// The endpoints that a full deployment by a user of tab `a` restarts; `name`: the new name of a
/// node.
async fn restarted(gateway: &Gateway, name: Option<&str>) -> Vec<&'static str> {
    let before = markers(gateway).await;
    let token = gateway.sign_in("ann").await;
    let mut own = gateway.flows(&token).await["flows"].clone();
    if let Some(name) = name {
        element(&mut own, "a-node")["name"] = name.into();
    }
    let answer = gateway.deployment(&token, &own, None);
    let answer = answer
        .header("Service-Deployment-Type", "full")
        .send()
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let after = markers(gateway).await;
    let pairs = PATHS.into_iter().zip(before.iter().zip(&after));
    let restarted = pairs.filter(|(_, (before, after))| before != after);
    restarted.map(|(path, _)| path).collect()
}

#[tokio::test]
async fn a_full_deployment_restarts_the_flows_of_its_user_and_no_others() {
    let users = |rights: &str| users().replace("\"flows.write:Line?3*\"", rights) + &public(&PATHS);
    let red = NodeRed::open();
    // Whether the user sees the other flow or not.
    for rights in [r#""flows.write:a""#, r#""read", "flows.write:a""#] {
        let engine = Gateway::with(&users(rights));
        let upstream = Gateway::with(&(red.config() + &users(rights)));
        for gateway in [&engine, &upstream] {
            let token = gateway.sign_in("admin").await;
            gateway.deploy(&token, &marked()).await;
        }
        assert_eq!(restarted(&engine, None).await, ["/a", "/aa"]);
        assert_eq!(restarted(&engine, Some("new")).await, ["/a", "/aa"]);
        // Node-RED restarts, for type `flows`, the nodes that the change concerns.
        assert_eq!(restarted(&upstream, Some("new")).await, ["/a"]);
        assert_eq!(restarted(&upstream, None).await, [""; 0]);
    }
}
