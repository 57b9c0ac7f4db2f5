//! Users who may deploy are programs with the rights of the engine's process. They try to read what is the gateway's: in one
//! process they can, and with an engine that runs apart, as another user, they cannot. Only root can start such an engine.

use crate::engine_process::{EngineProcess, write_file};
use crate::harness::{Process, public};
use serde_json::{Value as Json, json};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The overflow user id (`user_namespaces(7)`), which owns nothing.
const OTHER: u32 = 65534;

/// Asks for all sessions at the control socket.
const ASK: &str = r#"use IO::Socket::UNIX;
my $socket = IO::Socket::UNIX->new(Peer => shift) or die "$!";
print $socket "{\"do\":\"list\"}\n";
print <$socket>;
"#;

/// `GET /file?is=PATH` reads a file with a `file in` node, `GET /exec?is=COMMAND` runs a command with an `exec` node.
fn flows() -> Json {
    let node = |id: &str, kind: &str, more: Json| {
        let mut node = json!({ "id": id, "type": kind, "z": "t", "x": 1, "y": 1, "wires": [] });
        let fields = node.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        node
    };
    let takes = |field: &str| format!("msg.{field} = msg.req.query.is; return msg");
    json!([
        { "id": "t", "type": "tab", "label": "attack" },
        node("i1", "http in", json!({ "method": "get", "url": "/file", "wires": [["f1"]] })),
        node("f1", "function", json!({ "func": takes("filename"), "outputs": 1, "wires": [["file"]] })),
        node("file", "file in", json!({ "filename": "filename", "filenameType": "msg", "format": "utf8", "wires": [["o"]] })),
        node("caught", "catch", json!({ "scope": ["file"], "wires": [["says"]] })),
        node("says", "function", json!({ "func": "msg.payload = msg.error.message; return msg", "outputs": 1, "wires": [["o"]] })),
        node("i2", "http in", json!({ "method": "get", "url": "/exec", "wires": [["f2"]] })),
        node("f2", "function", json!({ "func": takes("payload"), "outputs": 1, "wires": [["exec"]] })),
        node("exec", "exec", json!({ "command": "env", "addpay": "payload", "append": "", "useSpawn": "false",
                                     "timer": "", "wires": [["o"], [], []] })),
        node("o", "http response", json!({})),
    ])
}

/// What the flows read of the gateway in this directory: a name for each success.
async fn stolen(gateway: &Process, directory: &Path, script: &Path) -> Vec<String> {
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &flows()).await;
    let ask = async |path: &str, is: &str| {
        let query: String = form_urlencoded::byte_serialize(is.as_bytes()).collect();
        let answer = gateway.get(&format!("{path}?is={query}")).send().await;
        assert_eq!(answer.status, 200, "{is}");
        String::from_utf8_lossy(&answer.body).into_owned()
    };
    let mut stolen = Vec::new();
    for (file, words) in [
        ("certs/self-signed.key", "PRIVATE KEY"),
        ("data/flowgate.db", "SQLite format 3"),
        ("data/audit.log", "\"event\":"),
        ("gateway.toml", "password_hash"),
    ] {
        let path = directory.join(file);
        assert!(String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(words));
        let path = path.to_str().unwrap();
        let command = format!("cat {path}");
        for (kind, is) in [("/file", path), ("/exec", &*command)] {
            if ask(kind, is).await.contains(words) {
                stolen.push(format!("{kind} {file}"));
            }
        }
    }
    let socket = directory.join("data/flowgate.sock");
    let command = format!("perl {} {}", script.display(), socket.display());
    if ask("/exec", &command).await.contains("\"sessions\"") {
        stolen.push("/exec the control socket".to_owned());
    }
    // The attack itself works: what every user may read is read.
    assert!(ask("/file", "/etc/passwd").await.contains("root:"));
    assert!(ask("/exec", "cat /etc/passwd").await.contains("root:"));
    stolen
}

/// A directory that every user can look into, as `/var/lib` is, with the script.
fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let script = directory.path().join("ask.pl");
    fs::write(&script, ASK).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o644)).unwrap();
    (directory, script)
}

/// A gateway whose configuration only its user reads.
fn gateway(lines: &str, directory: &Path) -> Process {
    let lines = lines.to_owned() + &public(&["/file", "/exec"]);
    let process = Process::start(&lines, directory);
    let file = directory.join("gateway.toml");
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
    process
}

/// An engine of another user. The program is opened before, because its directory may be closed to that user.
fn engine_of_another_user(directory: &Path) -> EngineProcess {
    write_file("", directory);
    fs::set_permissions(directory.join("engine.toml"), Permissions::from_mode(0o644)).unwrap();
    chown(directory, Some(OTHER), Some(OTHER)).unwrap();
    let script = format!(
        "exec setpriv --reuid {OTHER} --regid {OTHER} --clear-groups /proc/self/fd/3 --config engine.toml engine 3<&0 </dev/null"
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .current_dir(directory)
        .stdin(File::open(env!("CARGO_BIN_EXE_flowgate")).unwrap());
    EngineProcess::launch(command)
}

#[tokio::test]
async fn a_flow_steals_the_key_the_sessions_and_the_audit_log_from_one_process_and_not_from_an_engine_apart()
 {
    let (one, script) = place();
    let process = gateway("", one.path());
    let in_one_process = stolen(&process, one.path(), &script).await;
    assert_eq!(in_one_process.len(), 9, "{in_one_process:?}");
    drop(process);

    if !rustix::process::geteuid().is_root() {
        // No engine of another user can be started.
        return;
    }
    let (own, script) = place();
    let (theirs, _) = place();
    let _engine = engine_of_another_user(theirs.path());
    let socket = theirs.path().join("engine.sock");
    let upstream = format!("[upstream]\nurl = \"unix:{}\"\n", socket.display());
    let process = gateway(&upstream, own.path());
    let apart = stolen(&process, own.path(), &script).await;
    assert!(apart.is_empty(), "{apart:?}");
}
