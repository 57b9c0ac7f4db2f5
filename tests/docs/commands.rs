//! The commands of the chapters run against the real program, and print what the chapters show.
//!
//! A chapter is played in a directory of its own, block after block. Its ports are replaced by free
//! ones. `cargo run` starts the program that is tested; `npm` and `npx` are stand-ins that take
//! packages from `tests/node_modules`.

use super::book::{self, Block};
use super::repository;
use flowgate::config::DEFAULT;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How the documents start the program, with `-- --config FILE` or without.
const START: &str = "cargo run --release";
/// How they start a Node-RED.
const NODE_RED: &str = "npx --yes node-red@4 ";

/// How long the program, or a Node-RED, may take to start.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);

/// The ports of the documents: flowgate's, its operations listener's, Node-RED's.
const PORTS: [&str; 3] = ["8443", "9090", "1880"];

const NPM: &str = r#"#!/usr/bin/env bash
set -eu
command=$1 prefix=.
shift
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=$2; shift ;;
        --ignore-scripts) ;;
        *) package=$1 ;;
    esac
    shift
done
mkdir -p "$prefix"
if [ "$command" = install ] && [ "$prefix" != . ]; then
    mkdir -p "$prefix/node_modules"
    cp -RL "$MODULES/$package" "$prefix/node_modules/"
else
    ln -s "$MODULES" "$prefix/node_modules"
fi
"#;

const NPX: &str = r#"#!/usr/bin/env bash
shift 2
exec "$MODULES/.bin/node-red" "$@"
"#;

const CARGO: &str = r#"#!/usr/bin/env bash
[ "$1 $2" = "run --release" ] || exit 2
shift 2
[ "${1:-}" = -- ] && shift
exec flowgate "$@"
"#;

/// A chapter while its reader goes through it.
struct Chapter {
    name: &'static str,
    directory: tempfile::TempDir,
    /// Programs that stand before those of the machine.
    programs: tempfile::TempDir,
    ports: [String; 3],
    gateway: Option<Child>,
    node_red: Option<Child>,
    /// How often the gateway was started, for the name of its log.
    starts: usize,
    arguments: Vec<String>,
    password: String,
    token: String,
}

impl Chapter {
    fn new(name: &'static str) -> Self {
        let programs = tempfile::tempdir().unwrap();
        let program = |name: &str, text: &str| {
            let path = programs.path().join(name);
            fs::write(&path, text).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(path, mode).unwrap();
        };
        program("npm", NPM);
        program("npx", NPX);
        program("cargo", CARGO);
        let flowgate = programs.path().join("flowgate");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_flowgate"), flowgate).unwrap();
        Self {
            name,
            directory: tempfile::tempdir().unwrap(),
            programs,
            ports: free_ports(),
            gateway: None,
            node_red: None,
            starts: 0,
            arguments: Vec::new(),
            password: String::new(),
            token: String::new(),
        }
    }

