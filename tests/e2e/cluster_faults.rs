//! Three gateways on one PostgreSQL behind `HAProxy`, under load while members are killed and
//! stopped and the database is restarted, stands still and fails over to its replica: what was
//! acknowledged holds afterwards.
//!
//! `CLUSTER_SECONDS` is how long it lasts (`tests/cluster`). The checks:
//! - The history is a chain: each acknowledged deployment is in it, right after the revision that
//!   it named.
//! - A token is refused by every member once a second and the grace have passed since its
//!   revocation was acknowledged.
//! - Outside the time of a fault, and what the members need to recover, every request is answered.

use crate::client::{Client, PASSWORD};
use crate::harness::{Gateway, Process, flow_set, page, until};
use crate::reverse_proxies::ReverseProxy;
use serde_json::{Value as Json, json};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testing::ports;
use testing::postgres::Postgres;
use tokio::runtime::Handle;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

/// `[storage] grace` of the members.
const GRACE: Duration = Duration::from_secs(3);

/// How long after a fault members, database and load balancer may take until every request is
/// answered again: a lost gateway keeps the turn of a deployment for 20 s, but answers all else as
/// soon as the load balancer has noticed.
const RECOVERY: Duration = Duration::from_secs(5);

/// A member: a process that can be killed and started again at the same address.
struct Member {
    directory: TempDir,
    lines: String,
    client: Client,
    process: Mutex<Option<Process>>,
}

impl Member {
    fn start(lines: &str, certificates: Option<&TempDir>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        if let Some(first) = certificates {
            // Clients see one gateway, with one certificate.
            let (from, to) = (first.path().join("certs"), directory.path().join("certs"));
            fs::create_dir(&to).unwrap();
            for file in fs::read_dir(from).unwrap() {
                let file = file.unwrap();
                fs::copy(file.path(), to.join(file.file_name())).unwrap();
            }
        }
        let (secure, operations) = (ports::free(), ports::free());
        let lines = format!(
            "operations = \"127.0.0.1:{operations}\"\nserver.listen = [\"127.0.0.1:{secure}\"]\n{lines}"
        );
        let process = Process::start(&lines, directory.path());
        Self {
            client: Client::clone(&process),
            process: Mutex::new(Some(process)),
            directory,
            lines,
        }
    }

    fn kill(&self) {
        drop(self.process.lock().unwrap().take());
    }

    fn restart(&self) {
        let process = Process::start(&self.lines, self.directory.path());
        *self.process.lock().unwrap() = Some(process);
    }

    fn signal(&self, name: &str) {
        let process = self.process.lock().unwrap();
        process.as_ref().unwrap().signal(name);
    }
}

/// What the clients have seen.
#[derive(Default)]
pub struct Seen {
    pub is_over: AtomicBool,
    /// From when to when a fault lasted, with the recovery.
    pub faults: Mutex<Vec<(Instant, Instant)>>,
    /// Acknowledged deployments: the revision before, and the one after.
    pub deployed: Mutex<Vec<(String, String)>>,
    /// Requests: when they began, how long they took, and whether they were answered.
    requests: Mutex<Vec<(Instant, Duration, bool)>>,
    revoked: AtomicUsize,
}

impl Seen {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn in_fault(&self, from: Instant, to: Instant) -> bool {
        let faults = self.faults.lock().unwrap();
        faults
            .iter()
            .any(|(begin, end)| from <= *end && to >= *begin)
    }
}

/// Signs in, if it can.
async fn sign_in(client: &Client) -> Option<String> {
    let answer = client.sign_in_request("admin", PASSWORD, "*").try_send();
    let answer = answer.await.ok().filter(|answer| answer.status == 200)?;
    Some(answer.json()["access_token"].as_str()?.to_owned())
}

