//! Hostile JSON and the response of each endpoint that takes JSON: `tests/data/hostile-json.json`.
//!
//! `endpoints` are all that take JSON, with the code of their refusals. Every text of `everywhere`
//! is sent to all of them, every text of `wrong` to those named by `to`, and every kind of `types`
//! too; all are refused with a message that `says` what is wrong and where, within a second, and
//! change nothing. `taken` are odd texts that are good.
//!
//! A `body` is a text whose characters are bytes, or a list of such texts and of texts to be
//! repeated. What is `big` is over the limit of endpoints that take only a `small` body.

use crate::client::{Answer, Client, Request};
use crate::harness::{Gateway, Process};
use crate::mock_upstream::{Action, MockUpstream, ok};
use serde_json::{Value as Json, json};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/hostile-json.json");

/// One request of the table with what becomes of it.
struct Case {
    shown: String,
    endpoint: Json,
    row: Json,
}

fn table() -> Json {
    serde_json::from_str(&std::fs::read_to_string(TABLE).unwrap()).unwrap()
}

fn list(table: &Json, key: &str) -> Vec<Json> {
    table[key].as_array().unwrap().clone()
}

/// Every row of a list of the table, once for each endpoint that it is for.
fn cases(key: &str) -> Vec<Case> {
    let table = table();
    let mut cases = Vec::new();
    for row in list(&table, key) {
        for endpoint in list(&table, "endpoints") {
            let to = row["to"].as_array();
            if to.is_none_or(|to| to.contains(&endpoint["name"])) {
                let group = row["group"].as_str().unwrap_or_default();
                cases.push(Case {
                    shown: format!("{} / {group} {} to {}", key, row["name"], endpoint["name"]),
                    endpoint,
                    row: row.clone(),
                });
            }
        }
    }
    cases
}

fn body(text: &Json) -> Vec<u8> {
    let bytes = |text: &Json| -> Vec<u8> {
        let characters = text.as_str().unwrap().chars();
        characters.map(|c| u8::try_from(c).unwrap()).collect()
    };
    let part = |part: &Json| match part.as_array() {
        Some(repeated) => {
            let times = usize::try_from(repeated[1].as_u64().unwrap()).unwrap();
            bytes(&repeated[0]).repeat(times)
        }
        None => bytes(part),
    };
    match text.as_array() {
        Some(parts) => parts.iter().flat_map(part).collect(),
        None => bytes(text),
    }
}

impl Case {
    fn request(&self, client: &Client, token: &str) -> Request {
        let (method, path) = self.endpoint["request"]
            .as_str()
            .unwrap()
            .split_once(' ')
            .unwrap();
        let kind = self.row["type"].as_str().unwrap_or("application/json");
        let mut request = client.request(method, path).body(body(&self.row["body"]));
        if self.endpoint["name"] != "token" {
            request = request.token(token);
        }
        if self.endpoint["v2"] == true {
            request = request.header("Service-API-Version", "v2");
        }
        if kind.is_empty() {
            return request;
        }
        request.header("Content-Type", kind)
    }

    /// What is not as the table says.
    fn complaint(&self, answer: &Answer) -> Option<String> {
        let too_large = self.endpoint["small"] == true && self.row["big"] == true;
        let (status, code, says) = if too_large {
            (413, &json!("body_too_large"), "")
        } else {
            let code = self.row.get("code").unwrap_or(&self.endpoint["code"]);
            (400, code, self.row["says"].as_str().unwrap())
        };
        let text = answer.text();
        let output: Json = serde_json::from_str(&text).unwrap_or_default();
        let message = output.get("message").or(output.get("error_description"));
        let text_text = message.and_then(Json::as_str).unwrap_or_default();
        let right = answer.status == status
            && answer.code() == *code
            && text_text.contains(says)
            && text.len() < 500;
        (!right).then(|| format!("{}: {} {text}\n", self.shown, answer.status))
    }
}

