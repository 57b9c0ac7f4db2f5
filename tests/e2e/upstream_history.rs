//! The history in front of an upstream: its changes, those of others, and the way back.

use crate::harness::Gateway;
use crate::mock_upstream::{Action, MockUpstream, ok, status};
use serde_json::{Value as Json, json};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

/// A runtime that keeps its flows as Node-RED does: without credentials, under a revision that
/// their content has.
#[derive(Default)]
struct Runtime {
    flows: Vec<Json>,
    added: usize,
    /// Deployments of which it does not send a response, though they happen.
    silent: bool,
    /// It does not show its flows.
    hidden: bool,
}

impl Runtime {
    fn rev(&self) -> String {
        let mut hasher = DefaultHasher::new();
        Json::from(self.flows.clone()).to_string().hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    fn act(&mut self, request: &str) -> Action {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let body: Json = serde_json::from_str(body).unwrap_or_default();
        let is_v2 = head.contains("node-red-api-version: v2");
        let line = head.lines().next().unwrap();
        let path = line.rsplit_once(' ').unwrap().0;
        match path {
            "GET /flows" if self.hidden => return Action::Respond(ok("text/plain", "no")),
            "GET /flows" => {}
            "POST /flows" => {
                let flows = if is_v2 { body["flows"].clone() } else { body };
                self.flows.clone_from(flows.as_array().unwrap());
                for node in &mut self.flows {
                    node.as_object_mut().unwrap().remove("credentials");
                }
                if self.silent {
                    return Action::RespondAndClose(String::new());
                }
                if !is_v2 {
                    return Action::Respond(status("204 No Content", "text/plain", ""));
                }
            }
            "POST /flow" => {
                self.added += 1;
                let id = format!("made{}", self.added);
                let tab = json!({ "id": id, "type": "tab", "label": body["label"] });
                self.flows.push(tab);
                return respond(&json!({ "id": id }));
            }
            _ => {
                let Some(id) = path.strip_prefix("DELETE /flow/") else {
                    return respond(&json!({}));
                };
                self.flows
                    .retain(|node| node["id"] != id && node["z"] != id);
                return Action::Respond(status("204 No Content", "text/plain", ""));
            }
        }
        let flows = (line.starts_with("GET")).then_some(&self.flows);
        respond(&json!({ "flows": flows, "rev": self.rev() }))
    }
}

fn respond(body: &Json) -> Action {
    Action::Respond(ok("application/json", &body.to_string()))
}

async fn start() -> (MockUpstream, Arc<Mutex<Runtime>>) {
    let runtime = Arc::<Mutex<Runtime>>::default();
    let own = Arc::clone(&runtime);
    let behind = MockUpstream::start(move |request| own.lock().unwrap().act(request)).await;
    (behind, runtime)
}

async fn read(gateway: &Gateway, token: &str, path: &str) -> Json {
    let answer = gateway.get(path).token(token).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// `type user added/changed/removed of elements` of each entry, newest first.
async fn history(gateway: &Gateway, token: &str, root: &str) -> Vec<String> {
    let list = read(gateway, token, &format!("{root}/gateway/deployments")).await;
    let shown = list["deployments"].as_array().unwrap().iter().map(|entry| {
        let number = |name: &str| entry["changes"][name].as_u64().unwrap();
        let numbers = ["added", "changed", "removed", "elements"].map(number);
        let [added, changed, removed, elements] = numbers;
        let (kind, user) = (&entry["type"], &entry["user"]);
        let (kind, user) = (kind.as_str().unwrap(), user.as_str().unwrap());
        format!("{kind} {user} {added}/{changed}/{removed} of {elements}")
    });
    shown.collect()
}

fn line(host: &str) -> Json {
    json!([
        { "id": "A", "type": "tab", "label": "Line" },
        { "id": "n", "type": "mqtt-broker", "z": "A", "broker": host, "credentials": { "password": "hunter2" } },
    ])
}

#[tokio::test]
async fn each_accepted_change_is_an_entry_with_its_user_and_its_difference() {
    let (behind, runtime) = start().await;
    let gateway = Gateway::with(&behind.config());
    let admin = gateway.sign_in("admin").await;
    let deployer = gateway.sign_in("deployer").await;
    let one = gateway.deploy(&admin, &line("one")).await;
    let v1 = gateway.post("/flows").token(&deployer).json(&line("two"));
    let v1 = v1
        .header("Flowgate-Message", "the other broker")
        .send()
        .await;
    assert_eq!(v1.status, 204, "{}", v1.text());
    let flow = json!({ "label": "new", "nodes": [] });
    let added = gateway.post("/flow").token(&admin).json(&flow).send().await;
    assert_eq!(added.json()["id"], "made1");
    let removed = gateway.request("DELETE", "/flow/made1").token(&admin);
    assert_eq!(removed.send().await.status, 204);
    // The upstream refuses nothing here but what flowgate does: a malformed submission and a stale
    // one are no entries.
    let stale = gateway.deployment(&admin, &json!([]), Some("old"));
    assert_eq!(stale.send().await.status, 409);

    let expected = [
        "flows admin 0/0/1 of 2",
        "flows admin 1/0/0 of 3",
        "full deployer 0/1/0 of 2",
        "full admin 2/0/0 of 2",
        "outside-edit  0/0/0 of 0",
    ];
    assert_eq!(history(&gateway, &admin, "").await, expected);
    let path = "/gateway/deployments?user=deployer";
    let entry = read(&gateway, &admin, path).await["deployments"][0].clone();
    assert_eq!(entry["message"], "the other broker");
    assert_eq!(entry["parent"], json!(one));
    assert_eq!(
        read(&gateway, &admin, "/flows").await,
        json!({ "flows": runtime.lock().unwrap().flows, "rev": runtime.lock().unwrap().rev() })
    );

    let shown = read(&gateway, &admin, "/gateway/nodes/n/history").await;
    let newest = &shown["history"][0];
    let properties = json!({ "broker": { "before": "one", "after": "two" } });
    assert_eq!(
        (&newest["user"], &newest["properties"]),
        (&json!("deployer"), &properties)
    );
    let diff = read(&gateway, &admin, &format!("/gateway/diff?from={one}")).await;
    assert_eq!(
        (&diff["changed"], &diff["credentials_compared"]),
        (&json!(1), &json!(false))
    );
    assert_eq!(diff["to"], json!(runtime.lock().unwrap().rev()));
    let path = format!("/gateway/deployments/{one}?flows=true");
    let flows = read(&gateway, &admin, &path).await["flows"].clone();
    assert_eq!(
        (&flows[1]["broker"], &flows[1]["credentials"]),
        (&json!("one"), &Json::Null)
    );

    let directory = gateway.stop().await;
    for file in ["flowgate.db", "flowgate.db-wal"] {
        let bytes = std::fs::read(directory.path().join(file)).unwrap_or_default();
        let secret = bytes.windows(7).any(|bytes| bytes == b"hunter2");
        assert!(!secret, "the credentials of an upstream are in {file}");
    }
}

#[tokio::test]
async fn a_change_of_others_and_one_without_a_response_are_outside_edits() {
    let (behind, runtime) = start().await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &line("one")).await;
    runtime.lock().unwrap().flows[0]["label"] = "edited there".into();
    gateway.deploy(&token, &line("two")).await;
    runtime.lock().unwrap().silent = true;
    let lost = gateway.deployment(&token, &line("lost"), None).send().await;
    assert_eq!(lost.status, 502, "{}", lost.text());
    runtime.lock().unwrap().silent = false;
    // A restart forgets nothing: the history has the last revision.
    let gateway = gateway.restart().await;
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &json!([])).await;
    let expected = [
        "full admin 0/0/2 of 0",
        "outside-edit  0/1/0 of 2",
        "full admin 0/2/0 of 2",
        "outside-edit  0/1/0 of 2",
        "full admin 2/0/0 of 2",
        "outside-edit  0/0/0 of 0",
    ];
    assert_eq!(history(&gateway, &token, "").await, expected);
    let log = gateway.audit().into_iter();
    let edits = log.filter(|line| line["event"] == "flows.outside_edit");
    assert_eq!(edits.count(), 2);
}

