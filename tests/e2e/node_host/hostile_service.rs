//! A hostile package in a node host that is a service with a user of its own: it tries everything
//! of the table in SECURITY.md. Two users need root, and no systemd: `setpriv` makes the processes
//! theirs.

use super::hostile::{flows, forged, with_hostile};
use super::user_directory;
use crate::client::Client;
use crate::harness::{Process, config_text, public, until};
use serde_json::{Value as Json, json};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;

/// The user of flowgate, and the user and group of the service; none of them owns anything else.
const FLOWGATE: u32 = 64_901;
const SERVICE: u32 = 64_902;

/// The service, which ends with the test.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program as a user with a group. It is opened before: its directory may be closed to them.
fn program_of(user: u32, groups: &str, arguments: &str, directory: &Path) -> Command {
    let become_user = format!("setpriv --reuid {user} --regid {user} {groups}");
    let script = format!("exec {become_user} /proc/self/fd/3 {arguments} 3<&0 </dev/null");
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .current_dir(directory)
        .env("FLOWGATE_TEST_SECRET", "of the environment")
        .stdin(File::open(env!("CARGO_BIN_EXE_flowgate")).unwrap())
        .stdout(Stdio::null());
    command
}

/// flowgate, of its user, in a directory that others may enter.
fn flowgate(directory: &Path) -> Process {
    fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    let user = directory.join("user");
    user_directory(&user);
    with_hostile(&user, &[]);
    chown(directory, Some(FLOWGATE), Some(FLOWGATE)).unwrap();
    let lines = format!(
        "{}[engine.node_host]\ndirectory = \"user\"\nsocket = \"nodes/host.sock\"\ngroup = \"{SERVICE}\"\nusers = [\"{SERVICE}\"]\n",
        public(&["/do", "/show"])
    );
    let configuration = directory.join("gateway.toml");
    fs::write(&configuration, config_text(&lines)).unwrap();
    fs::set_permissions(&configuration, Permissions::from_mode(0o600)).unwrap();
    chown(&configuration, Some(FLOWGATE), Some(FLOWGATE)).unwrap();
    let groups = format!("--groups {SERVICE}");
    let command = program_of(FLOWGATE, &groups, "--config gateway.toml run", directory);
    Process::launch(command, directory).unwrap_or_else(|log| panic!("it does not listen:\n{log}"))
}

fn service(directory: &Path) -> Service {
    let arguments = format!(
        "node-host --memory 128 --socket {0}/nodes/host.sock --directory {0}/user",
        directory.display()
    );
    let mut command = program_of(SERVICE, "--clear-groups", &arguments, directory);
    Service(command.stderr(Stdio::null()).spawn().unwrap())
}

/// The files of flowgate in a directory, at any depth, but for certificates.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_none_or(|extension| extension != "crt") {
            found.push(path);
        }
    }
}

/// Requests for packages do not follow a link that the package has put in the place of its socket.
async fn follows_no_link(process: &Process, token: &str, directory: &Path, mut flow: Json) {
    let other = directory.join("other.sock");
    let listener = UnixListener::bind(&other).unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o777)).unwrap();
    let reached = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Refused before anything is sent.
            let mut request = Vec::new();
            let _ = stream.read_to_end(&mut request).await;
            assert!(request.is_empty(), "{}", String::from_utf8_lossy(&request));
        }
    });
    let socket = directory.join("nodes/endpoints.sock");
    flow[2]["probes"] = json!([["replace", [socket, other]]]);
    process.deploy(token, &flow).await;
    let results = show(process, "/do").await;
    assert_eq!(results[0][2], "reached", "{results}");
    let answer = process.get("/of-a-package").token(token).send().await;
    assert_eq!(
        (answer.status, answer.code()),
        (503, "node_host_down".to_owned())
    );
    process.wait_for_log("leads to a process of another user");
    assert!(!reached.is_finished());
    reached.abort();
}

