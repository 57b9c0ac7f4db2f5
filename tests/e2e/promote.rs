//! `flowgate promote`: from one gateway to another, over TLS.

use crate::harness::{Gateway, program};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

fn tab(label: &str) -> Json {
    json!([{ "id": "A", "type": "tab", "label": label }])
}

/// The gateways, and a directory with the tokens for both.
pub struct Two {
    pub from: Gateway,
    pub to: Gateway,
    tokens: tempfile::TempDir,
}

impl Two {
    async fn start(lines: &str) -> Self {
        Self::of(Gateway::start(), Gateway::with(lines)).await
    }

    pub async fn of(from: Gateway, to: Gateway) -> Self {
        let tokens = tempfile::tempdir().unwrap();
        let reader = from.sign_in("reader").await + "\n";
        std::fs::write(tokens.path().join("from"), reader).unwrap();
        let deployer = to.sign_in("deployer").await;
        std::fs::write(tokens.path().join("to"), deployer).unwrap();
        Self { from, to, tokens }
    }

    /// The result of the command for a revision, with further arguments.
    pub async fn promote(&self, rev: &str, more: &[&str]) -> (bool, String, String) {
        let url = |gateway: &Gateway| format!("https://{}", gateway.address);
        let ca = |gateway: &Gateway| gateway.directory.path().join("certs/self-signed.crt");
        let (from, to) = (url(&self.from), url(&self.to));
        let (from_ca, to_ca) = (ca(&self.from), ca(&self.to));
        let file = |name: &str| self.tokens.path().join(name);
        let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
        let (from_ca, to_ca) = (text(&from_ca), text(&to_ca));
        let token = text(&file("from"));
        let arguments = [
            &["promote", "--from", &from, "--to", &to, "--rev", rev][..],
            &["--from-ca", &from_ca, "--to-ca", &to_ca],
            &["--from-token-file", &token],
            more,
        ];
        run(self.tokens.path(), &arguments.concat(), &file("to")).await
    }
}

async fn run(directory: &Path, arguments: &[&str], token: &Path) -> (bool, String, String) {
    let mut command = program(directory, arguments);
    command.env("FLOWGATE_TO_TOKEN", std::fs::read_to_string(token).unwrap());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || command.output());
    let Output {
        status,
        stdout,
        stderr,
    } = output.await.unwrap().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.success(), text(stdout), text(stderr))
}

#[tokio::test]
async fn a_flow_set_is_checked_and_then_deployed_to_another_gateway() {
    let two = Two::start("").await;
    let admin = two.from.sign_in("admin").await;
    let rev = two.from.deploy(&admin, &tab("tested")).await;
    two.from.deploy(&admin, &tab("newer")).await;
    let there = two.to.sign_in("admin").await;

    let (fine, said, error) = two.promote(&rev, &["--check"]).await;
    assert!(fine, "{error}");
    assert!(
        said.ends_with("0 nodes stop, 0 start, 0 are rewired\n"),
        "{said}"
    );
    assert_eq!(two.to.flows(&there).await["flows"], json!([]));

    let (fine, said, error) = two.promote(&rev, &["--message", "größer"]).await;
    assert!(fine, "{error}");
    let active = two.to.flows(&there).await;
    assert_eq!(active["flows"], tab("tested"));
    assert_eq!(
        said,
        format!("deployed {rev} as {}\n", active["rev"].as_str().unwrap())
    );
    let list = two
        .to
        .get("/gateway/deployments")
        .token(&there)
        .send()
        .await
        .json();
    let newest = &list["deployments"][0];
    assert_eq!(newest["user"], "deployer");
    assert_eq!(
        newest["message"],
        format!("größer (import of {rev} from engine)")
    );
}

#[tokio::test]
async fn a_refusal_is_explained_and_no_token_is_shown() {
    let two = Two::start("[policy]\nforbid_types = [\"exec\"]\n").await;
    let admin = two.from.sign_in("admin").await;
    let node = json!({ "id": "n", "type": "exec", "z": "A", "x": 1, "y": 1, "wires": [] });
    let mut flows = tab("forbidden");
    flows.as_array_mut().unwrap().push(node);
    let rev = two.from.deploy(&admin, &flows).await;
    let (fine, said, _) = two.promote(&rev, &["--check"]).await;
    assert!(
        !fine && said.contains("refused: ") && said.contains("forbid_types"),
        "{said}"
    );
    let (fine, _, error) = two.promote(&rev, &[]).await;
    assert!(!fine && error.contains("exec n"), "{error}");
    let (fine, _, error) = two.promote("none", &[]).await;
    assert!(
        !fine && error.contains("the history has no such revision"),
        "{error}"
    );

    std::fs::write(two.tokens.path().join("to"), "wrong").unwrap();
    let (fine, said, error) = two.promote(&rev, &[]).await;
    assert!(
        !fine && error.contains("the token is not accepted"),
        "{error}"
    );
    assert!(!(said + &error).contains("wrong"));
    for (url, reason) in [
        ("http://flows.example.org", "with https only"),
        ("flows", "expected a URL"),
        ("https://user@flows.example.org", "expected a URL"),
        ("https://flows.example.org?x=1", "expected a URL"),
    ] {
        let arguments = ["promote", "--from", url, "--to", url, "--rev", "x"];
        let path = two.tokens.path().join("from");
        let token = ["--from-token-file", path.to_str().unwrap()];
        let arguments = [&arguments[..], &token].concat();
        let (fine, _, error) = run(two.tokens.path(), &arguments, &path).await;
        assert!(!fine && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn a_flow_set_that_needs_approval_becomes_a_proposal_and_ends_it_with_failure() {
    let two = Two::start("[policy]\napprove = [\"*\"]\n").await;
    let admin = two.from.sign_in("admin").await;
    let rev = two.from.deploy(&admin, &tab("tested")).await;
    let (fine, said, error) = two.promote(&rev, &["--check"]).await;
    assert!(!fine && error.is_empty(), "{error}");
    assert!(
        said.contains(
            "would wait as a proposal: these changes need the approval of another user: tab A"
        ),
        "{said}"
    );
    let (fine, said, error) = two.promote(&rev, &[]).await;
    assert!(!fine && error.is_empty(), "{error}");
    assert_eq!(
        said,
        "the change waits for the approval of another user as proposal 1: /gateway/proposals/1\n"
    );
}
