//! Permissions of users at several upstreams behind one gateway.

use crate::harness::{Gateway, public, until};
use crate::multiple_upstreams::{in_front_of, named, sign_in, with_settings};
use serde_json::json;

#[tokio::test]
async fn a_user_has_separate_permissions_at_each_upstream() {
    let (one, two) = (with_settings().await, with_settings().await);
    let place = "path = \"/one\"\npermissions = { reader = [\"*\"], admin = [] }";
    let lines = in_front_of(&[(&one, place), (&two, "path = \"/two\"")]);
    let gateway = Gateway::with(&lines);
    let token = async |site: &str, user: &str| {
        let answer = sign_in(&gateway, site, user, "").await;
        answer.json()["access_token"].as_str().unwrap().to_owned()
    };
    let deploy = async |site: &str, token: &str| {
        let request = gateway.post(&format!("{site}/flows")).token(token);
        request.json(&json!([])).send().await.status
    };
    let settings = async |site: &str, token: &str| {
        let request = gateway.get(&format!("{site}/settings")).token(token);
        request.send().await.json()
    };

    // One sign-in is good everywhere.
    let (reader, admin) = (token("/two", "reader").await, token("/one", "admin").await);
    assert_eq!(deploy("/one", &reader).await, 200);
    assert_eq!(deploy("/two", &reader).await, 401);
    assert_eq!(deploy("/one", &admin).await, 401);
    assert_eq!(deploy("/two", &admin).await, 200);
    assert_eq!(settings("/one", &reader).await["user"]["permissions"], "*");
    assert_eq!(
        settings("/two", &reader).await["user"]["permissions"],
        "read"
    );
    assert_eq!(settings("/two", &reader).await["httpNodeRoot"], "/two/");
    assert_eq!(
        gateway
            .get("/one/settings")
            .token(&admin)
            .send()
            .await
            .status,
        401
    );

    // A scope is compared with what the user has where the sign-in happens.
    let asked = async |site: &str| {
        let answer = sign_in(&gateway, site, "reader", "flows.write").await;
        (answer.status, answer.code())
    };
    assert_eq!(asked("/one").await.0, 200);
    assert_eq!(asked("/two").await, (400, "invalid_scope".to_owned()));

    // Who may do everything at one runtime only does not end the sessions of others.
    let revoke = async |site: &str, by: &str, token: &str| {
        let request = gateway.post(&format!("{site}/auth/revoke")).token(by);
        request.form(&[("token", token)]).send().await.status
    };
    let deployer = token("/two", "deployer").await;
    assert_eq!(revoke("/one", &reader, &deployer).await, 401);
    assert_eq!(revoke("/one", &admin, &deployer).await, 200);

    // What was done is written down with where.
    let name = one.address.to_string();
    until("it is in the audit log", async || {
        let audit = gateway.audit();
        let line = |event: &str, user: &str, name: &str| {
            let found = |line: &&serde_json::Value| {
                let text = line.to_string();
                line["event"] == event && text.contains(name) && text.contains(user)
            };
            audit.iter().any(|line| found(&line))
        };
        line("flows.deploy", "reader", &name) && line("permission.denied", "admin", &name)
    })
    .await;

    // A reload changes it.
    let lines = lines.replace("reader = [\"*\"]", "reader = [\"read\"]");
    assert!(gateway.reload(&lines).await);
    assert_eq!(deploy("/one", &reader).await, 401);
    assert_eq!(
        settings("/one", &reader).await["user"]["permissions"],
        "read"
    );
}

#[tokio::test]
async fn a_route_may_be_for_one_upstream() {
    let (one, two) = (named("one").await, named("two").await);
    let upstreams = in_front_of(&[
        (&one, "name = \"one\"\npath = \"/one\""),
        (&two, "name = \"two\"\npath = \"/two\""),
    ]);
    let route = "[[route]]\npath = \"/hook\"\npublic = true\n";
    let lines = format!(
        "{upstreams}{route}upstream = \"one\"\n{}",
        public(&["/all"])
    );
    let gateway = Gateway::with(&lines);
    let open = async |path| gateway.get(path).send().await.status;
    assert_eq!(
        (open("/one/hook").await, open("/two/hook").await),
        (200, 401)
    );
    assert_eq!((open("/one/all").await, open("/two/all").await), (200, 200));
    assert!(
        gateway
            .reload(&lines.replace("= \"one\"\n[[route]]", "= \"two\"\n[[route]]"))
            .await
    );
    assert_eq!(
        (open("/one/hook").await, open("/two/hook").await),
        (401, 200)
    );
}