/// Deploys again and again, on the revision that was active just before.
pub async fn deployments(client: Client, flows: impl Fn(usize) -> Json, seen: Arc<Seen>) {
    let mut token = None;
    let mut count = 0;
    while seen.goes_on() {
        let Some(known) = token.clone() else {
            token = sign_in(&client).await;
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let active = client
            .get("/flows")
            .token(&known)
            .header("Node-RED-API-Version", "v2");
        let active = match active.try_send().await {
            Ok(answer) if answer.status == 200 => answer.json()["rev"].as_str().unwrap().to_owned(),
            Ok(answer) if answer.status == 401 => {
                token = None;
                continue;
            }
            _ => continue,
        };
        count += 1;
        let sent = client
            .deployment(&known, &flows(count), Some(&active))
            .try_send()
            .await;
        if let Ok(answer) = sent
            && answer.status == 200
        {
            let after = answer.rev();
            seen.deployed.lock().unwrap().push((active, after));
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Signs in, signs out, and looks whether any member still accepts the token when none may.
async fn revocations(client: Client, members: Vec<Client>, seen: Arc<Seen>) {
    let mut checks = JoinSet::new();
    while seen.goes_on() {
        sleep(Duration::from_millis(100)).await;
        let Some(token) = sign_in(&client).await else {
            continue;
        };
        let revoke = client
            .post("/auth/revoke")
            .token(&token)
            .json(&json!({ "token": token }));
        if revoke
            .try_send()
            .await
            .is_ok_and(|answer| answer.status == 200)
        {
            seen.revoked.fetch_add(1, Ordering::Relaxed);
            let members = members.clone();
            checks.spawn(async move {
                sleep(GRACE + Duration::from_secs(1)).await;
                for member in members {
                    if let Ok(answer) = member.get("/flows").token(&token).try_send().await {
                        assert_ne!(answer.status, 200, "a revoked token is accepted");
                    }
                }
            });
        }
    }
    while let Some(check) = checks.join_next().await {
        check.unwrap();
    }
}

/// Asks for the flows again and again with one token, which is never revoked.
pub async fn requests(client: Client, token: String, seen: Arc<Seen>) {
    while seen.goes_on() {
        let begun = Instant::now();
        let answer = client.get("/flows").token(&token).try_send().await;
        let is_answered = answer.is_ok_and(|answer| answer.status == 200);
        let request = (begun, begun.elapsed(), is_answered);
        seen.requests.lock().unwrap().push(request);
        sleep(Duration::from_millis(20)).await;
    }
}

/// One fault after the other. The database has the first server, and its replica is the second one
/// until that takes over.
async fn faults(members: &[Member], servers: &mut Vec<Postgres>, seen: &Seen, lasting: Duration) {
    let since = Instant::now();
    for round in (0..).take_while(|_| since.elapsed() < lasting) {
        sleep(RECOVERY).await;
        let begun = Instant::now();
        let member = &members[round % members.len()];
        match round % 4 {
            0 => {
                member.kill();
                sleep(Duration::from_secs(1)).await;
                member.restart();
            }
            1 => {
                member.signal("STOP");
                sleep(Duration::from_secs(2)).await;
                member.signal("CONT");
            }
            2 if servers.len() > 1 => {
                servers.remove(0).stop();
                servers[0].promote();
            }
            2 => {
                servers[0].stop();
                sleep(Duration::from_secs(1)).await;
                servers[0].resume_service();
            }
            _ => {
                servers[0].freeze(true);
                sleep(Duration::from_secs(2)).await;
                servers[0].freeze(false);
            }
        }
        let window = (begun, Instant::now() + RECOVERY);
        seen.faults.lock().unwrap().push(window);
    }
    sleep(RECOVERY).await;
}

/// `HAProxy` in front of the members, which asks them whether they are ready.
pub async fn balanced(members: &[Client]) -> (ReverseProxy, Client) {
    let port = ports::free();
    let servers = members.iter().enumerate().map(|(number, member)| {
        let (secure, operations) = (member.address, member.operations.port());
        format!("server m{number} {secure} check port {operations} inter 200ms fall 2 rise 1\n")
    });
    let servers: String = servers.collect();
    let config = format!(
        "defaults\nmode tcp\ntimeout connect 1s\ntimeout client 30s\ntimeout server 30s\nretries 2\noption redispatch 1\n\
         frontend f\nbind 127.0.0.1:{port}\ndefault_backend b\nbackend b\noption httpchk GET /readyz\n{servers}"
    );
    let address = ([127, 0, 0, 1], port).into();
    let proxy = ReverseProxy::haproxy(&config, address).await;
    let client = Client {
        address,
        ..members[0].clone()
    };
    (proxy, client)
}

/// Deploys once more: what the history could not keep is found then.
pub async fn deploy_last(client: &Client, token: &str, flows: &Json) {
    until("a last deployment", async || {
        let sent = client.deployment(token, flows, None).try_send().await;
        sent.is_ok_and(|answer| answer.status == 200)
    })
    .await;
}

/// The whole history, newest first.
pub async fn history(client: &Client, token: &str) -> Vec<Json> {
    let mut all = Vec::new();
    let mut page = "/gateway/deployments?limit=100".to_owned();
    loop {
        let answer = client.get(&page).token(token).send().await.json();
        all.extend(answer["deployments"].as_array().unwrap().iter().cloned());
        if answer["next"].is_null() {
            return all;
        }
        page = format!("/gateway/deployments?limit=100&before={}", answer["next"]);
    }
}

/// Each acknowledged deployment is in the history, right after the revision that it named.
pub fn is_chain(history: &[Json], deployed: &[(String, String)]) {
    let revs: Vec<_> = history
        .iter()
        .map(|entry| entry["rev"].as_str().unwrap())
        .collect();
    for (before, after) in deployed {
        let place = revs.iter().position(|rev| rev == after);
        let place =
            place.unwrap_or_else(|| panic!("{after} was acknowledged, and is not in the history"));
        let earlier = revs.get(place + 1).copied();
        assert!(
            earlier.is_none_or(|earlier| earlier == before),
            "{after} was deployed on {before}, and the history has {earlier:?} before it"
        );
    }
}

/// Outside of faults every request was answered; prints the quantiles of how long they took.
pub fn all_answered(seen: &Seen) {
    let requests = seen.requests.lock().unwrap();
    let quiet =
        |(begun, took, _): &&(Instant, Duration, bool)| !seen.in_fault(*begun, *begun + *took);
    let quiet: Vec<_> = requests.iter().filter(quiet).collect();
    let failed = quiet
        .iter()
        .filter(|(_, _, is_answered)| !is_answered)
        .count();
    let mut took: Vec<_> = quiet.iter().map(|(_, took, _)| *took).collect();
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    println!(
        "{} requests outside of faults, p50 {:?}, p99 {:?}",
        took.len(),
        at(50),
        at(99)
    );
    assert_eq!(failed, 0, "requests were not answered outside of faults");
}

#[tokio::test]
async fn what_was_acknowledged_holds_while_members_and_the_database_fail() {
    let seconds = std::env::var("CLUSTER_SECONDS").map_or(20, |text| text.parse().unwrap());
    let first = Postgres::start();
    let mut servers = vec![first.replica()];
    let engine = Gateway::with("auth = \"off\"\nlog = { level = \"warn\" }");
    let lines = format!(
        "{}storage.grace = \"{}s\"\nstorage.history = 100000\nauth.sessions_per_user = 10000\n",
        crate::cluster::in_front_of(&engine, &first.url_with(&servers[0])),
        GRACE.as_secs()
    );
    servers.insert(0, first);
    let first = Member::start(&lines, None);
    let others = [(); 2].map(|()| Member::start(&lines, Some(&first.directory)));
    let members: Arc<[_]> = [first].into_iter().chain(others).collect();
    let addresses: Vec<_> = members.iter().map(|member| member.client.clone()).collect();
    let (_proxy, client) = balanced(&addresses).await;
    until("the load balancer has a member", async || {
        sign_in(&client).await.is_some()
    })
    .await;
    let token = client.sign_in("admin").await;

    let seen = Arc::new(Seen::default());
    let mut load = JoinSet::new();
    for name in 0..2 {
        let flows = move |count| flow_set(&[page("a", "/a", &format!("{name}-{count}"))]);
        load.spawn(deployments(client.clone(), flows, Arc::clone(&seen)));
        load.spawn(requests(client.clone(), token.clone(), Arc::clone(&seen)));
    }
    load.spawn(revocations(client.clone(), addresses, Arc::clone(&seen)));
    // On a thread of its own: it waits for processes.
    let (injected, observed) = (Arc::clone(&members), Arc::clone(&seen));
    let inject = move || {
        let lasting = Duration::from_secs(seconds);
        Handle::current().block_on(faults(&injected, &mut servers, &observed, lasting));
        servers
    };
    let _servers = spawn_blocking(inject).await.unwrap();
    seen.is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = load.join_next().await {
        ended.unwrap();
    }

    deploy_last(
        &client,
        &token,
        &flow_set(&[page("a", "/a", "the last one")]),
    )
    .await;
    let history = history(&client, &token).await;
    let deployed = seen.deployed.lock().unwrap();
    let revoked = seen.revoked.load(Ordering::Relaxed);
    println!(
        "{} deployments, {revoked} revocations acknowledged",
        deployed.len()
    );
    assert!(
        deployed.len() > 10 && revoked > 5,
        "there was hardly any load"
    );
    is_chain(&history, &deployed);
    all_answered(&seen);
}
