//! Every endpoint of Node-RED's admin API answers through the gateway as it does directly: the
//! table is `tests/data/node-red-admin-api.json`.
//!
//! Two Node-RED of the same release and settings get the same requests, one directly and one
//! through the gateway, so that what changes something can be in the table too. Status, body and
//! every header must be the same, except:
//!
//! - what belongs to the connection (`Connection`, `Keep-Alive`, `Transfer-Encoding`) or the moment
//!   (`Date`);
//! - `Access-Control-*` of the admin API: Node-RED 4 lets the pages of every origin in, the gateway
//!   none;
//! - `X-Request-Id` and `X-Content-Type-Options: nosniff`, which the gateway adds, and what else it
//!   tells browsers in
//!   answers of its own (`security_headers.rs`);
//! - an error page in HTML, which may show paths and stacks: the same status with
//!   `{"code", "message"}`;
//! - what the table says. `ours`: the gateway answers by itself, with this status. `varies`: these
//!   parts differ, and
//!   with them length and caching; `?v=` is a number in links. `because`: why.
//!
//! An `ETag` counts where the bodies are the same to the byte.
//!
//! `needs` is the permission, `nothing`, or `anyone` who is signed in; `unguarded`: Node-RED itself
//! does not ask for it. `keep` names a part of the answer, or a header, that later requests mention
//! as `<name>`. `until`: asked again until the answer has this status; `started`: the next request
//! waits until the flows have started.

use super::{NodeRed, PROTECTED, Release, TOKEN};
use crate::client::{Answer, Request};
use crate::harness::{Gateway, until};
use crate::multiple_upstreams::sign_in;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    about: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    send: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    json: Option<Json>,
    text: Option<String>,
    needs: String,
    #[serde(default)]
    unguarded: bool,
    ours: Option<u16>,
    #[serde(default)]
    varies: Vec<String>,
    #[serde(default, rename = "because")]
    _because: String,
    #[serde(default)]
    keep: BTreeMap<String, String>,
    until: Option<u16>,
    #[serde(default)]
    started: bool,
}

/// What the two have answered so far that later requests mention.
type Kept = BTreeMap<String, String>;

struct Twins {
    direct: NodeRed,
    behind: NodeRed,
    gateway: Gateway,
    protected: bool,
    /// Where the admin API is, without a slash at the end.
    root: &'static str,
    admin: String,
    reader: String,
    kept: (Kept, Kept),
}

#[tokio::test]
async fn node_red_4_answers_as_it_does_directly() {
    every_endpoint(Release::Four, false, "").await;
}

#[tokio::test]
async fn node_red_4_with_admin_auth_answers_as_it_does_directly() {
    every_endpoint(Release::Four, true, "").await;
}

#[tokio::test]
async fn node_red_5_answers_as_it_does_directly() {
    every_endpoint(Release::Five, false, "").await;
}

#[tokio::test]
async fn node_red_5_with_admin_auth_below_an_admin_root_answers_as_it_does_directly() {
    every_endpoint(Release::Five, true, "/Admin").await;
}

