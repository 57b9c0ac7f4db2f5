//! PostgreSQL fails over to a synchronous replica: what a cluster has acknowledged holds, and it
//! goes on.

use crate::cluster_faults::{deploy_last, history, is_chain};
use crate::fail_over::{Certificates, Member, assert_one_at_a_time, writing, written};
use crate::harness::until;
use crate::stopwatch::Stopwatch;
use serde_json::json;
use std::time::Duration;
use testing::postgres::Postgres;

/// How long it takes at most until a deployment is acknowledged again: a question to a database
/// that hangs is given up after ten seconds (docs/cluster.md), and one that is asked then is
/// answered by the replica.
const GOES_ON_WITHIN: Duration = Duration::from_secs(20);

async fn fails_over_in_time(fail: impl FnOnce(&mut Postgres)) {
    let mut first = Postgres::start();
    let replica = first.replica();
    let (store, certificates) = (first.url_with(&replica), Certificates::make());
    let one = Member::with(&store, &certificates);
    until("the first member leads", async || one.leads().await).await;
    let other = Member::with(&store, &certificates);

    let token = other.sign_in("admin").await;
    let revoked = one.sign_in("admin").await;
    let revoke = other.post("/auth/revoke").token(&revoked);
    let revoke = revoke.json(&json!({ "token": revoked })).send().await;
    assert_eq!(revoke.status, 200);
    let file = one.directory.path().join("written");
    let before = one.flows(&token).await["rev"].as_str().unwrap().to_owned();
    let rev = one.deploy(&token, &writing(&file)).await;
    until("it writes", async || !written(&file).is_empty()).await;

    fail(&mut first);
    replica.promote();
    let stopwatch = Stopwatch::start();
    let mut last = writing(&file);
    last[0]["info"] = "deployed after the fail-over".into();
    deploy_last(&other, &token, &last).await;
    stopwatch.assert_within(GOES_ON_WITHIN);

    for member in [&one, &other] {
        until("a session holds and a revocation too", async || {
            let status = async |token| member.get("/flows").token(token).send().await.status;
            (status(&token).await, status(&revoked).await) == (200, 401)
        })
        .await;
    }
    is_chain(&history(&one, &token).await, &[(before, rev)]);
    let lines = written(&file).len();
    until("flows run", async || written(&file).len() > lines).await;
    assert_one_at_a_time(&file);
}

#[tokio::test]
async fn a_database_that_ends_is_followed_by_its_replica_within_twenty_seconds() {
    fails_over_in_time(Postgres::stop).await;
}

#[tokio::test]
async fn a_database_that_hangs_is_followed_by_its_replica_within_twenty_seconds() {
    fails_over_in_time(|first| first.freeze(true)).await;
}
