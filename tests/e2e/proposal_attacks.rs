//! Ways around the approval of a second user, in front of flowgate's own engine and of an upstream:
//! none of them deploys anything.

use crate::client::{Answer, Client, PASSWORD};
use crate::harness::{Gateway, Process, program, until};
use crate::mock_upstream::MockUpstream;
use crate::policies::{cases, refusal, tab_with};
use crate::proposals::{approving, decide, deploy, events, propose, read};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::process::Stdio;

const APPROVE_ALL: &str = "approve = [\"*\"]";

/// Who may do everything, except that changes need approval.
fn with_rights(user: &str, permissions: &str) -> String {
    let all = approving(APPROVE_ALL);
    let mut users: Vec<&str> = all.split("[[auth.user]]").collect();
    let name = format!("name = \"{user}\"");
    let at = users
        .iter()
        .position(|table| table.contains(&name))
        .unwrap();
    let (hash, _) = users[at].split_once("permissions").unwrap();
    let changed = format!("{hash}permissions = {permissions}\n");
    users[at] = &changed;
    users.join("[[auth.user]]")
}

fn refused(answer: &Answer, code: &str, words: &str) {
    let (_, found, message) = refusal(answer);
    assert_eq!(found, code, "{message}");
    assert!(message.contains(words), "{message}");
}

/// A subflow whose input leads to its node, with an output number in this spelling.
fn subflow(port: &Json, name: &str) -> Json {
    json!([
        { "id": "s", "type": "subflow", "name": name, "in": [{ "x": 1, "y": 1, "wires": [{ "id": "n" }] }],
          "out": [{ "x": 9, "y": 1, "wires": [{ "id": "n", "port": port }] }] },
        { "id": "n", "type": "change", "z": "s", "x": 5, "y": 1, "rules": [], "wires": [[]] },
    ])
}

