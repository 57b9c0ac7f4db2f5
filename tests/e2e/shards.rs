//! Flows of a cluster that have a place run in an engine of their own at that member, and at
//! another one when it fails: requests, events and deployments reach them as if there were one
//! engine.

use crate::client::Client;
use crate::fail_over::{
    Certificates, Member, assert_one_at_a_time, engine_of, node, until_says, writing, written,
};
use crate::full_flows::circling;
use crate::harness::{Process, flow_set, page, public, restart_marker, script, until};
use crate::isolation::{children, signal};
use crate::separation::echo;
use crate::stopwatch::Stopwatch;
use crate::tunnel::{open_as, try_out};
use serde_json::{Value as Json, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use testing::ports;
use testing::postgres::Postgres;

/// `GET /there` counts in a context that members share, and names the shard.
const COUNTS: &str = "const n = (flow.get('n', 'cluster') || 0) + 1; flow.set('n', n, 'cluster'); \
                      msg.payload = `${env.get('FLOWGATE_SHARD')} ${n}`; return msg";

/// The places of all members: the tabs `there` and `ws` are to run at the member `east`.
const PLACE: &str = "place = { there = \"east\", ws = \"east\" }";

/// Two members, of which the other one is to run the tab `there`.
struct Members {
    postgres: Postgres,
    certificates: Certificates,
    one: Member,
    east: Member,
    token: String,
}

fn member(postgres: &Postgres, certificates: &Certificates, lines: &str) -> Member {
    let more = format!(
        "{lines}\n{}\n[[engine.context]]\nname = \"memory\"\nmodule = \"memory\"\n\
         [[engine.context]]\nname = \"cluster\"\nmodule = \"shared\"\nflush = \"100ms\"\n",
        public(&["/here", "/there", "/started"])
    );
    Member::with_lines(&postgres.url(), certificates, &more)
}

impl Members {
    async fn start() -> Self {
        Self::with(PLACE).await
    }

    /// With these lines, of which one has the places.
    async fn with(lines: &str) -> Self {
        let (postgres, certificates) = (Postgres::start(), Certificates::make());
        let start = |name: &str| {
            let lines = format!("name = \"{name}\"\n{lines}");
            member(&postgres, &certificates, &lines)
        };
        let one = start("west");
        until("the first member leads", async || one.leads().await).await;
        let east = start("east");
        until("the other one has its shard", async || {
            leads_shard(&east).await
        })
        .await;
        until("the engine was found well", async || {
            one.operations("/readyz").await.status == 200
        })
        .await;
        Self {
            token: one.sign_in("admin").await,
            postgres,
            certificates,
            one,
            east,
        }
    }

    /// Deploys both tabs, and waits until they run.
    async fn deploy(&self) {
        let flows = both("here");
        self.one.deploy(&self.token, &flows).await;
        until_says(&self.east, "/here", "here").await;
        until_answers(&self.one, "/there").await;
    }
}

async fn leads_shard(member: &Member) -> bool {
    let series = "flowgate_shard_leader{shard=\"east\"}";
    member.metric(series).await == Some(1.0)
}

async fn until_answers(member: &Member, path: &str) {
    until("the endpoint answers", async || {
        let answer = member.get(path).try_send().await;
        answer.is_ok_and(|answer| answer.status == 200)
    })
    .await;
}

async fn text(member: &Member, path: &str) -> String {
    member.get(path).send().await.text()
}

fn both(text: &str) -> Json {
    flow_set(&[
        page("here", "/here", text),
        script("there", "get", "/there", COUNTS),
    ])
}

#[tokio::test]
async fn a_flow_runs_where_its_place_is_and_every_member_answers_for_it() {
    let members = Members::start().await;
    let Members {
        one, east, token, ..
    } = &members;
    members.deploy().await;
    for member in [one, east] {
        assert!(text(member, "/there").await.starts_with("east "));
        assert_eq!(text(member, "/here").await, "here");
    }
    // The main engine at the one, the shard at the other.
    assert_eq!(children(one.process().id()).len(), 1);
    assert_eq!(children(east.process().id()).len(), 1);

    let address = format!("127.0.0.1:{}", east.port);
    for (member, leader) in [(one, &*address), (east, "here")] {
        let ready = member.operations("/readyz").await.json();
        let now = member.get("/gateway/now").token(token).send().await.json();
        assert_eq!(ready["shards"], json!({ "east": leader }));
        assert_eq!(ready["shards"], now["runtime"]["shards"]);
    }

    // Both have the flows of one revision, and what an edit leaves alone is not started again.
    let marked = |text: &str| {
        let mut flows = vec![page("here", "/here", text)];
        flows.push(restart_marker("there", "/started"));
        flow_set(&flows)
    };
    east.deploy_as("nodes", token, &marked("second")).await;
    until_says(one, "/here", "second").await;
    until_answers(one, "/started").await;
    let started = text(one, "/started").await;
    one.deploy_as("nodes", token, &marked("third")).await;
    until_says(east, "/here", "third").await;
    assert_eq!(text(east, "/started").await, started);
    assert_eq!(one.flows(token).await, east.flows(token).await);
}

#[tokio::test]
async fn a_shard_runs_at_another_member_within_five_seconds_and_keeps_its_contexts() {
    let mut members = Members::start().await;
    members.deploy().await;
    let Members { one, east, .. } = &mut members;
    let counted = |text: String| text.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let before = counted(text(one, "/there").await);
    // Contexts are kept a moment later.
    tokio::time::sleep(Duration::from_secs(1)).await;
    east.kill();
    let stopwatch = Stopwatch::start();
    until_answers(one, "/there").await;
    stopwatch.assert_within(Duration::from_secs(5));
    assert!(leads_shard(one).await);
    assert_eq!(children(one.process().id()).len(), 2);
    let after = counted(text(one, "/there").await);
    assert!(after > before, "{after} after {before}");
    tokio::time::sleep(Duration::from_secs(1)).await;

    east.process = Some(Process::start(&east.lines, east.directory.path()));
    until("it has its shard back", async || leads_shard(east).await).await;
    until_answers(one, "/there").await;
    assert!(counted(text(one, "/there").await) > after);
    assert_eq!(children(one.process().id()).len(), 1);
}

#[tokio::test]
async fn a_stopped_shard_is_followed_within_five_seconds_and_never_runs_twice() {
    let members = Members::with("place = { writes = \"east\" }").await;
    let Members {
        one, east, token, ..
    } = &members;
    let file = one.directory.path().join("written");
    one.deploy(token, &writing(&file)).await;
    until("it writes", async || !written(&file).is_empty()).await;

    let later = async |member: &Member, what: &str| {
        let before = *written(&file).last().unwrap();
        until(what, async || {
            leads_shard(member).await && written(&file).last().is_some_and(|last| *last > before)
        })
        .await;
    };
    let stopped = [east.process().id(), engine_of(east)];
    for process in stopped {
        signal(process, "STOP");
    }
    let stopwatch = Stopwatch::start();
    later(one, "another member writes").await;
    stopwatch.assert_within(Duration::from_secs(5));
    // The engine first: the gateway ends it when it goes on.
    for process in stopped.into_iter().rev() {
        signal(process, "CONT");
    }
    later(east, "its member writes again").await;
    assert_one_at_a_time(&file);
}

#[tokio::test]
async fn an_editor_at_any_member_injects_debugs_and_reads_contexts_in_all_shards() {
    let members = Members::start().await;
    let Members { one, token, .. } = &members;
    let mut flows = both("here");
    let inject = |payload: &str| json!({ "props": [{ "p": "payload" }], "payload": payload, "payloadType": "str", "wires": [["debug"]] });
    let debug = json!({ "active": true, "tosidebar": true, "complete": "payload", "targetType": "msg", "wires": [] });
    let more = [
        node("there", "inject", "inject", inject("x")),
        node("there", "unseen", "inject", inject("unseen")),
        node("there", "seen", "inject", inject("seen")),
        node("there", "debug", "debug", debug),
    ];
    flows.as_array_mut().unwrap().extend(more);
    one.deploy(token, &flows).await;
    until_answers(one, "/there").await;

    let mut editor = one.editor(token).await;
    editor.subscribe("debug").await;
    let injected = async |id: &str| {
        let answer = one.post(&format!("/inject/{id}")).token(token).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    // The subscription arrives there when it does.
    let found = async {
        loop {
            injected("inject").await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let debugged = editor.find(|message| {
        let is_debug = message["topic"] == "debug" && message["data"]["id"] == "debug";
        is_debug.then(|| message["data"]["msg"].clone())
    });
    let message = tokio::select! {
        message = debugged => message,
        () = found => unreachable!(),
    };
    assert_eq!(message, "x");
    for (switch, id) in [("disable", "unseen"), ("enable", "seen")] {
        let switched = one.post(&format!("/debug/{switch}")).token(token);
        let answer = switched.json(&json!({ "nodes": ["debug"] })).send().await;
        assert!(answer.status < 300, "{}", answer.text());
        injected(id).await;
    }
    let next = editor.find(|message| {
        let text = message["data"]["msg"].as_str().unwrap_or_default();
        text.ends_with("seen").then(|| text.to_owned())
    });
    assert_eq!(next.await, "seen");

    let context = one.get("/context/flow/there").token(token).send().await;
    assert!(
        context.json()["cluster"]["n"].is_object(),
        "{}",
        context.text()
    );
}

#[tokio::test]
async fn a_websocket_reaches_the_shard_of_its_listener_from_any_member() {
    let members = Members::start().await;
    let Members {
        one, east, token, ..
    } = &members;
    let flows = flow_set(&[page("here", "/here", "here"), echo()]);
    one.deploy(token, &flows).await;
    for member in [one, east] {
        until("the listener is there", async || {
            open_as(member, token).await.is_ok()
        })
        .await;
        try_out(&mut open_as(member, token).await.unwrap()).await;
    }
}

/// What a deployment is refused for, as a dry run says it too.
async fn refused(member: &Member, token: &str, flows: &Json) -> String {
    let check = member.post("/gateway/check").token(token);
    let judged = check.json(flows).send().await.json();
    let deploy = member.deployment(token, flows, None).send().await;
    assert_eq!(deploy.status, 403, "{}", deploy.text());
    assert!(judged.to_string().contains("\"place\""), "{judged}");
    deploy.text()
}

#[tokio::test]
async fn flows_that_belong_together_are_not_run_apart_and_a_deployment_moves_none() {
    let members = Members::start().await;
    let Members { one, token, .. } = &members;
    members.deploy().await;
    let mut joined = both("here");
    let link = |tab: &str, id: &str, kind: &str, other: &str| {
        node(tab, id, kind, json!({ "links": [other], "wires": [] }))
    };
    let links = [
        link("here", "from", "link out", "to"),
        link("there", "to", "link in", "from"),
    ];
    joined.as_array_mut().unwrap().extend(links);
    let why = refused(one, token, &joined).await;
    assert!(why.contains("belong together"), "{why}");

    let global = flow_set(&[
        page("here", "/here", "here"),
        script(
            "there",
            "get",
            "/there",
            "msg.payload = String(global.get('n')); return msg",
        ),
    ]);
    let why = refused(one, token, &global).await;
    assert!(why.contains("own_global_context"), "{why}");
    // Nothing has changed.
    assert!(text(one, "/there").await.starts_with("east "));
}

#[tokio::test]
async fn a_flow_with_a_global_context_of_its_own_shares_it_with_none_elsewhere() {
    let members = Members::with(&format!("{PLACE}\nown_global_context = [\"there\"]")).await;
    let Members { one, token, .. } = &members;
    let count = "const n = (global.get('n', 'cluster') || 0) + 1; global.set('n', n, 'cluster'); msg.payload = String(n); return msg";
    let flows = flow_set(&[
        script("here", "get", "/here", count),
        script("there", "get", "/there", count),
    ]);
    one.deploy(token, &flows).await;
    until_answers(one, "/there").await;
    for _ in 0..3 {
        text(one, "/there").await;
    }
    until_answers(one, "/here").await;
    assert_eq!(text(one, "/here").await, "2");

    // Each engine's own is asked for by the name of the shard.
    let global = async |query: &str| {
        let path = format!("/context/global{query}");
        let answer = one.get(&path).token(token).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["cluster"]["n"]["msg"].clone()
    };
    assert_eq!(global("").await, "2");
    assert_eq!(global("?shard=east").await, "4");
    for path in ["/diagnostics", "/gateway/profile", "/context/global"] {
        for (shard, status) in [("east", 200), ("north", 400)] {
            let path = format!("{path}?seconds=1&shard={shard}");
            let answer = one.get(&path).token(token).send().await;
            assert_eq!(answer.status, status, "{path}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn every_member_says_which_flows_the_engines_of_shards_have_stopped() {
    let operations = ports::free();
    let lines = format!(
        "place = {{ Loop = \"east\" }}\noperations = {{ east = \"127.0.0.1:{operations}\" }}"
    );
    let members = Members::with(&lines).await;
    let Members {
        one, east, token, ..
    } = &members;
    let flows = flow_set(&[page("here", "/here", "here"), circling(2)]);
    one.deploy(token, &flows).await;
    for member in [one, east] {
        let read = async |path: &str| member.get(path).token(token).send().await.json();
        until("it says that the flow was stopped", async || {
            read("/flows/state").await["stopped"][0]["id"] == "loop"
        })
        .await;
        let now = read("/gateway/now").await;
        assert_eq!(
            (&now["flows"], &now["stopped"][0]["id"]),
            (&json!("start"), &json!("loop"))
        );
    }
    let engine = Client {
        operations: SocketAddr::from((Ipv4Addr::LOCALHOST, operations)),
        ..Client::clone(east)
    };
    let series = "flowgate_flows_stopped_total{reason=\"queue\"}";
    assert_eq!(engine.metric(series).await, Some(1.0));
}

#[tokio::test]
async fn members_of_other_places_run_nothing_beside_each_other() {
    let members = Members::start().await;
    members.deploy().await;
    let Members {
        mut one, mut east, ..
    } = members;
    let lines = "name = \"north\"\nplace = { here = \"north\" }";
    let north = member(&members.postgres, &members.certificates, lines);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let series = "flowgate_shard_leader{shard=\"north\"}";
    assert_ne!(north.metric(series).await, Some(1.0));
    assert!(children(north.process().id()).is_empty());
    one.kill();
    east.kill();
    until("it runs the flows by its places", async || {
        north.leads().await && north.metric(series).await == Some(1.0)
    })
    .await;
    until_says(&north, "/here", "here").await;
    assert_eq!(children(north.process().id()).len(), 2);
}
