//! The transaction over a real store and a real engine.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::auth::{Auth, Caller, Grant, Registry, SignIn, hash_password};
use crate::config::{self, Config, DEFAULT};
use crypto::Secret;
use engine::Engine;
use engine::settings::Settings;
use std::fs;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant as Clock};
use tempfile::TempDir;

const NOW: u64 = 1_700_000_000;

async fn open(place: &TempDir) -> Deployments {
    let mut config = Config::parse(DEFAULT, "gateway.toml", Path::new("")).unwrap();
    config.storage.directory = place.path().to_owned();
    let metrics = Metrics::new();
    let store = Store::open(&config.storage).unwrap();
    let audit = Audit::open(&config.audit, place.path(), Arc::clone(&metrics), NOW).unwrap();
    let engine = Engine::start(Settings::default(), Arc::<Metrics>::clone(&metrics)).unwrap();
    Deployments::open(
        Runtime::Own(engine),
        &config.engine,
        StartContext::new(store, audit, metrics, NOW),
    )
    .await
    .unwrap()
}

fn actor() -> Actor {
    Actor {
        user: "admin".into(),
        by: String::new(),
        address: None,
        request: "r".into(),
        has_all: true,
    }
}

fn by<'a>(actor: &'a Actor, watch: &'a mut AuthWatch) -> Authorized<'a> {
    Authorized {
        actor,
        watch,
        now: NOW,
        message: "",
        approval: None,
        trace: None,
    }
}

fn tab(id: &str) -> String {
    format!(r#"[{{"id":"{id}","type":"tab"}}]"#)
}

async fn send(deployments: &Deployments, request: Request) -> Result<Deployed, Error> {
    let (actor, mut watch) = (actor(), AuthWatch::unlimited());
    let deployed = deployments.deploy(request, by(&actor, &mut watch), Clock::now);
    deployed.await
}

fn flows(json: &str, rev: Option<&str>) -> Request {
    let rev = rev.map_or(String::new(), |rev| format!(r#","rev":"{rev}""#));
    let body = format!(r#"{{"flows":{json}{rev}}}"#);
    Request::Flows {
        submission: Submission::v2(&FlowSet::default(), body.as_bytes()).unwrap(),
        kind: DeploymentType::Full,
    }
}

#[tokio::test]
async fn a_deployment_becomes_active_and_survives_a_restart_under_its_revision() {
    let place = TempDir::new().unwrap();
    let deployments = open(&place).await;
    let deployed = send(&deployments, flows(&tab("a"), None)).await.unwrap();
    assert_eq!(deployments.active().rev, deployed.rev);
    assert_eq!(deployments.active().flows.to_json(), tab("a"));
    deployments.close().await;
    drop(deployments);
    let again = open(&place).await;
    assert_eq!(again.active().rev, deployed.rev);
    assert_eq!(again.active().flows.to_json(), tab("a"));
}

#[tokio::test]
async fn the_same_flow_set_again_has_another_revision() {
    let place = TempDir::new().unwrap();
    let deployments = open(&place).await;
    let first = send(&deployments, flows(&tab("a"), None)).await.unwrap();
    let second = send(&deployments, flows(&tab("a"), Some(&first.rev)))
        .await
        .unwrap();
    assert_ne!(first.rev, second.rev);
}

#[tokio::test]
async fn of_many_deployments_with_one_revision_exactly_one_is_accepted() {
    let place = TempDir::new().unwrap();
    let deployments = Arc::new(open(&place).await);
    let rev = deployments.active().rev.clone();
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let (deployments, request) = (
                Arc::clone(&deployments),
                flows(&tab(&format!("t{n}")), Some(&rev)),
            );
            tokio::spawn(async move { (n, send(&deployments, request).await) })
        })
        .collect();
    let mut winners = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            (n, Ok(deployed)) => winners.push((n, deployed.rev)),
            (_, Err(error)) => assert!(matches!(error, Error::Stale { .. }), "{error}"),
        }
    }
    let [(n, rev)] = winners.as_slice() else {
        panic!("{winners:?}")
    };
    let active = deployments.active();
    assert_eq!(
        (&active.rev, &active.flows.to_json()[..]),
        (rev, &tab(&format!("t{n}"))[..])
    );
}

#[tokio::test]
async fn a_stale_or_empty_revision_changes_nothing() {
    let place = TempDir::new().unwrap();
    let deployments = open(&place).await;
    let first = send(&deployments, flows(&tab("a"), None)).await.unwrap();
    for rev in ["", "other", &first.rev.to_uppercase()] {
        let result = send(&deployments, flows(&tab("b"), Some(rev))).await;
        assert!(
            matches!(result, Err(Error::Stale { active }) if active == first.rev),
            "{rev}"
        );
    }
    assert_eq!(deployments.active().rev, first.rev);
    assert_eq!(
        fs::read_to_string(place.path().join("flows.json")).unwrap(),
        tab("a")
    );
}

