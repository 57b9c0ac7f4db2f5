//! Users who may deploy are programs with the rights of the engine's process. They try to read what
//! is the gateway's: in one process they can, and with an engine that runs apart, as another user
//! or without these paths, they cannot. Only root can start an engine of another user.

use crate::engine_process::{EngineProcess, command, write_file};
use crate::harness::{Process, config_text, public, run_command};
use serde_json::{Value as Json, json};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The overflow user id (`user_namespaces(7)`), which owns nothing.
pub const OTHER: u32 = 65534;

/// Asks for all sessions at the control socket, with its key if that can be read.
const ASK: &str = r#"use IO::Socket::UNIX;
my $path = shift;
my $file;
my $key = open($file, "<", "$path.key") ? <$file> : "";
my $socket = IO::Socket::UNIX->new(Peer => $path) or die "$!";
print $socket "$key\n{\"do\":\"list\"}\n";
print "connected ", <$socket>;
"#;

/// `GET /file?is=PATH` reads a file with a `file in` node, `GET /exec?is=COMMAND` runs a command
/// with an `exec` node.
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
pub async fn stolen(gateway: &Process, directory: &Path, script: &Path) -> Vec<String> {
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &flows()).await;
    let ask = async |path: &str, is: &str| {
        let query: String = form_urlencoded::byte_serialize(is.as_bytes()).collect();
        let answer = gateway.get(&format!("{path}?is={query}")).send().await;
        assert_eq!(answer.status, 200, "{is}");
        String::from_utf8_lossy(&answer.body).into_owned()
    };
    let mut stolen = more_attacks(gateway, directory, script, &ask).await;
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
    let asked = ask("/exec", &command).await;
    if asked.contains("\"sessions\"") {
        stolen.push("/exec the control socket".to_owned());
    }
    // The attack itself works: what every user may read is read.
    assert!(ask("/file", "/etc/passwd").await.contains("root:"));
    assert!(ask("/exec", "cat /etc/passwd").await.contains("root:"));
    stolen
}

/// Attacks by other ways than names: those that succeed. `script` is in a directory of the flows.
async fn more_attacks(
    gateway: &Process,
    directory: &Path,
    script: &Path,
    ask: &impl AsyncFn(&str, &str) -> String,
) -> Vec<String> {
    let own = directory.display();
    let link = script.with_extension("link");
    let link = link.display();
    let id = gateway.id();
    let mut attacks = vec![
        (
            format!("ln -sf {own}/gateway.toml {link} && cat {link}"),
            "password_hash",
        ),
        (format!("ls {own}/data"), "flowgate.db"),
        (format!("touch {own}/data/made && echo done"), "done"),
        (
            format!(
                "mv {own}/gateway.toml {own}/moved && mv {own}/moved {own}/gateway.toml && echo done"
            ),
            "done",
        ),
        (format!("kill -0 {id} && echo done"), "done"),
    ];
    if rustix::process::geteuid().is_root() {
        // The process lets its own user not look into it.
        attacks.push((
            format!("cat /proc/{id}/root{own}/gateway.toml"),
            "password_hash",
        ));
        attacks.push((format!("cat /proc/{id}/environ"), "PATH="));
    }
    let mut successes = Vec::new();
    for (attack, words) in attacks {
        let is = format!("sh -c '{attack}'");
        if ask("/exec", &is).await.contains(words) {
            successes.push(attack);
        }
    }
    successes
}