async fn every_endpoint(release: Release, protected: bool, root: &'static str) {
    let table = include_str!("../../data/node-red-admin-api.json");
    let table: Vec<Section> = serde_json::from_str(table).unwrap();
    let mut twins = Twins::start(release, protected, root).await;
    let mut differences = Vec::new();
    for section in &table {
        for case in &section.cases {
            for difference in twins.check(case).await {
                differences.push(format!("{}: {}: {difference}", section.about, case.shown()));
            }
        }
    }
    for red in [&twins.direct, &twins.behind] {
        assert!(!red.log().contains("ncaught"), "{}", red.log());
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test]
async fn features_that_node_red_has_disabled_are_not_found() {
    let off =
        "runtimeState: { enabled: false }, diagnostics: { enabled: false }, disableEditor: true,";
    let red = NodeRed::start(Release::Four, off);
    let gateway = Gateway::with(&red.config());
    let token = gateway.sign_in("admin").await;
    let stop = Json::from_iter([("state", "stop")]);
    for (request, status, code) in [
        (gateway.post("/flows/state").json(&stop), 404, "not_found"),
        (gateway.get("/diagnostics"), 403, "diagnostics.disabled"),
        (gateway.get("/"), 404, "not_found"),
        (gateway.get("/settings/user"), 404, "not_found"),
    ] {
        let answer = request.token(&token).send().await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
    }
    assert_eq!(gateway.get("/flows").token(&token).send().await.status, 200);
}

impl Twins {
    async fn start(release: Release, protected: bool, root: &'static str) -> Self {
        let mut settings = format!("httpAdminRoot: '{root}/',");
        settings.push_str(if protected { PROTECTED } else { "" });
        let [direct, behind] = [(); 2].map(|()| NodeRed::start(release, &settings));
        for red in [&direct, &behind] {
            started(red, 1).await;
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("token"), TOKEN).unwrap();
        let token = if protected {
            "token_file = \"token\""
        } else {
            ""
        };
        let lines = format!("{token}\nadmin_root = \"{root}/\"");
        let gateway = Gateway::open(&behind.config_with(&lines), directory);
        let token = async |user| {
            let answer = sign_in(&gateway, root, user, "").await;
            answer.json()["access_token"].as_str().unwrap().to_owned()
        };
        Self {
            admin: token("admin").await,
            reader: token("reader").await,
            root,
            direct,
            behind,
            gateway,
            protected,
            kept: <_>::default(),
        }
    }

    /// Sends a case as each caller, and gives what is not as it should be.
    async fn check(&mut self, case: &Case) -> Vec<String> {
        let mut wrong = Vec::new();
        if case.needs != "nothing" {
            let anonymous = self.through(case, "").send().await;
            wrong.extend(refused(&anonymous, "Bearer realm=\"flowgate\"").map(of("nobody")));
        }
        if !case.may_be_read() && case.needs != "anyone" {
            let reader = self.through(case, &self.reader).send().await;
            let challenge = "Bearer realm=\"flowgate\", error=\"insufficient_scope\"";
            wrong.extend(refused(&reader, challenge).map(of("a reader")));
        }
        if let Some(status) = case.ours {
            let answer = self.through(case, &self.admin).send().await;
            wrong.extend(alike("status", &status, &answer.status));
            return wrong;
        }
        wrong.extend(self.guard(case).await);

        let runs = [&self.direct, &self.behind].map(NodeRed::starts);
        let direct = patient(case, self.directly(case, TOKEN)).await;
        let answer = patient(case, self.through(case, &self.admin)).await;
        case.keep(&direct, &mut self.kept.0);
        case.keep(&answer, &mut self.kept.1);
        let same = direct.body == answer.body;
        wrong.extend(self.compare(case, [&direct, &answer], same));
        if case.method() == "GET" {
            if case.may_be_read() {
                let answer = self.through(case, &self.reader).send().await;
                let compared = self.compare(case, [&direct, &answer], same);
                wrong.extend(compared.map(of("a reader")));
            }
            let direct = self.directly(case, TOKEN).method("HEAD").send().await;
            let answer = self.through(case, &self.admin).method("HEAD").send().await;
            let compared = self.compare(case, [&direct, &answer], same);
            wrong.extend(compared.map(of("HEAD")));
        }
        if case.started {
            for (red, before) in [&self.direct, &self.behind].into_iter().zip(runs) {
                started(red, before + 1).await;
            }
        }
        wrong
    }

    /// Whether Node-RED itself asks for the permission that the table says.
    async fn guard(&self, case: &Case) -> Option<String> {
        if !self.protected || case.unguarded {
            return None;
        }
        let anonymous = self.directly(case, "").send().await.status == 401;
        if anonymous != (case.needs != "nothing") {
            return Some("Node-RED asks nobody for something else".into());
        }
        if case.method() == "GET" || !case.may_be_read() {
            let reader = self.directly(case, "a-readers-token").send().await;
            return alike(
                "Node-RED refuses a reader",
                &!case.may_be_read(),
                &(reader.status == 401),
            );
        }
        None
    }

    fn directly(&self, case: &Case, token: &str) -> Request {
        let path = replaced(&case.path(self.root), &self.kept.0);
        let request = self.direct.request(case.method(), &path);
        case.fill(request, &self.kept.0)
            .token(if self.protected { token } else { "" })
    }

    fn through(&self, case: &Case, token: &str) -> Request {
        let path = replaced(&case.path(self.root), &self.kept.1);
        let request = self.gateway.request(case.method(), &path);
        case.fill(request, &self.kept.1).token(token)
    }

    /// What of an answer through the gateway is not as it is directly; `same`: the tag is of the
    /// same bytes.
    fn compare(
        &self,
        case: &Case,
        [direct, answer]: [&Answer; 2],
        same: bool,
    ) -> impl Iterator<Item = String> + use<> {
        let mut wrong = Vec::new();
        wrong.extend(alike("status", &direct.status, &answer.status));
        let admin = !case.needs.starts_with("http.");
        if admin {
            let nosniff = answer.header("x-content-type-options");
            wrong.extend(alike("nosniff", &"nosniff", &nosniff));
        }
        if admin && direct.status >= 400 && direct.header("content-type").starts_with("text/html") {
            let json = "application/json; charset=utf-8";
            wrong.extend(alike("type", &json, &answer.header("content-type")));
            return wrong.into_iter();
        }
        let names = [direct, answer].map(|answer| headers(answer, case));
        let counts = |name: &String| same || name != "etag";
        // The gateway has made it.
        let ours = answer.headers.contains_key("cross-origin-resource-policy");
        let counts = |name: &String| counts(name) && !(ours && OURS.contains(&name.as_str()));
        for name in names.into_iter().flatten().filter(counts) {
            let here = |answer: &Answer, kept| {
                let values = answer.headers.get_all(&name).iter();
                let values: Vec<_> = values.map(|value| value.to_str().unwrap()).collect();
                hidden(&values.join(", "), kept)
            };
            let value = here(direct, &self.kept.0);
            wrong.extend(alike(&name, &value, &here(answer, &self.kept.1)));
        }
        let (direct, answer) = (
            body(direct, case, &self.kept.0),
            body(answer, case, &self.kept.1),
        );
        wrong.extend(alike("body", &direct, &answer));
        wrong.sort();
        wrong.dedup();
        wrong.into_iter()
    }
}

impl Case {
    fn method(&self) -> &str {
        self.send.split_once(' ').unwrap().0
    }

    /// Endpoints of flows are not below the root of the admin API.
    fn path(&self, root: &str) -> String {
        let path = self.send.split_once(' ').unwrap().1;
        if self.needs.starts_with("http.") && self.ours.is_none() {
            return path.to_owned();
        }
        format!("{root}{path}")
    }

    fn shown(&self) -> String {
        format!("{} {:?}", self.send, self.headers)
    }

    /// Returns whether it can be read without a write permission.
    fn may_be_read(&self) -> bool {
        self.needs == "nothing" || self.needs.rsplit('.').next() == Some("read")
    }

    fn fill(&self, mut request: Request, kept: &Kept) -> Request {
        for (name, value) in &self.headers {
            request = request.header(name, &replaced(value, kept));
        }
        if let Some(json) = &self.json {
            request = request
                .header("Content-Type", "application/json")
                .body(replaced(&json.to_string(), kept));
        }
        match &self.text {
            Some(text) => request.body(text.clone()),
            None => request,
        }
    }

    fn keep(&self, answer: &Answer, kept: &mut Kept) {
        for (name, place) in &self.keep {
            let value = if place.starts_with('/') {
                let body = answer.json();
                body.pointer(place)
                    .and_then(Json::as_str)
                    .unwrap()
                    .to_owned()
            } else {
                answer.header(place).to_owned()
            };
            if !value.is_empty() {
                kept.insert(name.clone(), value);
            }
        }
    }
}

/// What the gateway tells browsers in answers of its own.
const OURS: [&str; 6] = [
    "cache-control",
    "content-security-policy",
    "cross-origin-resource-policy",
    "referrer-policy",
    "strict-transport-security",
    "x-frame-options",
];

/// The names of the headers that must be the same.
fn headers(answer: &Answer, case: &Case) -> Vec<String> {
    let may_differ = |name: &str| match name {
        "connection" | "keep-alive" | "transfer-encoding" | "date" | "x-request-id"
        // looked at by itself
        | "x-content-type-options" => true,
        "content-length" | "etag" | "cache-control" | "pragma" => !case.varies.is_empty(),
        _ => name.starts_with("access-control-") && !case.needs.starts_with("http."),
    };
    let names = answer.headers.keys().map(|name| name.as_str().to_owned());
    names.filter(|name| !may_differ(name)).collect()
}

/// A body without what varies.
fn body(answer: &Answer, case: &Case, kept: &Kept) -> String {
    let Ok(text) = std::str::from_utf8(&answer.body) else {
        return format!("{:?}", answer.body);
    };
    if case.varies.is_empty() || text.is_empty() {
        return hidden(text, kept);
    }
    if case.varies == ["?v="] {
        let pieces = text.split("?v=");
        return pieces
            .map(|piece| piece.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
            .collect();
    }
    let mut body = answer.json();
    for part in &case.varies {
        let (parent, name) = part.rsplit_once('/').unwrap();
        if let Some(Json::Object(object)) = body.pointer_mut(parent) {
            object.remove(name);
        }
    }
    hidden(&body.to_string(), kept)
}

/// With the values in the place of their names.
fn replaced(text: &str, kept: &Kept) -> String {
    kept.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("<{name}>"), value)
    })
}

