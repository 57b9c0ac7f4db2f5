//! Rebasing a proposal of which others have changed the credentials meanwhile, to the engine and to
//! an upstream.

use crate::harness::Gateway;
use crate::policies::{cases, refusal, tab_with};
use crate::proposals::{approving, decide, deploy, propose};
use serde_json::{Value as Json, json};

/// Two brokers; a password is sent where it is not empty.
fn brokers(names: [&str; 2], passwords: [&str; 2]) -> Json {
    let mut flows = tab_with("a", "comment");
    for (i, id) in ["one", "two"].into_iter().enumerate() {
        let mut broker = json!({ "id": id, "type": "mqtt-broker", "name": names[i] });
        if !passwords[i].is_empty() {
            broker["credentials"] = json!({ "password": passwords[i] });
        }
        flows.as_array_mut().unwrap().push(broker);
    }
    flows
}

#[tokio::test]
async fn credentials_that_others_have_changed_conflict_with_a_change_of_their_element() {
    for case in cases(&approving("approve = [\"*\"]")).await {
        let gateway: &Gateway = &case.gateway;
        let (ann, bob) = (gateway.sign_in("ann").await, gateway.sign_in("bob").await);
        deploy(gateway, &bob, &brokers(["", ""], ["first", "first"])).await;
        let renamed = propose(gateway, &ann, &brokers(["ann's", ""], ["", ""])).await;
        let secret = propose(gateway, &ann, &brokers(["", ""], ["ann's", ""])).await;
        let other = propose(gateway, &ann, &brokers(["", "ann's"], ["", ""])).await;
        // Nothing but a password, and something else, so that the revision of an upstream is
        // another one.
        let mut changed = brokers(["", ""], ["bob's", ""]);
        changed[1]["name"] = "of bob".into();
        let deployed = deploy(gateway, &bob, &changed).await;
        assert_eq!(deployed.status, 200, "{}", deployed.text());

        for path in [renamed, secret] {
            let (status, code, message) = refusal(&decide(gateway, &ann, &path, "rebase").await);
            assert_eq!((status, code.as_str()), (409, "proposal_conflict"));
            assert!(message.contains(": one;"), "{message}");
        }
        let rebased = decide(gateway, &ann, &other, "rebase").await;
        assert_eq!(rebased.status, 200, "{}", rebased.text());
        let approved = decide(gateway, &bob, &other, "approve").await;
        assert_eq!(approved.status, 200, "{}", approved.text());
    }
}
