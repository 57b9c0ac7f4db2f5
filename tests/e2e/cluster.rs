//! Several gateways share one store in PostgreSQL: what one of them does holds at the others.

use crate::client::{Client, PASSWORD};
use crate::harness::{Gateway, config_text, flow_set, page, run_to_exit, until};
use crate::proposals::{approving, decide, propose};
use crate::stopwatch::Stopwatch;
use flowgate::policy::Freeze;
use serde_json::json;
use std::time::Duration;
use testing::postgres::Postgres;

/// Within this a revocation must reach every gateway (docs/cluster.md).
const REVOKED_WITHIN: Duration = Duration::from_secs(1);

/// Two gateways on one store, in front of one runtime: an engine of flowgate.
pub struct Cluster {
    pub postgres: Postgres,
    pub _engine: Gateway,
    pub one: Gateway,
    pub other: Gateway,
}

impl Cluster {
    fn start() -> Self {
        Self::with("")
    }

    pub fn with(lines: &str) -> Self {
        let postgres = Postgres::start();
        let engine = Gateway::with("auth = \"off\"\nlog = { level = \"warn\" }");
        let lines = format!("{}{lines}", in_front_of(&engine, &postgres.url()));
        Self {
            one: Gateway::with(&lines),
            other: Gateway::with(&lines),
            postgres,
            _engine: engine,
        }
    }
}

/// The configuration of a gateway on this store.
pub fn in_front_of(engine: &Gateway, store: &str) -> String {
    let port = engine.address.port();
    let authority = engine.directory.path().join("certs/self-signed.crt");
    let authority = authority.display();
    format!(
        "upstream = {{ url = \"https://127.0.0.1:{port}\", ca_file = \"{authority}\" }}\nstorage.url = \"{store}\"\n"
    )
}

/// Waits until a gateway refuses a token.
pub async fn refusal(gateway: &Client, token: &str) {
    until("the token is refused", async || {
        !gateway.accepts_token(token).await
    })
    .await;
}

/// Asserts that a gateway refuses a token soon after it was revoked elsewhere.
pub async fn assert_refused_in_time(gateway: &Client, token: &str) {
    let stopwatch = Stopwatch::start();
    refusal(gateway, token).await;
    stopwatch.assert_within(REVOKED_WITHIN);
}

#[tokio::test]
async fn a_token_of_one_gateway_is_accepted_by_the_other_at_once_and_after_a_restart() {
    let Cluster {
        one,
        other,
        postgres: _postgres,
        _engine,
    } = Cluster::start();
    let token = one.sign_in("admin").await;
    assert!(other.accepts_token(&token).await, "right after the sign-in");
    let other = other.restart().await;
    assert!(other.accepts_token(&token).await, "after a restart");
}

#[tokio::test]
async fn a_token_revoked_at_one_gateway_is_refused_by_the_other_within_a_second() {
    let cluster = Cluster::start();
    for _ in 0..3 {
        let token = cluster.one.sign_in("reader").await;
        assert!(cluster.other.accepts_token(&token).await);
        let revoke = cluster.one.post("/auth/revoke").token(&token);
        assert_eq!(
            revoke.json(&json!({ "token": token })).send().await.status,
            200
        );
        assert_refused_in_time(&cluster.other, &token).await;
    }
}

#[tokio::test]
async fn a_gateway_that_has_never_seen_a_token_revokes_it_everywhere_within_a_second() {
    let cluster = Cluster::start();
    let token = cluster.one.sign_in("reader").await;
    let admin = cluster.other.sign_in("admin").await;
    let revoke = cluster.other.post("/auth/revoke").token(&admin);
    assert_eq!(
        revoke.json(&json!({ "token": token })).send().await.status,
        200
    );
    assert!(!cluster.other.accepts_token(&token).await);
    assert_refused_in_time(&cluster.one, &token).await;
    assert!(
        !cluster.other.accepts_token(&token).await,
        "it has not come back"
    );
}

#[tokio::test]
async fn wrong_passwords_count_at_all_gateways_together() {
    let limited = "[auth.throttle]\nper_user_and_address = 3\n";
    let cluster = Cluster::with(limited);
    let token = cluster.one.sign_in("reader").await;
    assert!(cluster.other.accepts_token(&token).await);
    for _ in 0..3 {
        let wrong = cluster.one.sign_in_request("admin", "wrong", "*");
        assert_eq!(wrong.send().await.status, 400);
    }
    // Changes arrive in their order; a right password, sent before, would clear the failures.
    let revoke = cluster.one.post("/auth/revoke").token(&token);
    revoke.json(&json!({ "token": token })).send().await;
    refusal(&cluster.other, &token).await;
    let right = cluster.other.sign_in_request("admin", PASSWORD, "*");
    assert_eq!(right.send().await.status, 429);
}