    /// Copies the files of an example, its configuration with our ports and in our directory.
    fn take_files(&self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let target = self.directory.path().join(path.file_name().unwrap());
            fs::copy(&path, &target).unwrap();
            if path
                .extension()
                .is_some_and(|extension| extension == "toml")
            {
                self.save(&target, &fs::read_to_string(&path).unwrap());
            }
        }
    }

    /// Writes a file of the reader's; a configuration gets our ports, also where it leaves them
    /// out.
    fn save(&self, file: &Path, text: &str) {
        let mut text = text
            .replace("/var/lib/flowgate/", "")
            .replace("http://node-red:", "http://127.0.0.1:")
            .replace("0.0.0.0", "127.0.0.1");
        if file
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            if !text.contains("\nlisten = ") {
                text = merged(&text, "[server]\nlisten = [\"127.0.0.1:8443\"]\n");
            }
            if !text.contains("operations = ") {
                text = format!("operations = \"127.0.0.1:9090\"\n{text}");
            }
        }
        let file = self.directory.path().join(file);
        fs::write(file, self.with_our_ports(&text)).unwrap();
    }

    fn add_to_config(&self, text: &str) {
        let file = self.directory.path().join("gateway.toml");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(file, merged(&before, &self.with_our_ports(text))).unwrap();
    }

    /// Starts the gateway, or starts it again, and waits until it is ready.
    fn start(&mut self) {
        self.stop();
        let config = self.directory.path().join("gateway.toml");
        if !config.exists() {
            self.save(&config, DEFAULT);
        }
        let used = match self.arguments.as_slice() {
            [.., file] => self.directory.path().join(file),
            [] => config,
        };
        let first = !self.directory.path().join("data").exists()
            && !fs::read_to_string(used)
                .unwrap()
                .contains("\n[[auth.user]]");
        self.starts += 1;
        let mut command = self.command("flowgate");
        let log = File::create(self.log_file()).unwrap();
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stderr(log);
        self.gateway = Some(command.spawn().unwrap());
        self.wait("is ready", |chapter| {
            let end = format!("\n{}\n", "=".repeat(72));
            let shown = !first || chapter.log().matches(&end).count() == 2;
            shown && chapter.is_ready()
        });
        if first {
            let log = self.log();
            let mut words = log.lines().map(str::trim);
            let password = words.find(|word| masked(word) == "PASSWORD");
            password.unwrap().clone_into(&mut self.password);
        }
    }

    /// Ends the gateway as an operator does.
    fn stop(&mut self) {
        if let Some(mut gateway) = self.gateway.take() {
            let pid = gateway.id().to_string();
            let killed = Command::new("kill").args(["-TERM", &pid]).status();
            assert!(killed.unwrap().success());
            let log = self.log();
            assert_eq!(gateway.wait().unwrap().code(), Some(0), "{log}");
        }
    }

    fn start_node_red(&mut self, script: &str) {
        let script = self.with_our_ports(&format!("exec {}", script.trim()));
        let mut command = self.command("bash");
        let log = File::create(self.directory.path().join("node-red.log")).unwrap();
        command
            .args(["-euc", &script])
            .env_remove("NODE_OPTIONS")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.node_red = Some(command.spawn().unwrap());
        self.wait("has a Node-RED", |chapter| {
            let log = fs::read_to_string(chapter.directory.path().join("node-red.log")).unwrap();
            log.contains("Started flows")
        });
    }

    fn wait(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            let log = self.log();
            let ended = self
                .gateway
                .as_mut()
                .is_some_and(|gateway| gateway.try_wait().unwrap().is_some());
            assert!(!ended, "{}: flowgate has ended\n{log}", self.name);
            let late = begin.elapsed() > COMMAND_TIMEOUT;
            assert!(!late, "{}: it never {what}\n{log}", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns whether `/readyz` says so.
    fn is_ready(&self) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.ports[1]))?;
            stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer.starts_with("HTTP/1.0 200"))
    }

    fn log_file(&self) -> std::path::PathBuf {
        self.programs.path().join(format!("log-{}", self.starts))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// A program in the chapter's directory.
    fn command(&self, program: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.programs.path().display());
        let found = self.programs.path().join(program);
        let mut command = if found.exists() {
            Command::new(found)
        } else {
            Command::new(program)
        };
        command
            .current_dir(&self.directory)
            .env("PATH", path)
            .env("MODULES", repository().join("tests/node_modules"))
            .env("PASSWORD", &self.password)
            .env("TOKEN", &self.token);
        command
    }

    /// Runs a block in bash and returns what it prints. The values that the reader fills in are
    /// ours.
    fn run(&mut self, block: &str) -> String {
        let filled_in = |line: &&str| !line.starts_with("PASSWORD=") && !line.starts_with("TOKEN=");
        let script: Vec<&str> = block.lines().filter(filled_in).collect();
        let script = self.with_our_ports(&script.join("\n"));
        let output = self.command("bash").args(["-euc", &script]).output();
        let output = output.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let (name, log) = (self.name, self.log());
        assert!(
            output.status.success(),
            "{name}\n{block}\n{printed}{errors}\n{log}"
        );
        if let Some((_, rest)) = printed.split_once("\"access_token\":\"") {
            rest.split('"').next().unwrap().clone_into(&mut self.token);
        }
        printed
    }

    /// Each section stands for itself: its reader is signed in, unless the section before has ended
    /// that.
    fn sign_in(&mut self) {
        let status = "curl -k -s -o /dev/null -w '%{http_code}' https://127.0.0.1:8443/settings";
        if self.run(&format!("{status} -H \"Authorization: Bearer $TOKEN\"")) != "200" {
            let form = "client_id=service-admin&grant_type=password&scope=*&username=admin";
            let url = "https://127.0.0.1:8443/auth/token";
            self.run(&format!(
                "curl -k -s {url} -d \"{form}&password=$PASSWORD\""
            ));
        }
    }

    fn with_our_ports(&self, text: &str) -> String {
        // Through marks, because our port may have another one's digits in it.
        let marks = ["\u{1}", "\u{2}", "\u{3}"];
        let replaced = |text: String, (from, to): (&str, &str)| text.replace(from, to);
        let marked = PORTS.into_iter().zip(marks);
        let ours = marks.into_iter().zip(self.ports.iter().map(String::as_str));
        marked.chain(ours).fold(text.to_owned(), replaced)
    }

    /// What a paragraph asks the reader to do with the block below it.
    fn prepare(&mut self, block: &Block) {
        let paragraph = &block.paragraph;
        if paragraph.contains("Save this") {
            let (_, name) = paragraph.split_once("as `").unwrap();
            let name = name.split('`').next().unwrap();
            self.save(Path::new(name), &block.text);
        }
        if paragraph.to_lowercase().contains("add this") && paragraph.contains("`gateway.toml`") {
            self.add_to_config(&block.text);
        }
        if paragraph.contains("Restart flowgate") {
            self.start();
        }
    }

    /// Goes through the whole chapter; the number of blocks that were compared.
    fn play(&mut self, blocks: &[Block]) -> usize {
        let mut compared = 0;
        for (at, block) in blocks.iter().enumerate() {
            let shown = blocks
                .get(at + 1)
                .filter(|next| next.language == "text" && next.paragraph.is_empty());
            if block.not_run {
                continue;
            }
            self.prepare(block);
            if block.language != "sh" {
                continue;
            }
            if block.text.starts_with(NODE_RED) {
                self.start_node_red(&block.text);
            } else if let Some(arguments) = started(&block.text) {
                self.arguments = arguments;
                self.start();
                let shown = blocks.get(at + 1).filter(|next| next.language == "text");
                if let Some(shown) = shown {
                    let lines = shown.text.lines().count();
                    let log: String = self
                        .log()
                        .lines()
                        .take(lines)
                        .collect::<Vec<_>>()
                        .join("\n");
                    self.compare(&log, &shown.text);
                    compared += 1;
                }
            } else {
                if block.text.contains("$TOKEN") {
                    self.sign_in();
                }
                let printed = self.run(&block.text);
                if let Some(shown) = shown {
                    self.compare(&printed, &shown.text);
                    compared += 1;
                }
            }
        }
        compared
    }

    fn compare(&self, printed: &str, shown: &str) {
        let shown = self.with_our_ports(shown);
        assert_eq!(
            masked(printed.trim_end()),
            masked(shown.trim_end()),
            "{}: what it prints, and what is shown",
            self.name
        );
    }
}

