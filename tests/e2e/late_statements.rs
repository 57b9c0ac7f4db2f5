//! Statements that a network holds for longer than their gateway waits, and lets through when newer
//! ones were acknowledged.

use crate::cluster::in_front_of;
use crate::fail_over::{Certificates, Member, until_says};
use crate::harness::{Gateway, flow_set, page, until};
use serde_json::json;
use std::sync::{Arc, Mutex};
use testing::postgres::Postgres;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A statement to hold.
struct Wanted {
    /// It is one on a connection that has sent this before; empty: on any.
    after: &'static str,
    /// A text in it.
    text: &'static str,
}

/// What became of the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Awaited,
    Held,
    LetThrough,
    /// The database has answered it, or has closed its connection.
    Answered,
}

/// A way to the database that holds one statement, with all that its connection sends after it.
struct HoldingWay {
    port: u16,
    wanted: Arc<Mutex<Option<Wanted>>>,
    stage: watch::Sender<Stage>,
}

impl HoldingWay {
    /// On a thread of its own: a gateway that starts waits for it.
    fn open(to: u16) -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let wanted = Arc::new(Mutex::new(None));
        let (stage, _) = watch::channel(Stage::Awaited);
        let (looked_for, moved) = (Arc::clone(&wanted), stage.clone());
        let join = async move {
            let listener = TcpListener::from_std(listener).unwrap();
            loop {
                let (here, _) = listener.accept().await.unwrap();
                let Ok(there) = TcpStream::connect(("127.0.0.1", to)).await else {
                    continue;
                };
                let (from_client, to_client) = here.into_split();
                let (from_server, to_server) = there.into_split();
                let is_holder = Arc::new(Mutex::new(false));
                tokio::spawn(answers(
                    from_server,
                    to_client,
                    Arc::clone(&is_holder),
                    moved.clone(),
                ));
                let wanted = Arc::clone(&looked_for);
                tokio::spawn(statements(
                    from_client,
                    to_server,
                    wanted,
                    is_holder,
                    moved.clone(),
                ));
            }
        };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let _: () = runtime.unwrap().block_on(join);
        });
        Self {
            port,
            wanted,
            stage,
        }
    }

    /// The URL of a database behind it.
    fn url(&self, postgres: &Postgres) -> String {
        let (to, from) = (postgres.port().to_string(), self.port.to_string());
        postgres.url().replace(&to, &from)
    }

    fn hold(&self, after: &'static str, text: &'static str) {
        *self.wanted.lock().unwrap() = Some(Wanted { after, text });
    }

    async fn is_held(&self) {
        let mut stage = self.stage.subscribe();
        stage.wait_for(|stage| *stage >= Stage::Held).await.unwrap();
    }

    /// Lets the statement through, and waits until the database is done with it.
    async fn let_through(&self) {
        assert_eq!(*self.stage.borrow(), Stage::Held);
        self.stage.send_replace(Stage::LetThrough);
        let mut stage = self.stage.subscribe();
        stage
            .wait_for(|stage| *stage == Stage::Answered)
            .await
            .unwrap();
    }
}

/// Passes what a client sends.
async fn statements(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    wanted: Arc<Mutex<Option<Wanted>>>,
    is_holder: Arc<Mutex<bool>>,
    stage: watch::Sender<Stage>,
) {
    let has = |sent: &[u8], text: &str| {
        text.is_empty() || sent.windows(text.len()).any(|part| part == text.as_bytes())
    };
    let (mut sent, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let before = sent.len();
        sent.extend(&piece[..length]);
        let holds = |wanted: &mut Wanted| {
            has(
                &sent[before.saturating_sub(wanted.text.len())..],
                wanted.text,
            ) && has(&sent, wanted.after)
        };
        if wanted.lock().unwrap().take_if(holds).is_some() {
            stage.send_replace(Stage::Held);
            let mut let_through = stage.subscribe();
            let passes = let_through.wait_for(|stage| *stage == Stage::LetThrough);
            passes.await.unwrap();
            *is_holder.lock().unwrap() = true;
        }
        if to.write_all(&piece[..length]).await.is_err() {
            break;
        }
    }
}

/// Passes what the database answers, also if the client is gone.
async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    is_holder: Arc<Mutex<bool>>,
    stage: watch::Sender<Stage>,
) {
    let mut piece = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if *is_holder.lock().unwrap() {
            stage.send_replace(Stage::Answered);
        }
        let _ = to.write_all(&piece[..length]).await;
    }
    // A connection that the database has closed answers nothing that is let through later.
    let mut moved = stage.subscribe();
    let _ = to.shutdown().await;
    let _ = moved.wait_for(|stage| *stage >= Stage::LetThrough).await;
    stage.send_replace(Stage::Answered);
}

