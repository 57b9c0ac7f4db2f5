//! The same submission again, as users of an editor press Deploy again: it is the proposal that is
//! open already.

use crate::client::Client;
use crate::harness::Gateway;
use crate::policies::{cases, tab_with};
use crate::proposals::{approving, decide, deploy, events, propose};
use serde_json::{Value as Json, json};

/// A flow with a broker and its password.
fn broker(password: &str) -> Json {
    let mut flows = tab_with("a", "comment");
    flows.as_array_mut().unwrap().push(json!({
        "id": "m", "type": "mqtt-broker", "broker": "b", "credentials": { "password": password },
    }));
    flows
}

async fn delete(gateway: &Client, token: &str, path: &str) {
    let request = gateway.request("DELETE", path).token(token);
    assert_eq!(request.send().await.status, 200);
}

#[tokio::test]
async fn the_same_submission_again_is_the_proposal_that_is_open() {
    let lines = "approve = [\"*\"]\nmax_proposals_per_user = 4";
    for case in cases(&approving(lines)).await {
        let gateway: &Gateway = &case.gateway;
        let (ann, eve) = (gateway.sign_in("ann").await, gateway.sign_in("eve").await);
        let first = propose(gateway, &ann, &broker("one")).await;
        for _ in 0..6 {
            assert_eq!(propose(gateway, &ann, &broker("one")).await, first);
        }
        assert_eq!(events(gateway, "proposal.create").await.len(), 1);
        // Of another user, with another password, of another type, or with other flows it is
        // another one.
        let others = [
            propose(gateway, &eve, &broker("one")).await,
            propose(gateway, &ann, &broker("two")).await,
            propose(gateway, &ann, &tab_with("a", "comment")).await,
        ];
        let full = gateway.deployment(&ann, &broker("one"), None).send().await;
        assert_eq!(full.status, 202, "{}", full.text());
        let mut paths = vec![first.clone(), full.header("location").to_owned()];
        paths.extend(others);
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 5);
        // The limit of open proposals does not refuse one that is open.
        let more = deploy(gateway, &ann, &tab_with("b", "comment")).await;
        assert_eq!(more.status, 429, "{}", more.text());
        assert_eq!(propose(gateway, &ann, &broker("one")).await, first);

        delete(gateway, &ann, &first).await;
        let again = propose(gateway, &ann, &broker("one")).await;
        assert_ne!(again, first, "a closed proposal is not open again");
    }
}

#[tokio::test]
async fn the_same_flows_on_another_base_are_another_proposal() {
    for case in cases(&approving("approve = [\"*\"]")).await {
        let gateway: &Gateway = &case.gateway;
        let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
        let first = propose(gateway, &ann, &broker("one")).await;
        let deployed = deploy(gateway, &bob, &tab_with("c", "comment")).await;
        assert_eq!(deployed.status, 200, "{}", deployed.text());
        let second = propose(gateway, &ann, &broker("one")).await;
        assert_ne!(second, first);
        let stale = decide(gateway, &bob, &first, "approve").await;
        assert_eq!(stale.status, 409, "{}", stale.text());
    }
}