#[tokio::test]
async fn reload_loads_an_outside_edit_under_a_new_revision() {
    let place = TempDir::new().unwrap();
    let deployments = open(&place).await;
    let first = send(&deployments, flows(&tab("a"), None)).await.unwrap();
    fs::write(place.path().join("flows.json"), tab("edited")).unwrap();
    let second = send(&deployments, Request::Reload).await.unwrap();
    assert_ne!(first.rev, second.rev);
    assert_eq!(deployments.active().flows.to_json(), tab("edited"));
}

#[tokio::test]
async fn reload_of_broken_storage_leaves_the_old_flows() {
    let place = TempDir::new().unwrap();
    let deployments = open(&place).await;
    let first = send(&deployments, flows(&tab("a"), None)).await.unwrap();
    fs::write(place.path().join("flows.json"), "[{").unwrap();
    let result = send(&deployments, Request::Reload).await;
    assert!(matches!(result, Err(Error::StorageInvalid(_))));
    assert_eq!(deployments.active().rev, first.rev);
    assert_eq!(
        fs::read_to_string(place.path().join("flows.json")).unwrap(),
        "[{"
    );
}

#[tokio::test]
async fn an_outside_edit_that_a_deployment_replaces_is_kept_in_the_history() {
    let place = TempDir::new().unwrap();
    let deployments = open(&place).await;
    send(&deployments, flows(&tab("a"), None)).await.unwrap();
    fs::write(place.path().join("flows.json"), tab("edited")).unwrap();
    send(&deployments, flows(&tab("b"), None)).await.unwrap();
    let history = deployments.store.history().await.unwrap();
    assert!(
        history
            .iter()
            .any(|revision| revision.kind == "outside-edit"),
        "{history:?}"
    );
    assert_eq!(deployments.active().flows.to_json(), tab("b"));
}

#[tokio::test]
async fn with_broken_flow_files_nothing_runs_and_the_broken_file_survives_a_deployment() {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("flows.json"), "[{").unwrap();
    let deployments = open(&place).await;
    assert!(deployments.active().flows.nodes().is_empty());
    send(&deployments, flows(&tab("a"), None)).await.unwrap();
    let kept = fs::read_dir(place.path()).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("flows.json.")
            && fs::read(&path).is_ok_and(|content| content == b"[{")
    });
    assert!(kept);
}