/// Everything that the package tries, each with what it tries it on.
fn probes(directory: &Path, process: u32) -> Vec<Json> {
    let mut own = vec![directory.join("gateway.toml")];
    files(&directory.join("data"), &mut own);
    files(&directory.join("certs"), &mut own);
    assert!(own.len() > 4, "{own:?}");
    let sockets = own
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "sock"));
    let sockets: Vec<Json> = sockets.map(|path| json!(["connect", path])).collect();
    assert!(!sockets.is_empty(), "{own:?}");
    let mut probes = sockets;
    for path in own
        .iter()
        .filter(|path| path.extension().is_none_or(|e| e != "sock"))
    {
        probes.extend(["read", "write", "remove"].map(|what| json!([what, path])));
    }
    probes.push(json!(["list", directory.join("data")]));
    probes.extend(
        [
            "hostile",
            "data/hostile",
            "user/hostile",
            "user/node_modules/hostile",
        ]
        .map(|file| json!(["write", directory.join(file)])),
    );
    probes.extend(
        ["environ", "mem", "maps"].map(|file| json!(["read", format!("/proc/{process}/{file}")])),
    );
    probes.push(json!(["list", format!("/proc/{process}/fd")]));
    probes.extend(["cwd", "exe"].map(|link| json!(["follow", format!("/proc/{process}/{link}")])));
    probes.push(json!(["end", process]));
    probes.extend(["q", "k", "u"].map(|node| json!(["credentials", node])));
    probes.push(json!(["variable", ["FLOWGATE", "TEST", "SECRET"]]));
    probes
}

async fn show(client: &Client, path: &str) -> Json {
    let answer = client.get(path).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

#[tokio::test]
async fn a_hostile_package_of_a_service_reaches_nothing_of_flowgate_and_of_other_flows() {
    if !rustix::process::geteuid().is_root() {
        // Its processes could not become those of two users.
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let process = flowgate(directory);
    let token = process.sign_in("admin").await;
    let file = directory.join("command-ran");
    let mut flow = flows(&forged(), &file);
    // Native nodes with credentials, one of them in a subflow next to a foreign node.
    let secret = json!({ "user": "u", "password": "of others" });
    flow.as_array_mut().unwrap().extend([
        json!({ "id": "q", "type": "http request", "z": "u", "x": 1, "y": 1, "wires": [[]], "authType": "basic", "credentials": secret }),
        json!({ "id": "S", "type": "subflow", "name": "S", "in": [], "out": [] }),
        json!({ "id": "k", "type": "http request", "z": "S", "x": 1, "y": 1, "wires": [[]], "authType": "basic", "credentials": secret }),
        json!({ "id": "h2", "type": "hostile", "z": "S", "x": 1, "y": 1, "wires": [[]] }),
        json!({ "id": "w", "type": "tab", "label": "w" }),
        json!({ "id": "i", "type": "subflow:S", "z": "w", "x": 1, "y": 1, "wires": [] }),
    ]);
    process.deploy(&token, &flow).await;
    let _service = service(directory);
    process.wait_for_log("the node host is ready");
    let answers = show(&process, "/do").await;
    for answer in answers.as_array().unwrap().iter().take(3) {
        assert!(answer["error"].is_string(), "{answers}");
    }
    assert_eq!(show(&process, "/show").await["key"], json!(null));
    assert!(!file.exists(), "a command of another flow has run");

    flow[2]["probes"] = json!(probes(directory, process.id()));
    process.deploy(&token, &flow).await;
    let mut results = Json::Null;
    until("the package has tried everything", async || {
        let answer = process.get("/do").send().await;
        results = serde_json::from_str(&answer.text()).unwrap_or_default();
        results[0].is_array()
    })
    .await;
    let allowed = ["EACCES", "EPERM", "nothing"];
    for result in results.as_array().unwrap() {
        let outcome = result[2].as_str().unwrap();
        assert!(allowed.contains(&outcome), "{result}");
    }
    assert!(results.as_array().unwrap().len() > 20, "{results}");
    follows_no_link(&process, &token, directory, flow).await;
}
