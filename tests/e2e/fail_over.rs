//! One gateway of a cluster runs the engine, and another one takes over when it fails: with the
//! flows and their credentials, within five seconds, and never while the first one still runs them.

use crate::client::Client;
use crate::harness::{
    Process, TEST_TIMEOUT, config_text, flow_set, page, public, run_to_exit, until,
};
use crate::isolation::{children, is_gone, signal};
use crate::stopwatch::Stopwatch;
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use testing::command::run;
use testing::ports;
use testing::postgres::Postgres;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// A member takes the engine over within this time (docs/cluster.md).
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(5);

/// A member of a cluster.
pub struct Member {
    /// Dropped before its directory.
    pub process: Option<Process>,
    pub client: Client,
    pub lines: String,
    pub directory: TempDir,
    /// Where other members reach its engine.
    pub port: u16,
}

impl std::ops::Deref for Member {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Member {
    fn start(postgres: &Postgres, certificates: &Certificates) -> Self {
        Self::with(&postgres.url(), certificates)
    }

    pub fn with(store: &str, certificates: &Certificates) -> Self {
        Self::with_lines(store, certificates, "")
    }

    pub fn with_lines(store: &str, certificates: &Certificates, more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (secure, operations, port) = (ports::free(), ports::free(), ports::free());
        certificates.give(directory.path());
        let lines = format!(
            "operations = \"127.0.0.1:{operations}\"\nserver.listen = [\"127.0.0.1:{secure}\"]\n\
             engine.isolation = \"process-unconfined\"\n\
             storage = {{ url = \"{store}\", grace = \"3s\", credential_secret = \"a secret of all members\", history = 100000 }}\n\
             [cluster]\nadvertise = \"https://127.0.0.1:{port}\"\n\
             cert = \"member.pem\"\nkey = \"member.key\"\nca_file = \"members-ca.pem\"\n{more}{}",
            public(&["/a", "/secret"])
        );
        let process = Process::start(&lines, directory.path());
        Self {
            client: Client::clone(&process),
            process: Some(process),
            lines,
            directory,
            port,
        }
    }

    pub async fn leads(&self) -> bool {
        self.metric("flowgate_engine_leader").await == Some(1.0)
    }

    pub fn kill(&mut self) {
        drop(self.process.take());
    }

    pub fn process(&self) -> &Process {
        self.process.as_ref().unwrap()
    }
}

/// The authority and a certificate of the members, all on this machine, made as docs/cluster.md
/// says.
pub struct Certificates(pub TempDir);

impl Certificates {
    pub fn make() -> Self {
        let document = include_str!("../../docs/cluster.md");
        let (_, block) = document.split_once("```sh\n").unwrap();
        let (commands, _) = block.split_once("```").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let commands = commands.replace("10.0.0.5", "127.0.0.1");
        run(Command::new("sh")
            .args(["-ec", &commands])
            .current_dir(directory.path()));
        Self(directory)
    }

