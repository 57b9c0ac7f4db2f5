//! `exec` in a running engine: results observed on Node-RED 4.1.15.

use crate::bench::Bench;
use crate::steps::{Seen, bench, merged, next, send};
use flows::DeploymentType;
use serde_json::{Value as Json, json};

fn exec(extra: &Json) -> Json {
    merged(
        json!({ "type": "exec", "command": "echo", "addpay": "", "append": "", "useSpawn": "false",
        "timer": "", "winHide": false, "oldrc": false, "outputs": 3 }),
        extra,
    )
}

/// The outputs until the message is done.
async fn until_done(bench: &mut Bench) -> Vec<Seen> {
    let mut seen = Vec::new();
    loop {
        let (id, message) = next(bench).await;
        if id == "complete" {
            return seen;
        }
        seen.push((id, message));
    }
}

async fn run(extra: &Json, message: &Json) -> Vec<Seen> {
    let mut bench = bench(&exec(extra), 3).await;
    send(&bench, message).await;
    until_done(&mut bench).await
}

fn out(output: u8, message: Json) -> Seen {
    (format!("out{output}"), message)
}

#[tokio::test]
async fn a_shell_runs_the_command_and_all_it_wrote_is_sent() {
    let node = json!({ "command": "echo hi", "addpay": "payload", "append": "tail" });
    assert_eq!(
        run(&node, &json!({ "payload": "a b; echo x", "topic": "t" })).await,
        [
            out(
                0,
                json!({ "payload": "hi a b\nx tail\n", "topic": "t", "rc": { "code": 0 } })
            ),
            out(2, json!({ "payload": { "code": 0 }, "topic": "t" })),
        ]
    );
    let rc =
        json!({ "code": 3, "message": "Command failed: echo out; echo err >&2; exit 3\nerr\n" });
    assert_eq!(
        run(
            &json!({ "command": "echo out; echo err >&2; exit 3" }),
            &json!({ "payload": "z" })
        )
        .await,
        [
            out(0, json!({ "payload": "out\n", "rc": rc })),
            out(1, json!({ "payload": "err\n", "rc": rc })),
            out(2, json!({ "payload": rc })),
        ]
    );
    let seen = run(
        &json!({ "command": "true", "oldrc": true }),
        &json!({ "payload": "z" }),
    )
    .await;
    assert_eq!(seen, [out(0, json!({ "payload": "" }))]);
}

#[tokio::test]
async fn a_program_runs_without_a_shell_and_its_output_is_sent_as_it_comes() {
    let spawn = |command: &str| json!({ "useSpawn": "true", "command": command });
    let z = json!({ "payload": "z" });
    assert_eq!(
        run(&spawn(r#"printf %s| a"b c"d "x y" 'p q'"#), &z).await,
        [
            out(0, json!({ "payload": "a\"b c\"d|x y|'p|q'|" })),
            out(2, json!({ "payload": { "code": 0 } })),
        ]
    );
    assert_eq!(
        run(
            &spawn(r#"sh -c "echo out; sleep 0.2; echo err >&2; sleep 0.2; exit 3""#),
            &z
        )
        .await,
        [
            out(0, json!({ "payload": "out\n" })),
            out(1, json!({ "payload": "err\n" })),
            out(2, json!({ "payload": { "code": 3 } })),
        ]
    );
    assert_eq!(
        run(&spawn("nosuchcmd_x y"), &z).await,
        [out(2, json!({ "payload": { "code": -2 } }))]
    );
    let old = json!({ "useSpawn": "true", "command": "true", "oldrc": true });
    assert_eq!(run(&old, &z).await, [out(2, json!({ "payload": 0 }))]);
}

#[tokio::test]
async fn output_that_is_not_utf_8_is_a_buffer() {
    let seen = run(
        &json!({ "command": r"printf '\377\000'" }),
        &json!({ "payload": "z" }),
    )
    .await;
    assert_eq!(seen[0].1["payload"]["data"], json!([255, 0]), "{seen:?}");
}

#[tokio::test]
async fn a_process_that_runs_too_long_is_ended() {
    let rc = json!({ "code": null, "message": "Command failed: sleep 50\n", "signal": "SIGTERM" });
    assert_eq!(
        run(
            &json!({ "command": "sleep 50", "timer": "0.2" }),
            &json!({ "payload": "z" })
        )
        .await,
        [
            out(0, json!({ "payload": "", "rc": rc })),
            out(2, json!({ "payload": rc }))
        ]
    );
}

#[tokio::test]
async fn a_message_can_end_a_process_with_a_signal() {
    let node = exec(&json!({ "useSpawn": "true", "command": "sleep 50" }));
    let mut bench = bench(&node, 3).await;
    send(&bench, &json!({ "payload": "z" })).await;
    let (_, status) = bench.status().await;
    assert!(
        status["text"].as_str().unwrap().starts_with("pid:"),
        "{status}"
    );
    // Not SIGINT: a process that a shell starts in the background ignores it, and so do its
    // children.
    send(&bench, &json!({ "kill": "SIGUSR1" })).await;
    let mut seen = until_done(&mut bench).await;
    seen.extend(until_done(&mut bench).await);
    let result = json!({ "payload": { "code": null, "signal": "SIGUSR1" } });
    assert_eq!(seen, [out(2, result)]);
}

#[tokio::test]
async fn processes_end_when_their_node_closes() {
    let node = exec(&json!({ "command": "sleep 50 & sleep 50; true" }));
    let mut bench = bench(&node, 3).await;
    send(&bench, &json!({ "payload": "z" })).await;
    let (_, status) = bench.status().await;
    let pid = status["text"]
        .as_str()
        .unwrap()
        .trim_start_matches("pid:")
        .to_owned();
    let group = || {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // pid (name) state parent group; a zombie is dead.
            let after = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
            let mut fields = after.split(' ');
            fields.next() != Some("Z") && fields.nth(1) == Some(pid.as_str())
        })
    };
    assert!(group(), "nothing runs as {pid}");
    bench.deploy(&json!([]), DeploymentType::Full).await;
    assert!(!group(), "something still runs as {pid}");
}

#[tokio::test]
async fn an_empty_command_and_a_missing_parent_fail() {
    let mut first = bench(&exec(&json!({ "command": "" })), 3).await;
    send(&first, &json!({ "payload": "z" })).await;
    let text =
        "TypeError [ERR_INVALID_ARG_VALUE]: The argument 'file' cannot be empty. Received ''";
    assert_eq!(next(&mut first).await, ("catch".to_owned(), json!(text)));
    let mut second = bench(&exec(&json!({ "addpay": "a.b" })), 3).await;
    send(&second, &json!({ "payload": "z" })).await;
    let text = "TypeError: Cannot read properties of undefined (reading 'b')";
    assert_eq!(next(&mut second).await, ("catch".to_owned(), json!(text)));
}