/// With the names in the place of their values, which may differ.
fn hidden(text: &str, kept: &Kept) -> String {
    kept.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(value, &format!("<{name}>"))
    })
}

fn refused(answer: &Answer, challenge: &str) -> impl Iterator<Item = String> + use<> {
    let mut wrong = Vec::new();
    wrong.extend(alike("status", &401, &answer.status));
    wrong.extend(alike(
        "challenge",
        &challenge,
        &answer.header("www-authenticate"),
    ));
    wrong.extend(alike("body", &"", &&*String::from_utf8_lossy(&answer.body)));
    wrong.into_iter()
}

fn of(whom: &str) -> impl Fn(String) -> String {
    move |wrong| format!("as {whom}: {wrong}")
}

fn alike<T: PartialEq + std::fmt::Debug>(what: &str, wanted: &T, found: &T) -> Option<String> {
    let short = |value: &T| format!("{value:?}").chars().take(300).collect::<String>();
    let differ = || format!("{what} is {}, and directly {}", short(found), short(wanted));
    (wanted != found).then(differ)
}

async fn patient(case: &Case, request: Request) -> Answer {
    loop {
        let answer = request.clone().send().await;
        if case.until.is_none_or(|status| status == answer.status) {
            return answer;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn started(red: &NodeRed, times: usize) {
    until("the flows run", async || red.starts() >= times).await;
}