#[tokio::test]
async fn a_rollback_is_a_deployment_to_the_upstream_and_names_lost_credentials() {
    let (behind, runtime) = start().await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("admin").await;
    let one = gateway.deploy(&token, &line("one")).await;
    let two = gateway.deploy(&token, &json!([line("")[0]])).await;
    let roll_back = |path: &str, rev: &str| {
        let path = format!("/gateway/deployments/{path}");
        let request = gateway.post(&path).token(&token);
        request
            .header("Flowgate-Message", "back")
            .json(&json!({ "rev": rev }))
            .send()
    };
    let stale = roll_back(&format!("{one}/rollback"), &one).await;
    assert_eq!(
        (stale.status, stale.code().as_str()),
        (409, "version_mismatch")
    );
    let unknown = roll_back("x/rollback", &two).await;
    assert_eq!(unknown.status, 404);
    behind.take();
    let done = roll_back(&format!("{one}/rollback"), &two).await;
    let expected = json!({ "rev": one, "credentials": "kept", "without_credentials": ["n"] });
    assert_eq!((done.status, done.json()), (200, expected));
    let sent = behind.take().into_iter().map(|received| received.bytes);
    let posts: Vec<String> = sent.filter(|bytes| bytes.starts_with("POST")).collect();
    let [post] = posts.as_slice() else {
        panic!("{posts:?}")
    };
    assert!(post.starts_with("POST /flows HTTP/1.1\r\n"), "{post}");
    assert!(post.contains(&format!("\"rev\":\"{two}\"")), "{post}");
    assert_eq!(runtime.lock().unwrap().flows[1]["broker"], "one");
    assert_eq!(
        history(&gateway, &token, "").await[0],
        "full admin 1/0/0 of 2"
    );

    let three = gateway.deploy(&token, &line("three")).await;
    let tab = roll_back(&format!("{one}/rollback?flow=A"), &three).await;
    assert_eq!(
        tab.json()["without_credentials"],
        json!([]),
        "{}",
        tab.text()
    );
    assert_eq!(runtime.lock().unwrap().flows[1]["broker"], "one");
    let audit = gateway.audit().into_iter();
    let audit = audit.filter(|line| line["event"] == "flows.deploy" && line["message"] == "back");
    assert_eq!(audit.count(), 2);
}