#[tokio::test]
async fn only_one_of_two_deployments_on_the_same_revision_succeeds_wherever_they_are_sent() {
    let cluster = Cluster::start();
    let tokens = [
        cluster.one.sign_in("admin").await,
        cluster.other.sign_in("admin").await,
    ];
    let first = flow_set(&[page("a", "/a", "first")]);
    let mut rev = cluster.one.deploy(&tokens[0], &first).await;
    for round in 0..5 {
        let flows = |who: &str| flow_set(&[page("a", "/a", &format!("{who} {round}"))]);
        let (left, right) = (flows("left"), flows("right"));
        let sent = tokio::join!(
            cluster.one.deployment(&tokens[0], &left, Some(&rev)).send(),
            cluster
                .other
                .deployment(&tokens[1], &right, Some(&rev))
                .send(),
        );
        let mut statuses = [sent.0.status, sent.1.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "{} {}", sent.0.text(), sent.1.text());
        rev = cluster.one.flows(&tokens[0]).await["rev"]
            .as_str()
            .unwrap()
            .to_owned();
    }
    let history = |gateway: &Client| {
        let page = gateway.get("/gateway/deployments?limit=100");
        page.token(&tokens[0]).send()
    };
    let (one, other) = (
        history(&cluster.one).await.json(),
        history(&cluster.other).await.json(),
    );
    assert_eq!(one, other, "both have one history");
    let kinds: Vec<_> = one["deployments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["type"].clone())
        .collect();
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "full").count(),
        6,
        "{kinds:?}"
    );
    for gateway in [&cluster.one, &cluster.other] {
        let edits = gateway
            .audit()
            .iter()
            .filter(|record| record["event"] == "outside_edit")
            .count();
        assert_eq!(
            edits, 0,
            "what the other gateway has deployed is no edit from outside"
        );
    }
}

#[tokio::test]
async fn a_freeze_commanded_at_one_gateway_holds_at_the_other_until_it_ends() {
    let cluster = Cluster::start();
    let token = cluster.other.sign_in("admin").await;
    let flows = flow_set(&[page("a", "/a", "text")]);
    let freeze = |freeze: Option<Freeze>| cluster.one.running.gateway().freeze(freeze);
    let reason = "the audit is here".to_owned();
    let until_then = Freeze {
        until: u64::MAX / 4,
        reason,
    };
    freeze(Some(until_then)).await.unwrap();
    until("the other gateway is frozen", async || {
        let sent = cluster.other.deployment(&token, &flows, None).send().await;
        sent.status == 403 && sent.text().contains("the audit is here")
    })
    .await;
    freeze(None).await.unwrap();
    until("the other gateway deploys again", async || {
        cluster
            .other
            .deployment(&token, &flows, None)
            .send()
            .await
            .status
            == 200
    })
    .await;
}

#[tokio::test]
async fn a_proposal_made_at_one_gateway_is_approved_at_the_other() {
    let cluster = Cluster::with(&format!(
        "storage.credential_secret = \"the same\"\n{}",
        approving("approve = [\"*\"]")
    ));
    let ann = cluster.one.sign_in("ann").await;
    let flows = flow_set(&[page("a", "/a", "proposed")]);
    let path = propose(&cluster.one, &ann, &flows).await;
    let bob = cluster.other.sign_in("bob").await;
    let approved = decide(&cluster.other, &bob, &path, "approve").await;
    assert_eq!(approved.status, 200, "{}", approved.text());
    assert_eq!(cluster.one.flows(&ann).await["flows"], flows);
    let again = decide(&cluster.one, &bob, &path, "approve").await;
    assert_eq!(again.status, 409, "{}", again.text());
}

#[tokio::test]
async fn without_the_database_sessions_count_for_the_grace_and_nothing_new_happens() {
    let mut postgres = Postgres::start();
    let engine = Gateway::with("auth = \"off\"");
    let with_grace = |grace: &str| {
        let lines = in_front_of(&engine, &postgres.url());
        Gateway::with(&format!("{lines}storage.grace = \"{grace}\"\n"))
    };
    // One for what holds within the grace, however slow the machine is, and one for what holds
    // after it.
    let (gateway, impatient) = (with_grace("1h"), with_grace("1s"));
    let token = gateway.sign_in("admin").await;
    let flows = flow_set(&[page("a", "/a", "text")]);
    gateway.deploy(&token, &flows).await;
    assert!(impatient.accepts_token(&token).await);

    postgres.stop();
    assert!(gateway.accepts_token(&token).await, "within the grace");
    let refused = gateway.sign_in_request("admin", PASSWORD, "*").send().await;
    assert_eq!(
        (refused.status, refused.header("retry-after").is_empty()),
        (503, false)
    );
    assert_eq!(refused.json()["error"], "temporarily_unavailable");
    let refused = gateway.deployment(&token, &flows, None).send().await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "store_unreachable")
    );
    let revoke = gateway.post("/auth/revoke").token(&token);
    let refused = revoke
        .json(&json!({ "token": "A".repeat(43) }))
        .send()
        .await;
    assert_eq!(
        refused.status, 503,
        "a revocation that is not kept is not acknowledged"
    );
    until("the metric says so", async || {
        gateway.metric("flowgate_shared_store_reachable").await == Some(0.0)
    })
    .await;

    until("the grace is over", async || {
        let answer = impatient.get("/flows").token(&token).send().await;
        answer.status == 503 && answer.code() == "store_unreachable"
    })
    .await;
    until("the gateway is not ready", async || {
        impatient.operations("/readyz").await.status == 503
    })
    .await;

    postgres.resume_service();
    for gateway in [&gateway, &impatient] {
        until("the token counts again", async || {
            gateway.accepts_token(&token).await
        })
        .await;
        until("the gateway is ready", async || {
            gateway.operations("/readyz").await.status == 200
        })
        .await;
    }
    gateway.deploy(&token, &flows).await;
    assert_eq!(
        gateway.metric("flowgate_shared_store_reachable").await,
        Some(1.0)
    );
}