#[tokio::test]
async fn single_flows_are_added_replaced_and_removed() {
    let place = TempDir::new().unwrap();
    let deployments = open(&place).await;
    let body = Bytes::from_static(br#"{"label":"one","nodes":[]}"#);
    let added = send(&deployments, Request::AddFlow(body)).await.unwrap();
    let id = added.flow.unwrap();
    assert_eq!(id.len(), 16);
    let body = Bytes::from_static(br#"{"label":"two","nodes":[]}"#);
    let replaced = send(&deployments, Request::ReplaceFlow(id.clone(), body))
        .await
        .unwrap();
    assert_ne!(added.rev, replaced.rev);
    assert!(
        deployments
            .active()
            .flows
            .get(&id)
            .unwrap()
            .text
            .contains("two")
    );
    send(&deployments, Request::RemoveFlow(id.clone()))
        .await
        .unwrap();
    assert!(deployments.active().flows.get(&id).is_none());
    let gone = send(&deployments, Request::RemoveFlow(id)).await;
    assert!(matches!(gone, Err(Error::NoSuchFlow)));
}

#[tokio::test]
async fn stopped_flows_stay_stopped_across_a_deployment_and_a_restart() {
    let place = TempDir::new().unwrap();
    let deployments = open(&place).await;
    let rev = deployments.active().rev.clone();
    let (actor, mut watch) = (actor(), AuthWatch::unlimited());
    let stopped = deployments.set_running(false, by(&actor, &mut watch));
    stopped.await.unwrap();
    assert_eq!(deployments.active().rev, rev);
    send(&deployments, flows(&tab("a"), None)).await.unwrap();
    assert!(!deployments.running());
    deployments.close().await;
    drop(deployments);
    let again = open(&place).await;
    assert!(!again.running());
    assert_eq!(again.active().flows.to_json(), tab("a"));
}

/// A grant that every session satisfies.
#[derive(Clone)]
struct Anything(Auth);

impl Grant for Anything {
    fn registry(&self) -> Option<&Registry> {
        Some(self.0.registry())
    }

    fn narrowed(&self, caller: Option<Caller>) -> Result<Option<Caller>, Lapsed> {
        Ok(caller)
    }
}

/// The user `ann` with these permissions.
fn users(hash: &Secret, permissions: &str) -> config::Auth {
    let hash = hash.reveal();
    let ann = format!(
        "[[auth.user]]\nname = \"ann\"\npassword_hash = \"{hash}\"\npermissions = [\"{permissions}\"]\n"
    );
    let config = Config::parse(&(DEFAULT.to_owned() + &ann), "gateway.toml", Path::new(""));
    config.unwrap().auth.unwrap()
}

/// A caller with a session of `ann`, who has these permissions, and the token that ends it.
async fn signed_in(
    place: &TempDir,
    password: &Secret,
    users: &config::Auth,
) -> (Auth, Secret, AuthWatch) {
    let mut config = Config::parse(DEFAULT, "gateway.toml", Path::new("")).unwrap();
    config.storage.directory = place.path().to_owned();
    let store = Store::open(&config.storage).unwrap();
    let (auth, _) = Auth::open(users, 1, store, NOW).await.unwrap();
    let sign_in = SignIn {
        user: "ann".into(),
        password: password.clone(),
        scope: Vec::new(),
        here: None,
        code: None,
        client: "service-admin".into(),
        agent: String::new(),
        address: [127, 0, 0, 1].into(),
    };
    let token = auth.sign_in(sign_in, NOW).await.unwrap().token;
    let caller = auth.identify(token.reveal(), NOW);
    let clock = || Duration::from_secs(NOW);
    let granted = Anything(auth.clone());
    let watch = AuthWatch::new(caller, granted, auth.generation(), clock).detached();
    (auth, token, watch)
}

#[tokio::test]
async fn rights_that_are_withdrawn_between_the_policy_and_the_store_cancel_the_deployment() {
    let (place, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let deployments = open(&place).await;
    let password = Secret::new("open sesame".to_owned());
    let hash = hash_password(&password).unwrap();
    let both = users(&hash, "flows.write:a\", \"flows.write:b");
    let (auth, _, mut watch) = signed_in(&other, &password, &both).await;
    let actor = actor();
    {
        let deploy = deployments.deploy(flows(&tab("a"), None), by(&actor, &mut watch), Clock::now);
        let mut waiting = pin!(deploy);
        let mut context = Context::from_waker(Waker::noop());
        // The policy has allowed it; it waits for the store to look at the files, which waits for
        // another deployment.
        let (permit, permitted) = oneshot::channel();
        let other = deployments.active().record(&actor, "full", None, NOW);
        let mut other = pin!(deployments.store.commit_if(other, permitted));
        assert!(other.as_mut().poll(&mut context).is_pending());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        auth.reload(&users(&hash, "flows.write:b")).await.unwrap();
        permit.send(false).unwrap();
        other.await.unwrap();
        let left = waiting.await;
        assert!(
            matches!(left, Err(Error::Lapsed(Lapsed::Permission))),
            "{left:?}"
        );
    }
    assert_eq!(deployments.active().flows.nodes().len(), 0);
    let again = deployments.deploy(flows(&tab("b"), None), by(&actor, &mut watch), Clock::now);
    again.await.unwrap();
    assert_eq!(deployments.active().flows.to_json(), tab("b"));
}

#[tokio::test]
async fn losing_authorization_while_waiting_to_deploy_cancels_the_deployment() {
    let (place, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let deployments = open(&place).await;
    let rev = deployments.active().rev.clone();
    let password = Secret::new("open sesame".to_owned());
    let everything = users(&hash_password(&password).unwrap(), "*");
    let (auth, token, mut watch) = signed_in(&other, &password, &everything).await;
    let actor = actor();

    let held = deployments.deploy_lock.lock().await;
    {
        let request = flows(&tab("a"), None);
        let deploy = deployments.deploy(request, by(&actor, &mut watch), Clock::now);
        let mut waiting = pin!(deploy);
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        auth.end(token.reveal()).await.unwrap();
        let Poll::Ready(left) = waiting.as_mut().poll(&mut context) else {
            panic!("he waits on")
        };
        assert!(matches!(left, Err(Error::Lapsed(Lapsed::Session))));
    }
    drop(held);

    let late = deployments.set_running(false, by(&actor, &mut watch));
    let late = late.await;
    assert!(matches!(late, Err(Error::Lapsed(Lapsed::Session))));
    assert_eq!(deployments.active().rev, rev);
    assert!(deployments.running());
}
