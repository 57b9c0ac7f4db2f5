//! A gateway in front of another one, whose engine runs the flows: over TLS, in its dialect, under
//! a token of its own.

use crate::harness::{Gateway, flow_set, page, restart_marker};
use std::fs;
use tempfile::TempDir;

/// In front of `behind`, with a token of its `admin`, trusting its certificate, with some more
/// lines.
async fn in_front_of(behind: &Gateway, lines: &str) -> Gateway {
    let directory = TempDir::new().unwrap();
    let certificate = behind.directory.path().join("certs/self-signed.crt");
    fs::copy(certificate, directory.path().join("ca.pem")).unwrap();
    let token = behind.sign_in("admin").await;
    fs::write(directory.path().join("token"), token).unwrap();
    let port = behind.address.port();
    let upstream = format!(
        "[upstream]\nurl = \"https://127.0.0.1:{port}\"\ndialect = \"service\"\ntoken_file = \"token\"\n{lines}\n"
    );
    Gateway::open(&upstream, directory)
}

#[tokio::test]
async fn flows_deployed_through_the_front_gateway_run_on_the_back_gateway() {
    let behind = Gateway::start();
    // Its endpoints want to know who calls as well.
    let lent = ["/a", "/b"].map(|path| {
        format!("[[route]]\npath = \"{path}\"\npermission = \"http.read\"\naccount = true\n")
    });
    let lent = lent.concat();
    let front = in_front_of(&behind, &format!("ca_file = \"ca.pem\"\n{lent}")).await;
    let token = front.sign_in("deployer").await;
    let flows = flow_set(&[page("a", "/a", "from behind"), restart_marker("b", "/b")]);
    let rev = front.deploy(&token, &flows).await;
    assert_eq!(front.flows(&token).await["flows"], flows);
    assert_eq!(front.flows(&token).await["rev"], *rev);
    let reader = front.sign_in("reader").await;
    let born = || async { front.get("/b").token(&reader).send().await.text() };
    let before = born().await;
    let changed = flow_set(&[page("a", "/a", "changed"), restart_marker("b", "/b")]);
    front.deploy_as("nodes", &token, &changed).await;
    assert_eq!(
        front.get("/a").token(&reader).send().await.text(),
        "changed"
    );
    assert_eq!(born().await, before, "the deployment type has arrived");
    let stale = front.deployment(&token, &flows, Some(&rev)).send().await;
    assert_eq!(
        (stale.status, stale.code().as_str()),
        (409, "version_mismatch")
    );
    let settings = front.get("/settings").token(&reader).send().await.json();
    assert_eq!(settings["user"]["username"], "reader");
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_or_for_another_name_is_not_accepted() {
    let behind = Gateway::start();
    for lines in [
        "",
        "ca_file = \"ca.pem\"\nserver_name = \"elsewhere.example\"",
    ] {
        let front = in_front_of(&behind, lines).await;
        let token = front.sign_in("reader").await;
        let answer = front.get("/flows").token(&token).send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (502, "upstream_unreachable")
        );
    }
}