#[tokio::test]
async fn each_upstream_has_a_history_of_its_own() {
    let ((left, _), (right, _)) = (start().await, start().await);
    let upstream = |name: &str, path: &str, behind: &MockUpstream| {
        let address = behind.address;
        format!(
            "[[upstream]]\nname = \"{name}\"\n{path}url = \"http://{address}\"\nhealth = \"1h\"\n"
        )
    };
    let gateway = Gateway::with(
        &(upstream("left", "", &left) + &upstream("right", "path = \"/right\"\n", &right)),
    );
    let token = gateway.sign_in("admin").await;
    for (root, flows) in [("", line("l")), ("/right", json!([line("r")[0]]))] {
        let request = gateway.post(&format!("{root}/flows")).token(&token);
        assert_eq!(request.json(&flows).send().await.status, 204);
    }
    let first = "outside-edit  0/0/0 of 0";
    let expected = ["full admin 2/0/0 of 2", first];
    assert_eq!(history(&gateway, &token, "").await, expected);
    let expected = ["full admin 1/0/0 of 1", first];
    assert_eq!(history(&gateway, &token, "/right").await, expected);
    let list = read(&gateway, &token, "/gateway/deployments").await;
    let rev = list["deployments"][0]["rev"].as_str().unwrap();
    let path = format!("/right/gateway/deployments/{rev}");
    assert_eq!(gateway.get(&path).token(&token).send().await.status, 404);
    let path = "/right/gateway/nodes/n/history";
    assert_eq!(read(&gateway, &token, path).await["history"], json!([]));
}

#[tokio::test]
async fn without_a_history_the_upstream_is_not_asked_for_its_flows() {
    let (behind, _) = start().await;
    let gateway = Gateway::with(&(behind.config() + "[storage]\nhistory = 0\n"));
    let token = gateway.sign_in("admin").await;
    let request = gateway.post("/flows").token(&token).json(&line("one"));
    assert_eq!(request.send().await.status, 204);
    assert!(behind.only().starts_with("POST /flows"));
    assert_eq!(history(&gateway, &token, "").await, [""; 0]);
}

#[tokio::test]
async fn an_upstream_that_does_not_show_its_flows_gets_deployments_all_the_same() {
    let (behind, runtime) = start().await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("admin").await;
    runtime.lock().unwrap().hidden = true;
    let request = gateway.post("/flows").token(&token).json(&line("one"));
    assert_eq!(request.send().await.status, 204);
    assert_eq!(runtime.lock().unwrap().flows.len(), 2);
    assert_eq!(history(&gateway, &token, "").await, [""; 0]);
}
