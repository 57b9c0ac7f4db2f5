//! Three gateways of a cluster under load, while the leader is killed, stopped, cut off from the
//! database and loses its engine, and the database is restarted: what was acknowledged holds
//! afterwards, and two engines never run at a time.
//!
//! `CLUSTER_SECONDS` is how long it lasts (`tests/cluster`). The checks:
//! - A flow writes the number of its engine's lease into a file that all members share: the numbers
//!   never fall. So does a flow that has
//!   a place, with that of its shard.
//! - The history is a chain: each acknowledged deployment is in it, right after the revision that
//!   it named.
//! - Outside the time of a fault, and what the members need to recover, every request is answered
//!   by the engine.

use crate::client::Client;
use crate::cluster_faults::{
    Seen, all_answered, balanced, deploy_last, deployments, history, is_chain, requests,
};
use crate::fail_over::{Certificates, Member, Way, assert_one_at_a_time, writing, written};
use crate::harness::{Process, until};
use crate::isolation::{children, signal};
use rustls::RootCertStore;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use testing::postgres::Postgres;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long after a fault the members may take until every request is answered: five seconds until
/// another one runs the engine (docs/cluster.md), and what it needs to start.
const RECOVERY: Duration = Duration::from_secs(8);

/// The flows that write, in a flow set that differs each time.
fn flows(file: &Path, name: &str) -> Json {
    let mut flows = writing(file);
    flows[0]["info"] = name.into();
    let apart = writing(&apart(file)).to_string();
    let apart: Json = ["t", "i", "f"]
        .iter()
        .fold(apart, |text, id| {
            text.replace(&format!("\"{id}\""), &format!("\"apart-{id}\""))
        })
        .parse()
        .unwrap();
    flows
        .as_array_mut()
        .unwrap()
        .extend(apart.as_array().unwrap().clone());
    flows
}

/// The file of the flow that has a place.
fn apart(file: &Path) -> PathBuf {
    file.with_extension("apart")
}

/// The member that runs the main engine, or that of the shard.
async fn leader(members: &[(Member, Way)], series: &str) -> usize {
    let mut found = None;
    until("there is a leader", async || {
        for (number, (member, _)) in members.iter().enumerate() {
            if member.metric(series).await == Some(1.0) {
                found = Some(number);
            }
        }
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// The series that is 1 at who runs the main engine, and that of the shard.
const LEADERS: [&str; 2] = [
    "flowgate_engine_leader",
    "flowgate_shard_leader{shard=\"member-1\"}",
];

/// One fault of the leader's, or of the database.
async fn fail(kind: usize, member: &mut Member, way: &mut Way, postgres: &mut Postgres) {
    match kind {
        0 => {
            member.kill();
            sleep(Duration::from_secs(1)).await;
            member.process = Some(Process::start(&member.lines, member.directory.path()));
        }
        1 => {
            let gateway = member.process().id();
            let processes: Vec<u32> = [gateway].into_iter().chain(children(gateway)).collect();
            for process in &processes {
                signal(*process, "STOP");
            }
            sleep(Duration::from_secs(6)).await;
            for process in processes.into_iter().rev() {
                signal(process, "CONT");
            }
        }
        2 => {
            for engine in children(member.process().id()) {
                signal(engine, "STOP");
            }
        }
        3 => {
            way.set_open(false);
            sleep(Duration::from_secs(6)).await;
            way.set_open(true);
        }
        _ => {
            postgres.stop();
            sleep(Duration::from_secs(1)).await;
            postgres.resume_service();
        }
    }
}

#[tokio::test]
async fn two_engines_never_run_and_what_was_acknowledged_holds_while_leaders_fail() {
    let seconds = std::env::var("CLUSTER_SECONDS").map_or(60, |text| text.parse().unwrap());
    let mut postgres = Postgres::start();
    let certificates = Certificates::make();
    let member = |number| {
        let lines = format!(
            "name = \"member-{number}\"\nplace = {{ apart-t = \"member-1\" }}\n[auth]\nsessions_per_user = 10000\n"
        );
        let way = Way::open(postgres.port());
        let (to, from) = (postgres.port().to_string(), way.port.to_string());
        let store = postgres.url().replace(&to, &from);
        (Member::with_lines(&store, &certificates, &lines), way)
    };
    let mut members: Vec<_> = (0..3).map(member).collect();
    let file = members[0].0.directory.path().join("written");
    let clients: Vec<Client> = members
        .iter()
        .map(|(member, _)| member.client.clone())
        .collect();
    let (_proxy, client) = balanced(&clients).await;
    let mut roots = RootCertStore::empty();
    for client in &clients {
        roots.roots.extend(client.roots.roots.iter().cloned());
    }
    let client = Client {
        roots: Arc::new(roots),
        ..client
    };
    until("every member is ready", async || {
        for client in &clients {
            if client.operations("/readyz").await.status != 200 {
                return false;
            }
        }
        // The load balancer has seen that too.
        client.get("/").try_send().await.is_ok()
    })
    .await;
    let token = client.sign_in("admin").await;
    deploy_last(&client, &token, &flows(&file, "first")).await;
    until("both write", async || {
        !written(&file).is_empty() && !written(&apart(&file)).is_empty()
    })
    .await;

    let seen = Arc::new(Seen::default());
    let mut load = JoinSet::new();
    for name in 0..2 {
        let file = file.clone();
        let flows = move |count| flows(&file, &format!("{name}-{count}"));
        load.spawn(deployments(client.clone(), flows, Arc::clone(&seen)));
        load.spawn(requests(client.clone(), token.clone(), Arc::clone(&seen)));
    }
    let since = Instant::now();
    for round in (0..).take_while(|_| since.elapsed() < Duration::from_secs(seconds)) {
        sleep(Duration::from_secs(3)).await;
        let leads = leader(&members, LEADERS[round % 2]).await;
        let begun = Instant::now();
        let (member, way) = &mut members[leads];
        fail(round % 5, member, way, &mut postgres).await;
        let window = (begun, Instant::now() + RECOVERY);
        seen.faults.lock().unwrap().push(window);
        sleep(RECOVERY).await;
    }
    seen.is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = load.join_next().await {
        ended.unwrap();
    }

    deploy_last(&client, &token, &flows(&file, "last")).await;
    let history = history(&client, &token).await;
    let deployed = seen.deployed.lock().unwrap();
    let leases = |file: &Path| written(file).into_iter().collect::<BTreeSet<_>>().len();
    let (main, of_shard) = (leases(&file), leases(&apart(&file)));
    println!(
        "{} deployments acknowledged, {main} leases, {of_shard} of the shard",
        deployed.len()
    );
    assert!(
        deployed.len() > 10 && main > 2 && of_shard > 1,
        "there was hardly any load"
    );
    is_chain(&history, &deployed);
    assert_one_at_a_time(&file);
    assert_one_at_a_time(&apart(&file));
    all_answered(&seen);
}