    pub fn give(&self, directory: &Path) {
        for name in ["member.pem", "member.key", "members-ca.pem"] {
            fs::copy(self.0.path().join(name), directory.join(name)).unwrap();
        }
    }
}

/// A cluster of two, of which the first one leads.
pub async fn cluster() -> (Postgres, Member, Member) {
    let postgres = Postgres::start();
    let certificates = Certificates::make();
    let one = Member::start(&postgres, &certificates);
    until("the first member leads", async || one.leads().await).await;
    let other = Member::start(&postgres, &certificates);
    (postgres, one, other)
}

/// A node on this tab, of an id and a type.
pub fn node(tab: &str, id: &str, kind: &str, mut more: Json) -> Json {
    let fields = json!({ "id": id, "type": kind, "z": tab, "x": 1, "y": 1 });
    let node = more.as_object_mut().unwrap();
    node.extend(fields.as_object().unwrap().clone());
    more
}

/// `GET /a` says a text, `GET /secret` a credential of a node.
fn flows(text: &str) -> Json {
    let node = |id: &str, kind: &str, more: Json| node("s", id, kind, more);
    let mut flows = flow_set(&[page("a", "/a", text)]);
    let more = [
        json!({ "id": "s", "type": "tab", "label": "secret",
                "env": [{ "name": "WORD", "type": "cred" }], "credentials": { "map": { "WORD": { "has_WORD": true } }, "WORD": "hidden" } }),
        node(
            "si",
            "http in",
            json!({ "method": "get", "url": "/secret", "wires": [["sf"]] }),
        ),
        node(
            "sf",
            "function",
            json!({ "func": "msg.payload = env.get('WORD'); return msg", "outputs": 1, "wires": [["so"]] }),
        ),
        node("so", "http response", json!({ "wires": [] })),
    ];
    flows.as_array_mut().unwrap().extend(more);
    flows
}

/// The engine's process of a member.
pub fn engine_of(member: &Member) -> u32 {
    let engines = children(member.process().id());
    assert_eq!(engines.len(), 1);
    engines[0]
}

/// Waits until an endpoint answers with this text.
pub async fn until_says(member: &Client, path: &str, text: &str) {
    until("the endpoint answers", async || {
        let answer = member.get(path).try_send().await;
        answer.is_ok_and(|answer| answer.status == 200 && answer.text() == text)
    })
    .await;
}

/// Who leads, as probes and the console read it.
async fn leader(member: &Client, token: &str) -> String {
    let ready = member.operations("/readyz").await.json();
    let now = member.get("/gateway/now").token(token).send().await.json();
    assert_eq!(ready["leader"], now["runtime"]["leader"]);
    ready["leader"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_killed_member_is_followed_within_five_seconds_with_flows_and_credentials() {
    let (_postgres, mut one, other) = cluster().await;
    let token = other.sign_in("admin").await;
    let first = one.deploy(&token, &flows("first")).await;
    until_says(&one, "/a", "first").await;
    until_says(&other, "/a", "first").await;
    until_says(&other, "/secret", "hidden").await;
    // A long one is compressed where it is kept.
    let text = "second ".repeat(1000);
    let second = other.deploy(&token, &flows(&text)).await;
    assert_ne!(first, second);
    assert!(!other.leads().await);
    assert_eq!(leader(&one, &token).await, "here");
    let address = format!("127.0.0.1:{}", one.port);
    assert_eq!(leader(&other, &token).await, address);

    one.kill();
    let stopwatch = Stopwatch::start();
    until_says(&other, "/a", &text).await;
    stopwatch.assert_within(TAKEN_OVER_WITHIN);
    assert!(other.leads().await);
    assert_eq!(leader(&other, &token).await, "here");
    until_says(&other, "/secret", "hidden").await;
    let found = other.flows(&token).await;
    assert_eq!(found["rev"], json!(second));
    other.deploy(&token, &flows("third")).await;

    one.process = Some(Process::start(&one.lines, one.directory.path()));
    until_says(&one, "/a", "third").await;
    assert!(!one.leads().await, "the engine stays where it is");
}

/// A flow that appends the number of its process's lease to a file, every 20 ms: only one process
/// may do so at a time.
pub fn writing(file: &Path) -> Json {
    let node = |id: &str, kind: &str, more: Json| node("t", id, kind, more);
    json!([
        { "id": "t", "type": "tab", "label": "writes" },
        node("i", "inject", json!({ "props": [{ "p": "payload" }], "repeat": "0.02", "once": true, "onceDelay": 0,
                                    "payload": "FLOWGATE_FENCE", "payloadType": "env", "wires": [["f"]] })),
        node("f", "file", json!({ "filename": file, "filenameType": "str", "appendNewline": true,
                                  "overwriteFile": "false", "wires": [[]] })),
    ])
}

/// Deploys that flow, and waits until it writes; the file, and a token.
async fn writes(one: &Member) -> (PathBuf, String) {
    let file = one.directory.path().join("written");
    let token = one.sign_in("admin").await;
    one.deploy(&token, &writing(&file)).await;
    until("it writes", async || !written(&file).is_empty()).await;
    (file, token)
}

/// The numbers in the file, in the order in which they were written.
pub fn written(file: &Path) -> Vec<i64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines();
    lines.filter_map(|line| line.parse().ok()).collect()
}

/// Asserts that a process with a later lease writes soon.
async fn assert_taken_over_in_time(file: &Path) {
    let stopwatch = Stopwatch::start();
    let before = *written(file).last().unwrap();
    until("another process writes", async || {
        written(file).last().is_some_and(|last| *last > before)
    })
    .await;
    stopwatch.assert_within(TAKEN_OVER_WITHIN);
}

/// Fails if a process has written after one with a later lease.
pub fn assert_one_at_a_time(file: &Path) {
    let written = written(file);
    assert!(written.is_sorted(), "{written:?}");
}

#[tokio::test]
async fn a_stopped_member_is_followed_within_five_seconds_and_runs_no_flow_when_it_goes_on() {
    let (_postgres, one, other) = cluster().await;
    let (file, token) = writes(&one).await;

    let (gateway, engine) = (one.process().id(), engine_of(&one));
    for process in [gateway, engine] {
        signal(process, "STOP");
    }
    // It is at the member that answers nothing any more.
    let client = Client::clone(&other);
    let asked = tokio::spawn(async move { client.get("/flows/state").token(&token).send().await });
    assert_taken_over_in_time(&file).await;
    let answer = timeout(TEST_TIMEOUT, asked).await.unwrap().unwrap();
    assert!(
        [200, 502, 503].contains(&answer.status),
        "{}",
        answer.status
    );
    assert!(other.leads().await);
    for process in [engine, gateway] {
        signal(process, "CONT");
    }
    until("its engine has ended", async || is_gone(engine)).await;
    sleep(Duration::from_secs(1)).await;
    assert_one_at_a_time(&file);
    until("it knows", async || !one.leads().await).await;
}

#[tokio::test]
async fn an_engine_that_was_stopped_runs_at_another_member_within_five_seconds() {
    let (_postgres, one, other) = cluster().await;
    let (file, _) = writes(&one).await;
    let engine = engine_of(&one);
    signal(engine, "STOP");
    assert_taken_over_in_time(&file).await;
    assert!(other.leads().await);
    assert!(is_gone(engine));
    assert_one_at_a_time(&file);
}

#[tokio::test]
async fn a_gateway_stopped_alone_is_followed_within_five_seconds_and_leaves_no_engine_behind() {
    let (_postgres, one, _other) = cluster().await;
    let (file, _) = writes(&one).await;
    let engine = engine_of(&one);
    one.process().signal("STOP");
    assert_taken_over_in_time(&file).await;
    assert!(is_gone(engine), "it has ended by itself");
    one.process().signal("CONT");
    until("it knows", async || !one.leads().await).await;
    assert_one_at_a_time(&file);
}

#[tokio::test]
async fn a_member_that_ends_well_hands_the_engine_over_within_three_seconds() {
    let (_postgres, mut one, other) = cluster().await;
    let token = one.sign_in("admin").await;
    one.deploy(&token, &flow_set(&[page("a", "/a", "here")]))
        .await;
    one.process().signal("TERM");
    let stopwatch = Stopwatch::start();
    until_says(&other, "/a", "here").await;
    stopwatch.assert_within(Duration::from_secs(3));
    one.kill();
}

#[tokio::test]
async fn a_member_with_another_secret_does_not_start_and_replaces_no_credentials() {
    let (_postgres, mut one, mut other) = cluster().await;
    let token = one.sign_in("admin").await;
    one.deploy(&token, &flows("first")).await;
    until_says(&other, "/secret", "hidden").await;
    other.kill();
    one.kill();

    let wrong = other.lines.replace("a secret of all members", "another");
    let file = other.directory.path().join("gateway.toml");
    fs::write(&file, config_text(&wrong)).unwrap();
    let (code, errors) = run_to_exit(other.directory.path());
    assert_eq!(code, Some(1), "{errors}");
    let reason = "storage.credential_secret is another one than that of the gateways";
    assert!(errors.contains(reason), "{errors}");

    other.process = Some(Process::start(&other.lines, other.directory.path()));
    until_says(&other, "/secret", "hidden").await;
}

/// A way to the database that can be cut.
pub struct Way {
    pub port: u16,
    is_open: watch::Sender<bool>,
}

impl Way {
    /// On a thread of its own: a member that starts waits for it.
    pub fn open(to: u16) -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_open, open) = watch::channel(true);
        let join = async move {
            let listener = TcpListener::from_std(listener).unwrap();
            let mut joined = JoinSet::new();
            loop {
                let (mut here, _) = listener.accept().await.unwrap();
                let mut open = open.clone();
                joined.spawn(async move {
                    let pass = async {
                        let mut there = TcpStream::connect(("127.0.0.1", to)).await?;
                        copy_bidirectional(&mut here, &mut there).await
                    };
                    tokio::select! { _ = pass => {}, _ = open.wait_for(|open| !open) => {} }
                });
            }
        };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let _: () = runtime.unwrap().block_on(join);
        });
        Self { port, is_open }
    }

    /// Nothing passes while it is not open.
    pub fn set_open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }
}