#[tokio::test]
async fn the_engine_runs_another_spelling_only_by_approval_and_approvers_see_it() {
    for case in cases(&approving(APPROVE_ALL)).await {
        let gateway = &case.gateway;
        let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
        let path = propose(gateway, &ann, &subflow(&json!(0), "")).await;
        assert_eq!(decide(gateway, &bob, &path, "approve").await.status, 200);
        let kept = gateway.flows(&bob).await["flows"].clone();
        let answer = deploy(gateway, &ann, &subflow(&json!(0.0), "")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        // JavaScript reads both as one number: what an upstream is sent stays as it was written.
        if case.upstream.is_none() {
            assert_eq!(gateway.flows(&bob).await["flows"], kept);
        }

        let path = propose(gateway, &ann, &subflow(&json!(0.0), "other")).await;
        let shown = read(gateway, &bob, &path).await.to_string();
        assert!(shown.contains("\"out\""), "{shown}");
    }
}

async fn nothing_is_deployed(gateway: &Client, token: &str) {
    assert_eq!(gateway.flows(token).await["flows"], json!([]));
}

#[tokio::test]
async fn a_user_who_gets_the_right_does_not_approve_an_own_proposal_in_any_session() {
    for case in cases(&approving(APPROVE_ALL)).await {
        let gateway = &case.gateway;
        let ann = gateway.sign_in("ann").await;
        let path = propose(gateway, &ann, &tab_with("a", "comment")).await;
        let lines = with_rights("ann", r#"["*"]"#);
        let lines = match &case.upstream {
            Some(upstream) => upstream.config() + &lines,
            None => lines,
        };
        assert!(gateway.reload(&lines).await);
        let second = gateway.sign_in("ann").await;
        for token in [&ann, &second] {
            let answer = decide(gateway, token, &path, "approve").await;
            assert_eq!(answer.status, 403);
            refused(&answer, "proposal_refused", "another user than the one");
        }
        assert_eq!(
            events(gateway, "flows.deploy.fail").await[0]["reason"],
            "proposal"
        );
        nothing_is_deployed(gateway, &ann).await;
        let bob = gateway.sign_in("bob").await;
        assert_eq!(decide(gateway, &bob, &path, "approve").await.status, 200);
    }
}

#[tokio::test]
async fn a_token_whose_scope_lacks_the_right_proposes_and_the_same_user_does_not_approve_it() {
    for case in cases(&approving(APPROVE_ALL)).await {
        let gateway = &case.gateway;
        let narrow = gateway.sign_in_request("bob", PASSWORD, "flows.read flows.write");
        let narrow = narrow.send().await.json();
        let narrow = narrow["access_token"].as_str().unwrap();
        let path = propose(gateway, narrow, &tab_with("a", "comment")).await;
        let bob = gateway.sign_in("bob").await;
        let answer = decide(gateway, &bob, &path, "approve").await;
        refused(&answer, "proposal_refused", "another user than the one");
        assert_eq!(decide(gateway, narrow, &path, "approve").await.status, 401);
        nothing_is_deployed(gateway, &bob).await;
    }
}

fn service_token(directory: &Path, name: &str) -> String {
    let mut command = program(
        directory,
        &[
            "token",
            "create",
            "--name",
            name,
            "--permission",
            "*",
            "--expires",
            "1h",
        ],
    );
    let output = command.stdout(Stdio::piped()).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

#[tokio::test]
async fn a_service_token_approves_nothing_because_it_may_be_the_same_users() {
    let place = tempfile::tempdir().unwrap();
    let process = Process::start(&approving(APPROVE_ALL), place.path());
    let ann = process.sign_in("ann").await;
    let path = propose(&process, &ann, &tab_with("a", "comment")).await;
    let token = service_token(place.path(), "of-ann");
    let answer = decide(&process, &token, &path, "approve").await;
    assert_eq!(answer.status, 403);
    refused(&answer, "proposal_refused", "not by a service token");
    nothing_is_deployed(&process, &ann).await;
}

#[tokio::test]
async fn neither_who_approves_nor_who_has_proposed_may_have_lost_the_right() {
    for (user, rights, status, words) in [
        ("bob", r#"["read", "flows.write"]"#, 401, ""),
        (
            "bob",
            r#"["read", "flows.approve"]"#,
            403,
            "flows.write:FLOW",
        ),
        (
            "bob",
            r#"["read", "flows.write:b", "flows.approve"]"#,
            403,
            "flows.write:FLOW",
        ),
        (
            "ann",
            r#"["read"]"#,
            403,
            "ann, who proposed it, may not change this any more",
        ),
        (
            "ann",
            r#"["read", "flows.write:b"]"#,
            403,
            "any more: these are on flows",
        ),
    ] {
        for case in cases(&approving(APPROVE_ALL)).await {
            let gateway = &case.gateway;
            let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
            let path = propose(gateway, &ann, &tab_with("a", "comment")).await;
            let upstream = case.upstream.as_ref().map(MockUpstream::config);
            let lines = upstream.unwrap_or_default() + &with_rights(user, rights);
            assert!(gateway.reload(&lines).await);
            let answer = decide(gateway, &bob, &path, "approve").await;
            assert_eq!(answer.status, status, "{user} {rights}: {}", answer.text());
            if status == 403 {
                assert!(refusal(&answer).2.contains(words), "{}", answer.text());
            }
            let admin = gateway.sign_in("admin").await;
            nothing_is_deployed(gateway, &admin).await;
        }
    }
}

#[tokio::test]
async fn a_proposal_of_a_removed_user_is_not_approved() {
    let gateway = Gateway::with(&approving(APPROVE_ALL));
    let ann = gateway.sign_in("ann").await;
    let path = propose(&gateway, &ann, &tab_with("a", "comment")).await;
    let lines = approving(APPROVE_ALL).replace("name = \"ann\"", "name = \"annette\"");
    assert!(gateway.reload(&lines).await);
    let bob = gateway.sign_in("bob").await;
    let answer = decide(&gateway, &bob, &path, "approve").await;
    refused(&answer, "proposal_refused", "ann, who proposed it");
    nothing_is_deployed(&gateway, &bob).await;
}

#[tokio::test]
async fn a_proposal_whose_base_is_not_active_is_not_deployed() {
    for case in cases(&approving(APPROVE_ALL)).await {
        let gateway = &case.gateway;
        let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
        let path = propose(gateway, &ann, &tab_with("a", "comment")).await;
        let other = tab_with("b", "comment");
        gateway.deploy(&bob, &other).await;
        let answer = decide(gateway, &bob, &path, "approve").await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (409, "version_mismatch")
        );
        assert_eq!(gateway.flows(&bob).await["flows"], other);
        assert_eq!(read(gateway, &bob, &path).await["state"], "open");
    }
}

#[tokio::test]
async fn of_many_decisions_at_a_time_exactly_one_wins() {
    for case in cases(&approving(APPROVE_ALL)).await {
        let gateway = &case.gateway;
        let ann = gateway.sign_in("ann").await;
        let path = propose(gateway, &ann, &tab_with("a", "comment")).await;
        let tokens = [gateway.sign_in("bob").await, gateway.sign_in("admin").await];
        let mut decisions = tokio::task::JoinSet::new();
        for n in 0..12 {
            let (client, path) = ((*gateway).clone(), path.clone());
            let token = tokens[n % 2].clone();
            let action = if n % 6 == 5 { "reject" } else { "approve" };
            decisions.spawn(async move { (action, decide(&client, &token, &path, action).await) });
        }
        let mut won = Vec::new();
        while let Some(decided) = decisions.join_next().await {
            let (action, answer) = decided.unwrap();
            if answer.status == 200 {
                won.push(action);
            } else {
                assert_eq!(answer.status, 409, "{}", answer.text());
            }
        }
        assert_eq!(won.len(), 1, "{won:?}");
        let state = read(gateway, &ann, &path).await["state"].clone();
        let deployed = gateway.flows(&ann).await["flows"] == tab_with("a", "comment");
        let expected = if deployed { "approved" } else { "rejected" };
        assert_eq!(state, expected);
    }
}

#[tokio::test]
async fn an_expired_proposal_is_closed_and_not_deployed() {
    let lines = "approve = [\"*\"]\nproposal_lifetime = \"1s\"";
    for case in cases(&approving(lines)).await {
        let gateway = &case.gateway;
        let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
        let path = propose(gateway, &ann, &tab_with("a", "comment")).await;
        let mut last = Json::Null;
        until("it has expired", async || {
            // A rejection for a wrong reason changes nothing, so it shows whether the proposal is
            // open.
            let answer = decide(gateway, &ann, &path, "rebase").await;
            last = answer.json();
            answer.status == 409
        })
        .await;
        assert_eq!(last["code"], "proposal_closed");
        let answer = decide(gateway, &bob, &path, "approve").await;
        refused(&answer, "proposal_closed", "expired");
        nothing_is_deployed(gateway, &ann).await;
        let expired = &events(gateway, "proposal.expire").await[0];
        assert_eq!(
            (&expired["user"], &expired["proposed_by"]),
            (&json!(""), &json!("ann"))
        );
        assert_eq!(read(gateway, &ann, &path).await["state"], "expired");
    }
}

#[tokio::test]
async fn only_the_user_of_a_proposal_takes_it_back_and_only_that_user_or_one_who_approves_rebases_it()
 {
    for case in cases(&approving(APPROVE_ALL)).await {
        let gateway = &case.gateway;
        let (ann, eve) = (gateway.sign_in("ann").await, gateway.sign_in("eve").await);
        let admin = gateway.sign_in("admin").await;
        let path = propose(gateway, &ann, &tab_with("a", "comment")).await;
        for token in [&eve, &admin] {
            let delete = gateway.request("DELETE", &path).token(token).send().await;
            assert_eq!(delete.status, 403);
            refused(&delete, "proposal_refused", "only the user who made");
        }
        let answer = decide(gateway, &eve, &path, "rebase").await;
        refused(&answer, "proposal_refused", "only the user who made");
        for action in ["approve", "reject"] {
            assert_eq!(decide(gateway, &eve, &path, action).await.status, 401);
        }
        assert_eq!(read(gateway, &ann, &path).await["state"], "open");
        nothing_is_deployed(gateway, &ann).await;
        assert_eq!(events(gateway, "proposal.fail").await.len(), 3);
    }
}

#[tokio::test]
async fn an_anonymous_caller_proposes_nothing() {
    let lines = approving(APPROVE_ALL) + "[auth]\nanonymous = [\"flows.read\", \"flows.write\"]\n";
    let gateway = Gateway::with(&lines);
    let answer = gateway
        .post("/flows")
        .json(&tab_with("a", "comment"))
        .send()
        .await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    refused(&answer, "policy_refused", "only users can propose");
    // The dry run says the same.
    let flows = json!({ "flows": tab_with("a", "comment") });
    let check = gateway.post("/gateway/check").json(&flows);
    let check = check.header("Service-API-Version", "v2").send().await;
    let checked = check.json();
    assert_eq!(
        (&checked["approval"], &checked["violations"][0]["rule"]),
        (&json!(null), &json!("approve")),
        "{checked}"
    );
    let admin = gateway.sign_in("admin").await;
    nothing_is_deployed(&gateway, &admin).await;
}

#[tokio::test]
async fn a_freeze_and_the_policy_of_now_hold_for_an_approval() {
    let (ann_path, lines) = ("/gateway/proposals/1", approving(APPROVE_ALL));
    let gateway = Gateway::with(&lines);
    let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
    propose(&gateway, &ann, &tab_with("a", "comment")).await;
    for more in ["read_only = true", "forbid_types = [\"comment\"]"] {
        assert!(
            gateway
                .reload(&approving(&format!("{APPROVE_ALL}\n{more}")))
                .await
        );
        let answer = decide(&gateway, &bob, ann_path, "approve").await;
        refused(&answer, "policy_refused", "");
        nothing_is_deployed(&gateway, &bob).await;
    }
    assert!(gateway.reload(&lines).await);
    assert_eq!(
        decide(&gateway, &bob, ann_path, "approve").await.status,
        200
    );
}
