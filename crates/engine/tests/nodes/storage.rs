//! `file`, `file in` and `watch` in a running engine.

use crate::bench::{Bench, around};
use crate::steps::merged;
use serde_json::{Value as Json, json};
use std::path::Path;

fn file(path: &Path, more: &Json) -> Json {
    merged(
        json!({ "type": "file", "filename": path, "filenameType": "str", "appendNewline": true,
        "createDir": false, "overwriteFile": "false", "encoding": "none" }),
        more,
    )
}

fn file_in(path: &Path, more: &Json) -> Json {
    merged(
        json!({ "type": "file in", "filename": path, "filenameType": "str", "format": "utf8",
        "chunk": false, "sendError": false, "encoding": "none", "allProps": false }),
        more,
    )
}

/// Sends messages with these payloads, and waits for as many outputs.
async fn write(node: &Json, texts: &[&str]) -> Vec<Json> {
    let mut bench = Bench::with(&around(node, &json!({ "payload": texts[0] }), 1)).await;
    let mut came = Vec::new();
    for _ in texts {
        bench.inject("in").await;
    }
    for _ in texts {
        came.push(bench.output().await.1);
    }
    came
}

#[tokio::test]
async fn a_file_is_appended_to_overwritten_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/er/f");
    let came = write(
        &file(&path, &json!({ "createDir": true })),
        &["a", "a", "a"],
    )
    .await;
    assert_eq!(came[2]["filename"], json!(path));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\na\na\n");
    write(
        &file(&path, &json!({ "overwriteFile": "true" })),
        &["b", "b"],
    )
    .await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "b\n");
    write(&file(&path, &json!({ "overwriteFile": "delete" })), &["c"]).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn write_errors_have_node_reds_messages() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("no/such");
    for (mode, words, call) in [
        ("false", "failed to append to file", "open"),
        ("true", "failed to write to file", "open"),
        ("delete", "failed to delete file", "unlink"),
    ] {
        let node = file(&path, &json!({ "overwriteFile": mode }));
        let mut bench = Bench::with(&around(&node, &json!({ "payload": "x" }), 1)).await;
        bench.inject("in").await;
        let expected = format!(
            "{words}: Error: ENOENT: no such file or directory, {call} '{}'",
            path.display()
        );
        assert_eq!(bench.error().await, ("node".to_owned(), expected));
    }
}

#[tokio::test]
async fn without_a_name_nothing_is_written_and_the_node_warns() {
    let node = json!({ "type": "file", "filename": "filename", "filenameType": "msg" });
    let mut bench = Bench::with(&around(&node, &json!({ "payload": "x" }), 1)).await;
    bench.inject("in").await;
    assert_eq!(bench.error().await.1, "No filename specified");
}

#[tokio::test]
async fn queued_writes_are_finished_when_the_node_closes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    let flow = around(&file(&path, &json!({})), &json!({ "payload": "a" }), 1);
    let mut bench = Bench::with(&flow).await;
    for _ in 0..100 {
        bench.inject("in").await;
    }
    bench.inject("mark").await;
    while bench.output().await.0 != "marked" {}
    bench.deploy(&json!([]), flows::DeploymentType::Full).await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\n".repeat(100));
}

#[tokio::test]
async fn a_file_is_read_whole_or_in_parts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    std::fs::write(&path, "l1\nl2\n\nl4").unwrap();
    let asked = json!({ "payload": "p", "topic": "t", "_msgid": "M" });
    let mut bench = Bench::with(&around(&file_in(&path, &json!({})), &asked, 1)).await;
    bench.inject("in").await;
    let came = bench.output().await.1;
    assert_eq!(came["payload"], "l1\nl2\n\nl4");
    assert_eq!(came["topic"], "t");

    let lines = file_in(&path, &json!({ "format": "lines" }));
    let mut bench = Bench::with(&around(&lines, &asked, 1)).await;
    bench.inject("in").await;
    for (index, text) in ["l1", "l2", "", "l4"].into_iter().enumerate() {
        let mut came = bench.output().await.1;
        came.as_object_mut().unwrap().remove("_msgid");
        let id = came["parts"]["id"].take();
        assert!(id.is_string());
        let mut parts = json!({ "index": index, "ch": "\n", "type": "string", "id": null });
        if index == 3 {
            parts["count"] = json!(4);
        }
        assert_eq!(
            came,
            json!({ "topic": "t", "filename": path, "payload": text, "parts": parts })
        );
    }
}

#[tokio::test]
async fn read_errors_are_reported_and_sent_if_configured() {
    let path = Path::new("/nowhere/at/all");
    let node = file_in(path, &json!({ "sendError": true }));
    let mut bench = Bench::with(&around(&node, &json!({ "payload": 1, "x": 2 }), 1)).await;
    bench.inject("in").await;
    assert_eq!(
        bench.error().await.1,
        "Error: ENOENT: no such file or directory, open '/nowhere/at/all'"
    );
    let came = bench.output().await.1;
    assert_eq!(came["x"], 2);
    assert_eq!(came.get("payload"), None);
    assert!(came.get("error").is_some());
}

#[tokio::test]
async fn a_watch_reports_changes_and_removals() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    let node = json!({ "type": "watch", "files": directory.path(), "recursive": "" });
    let mut bench = Bench::with(&around(&node, &json!({}), 1)).await;
    std::fs::write(&path, "abc").unwrap();
    let came = bench.output().await.1;
    assert_eq!(came["payload"], json!(path));
    assert_eq!(came["topic"], json!(directory.path()));
    assert_eq!(came["file"], "f");
    assert_eq!(came["event"], "update");
    assert_eq!(came["size"], 3);
    assert_eq!(came["type"], "file");
    std::fs::remove_file(&path).unwrap();
    let came = loop {
        let came = bench.output().await.1;
        if came["event"] == "remove" {
            break came;
        }
    };
    assert_eq!(came["type"], "none");
    assert_eq!(came.get("size"), None);
}

#[tokio::test]
async fn the_encoding_is_applied() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    write(
        &file(
            &path,
            &json!({ "encoding": "latin1", "appendNewline": false }),
        ),
        &["hé€"],
    )
    .await;
    assert_eq!(std::fs::read(&path).unwrap(), b"h\xe9?");
    let node = file_in(&path, &json!({ "encoding": "hex" }));
    let mut bench = Bench::with(&around(&node, &json!({}), 1)).await;
    bench.inject("in").await;
    assert_eq!(bench.output().await.1["payload"], "68e93f");
}