/// A directory that every user can look into, as `/var/lib` is, with the script.
pub fn place() -> (tempfile::TempDir, PathBuf) {
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

/// The program as a user other than root, if we are root, with this directory as its own. It is
/// opened before, because its directory may be closed to that user.
pub fn not_as_root(arguments: &str, directory: &Path) -> Command {
    let program = File::open(env!("CARGO_BIN_EXE_flowgate")).unwrap();
    let become_user = if rustix::process::geteuid().is_root() {
        chown(directory, Some(OTHER), Some(OTHER)).unwrap();
        format!("setpriv --reuid {OTHER} --regid {OTHER} --clear-groups")
    } else {
        String::new()
    };
    let script = format!("exec {become_user} /proc/self/fd/3 {arguments} 3<&0 </dev/null");
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .current_dir(directory)
        .stdin(program)
        .stdout(Stdio::null());
    command
}

/// An engine with these lines, not of root.
fn engine(lines: &str, directory: &Path) -> Command {
    write_file(lines, directory);
    fs::set_permissions(directory.join("engine.toml"), Permissions::from_mode(0o644)).unwrap();
    not_as_root("--config engine.toml engine", directory)
}

#[tokio::test]
async fn a_flow_steals_the_key_the_sessions_and_the_audit_log_from_one_process_and_not_from_an_engine_apart()
 {
    let (one, script) = place();
    let process = gateway("", one.path());
    let in_one_process = stolen(&process, one.path(), &script).await;
    let is_root = rustix::process::geteuid().is_root();
    let all = if is_root { 16 } else { 14 };
    assert_eq!(in_one_process.len(), all, "{in_one_process:?}");
    drop(process);

    if !is_root {
        // No engine of another user can be started.
        return;
    }
    let (own, script) = place();
    let (theirs, _) = place();
    let _engine = EngineProcess::launch(engine("", theirs.path()));
    let socket = theirs.path().join("engine.sock");
    let upstream = format!("[upstream]\nurl = \"unix:{}\"\n", socket.display());
    let process = gateway(&upstream, own.path());
    let apart = stolen(&process, own.path(), &script).await;
    assert!(apart.is_empty(), "{apart:?}");
}

/// The lines that take a path from an engine.
fn without(path: &Path) -> String {
    // `write_file` adds the rest of the table.
    format!(
        "engine.listen.inaccessible_paths = [\"{}\"]\n",
        path.display()
    )
}

#[tokio::test]
async fn a_flow_steals_nothing_from_an_engine_of_the_same_user_whose_gateways_files_are_inaccessible()
 {
    let with = stolen_by_the_same_user(|_| String::new()).await;
    assert!(with.len() >= 12, "{with:?}");
    let without = stolen_by_the_same_user(without).await;
    assert!(without.is_empty(), "{without:?}");
}

/// What flows steal from a gateway whose engine, with these lines, has the same user.
async fn stolen_by_the_same_user(lines: impl Fn(&Path) -> String) -> Vec<String> {
    let (own, _) = place();
    let (theirs, script) = place();
    // The gateway's directory is there before the engine starts, its files come later.
    let _engine = EngineProcess::launch(engine(&lines(own.path()), theirs.path()));
    let socket = theirs.path().join("engine.sock");
    let upstream = format!("[upstream]\nurl = \"unix:{}\"\n", socket.display());
    let config = own.path().join("gateway.toml");
    fs::write(
        &config,
        config_text(&(upstream + &public(&["/file", "/exec"]))),
    )
    .unwrap();
    let command = not_as_root("--config gateway.toml run", own.path());
    let process = Process::launch(command, own.path()).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&config, Some(OTHER), Some(OTHER)).unwrap();
    }
    stolen(&process, own.path(), &script).await
}

#[test]
fn an_engine_does_not_start_if_it_cannot_take_away_the_paths() {
    let (theirs, _) = place();
    let own = theirs.path();
    let root = Path::new("/");
    for (path, words) in [
        (own.join("data/flows.json"), "the engine has to make files"),
        (own.to_owned(), "the engine has to make files"),
        (root.to_owned(), "the engine has to make files"),
    ] {
        let (code, errors) = run_command(engine(&without(&path), own));
        assert_eq!(code, Some(1), "{errors}");
        let named = errors.contains("engine.listen.inaccessible_paths: ");
        assert!(named && errors.contains(words), "{errors}");
    }
    if rustix::process::geteuid().is_root() {
        write_file(&without(&own.join("other")), own);
        let (code, errors) = run_command(command(own, &[]));
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains("it runs as root"), "{errors}");
    }
}
