//! Flows of an isolated engine try to read what is the gateway's, whose user they have: the key of
//! its certificate, its database, its audit log, its configuration, its control socket, its
//! secrets. Without Landlock they can.

use crate::harness::public;
use crate::isolation::launch;
use crate::separation_attacks::{OTHER, place, stolen};
use std::fs;
use std::os::unix::fs::chown;

/// A secret of the gateway that is in its environment.
const SECRET: &str = "hunter2-of-the-gateway";

/// What flows steal under this isolation.
async fn stolen_under(isolation: &str) -> Vec<String> {
    let (own, _) = place();
    let (theirs, script) = place();
    if rustix::process::geteuid().is_root() {
        chown(theirs.path(), Some(OTHER), Some(OTHER)).unwrap();
    }
    let lines = format!(
        "engine.isolation = \"{isolation}\"\nstorage.credential_secret = \"${{GATEWAY_SECRET}}\"\n{}",
        public(&["/file", "/exec"])
    );
    let gateway = launch(&lines, own.path(), |command| {
        command.env("GATEWAY_SECRET", SECRET);
    });
    let mut stolen = stolen(&gateway, own.path(), &script).await;
    let exec = async |command: &str| {
        let query: String = form_urlencoded::byte_serialize(command.as_bytes()).collect();
        gateway
            .get(&format!("/exec?is={query}"))
            .send()
            .await
            .text()
    };
    for command in [
        "cat /proc/self/environ",
        "sh -c 'cat /proc/$PPID/environ'",
        "sh -c 'ls -l /proc/self/fd /proc/$PPID/fd'",
        "sh -c 'tr \"\\0\" \"\\n\" < /proc/$PPID/cmdline'",
    ] {
        let found = exec(command).await;
        if found.contains(SECRET) || found.contains("flowgate.db") {
            stolen.push(command.to_owned());
        }
    }
    // The engine's own files are its own.
    let flows = own.path().join("data/engine/flows.json");
    assert!(
        exec(&format!("cat {}", flows.display()))
            .await
            .contains("attack")
    );
    assert!(fs::read_to_string(flows).unwrap().contains("attack"));
    stolen
}

#[tokio::test]
async fn flows_of_an_isolated_engine_steal_nothing_of_the_gateway() {
    let stolen = stolen_under("process").await;
    assert!(stolen.is_empty(), "{stolen:?}");
}

#[tokio::test]
async fn flows_of_an_unconfined_engine_steal_all_but_what_was_never_given_to_it() {
    let stolen = stolen_under("process-unconfined").await;
    assert!(stolen.len() >= 12, "{stolen:?}");
    assert!(
        !stolen.iter().any(|attack| attack.contains("environ")),
        "{stolen:?}"
    );
}
