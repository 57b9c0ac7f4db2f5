//! The `OpenAPI` document: schemathesis sends what it allows and what it forbids, and compares the
//! responses, of a gateway with its own engine and of one in front of a real Node-RED.

use crate::harness::{Gateway, flow_set, page};
use crate::node_red::NodeRed;
use std::path::Path;
use std::process::Command;

/// The requests with bad tokens come from one address.
const BAD_TOKENS: &str = "[auth.throttle]\nbad_tokens_per_address = 100000\n";

#[tokio::test]
async fn requests_by_the_openapi_document_have_the_responses_that_it_describes() {
    play(&Gateway::with(BAD_TOKENS), 30).await;
}

/// With fewer requests, because what an upstream makes different is not the form of a request.
#[tokio::test]
async fn in_front_of_node_red_they_have_these_responses_too() {
    let red = NodeRed::open();
    play(&Gateway::with(&(red.config() + BAD_TOKENS)), 10).await;
}

/// Plays the document with this number of requests for each kind of an operation.
async fn play(gateway: &Gateway, examples: u32) {
    let token = gateway.sign_in("admin").await;
    for text in ["first", "second", "third"] {
        let flows = flow_set(&[page("a", "/a", text), page("b", "/b", "other")]);
        gateway.deploy(&token, &flows).await;
    }
    let document = gateway
        .get("/gateway/openapi.json")
        .token(&token)
        .send()
        .await;
    let document = document.json();
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths
        .flat_map(|path| path.as_object().unwrap().keys())
        .filter(|name| *name != "parameters");
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut command = Command::new(place.join(".cache/openapi/bin/schemathesis"));
    command
        .current_dir(gateway.directory.path())
        .arg("--config-file")
        .arg(place.join("openapi/schemathesis.toml"))
        .arg("run")
        .arg(format!("https://{}/gateway/openapi.json", gateway.address))
        .args(["--url", &format!("https://{}", gateway.address)])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .arg("--tls-verify")
        .arg(gateway.directory.path().join("certs/self-signed.crt"))
        .args(["--max-examples", &examples.to_string()])
        // One worker: Python 3.11 parses no two sources at a time (its issue 106905).
        .args(["--checks", "all", "--workers", "1", "--no-color"]);
    let played = tokio::task::spawn_blocking(move || command.output().unwrap());
    let played = played.await.unwrap();
    let said = String::from_utf8_lossy(&played.stdout);
    assert!(played.status.success(), "{said}");
    // It leaves out the document itself, what would end its session, and a password.
    assert!(
        said.contains(&format!("Tested: {}\n", operations.count() - 4)),
        "{said}"
    );
}
