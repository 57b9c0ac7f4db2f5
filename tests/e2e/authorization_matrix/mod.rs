//! The authorization matrix, `tests/data/authorization-matrix.json`: every route, for every kind of
//! caller, in both dialects and in every mode, compared with every byte that an upstream receives,
//! and with what a flow of the engine receives.
//!
//! A unit test of the route table checks that the file has a row for each of its methods and paths,
//! and no other.

mod engine;
mod rows;
mod walk;

use crate::confused_deputy::{ACCOUNT, users};
use crate::harness::{Gateway, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use rows::{Access, FILE, File, Mode, Root, Row};
use walk::Walk;

const ROUTES: &str = "
[[route]]\npath = \"/open\"\nprefix = true\npublic = true
[[route]]\npath = \"/own\"\nprefix = true\npublic = true\npass_authorization = true
[[route]]\npath = \"/lent\"\nprefix = true\npermission = \"lent.use\"\naccount = true
[[route]]\npath = \"/named\"\npermission = \"named.use\"
";
const ADMIN_ROUTES: &str = "
[[admin_route]]\npath = \"/ui_base\"\nprefix = true\npublic = true
[[admin_route]]\npath = \"/zwave-js\"\nprefix = true\nmethods = [\"GET\"]\npermission = \"zwave.use\"
[[admin_route]]\npath = \"/mine\"\nprefix = true\npermission = \"mine.use\"
";

#[tokio::test]
async fn in_front_of_an_upstream_without_authentication() {
    walk(Mode::default()).await;
}

#[tokio::test]
async fn in_front_of_an_upstream_with_an_account() {
    walk(Mode {
        lines: "identity_headers = true",
        account: true,
        identity_headers: true,
        ..Mode::default()
    })
    .await;
}

#[tokio::test]
async fn in_front_of_an_upstream_with_host_mount_and_admin_root() {
    walk(Mode {
        lines: "host = [\"flows.example.org\"]\npath = \"/Plant\"\nadmin_root = \"/Red/Admin\"\ndialect = \"service\"",
        site: ("/Plant", ""),
        root: "/Red/Admin",
        host: Some("flows.example.org"),
        account: true,
        service: true,
        ..Mode::default()
    })
    .await;
}

#[tokio::test]
async fn in_front_of_an_upstream_that_keeps_its_mount_path() {
    walk(Mode {
        lines: "path = \"/Plant\"\nstrip = false\nadmin_root = \"/admin\"",
        site: ("/Plant", "/Plant"),
        root: "/admin",
        account: true,
        ..Mode::default()
    })
    .await;
}

#[tokio::test]
async fn with_anonymous_readers() {
    walk(Mode {
        lines: "identity_headers = true\nadmin_root = \"/admin\"",
        root: "/admin",
        account: true,
        identity_headers: true,
        access: Access::Anonymous,
        ..Mode::default()
    })
    .await;
}

#[tokio::test]
async fn without_authentication() {
    walk(Mode {
        lines: "identity_headers = true",
        account: true,
        identity_headers: true,
        access: Access::Open,
        ..Mode::default()
    })
    .await;
}

/// A gateway with two upstreams, of which the second must hear nothing.
async fn walk(mode: Mode) {
    let flows = "{\"rev\":\"1\",\"flows\":[{\"id\":\"T1\",\"type\":\"tab\"}]}";
    let answer = move |_: &str| Action::Respond(ok("application/json", flows));
    let (behind, other) = (
        MockUpstream::start(answer).await,
        MockUpstream::start(answer).await,
    );
    let token_file = if mode.account {
        "token_file = \"account\"\n"
    } else {
        ""
    };
    let table = |behind: &MockUpstream, lines: &str| {
        let url = format!("url = \"http://{}\"\nhealth = \"1h\"", behind.address);
        format!("[[upstream]]\n{url}\n{lines}\n")
    };
    let beside = "path = \"/beside\"\nhost = [\"beside.example.org\", \"127.0.0.1\"]";
    let auth = match mode.access {
        Access::Closed => users(&[("all", "[\"*\"]")]),
        Access::Anonymous => {
            "[auth]\nanonymous = [\"read\"]\n".to_owned() + &users(&[("all", "[\"*\"]")])
        }
        Access::Open => String::new(),
    };
    let off = if mode.access == Access::Open {
        "auth = \"off\"\n"
    } else {
        ""
    };
    let lines = [
        off,
        &table(&behind, &format!("{token_file}{}", mode.lines)),
        &table(&other, beside),
        ROUTES,
        ADMIN_ROUTES,
        &auth,
    ];
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("account"), ACCOUNT).unwrap();
    let gateway = Gateway::open(&lines.map(String::from).concat(), directory);
    // With an account it asks the upstream whether that is good, also after it is ready.
    let mut asked = !mode.account;
    until("it is ready, and has tried the account", async || {
        let requests = behind.take();
        asked |= requests.iter().any(|one| one.bytes.contains("/settings "));
        asked && gateway.operations("/readyz").await.status == 200
    })
    .await;
    behind.take();

    let File { table, unlisted } = serde_json::from_str(FILE).unwrap();
    let rows = table.into_iter().chain(unlisted);
    let rows: Vec<Row> = rows.map(Row::upstream).collect();
    let mut walk = Walk::start(&gateway, mode, &rows).await;
    for row in &rows {
        if row.root == Root::Own && walk.mode.root.is_empty() {
            continue;
        }
        for (caller, http2) in walk.callers(row).await {
            walk.step(row, &caller, http2, &behind).await;
        }
    }
    assert!(other.received().is_empty(), "{:?}", other.received());
    assert!(walk.steps > 400, "only {} requests", walk.steps);
}