#[tokio::test]
async fn a_write_of_the_engine_state_that_arrives_late_does_not_bring_back_an_old_flow_set() {
    let postgres = Postgres::start();
    let certificates = Certificates::make();
    let way = HoldingWay::open(postgres.port());
    let mut one = Member::with(&way.url(&postgres), &certificates);
    until("the first member leads", async || one.leads().await).await;
    let other = Member::with(&postgres.url(), &certificates);
    let token = other.sign_in("admin").await;

    way.hold("", "the held one");
    let flows = |text: &str| flow_set(&[page("a", "/a", text)]);
    // Its write takes too long and is sent again.
    one.deploy(&token, &flows("the held one")).await;
    way.is_held().await;
    one.deploy(&token, &flows("a newer one")).await;
    let newest = one.deploy(&token, &flows("the newest one")).await;
    way.let_through().await;

    let kept = "SELECT convert_from(content, 'UTF8') FROM engine_state WHERE name = 'rev'";
    assert_eq!(postgres.sql(kept), newest);
    one.kill();
    until_says(&other, "/a", "the newest one").await;
    assert_eq!(other.flows(&token).await["rev"], json!(newest));
}

/// A gateway in front of an engine, which reaches its database by a way that holds statements.
struct Front {
    postgres: Postgres,
    way: HoldingWay,
    _engine: Gateway,
    gateway: Gateway,
    token: String,
}

impl Front {
    async fn start() -> Self {
        let postgres = Postgres::start();
        let way = HoldingWay::open(postgres.port());
        let engine = Gateway::with("auth = \"off\"\nlog = { level = \"warn\" }");
        let gateway = Gateway::with(&in_front_of(&engine, &way.url(&postgres)));
        let token = gateway.sign_in("admin").await;
        Self {
            postgres,
            way,
            _engine: engine,
            gateway,
            token,
        }
    }

    async fn deploy(&self, text: &str) -> String {
        let flows = flow_set(&[page("a", "/a", text)]);
        self.gateway.deploy(&self.token, &flows).await
    }
}

/// Holds a statement of a first tagging until a second one was acknowledged: the tag stays where
/// the second one has put it.
async fn a_late_tag_changes_nothing(after: &'static str, text: &'static str) {
    let front = Front::start().await;
    let (first, second) = (front.deploy("first").await, front.deploy("second").await);
    let tag = async |rev: &str| {
        let tagged = front.gateway.post("/gateway/tags/live").token(&front.token);
        tagged.json(&json!({ "rev": rev })).send().await.status
    };

    front.way.hold(after, text);
    assert_eq!(tag(&first).await, 503);
    front.way.is_held().await;
    assert_eq!(tag(&second).await, 200);
    front.way.let_through().await;
    let tagged = "SELECT rev FROM tag JOIN deployments USING (number, runtime) WHERE name = 'live'";
    assert_eq!(front.postgres.sql(tagged), second);
}

#[tokio::test]
async fn a_statement_of_the_shared_store_that_arrives_late_changes_nothing() {
    a_late_tag_changes_nothing("", "INSERT INTO tag").await;
}

#[tokio::test]
async fn a_commit_of_the_shared_store_that_arrives_late_changes_nothing() {
    a_late_tag_changes_nothing("INSERT INTO tag", "COMMIT").await;
}

#[tokio::test]
async fn a_deployment_that_the_history_could_not_keep_is_that_of_its_user_afterwards() {
    let front = Front::start().await;
    let first = front.deploy("first").await;
    front.way.hold("", "INSERT INTO deployments");
    let second = front.deploy("second").await;
    front.way.is_held().await;
    front.way.let_through().await;
    let third = front.deploy("third").await;
    let list = front
        .gateway
        .get("/gateway/deployments")
        .token(&front.token)
        .send();
    let list = list.await.json();
    let entries = list["deployments"].as_array().unwrap().iter();
    let entries: Vec<_> = entries
        .map(|entry| json!([entry["rev"], entry["type"], entry["user"]]))
        .take(3)
        .collect();
    let expected = [third, second, first].map(|rev| json!([rev, "full", "admin"]));
    assert_eq!(entries, expected);
    let left = front.postgres.sql("SELECT count(*) FROM intent");
    assert_eq!(left, "0");
}

#[tokio::test]
async fn what_others_change_after_a_deployment_that_failed_is_not_that_of_its_user() {
    let postgres = Postgres::start();
    let engine = Gateway::with("auth = \"off\"\nlog = { level = \"warn\" }");
    let gateway = Gateway::with(&in_front_of(&engine, &postgres.url()));
    let token = gateway.sign_in("admin").await;
    let flows = |text: &str| flow_set(&[page("a", "/a", text)]);
    let first = gateway.deploy(&token, &flows("first")).await;
    // As if the gateway had ended before it was sent.
    postgres.sql(&format!(
        "INSERT INTO intent SELECT runtime, 'admin', '', '', 'full', 1, '', rev, '[]', content FROM deployments WHERE rev = '{first}'"
    ));
    let outside = engine.deployment("", &flows("outside"), None).send().await;
    assert_eq!(outside.status, 200, "{}", outside.text());
    gateway.deploy(&token, &flows("third")).await;
    let list = gateway.get("/gateway/deployments").token(&token).send();
    let found = &list.await.json()["deployments"][1];
    assert_eq!(
        (&found["type"], &found["user"]),
        (&json!("outside-edit"), &json!(""))
    );
}