#[tokio::test]
async fn a_member_cut_off_from_the_database_ends_its_engine_and_is_followed_within_five_seconds() {
    let postgres = Postgres::start();
    let certificates = Certificates::make();
    let way = Way::open(postgres.port());
    let store = postgres
        .url()
        .replace(&postgres.port().to_string(), &way.port.to_string());
    let one = Member::with(&store, &certificates);
    until("the first member leads", async || one.leads().await).await;
    let other = Member::start(&postgres, &certificates);
    let (file, _) = writes(&one).await;
    let engine = engine_of(&one);

    way.set_open(false);
    assert_taken_over_in_time(&file).await;
    assert!(other.leads().await && is_gone(engine));
    assert_one_at_a_time(&file);
    let ready = one.operations("/readyz").await;
    assert_eq!(
        (ready.status, &ready.json()["leader"]),
        (503, &json!("none"))
    );
}

#[tokio::test]
async fn what_an_engine_cannot_keep_in_the_database_is_not_acknowledged() {
    let (postgres, one, mut other) = cluster().await;
    other.kill();
    let token = one.sign_in("admin").await;
    let first = one
        .deploy(&token, &flow_set(&[page("a", "/a", "first")]))
        .await;
    postgres.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END';
         CREATE TRIGGER refuse BEFORE INSERT ON engine_state EXECUTE FUNCTION refuse()",
    );
    let next = flow_set(&[page("a", "/a", "second")]);
    let refused = one.deployment(&token, &next, Some(&first)).send().await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(one.get("/a").send().await.text(), "first");
    assert_eq!(one.flows(&token).await["rev"], json!(first));
    postgres.sql("DROP TRIGGER refuse ON engine_state");
    let second = one.deploy(&token, &next).await;
    let kept =
        postgres.sql("SELECT convert_from(content, 'UTF8') FROM engine_state WHERE name = 'rev'");
    assert_eq!(kept.trim(), second);
}