#[tokio::test]
async fn a_database_that_stands_still_holds_up_no_one_beyond_the_grace() {
    let postgres = Postgres::start();
    let engine = Gateway::with("auth = \"off\"");
    let gateway = Gateway::with(&in_front_of(&engine, &postgres.url()));
    let token = gateway.sign_in("admin").await;
    postgres.freeze(true);
    // A request that waits without end fails with the time-out of the test.
    assert!(gateway.accepts_token(&token).await);
    let refused = gateway.sign_in_request("admin", PASSWORD, "*").send().await;
    assert_eq!(refused.status, 503);
    postgres.freeze(false);
    until("users can sign in again", async || {
        gateway
            .sign_in_request("admin", PASSWORD, "*")
            .send()
            .await
            .status
            == 200
    })
    .await;
}

#[test]
fn a_shared_store_that_cannot_be_used_is_named_at_the_start() {
    let postgres = Postgres::start();
    let upstream = "[upstream]\nurl = \"http://127.0.0.1:1\"\n";
    let elsewhere = postgres.url().replace(&postgres.port().to_string(), "1");
    let other = postgres.url().replace("/flowgate", "/elsewhere");
    for (lines, words) in [
        (
            format!("[storage]\nurl = \"{}\"\n", postgres.url()),
            "stand in front of upstreams",
        ),
        (
            format!("{upstream}[storage]\nurl = \"{elsewhere}\"\n"),
            "cannot be reached",
        ),
        (
            format!("{upstream}[storage]\nurl = \"{other}\"\n"),
            "does not exist",
        ),
        (
            format!(
                "{upstream}[storage]\nurl = \"{}\"\nhistory = 0\n",
                postgres.url()
            ),
            "need the history",
        ),
        (
            format!(
                "{upstream}[storage]\nurl = \"{}\"\n[policy]\napprove = [\"*\"]\n",
                postgres.url()
            ),
            "storage.credential_secret, the same at all",
        ),
        (
            format!(
                "{upstream}[storage]\nurl = \"{}\"\n[[auth.oidc]]\nname = \"corp\"\nissuer = \"https://id.example.org\"\n\
                 client_id = \"flowgate\"\n[[auth.oidc.grant]]\nclaims = {{ groups = [\"a\"] }}\npermissions = [\"*\"]\n",
                postgres.url()
            ),
            "passkeys or [[auth.oidc]]",
        ),
        (
            format!("{upstream}[storage]\nurl = \"mysql://a@b/c\"\n"),
            "the URL of a PostgreSQL database",
        ),
        (
            format!("{upstream}[storage]\ngrace = \"1m\"\n"),
            "there is none",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gateway.toml");
        std::fs::write(&file, config_text(&lines)).unwrap();
        let (code, log) = run_to_exit(directory.path());
        assert_ne!(code, Some(0), "{log}");
        assert!(log.contains(words), "{words}: {log}");
    }
}

#[tokio::test]
async fn the_first_gateway_makes_the_admin_and_the_second_one_has_the_same() {
    let postgres = Postgres::start();
    let engine = Gateway::with("auth = \"off\"");
    let lines = format!("{}auth.user = []\n", in_front_of(&engine, &postgres.url()));
    let (one, other) = (Gateway::with(&lines), Gateway::with(&lines));
    let password = one.running.admin_password().unwrap().reveal().to_owned();
    assert!(other.running.admin_password().is_none());
    for gateway in [&one, &other] {
        let signed_in = gateway
            .sign_in_request("admin", &password, "*")
            .send()
            .await;
        assert_eq!(signed_in.status, 200, "{}", signed_in.text());
        let token = signed_in.json()["access_token"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(one.accepts_token(&token).await && other.accepts_token(&token).await);
    }
}

#[tokio::test]
async fn changes_that_a_gateway_has_missed_are_found_when_everything_is_compared() {
    let cluster = Cluster::start();
    let token = cluster.one.sign_in("reader").await;
    assert!(cluster.other.accepts_token(&token).await);
    // As a fail-over to a server that lacks the last changes, and the end of a session that is not
    // in the log.
    cluster
        .postgres
        .sql("DELETE FROM session; DELETE FROM change");
    until("the session has ended at both", async || {
        !cluster.one.accepts_token(&token).await && !cluster.other.accepts_token(&token).await
    })
    .await;
}
