//! Gateways to try things on: in this process, or as a process of their own, each with a directory of its own.
//!
//! A config is a few lines of TOML over safe defaults. Flow sets that show what they do are made here too.

use crate::client::{Door, PASSWORD};
use flowgate::config::Config;
use flowgate::server::{self, Running};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use toml::{Table, Value};

/// How long anything may take before a test gives up: long, because machines that run tests are busy.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Three users with [`PASSWORD`]; the hash is bcrypt at its cheapest, made once.
static DEFAULTS: LazyLock<Table> = LazyLock::new(|| {
    let hash = hash(PASSWORD);
    let user = |name, permissions| {
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = {permissions}\n"
        )
    };
    let text = [
        "operations = \"127.0.0.1:0\"\n",
        "server = { listen = [\"127.0.0.1:0\"], workers = 2 }\n",
        "log = { access = false }\n",
        &user("admin", r#"["*"]"#),
        &user("reader", r#"["read"]"#),
        &user("deployer", r#"["flows.read", "flows.write"]"#),
    ];
    text.concat().parse().unwrap()
});

/// A cheap hash of a password, the same each time: another one would be a changed password.
pub fn hash(password: &str) -> String {
    static HASHES: LazyLock<Mutex<HashMap<String, String>>> = LazyLock::new(Mutex::default);
    let mut hashes = HASHES.lock().unwrap();
    let made = || bcrypt::hash(password, 4).unwrap();
    hashes
        .entry(password.to_owned())
        .or_insert_with(made)
        .clone()
}

/// These lines over the defaults: tables are joined, everything else is replaced.
pub fn config_text(lines: &str) -> String {
    fn lay_over(below: &mut Table, above: Table) {
        for (key, value) in above {
            match (below.get_mut(&key), value) {
                (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
                (_, value) => drop(below.insert(key, value)),
            }
        }
    }
    let mut table = DEFAULTS.clone();
    lay_over(&mut table, lines.parse().unwrap());
    table.to_string()
}

/// Lines that make endpoints public.
pub fn public(paths: &[&str]) -> String {
    let routes = paths
        .iter()
        .map(|path| format!("[[route]]\npath = \"{path}\"\npublic = true\n"));
    routes.collect()
}

fn config(lines: &str, directory: &Path) -> Config {
    Config::parse(&config_text(lines), "gateway.toml", directory)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn trust(certificate: &Path) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // A gateway with certificates of its own has no self-signed one.
    if certificate.exists() {
        roots
            .add(CertificateDer::from_pem_file(certificate).unwrap())
            .unwrap();
    }
    Arc::new(roots)
}

/// Where a gateway of this process is reached.
pub fn door(running: &Running, directory: &Path) -> Door {
    let addresses = running.addresses();
    Door {
        address: addresses.tls[0],
        operations: addresses.operations.unwrap(),
        roots: trust(&directory.join("certs/self-signed.crt")),
        certificate: None,
    }
}

/// A gateway in this process.
pub struct Gateway {
    pub running: Running,
    pub directory: TempDir,
    door: Door,
    lines: String,
}

impl Deref for Gateway {
    type Target = Door;

    fn deref(&self) -> &Door {
        &self.door
    }
}

impl Gateway {
    /// With the defaults.
    pub fn start() -> Self {
        Self::with("")
    }

    /// With some lines of TOML over the defaults.
    pub fn with(lines: &str) -> Self {
        Self::open(lines, tempfile::tempdir().unwrap())
    }

    /// In a directory that may have been used before.
    pub fn open(lines: &str, directory: TempDir) -> Self {
        let running = server::start(config(lines, directory.path()))
            .unwrap_or_else(|error| panic!("{error}"));
        let door = door(&running, directory.path());
        Self {
            running,
            directory,
            door,
            lines: lines.to_owned(),
        }
    }

    /// Ends it and starts another one in the same directory.
    pub async fn restart(self) -> Self {
        let lines = self.lines.clone();
        self.restart_with(&lines).await
    }

    /// The same with other lines of TOML.
    pub async fn restart_with(self, lines: &str) -> Self {
        self.running.stop().await;
        Self::open(lines, self.directory)
    }

    /// Ends it and gives its directory.
    pub async fn stop(self) -> TempDir {
        self.running.stop().await;
        self.directory
    }

    /// Reads users, routes and certificates of other lines of TOML, as after a SIGHUP.
    pub async fn reload(&self, lines: &str) -> bool {
        self.running
            .reload(config(lines, self.directory.path()))
            .await
    }

    /// A file of the data directory.
    pub fn data(&self, file: &str) -> PathBuf {
        self.directory.path().join("data").join(file)
    }

    /// The audit log's lines.
    pub fn audit(&self) -> Vec<Json> {
        let text = std::fs::read_to_string(self.data("audit.log")).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// The program as a process of its own, ended when dropped.
pub struct Process {
    child: Ended,
    door: Door,
    said: Receiver<String>,
    all: Arc<Mutex<Vec<String>>>,
}

impl Deref for Process {
    type Target = Door;

    fn deref(&self) -> &Door {
        &self.door
    }
}

impl Process {
    /// Starts it in a directory, with some lines of TOML over the defaults, and waits until it listens.
    pub fn start(lines: &str, directory: &Path) -> Self {
        std::fs::write(directory.join("gateway.toml"), config_text(lines)).unwrap();
        Self::launch(program(directory, &["run"]), directory)
            .unwrap_or_else(|said| panic!("it does not listen:\n{said}"))
    }

    /// The same with what it writes to standard output.
    pub fn start_heard(lines: &str, directory: &Path) -> (Self, BufReader<ChildStdout>) {
        std::fs::write(directory.join("gateway.toml"), config_text(lines)).unwrap();
        let mut command = program(directory, &["run"]);
        command.stdout(Stdio::piped());
        let mut process = Self::launch(command, directory)
            .unwrap_or_else(|said| panic!("it does not listen:\n{said}"));
        let stdout = process.child.0.stdout.take().unwrap();
        (process, BufReader::new(stdout))
    }

    /// Closes the read end of its standard output. A process that a parallel test has just forked holds a copy until
    /// its `exec`, so this waits until a byte finds no reader.
    pub async fn break_stdout(&self, stdout: BufReader<ChildStdout>) {
        drop(stdout);
        let written = format!("/proc/{}/fd/1", self.child.0.id());
        let mut end = File::options().write(true).open(written).unwrap();
        until("the pipe is broken", async || end.write_all(b" ").is_err()).await;
    }

    /// Starts a command that becomes the program, and waits until it listens; if it ends before, what it has said.
    pub fn launch(mut command: Command, directory: &Path) -> Result<Self, String> {
        let mut child = Ended(command.stderr(Stdio::piped()).spawn().unwrap());
        let all = Arc::default();
        let said = hear(&mut child.0, &all);
        let secure = address(&said, "listening on https://")?;
        let operations = address(&said, "operations on http://")?;
        let roots = trust(&directory.join("certs/self-signed.crt"));
        Ok(Self {
            child,
            door: Door {
                address: secure,
                operations,
                roots,
                certificate: None,
            },
            said,
            all,
        })
    }

    /// Waits until it says something on standard error; gives the whole line.
    pub fn hear(&self, words: &str) -> String {
        hear_line(&self.said, words)
            .unwrap_or_else(|said| panic!("it never says {words:?}:\n{said}"))
    }

    /// All that it says from its beginning to its end, which this waits for.
    pub fn whole_log(&self) -> Vec<String> {
        self.rest();
        self.all.lock().unwrap().clone()
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// All else that it says until its end.
    pub fn rest(&self) -> Vec<String> {
        self.said.iter().collect()
    }

    /// Memory in KiB: `VmHWM` is the most that it has had, `RssAnon` what it has of its own now (proc(5)).
    pub fn memory(&self, which: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix(which)).unwrap();
        let kib = line.trim_matches([':', '\t', ' ', 'k', 'B']);
        kib.parse().unwrap()
    }

    /// Sends it a signal: `TERM`, `INT`, `HUP`, `KILL`.
    pub fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let kill = kill.args(["-s", name, &self.child.0.id().to_string()]);
        assert!(kill.status().unwrap().success());
    }

    /// Waits for its end.
    pub fn end(mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.0.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A process that does not outlive its test, however that ends.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program, to be started in a directory.
pub fn program(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowgate"));
    command
        .current_dir(directory)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// Runs the program until it ends by itself; gives its exit code and what it said.
pub fn run_to_its_end(directory: &Path) -> (Option<i32>, String) {
    ended(program(directory, &["run"]))
}

/// Runs a command until it ends by itself; gives its exit code and what it said.
pub fn ended(mut command: Command) -> (Option<i32>, String) {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// What a child says on standard error, line by line; read on a thread, so that it never has to wait for us.
fn hear(child: &mut Child, all: &Arc<Mutex<Vec<String>>>) -> Receiver<String> {
    let (said, heard) = mpsc::channel();
    let all = Arc::clone(all);
    let stderr = child.stderr.take().unwrap();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            all.lock().unwrap().push(line.clone());
            let _ = said.send(line);
        }
    });
    heard
}

/// The line with these words; if it does not come, those before it.
fn hear_line(said: &Receiver<String>, words: &str) -> Result<String, String> {
    let mut before = Vec::new();
    loop {
        match said.recv_timeout(PATIENCE) {
            Ok(line) if line.contains(words) => return Ok(line),
            Ok(line) => before.push(line),
            Err(_) => return Err(before.join("\n")),
        }
    }
}

fn address(said: &Receiver<String>, words: &str) -> Result<SocketAddr, String> {
    let line = hear_line(said, words)?;
    let (_, rest) = line.split_once(words).unwrap();
    let text = rest
        .split([' ', ':', '"'])
        .take(2)
        .collect::<Vec<_>>()
        .join(":");
    Ok(text
        .parse()
        .unwrap_or_else(|_| panic!("no address in {line:?}")))
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !holds().await {
        assert!(since.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A flow (tab) whose endpoint `GET path` answers with a text. Ids begin with the tab's.
pub fn page(tab: &str, path: &str, text: &str) -> Vec<Json> {
    let template =
        json!({ "type": "template", "field": "payload", "template": text, "syntax": "plain" });
    endpoint(tab, ("get", path), &template)
}

/// A flow whose endpoint is answered by the code of a function node.
pub fn script(tab: &str, (method, path): (&str, &str), code: &str) -> Vec<Json> {
    let function = json!({ "type": "function", "func": code, "outputs": 1 });
    endpoint(tab, (method, path), &function)
}

/// A flow whose endpoint `GET path` tells when its function node was started: another text after each restart.
pub fn birth(tab: &str, path: &str) -> Vec<Json> {
    let function = json!({
        "type": "function", "outputs": 1,
        "initialize": "context.set('born', String(Math.random()))",
        "func": "msg.payload = context.get('born'); return msg",
    });
    endpoint(tab, ("get", path), &function)
}

/// http in → the node given → http response.
fn endpoint(tab: &str, (method, url): (&str, &str), node: &Json) -> Vec<Json> {
    let placed = |part: &str, x: u16, mut node: Json| {
        node["id"] = format!("{tab}-{part}").into();
        node["z"] = tab.into();
        // What has no place in the editor counts as a config node.
        (node["x"], node["y"]) = (x.into(), 100.into());
        node
    };
    let mut node = node.clone();
    node["wires"] = json!([[format!("{tab}-out")]]);
    let first = json!({
        "type": "http in", "method": method, "url": url, "wires": [[format!("{tab}-node")]],
    });
    let last = json!({ "type": "http response", "wires": [] });
    vec![
        json!({ "id": tab, "type": "tab", "label": tab }),
        placed("in", 100, first),
        placed("node", 300, node),
        placed("out", 500, last),
    ]
}

/// Several flows as one flow set.
pub fn flow_set(flows: &[Vec<Json>]) -> Json {
    Json::from(flows.concat())
}