impl Drop for Chapter {
    fn drop(&mut self) {
        let children = [&mut self.gateway, &mut self.node_red];
        for child in children.into_iter().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The arguments with which a block starts the program in the foreground.
fn started(block: &str) -> Option<Vec<String>> {
    let rest = block.trim().strip_prefix(START)?;
    let arguments = rest
        .strip_prefix(" -- ")
        .or(rest.is_empty().then_some(""))?;
    Some(arguments.split_whitespace().map(str::to_owned).collect())
}

/// The configuration with more settings: those of a table that it has beside that table's.
fn merged(config: &str, more: &str) -> String {
    let mut lines: Vec<&str> = config.lines().collect();
    let mut at = None;
    for line in more.lines() {
        if line.starts_with('[') {
            at = lines
                .iter()
                .position(|l| *l == line && !line.starts_with("[["));
            if at.is_some() {
                continue;
            }
        }
        match &mut at {
            Some(table) => {
                *table += 1;
                lines.insert(*table, line);
            }
            None => lines.push(line),
        }
    }
    lines.join("\n") + "\n"
}

fn free_ports() -> [String; 3] {
    let listeners = PORTS.map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port().to_string())
}

/// The text with each value that differs each time replaced by its kind.
fn masked(text: &str) -> String {
    let part_of_value = |c: char| c.is_ascii_alphanumeric() || "-_:.".contains(c);
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(part_of_value) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !part_of_value(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        out.push_str(before);
        out.push_str(kind(word).unwrap_or(word));
        rest = after;
    }
    out + rest
}

fn kind(word: &str) -> Option<&'static str> {
    let hex = word.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
    let quiet = word
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    match word.len() {
        64 if hex => Some("REVISION"),
        95 if hex => Some("FINGERPRINT"),
        43 => Some("TOKEN"),
        26 if quiet => Some("PASSWORD"),
        20 | 27 if word.ends_with('Z') && word.contains('T') => Some("TIME"),
        16 if hex => Some("ID"),
        _ => None,
    }
}

