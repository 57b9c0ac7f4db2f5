//! Concurrent deployments of one revision: one wins, the others get a conflict.

use crate::harness::{Gateway, flow_set, page, public};

#[tokio::test]
async fn of_fifty_deployments_with_the_same_revision_exactly_one_wins() {
    let gateway = Gateway::with(&public(&["/who"]));
    let token = gateway.sign_in("deployer").await;
    let rev = gateway
        .deploy(&token, &flow_set(&[page("a", "/who", "nobody")]))
        .await;
    let flows = |n: usize| flow_set(&[page("a", "/who", &format!("number {n}"))]);
    let attempts = (0..50).map(|n| {
        let request = gateway.deployment(&token, &flows(n), Some(&rev));
        tokio::spawn(if n % 2 == 0 {
            request.send()
        } else {
            request.http2().send()
        })
    });
    let mut winners = Vec::new();
    for (n, attempt) in attempts.collect::<Vec<_>>().into_iter().enumerate() {
        let answer = attempt.await.unwrap();
        match answer.status {
            200 => winners.push((n, answer.rev())),
            status => assert_eq!((status, answer.code().as_str()), (409, "version_mismatch")),
        }
    }
    let [(winner, rev)] = winners.as_slice() else {
        panic!("winners: {winners:?}")
    };
    let active = gateway.flows(&token).await;
    assert_eq!(active["flows"], flows(*winner));
    assert_eq!(active["rev"], **rev);
    assert_eq!(
        gateway.get("/who").send().await.text(),
        format!("number {winner}")
    );
    assert_eq!(
        gateway.metric("flowgate_revision_conflicts_total").await,
        Some(49.0)
    );
}