/// A tab with an inject node, and something to know it by.
fn base() -> Json {
    json!([
        { "id": "t", "type": "tab", "label": "kept" },
        { "id": "n", "type": "inject", "z": "t", "x": 1, "y": 1, "props": [], "wires": [] },
    ])
}

/// Sends all cases; `unchanged` tells whether nothing has come of one.
async fn refused(
    gateway: &Gateway,
    cases: Vec<Case>,
    token: &str,
    mut unchanged: impl AsyncFnMut() -> bool,
) {
    let mut wrong = String::new();
    for case in cases {
        // Work that grows with the square of its input does not end before the test's time-out.
        let answer = case.request(gateway, token).send().await;
        wrong += &case.complaint(&answer).unwrap_or_default();
        assert!(unchanged().await, "{} has changed something", case.shown);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn all_wrong() -> Vec<Case> {
    let mut all = cases("everywhere");
    all.extend(cases("wrong"));
    all
}

#[tokio::test]
async fn the_engine_refuses_hostile_json_with_the_position_of_the_error() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &base()).await;
    let before = gateway.flows(&token).await;
    let unchanged = async || gateway.flows(&token).await == before;
    refused(&gateway, all_wrong(), &token, unchanged).await;
}

#[tokio::test]
async fn hostile_json_never_reaches_an_upstream() {
    let behind = MockUpstream::start(|_| Action::Respond(ok("application/json", "{}"))).await;
    let gateway = Gateway::with(&behind.config());
    let token = gateway.sign_in("admin").await;
    let cases = all_wrong().into_iter();
    let cases = cases.filter(|case| case.row["engine"] != true).collect();
    let unchanged = async || behind.received().is_empty();
    refused(&gateway, cases, &token, unchanged).await;
}

#[tokio::test]
async fn only_json_in_utf_8_is_taken_for_json() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    for endpoint in list(&table(), "endpoints") {
        for kind in list(&table(), "types") {
            let shown = format!("{} to {}", kind["name"], endpoint["name"]);
            let small = endpoint["small"] == true;
            let case = Case {
                shown: shown.clone(),
                endpoint: endpoint.clone(),
                row: json!({ "type": kind["type"], "body": "{\"a\":1}" }),
            };
            let answer = case.request(&gateway, &token).send().await;
            let refused = if small {
                (400, "invalid_request")
            } else {
                (415, "unsupported_media_type")
            };
            assert_eq!((answer.status, answer.code().as_str()), refused, "{shown}");
        }
    }
}

#[tokio::test]
async fn unusual_but_valid_json_is_kept_byte_for_byte() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    for case in cases("taken") {
        gateway.deploy(&token, &base()).await;
        let answer = case.request(&gateway, &token).send().await;
        assert!(
            (200..300).contains(&answer.status),
            "{}: {} {}",
            case.shown,
            answer.status,
            answer.text()
        );
        if case.endpoint["name"] == "v1" {
            let kept = gateway.get("/flows").token(&token).send().await;
            let kept = String::from_utf8_lossy(&kept.body).into_owned();
            let sent = String::from_utf8_lossy(&body(&case.row["body"])).into_owned();
            let sent = if kept == "[]" { kept.clone() } else { sent };
            assert!(kept == sent, "{}: {kept:.200}", case.shown);
        }
    }
}

/// What a text of 5 MiB may cost, in KiB: three copies while it comes in, 16 bytes for each of
/// 2,600,000 elements of a list that grows, and as much again for what the allocator keeps.
const COSTS: u64 = 256 * 1024;

#[tokio::test]
async fn large_hostile_json_costs_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start("", directory.path());
    let token = process.sign_in("admin").await;
    let before = process.memory("VmHWM");
    for case in all_wrong() {
        if body(&case.row["body"]).len() > 1 << 20 {
            let answer = case.request(&process, &token).send().await;
            assert!(matches!(answer.status, 400 | 413), "{}", case.shown);
            let more = process.memory("VmHWM") - before;
            assert!(more < COSTS, "{} took {more} KiB", case.shown);
        }
    }
}
