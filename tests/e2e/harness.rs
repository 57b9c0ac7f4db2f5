//! Starts gateways for tests, each with a temporary directory of its own.
//!
//! [`Gateway`] runs in the test's process, [`Process`] is the program as a process of its own; both
//! dereference to a [`Client`] that sends requests to them. Their configuration is a few lines of
//! TOML over [`DEFAULTS`]. [`program`] and [`run_command`] start the other commands of the program.
//! [`page`], [`script`] and [`restart_marker`] make flows with one endpoint each, [`flow_set`]
//! joins them, and [`until`] waits for a condition.

use crate::client::{Client, PASSWORD};
use flowgate::config::Config;
use flowgate::server::{self, Running};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpListener;
use toml::{Table, Value};

/// After this a test fails instead of waiting on: long, because machines that run tests are busy.
pub const TEST_TIMEOUT: Duration = Duration::from_mins(1);

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

/// The configuration: these lines merged into the defaults. Tables are merged, all other values
/// replaced.
pub fn config_text(lines: &str) -> String {
    fn merge(base: &mut Table, over: Table) {
        for (key, value) in over {
            match (base.get_mut(&key), value) {
                (Some(Value::Table(base)), Value::Table(over)) => merge(base, over),
                (_, value) => drop(base.insert(key, value)),
            }
        }
    }
    let mut table = DEFAULTS.clone();
    merge(&mut table, lines.parse().unwrap());
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

/// A client of a gateway in this process.
pub fn client(running: &Running, directory: &Path) -> Client {
    let addresses = running.addresses();
    Client {
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
    client: Client,
    lines: String,
}

impl Deref for Gateway {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
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
        let since = Instant::now();
        let running = loop {
            match server::start(config(lines, directory.path())) {
                Ok(running) => break running,
                // The directory's last gateway has stopped, but a process that a parallel test has
                // just forked holds a copy of its lock until its `exec`.
                Err(error) if since.elapsed() < TEST_TIMEOUT && locked(&error.to_string()) => {
                    thread::sleep(Duration::from_millis(2));
                }
                Err(error) => panic!("{error}"),
            }
        };
        let client = client(&running, directory.path());
        Self {
            running,
            directory,
            client,
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

    /// The records of the audit log. A last line without its end is still being written: the file
    /// grows page by page, so that a reader may see half of a record.
    pub fn audit(&self) -> Vec<Json> {
        let log = std::fs::read(self.data("audit.log")).unwrap();
        String::from_utf8_lossy(&log)
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn locked(error: &str) -> bool {
    error.contains("another process uses this data directory")
}

/// The program as a process of its own, ended when dropped.
pub struct Process {
    child: KillOnDrop,
    client: Client,
    /// Lines of standard error that the test has not read yet.
    log: Receiver<String>,
    /// All lines since the start.
    whole_log: Arc<Mutex<Vec<String>>>,
}

impl Deref for Process {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Process {
    /// Starts it in a directory, with some lines of TOML over the defaults, and waits until it
    /// listens.
    pub fn start(lines: &str, directory: &Path) -> Self {
        std::fs::write(directory.join("gateway.toml"), config_text(lines)).unwrap();
        Self::launch(program(directory, &["run"]), directory)
            .unwrap_or_else(|log| panic!("it does not listen:\n{log}"))
    }

    /// The same; returns its standard output as well.
    pub fn start_with_stdout(lines: &str, directory: &Path) -> (Self, BufReader<ChildStdout>) {
        std::fs::write(directory.join("gateway.toml"), config_text(lines)).unwrap();
        let mut command = program(directory, &["run"]);
        command.stdout(Stdio::piped());
        let mut process = Self::launch(command, directory)
            .unwrap_or_else(|log| panic!("it does not listen:\n{log}"));
        let stdout = process.child.0.stdout.take().unwrap();
        (process, BufReader::new(stdout))
    }

    /// Closes the read end of its standard output. A process that a parallel test has just forked
    /// holds a copy until its `exec`, so this waits until a byte finds no reader.
    pub async fn break_stdout(&self, stdout: BufReader<ChildStdout>) {
        drop(stdout);
        let written = format!("/proc/{}/fd/1", self.child.0.id());
        let mut end = File::options().write(true).open(written).unwrap();
        until("the pipe is broken", async || end.write_all(b" ").is_err()).await;
    }

    /// Starts a command that becomes the program, and waits until it listens. If it ends before:
    /// its log.
    pub fn launch(mut command: Command, directory: &Path) -> Result<Self, String> {
        let mut child = KillOnDrop(command.stderr(Stdio::piped()).spawn().unwrap());
        let whole_log = Arc::default();
        let log = read_log(&mut child.0, &whole_log);
        let secure = address(&log, "listening on https://")?;
        let operations = address(&log, "operations on http://")?;
        let roots = trust(&directory.join("certs/self-signed.crt"));
        Ok(Self {
            child,
            client: Client {
                address: secure,
                operations,
                roots,
                certificate: None,
            },
            log,
            whole_log,
        })
    }

    /// Waits for a line of its log (standard error) with these words, and returns the line.
    pub fn wait_for_log(&self, words: &str) -> String {
        line_with(&self.log, words)
            .unwrap_or_else(|log| panic!("{words:?} is never logged:\n{log}"))
    }

    /// Waits until it exits; returns its log since the start.
    pub fn whole_log(&self) -> Vec<String> {
        self.rest_of_log();
        self.whole_log.lock().unwrap().clone()
    }

    /// Its log since the start, also what it wrote before it listened.
    pub fn log_so_far(&self) -> Vec<String> {
        self.whole_log.lock().unwrap().clone()
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Waits until it exits; returns the lines that were not read yet.
    pub fn rest_of_log(&self) -> Vec<String> {
        self.log.iter().collect()
    }

    /// Memory in KiB: `VmHWM` is the most that it has had, `RssAnon` what it has of its own now
    /// (proc(5)).
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

    /// Waits until it exits.
    pub fn end(mut self) -> ExitStatus {
        self.child.ended()
    }
}

/// A process that is killed when its test ends, also by a panic.
pub struct KillOnDrop(pub Child);

impl KillOnDrop {
    /// Waits until it exits.
    pub fn ended(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < TEST_TIMEOUT, "it does not exit");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for KillOnDrop {
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

/// Runs the program until it exits by itself; returns its exit code and standard error.
pub fn run_to_exit(directory: &Path) -> (Option<i32>, String) {
    run_command(program(directory, &["run"]))
}

/// Runs a command until it exits by itself; returns its exit code and standard error.
pub fn run_command(mut command: Command) -> (Option<i32>, String) {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// Reads a child's standard error line by line, on a thread, so that the child never blocks on a
/// full pipe.
pub fn read_log(child: &mut Child, whole_log: &Arc<Mutex<Vec<String>>>) -> Receiver<String> {
    let (sender, log) = mpsc::channel();
    let whole_log = Arc::clone(whole_log);
    let stderr = child.stderr.take().unwrap();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            whole_log.lock().unwrap().push(line.clone());
            let _ = sender.send(line);
        }
    });
    log
}

/// The next line with these words; if it does not come, the lines before it.
pub fn line_with(log: &Receiver<String>, words: &str) -> Result<String, String> {
    let mut before = Vec::new();
    loop {
        match log.recv_timeout(TEST_TIMEOUT) {
            Ok(line) if line.contains(words) => return Ok(line),
            Ok(line) => before.push(line),
            Err(_) => return Err(before.join("\n")),
        }
    }
}

fn address(log: &Receiver<String>, words: &str) -> Result<SocketAddr, String> {
    let line = line_with(log, words)?;
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
        assert!(since.elapsed() < TEST_TIMEOUT, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A listener at an address where another may just have been closed: a program that another test
/// starts has a copy of that until it is executed.
pub async fn listen(address: SocketAddr) -> TcpListener {
    let since = Instant::now();
    loop {
        match TcpListener::bind(address).await {
            Err(error)
                if error.kind() == ErrorKind::AddrInUse && since.elapsed() < TEST_TIMEOUT =>
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            listener => return listener.unwrap(),
        }
    }
}

/// A flow (tab) whose endpoint `GET path` responds with a text. The ids of its nodes begin with the
/// tab's.
pub fn page(tab: &str, path: &str, text: &str) -> Vec<Json> {
    let template =
        json!({ "type": "template", "field": "payload", "template": text, "syntax": "plain" });
    endpoint(tab, "get", path, &template)
}

/// A flow whose endpoint responds with the result of a function node's code.
pub fn script(tab: &str, method: &str, path: &str, code: &str) -> Vec<Json> {
    let function = json!({ "type": "function", "func": code, "outputs": 1 });
    endpoint(tab, method, path, &function)
}

/// A flow whose endpoint `GET path` responds with a text that changes whenever its function node is
/// restarted.
pub fn restart_marker(tab: &str, path: &str) -> Vec<Json> {
    let function = json!({
        "type": "function", "outputs": 1,
        "initialize": "context.set('started', String(Math.random()))",
        "func": "msg.payload = context.get('started'); return msg",
    });
    endpoint(tab, "get", path, &function)
}

/// http in → the node given → http response.
fn endpoint(tab: &str, method: &str, url: &str, node: &Json) -> Vec<Json> {
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

/// Joins flows to one flow set.
pub fn flow_set(flows: &[Vec<Json>]) -> Json {
    Json::from(flows.concat())
}