/// How a chapter begins.
enum Reader {
    /// The gateway runs, with the default configuration or the example's.
    Started,
    /// The chapter starts it.
    Starts,
    /// The same, and a Node-RED with the example's settings runs.
    WithNodeRed,
}

/// Goes through a document. All its blocks of text but the pictures must be outputs, and are
/// compared.
fn play(name: &'static str, reader: &Reader, pictures: usize) {
    let document = Path::new(name);
    let mut chapter = Chapter::new(name);
    if let Some(folder) = document
        .parent()
        .filter(|parent| parent.starts_with("examples"))
    {
        chapter.take_files(&repository().join(folder));
    }
    if matches!(reader, Reader::WithNodeRed) {
        let settings = "--settings settings.js -D uiHost=127.0.0.1";
        chapter.start_node_red(&format!(
            "{NODE_RED}--userDir node-red --port 1880 {settings}"
        ));
    }
    if !matches!(reader, Reader::Starts) {
        chapter.start();
    }
    let blocks = book::blocks(&book::read(name));
    let compared = chapter.play(&blocks);
    let shown = blocks.iter().filter(|block| block.language == "text");
    assert_eq!(
        compared,
        shown.count() - pictures,
        "{name}: each output is compared"
    );
    chapter.stop();
}

macro_rules! documents {
    ($($test:ident: $name:literal, $reader:ident, $pictures:literal;)*) => {
        $(
            #[test]
            fn $test() {
                play($name, &Reader::$reader, $pictures);
            }
        )*

        /// The documents whose commands are run.
        const PLAYED: &[&str] = &[$($name),*];
    };
}

documents! {
    readme: "README.md", Starts, 1;
    getting_started: "docs/getting-started.md", Starts, 0;
    users: "docs/users.md", Started, 0;
    tokens: "docs/tokens.md", Started, 0;
    console: "docs/console.md", Started, 0;
    deployments: "docs/deployments.md", Started, 0;
    policies: "docs/policies.md", Started, 0;
    engine: "docs/engine.md", Started, 0;
    endpoints: "docs/endpoints.md", Started, 0;
    editor: "docs/editor.md", Started, 0;
    upstream: "docs/upstream.md", Started, 0;
    proxy: "docs/proxy.md", Started, 0;
    forward_auth: "docs/forward-auth.md", Started, 0;
    operation: "docs/operation.md", Started, 0;
    cluster: "docs/cluster.md", Started, 2;
    metrics: "docs/metrics.md", Started, 0;
    audit: "docs/audit.md", Started, 0;
    security: "docs/security.md", Started, 0;
    troubleshooting: "docs/troubleshooting.md", Started, 0;
    example_ci: "examples/ci/README.md", Started, 0;
    example_compose: "examples/node-red-compose/README.md", WithNodeRed, 0;
    example_mtls: "examples/mtls/README.md", Starts, 0;
    monitoring: "deploy/monitoring/README.md", Started, 0;
}

#[test]
fn every_document_with_commands_is_played() {
    for document in book::documents() {
        // Packaging: it needs systemd and Docker.
        let mut blocks = book::blocks(&book::read(&document));
        blocks.retain(|block| block.language == "sh" && !block.not_run);
        let played = PLAYED.contains(&document.as_str());
        assert!(
            blocks.is_empty() || played || document == "deploy/README.md",
            "{document}"
        );
    }
}

#[test]
fn values_that_differ_each_time_are_masked_by_their_kind() {
    assert_eq!(masked("at 2026-11-20T20:43:02Z"), "at TIME");
    assert_eq!(masked("id 1f0c8e6a4b2d9753."), "id 1f0c8e6a4b2d9753.");
    assert_eq!(masked("id 1f0c8e6a4b2d9753 token:ci"), "id ID token:ci");
}
