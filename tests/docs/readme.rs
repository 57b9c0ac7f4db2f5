//! README.md is true: its commands run against the real program and print what it says, its examples parse, its lists
//! are complete.

use super::repository;
use flowgate::audit::Event;
use flowgate::config::{Config, DEFAULT};
use flowgate::engine::nodes::TYPES;
use flowgate::flows::{FlowSet, Submission};
use flowgate::metrics::Metrics;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Command, Stdio};

/// How the README starts the program.
const START: &str = "cargo run --release";

/// One fenced block.
struct Block {
    /// The heading above it.
    section: String,
    /// What is written behind the fence.
    language: String,
    text: String,
}

fn readme() -> String {
    fs::read_to_string(repository().join("README.md")).unwrap()
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut section = String::new();
    let mut open: Option<Block> = None;
    for line in readme().lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block {
                    section: section.clone(),
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {
                if let Some(heading) = line.strip_prefix("## ") {
                    heading.clone_into(&mut section);
                }
            }
        }
    }
    blocks
}

/// The gateway of the story, in a directory and at ports of its own.
struct Story {
    directory: tempfile::TempDir,
    /// The README's ports and ours.
    ports: [(&'static str, String); 2],
    program: Child,
    log: Lines<BufReader<ChildStderr>>,
    password: String,
    token: String,
}

impl Story {
    /// Starts the program with the default configuration, but for the ports.
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ports = ["8443", "9090"].map(|port| (port, free_port()));
        let text = DEFAULT
            .replace("127.0.0.1:8443", &format!("127.0.0.1:{}", ports[0].1))
            .replace("127.0.0.1:9090", &format!("127.0.0.1:{}", ports[1].1));
        fs::write(directory.path().join("gateway.toml"), text).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_flowgate"))
            .current_dir(&directory)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(program.stderr.take().unwrap()).lines();
        Self {
            directory,
            ports,
            program,
            log,
            password: String::new(),
            token: String::new(),
        }
    }

    /// Reads as many lines of the log as the README shows, and compares.
    fn logs(&mut self, shown: &str) {
        let count = shown.lines().count();
        let lines: Vec<String> = self.log.by_ref().take(count).map(Result::unwrap).collect();
        let password = lines.iter().map(|line| line.trim());
        self.password = password
            .clone()
            .find(|word| masked(word) == "PASSWORD")
            .unwrap()
            .into();
        assert_eq!(
            masked(&lines.join("\n")),
            masked(&self.with_our_ports(shown)).trim_end()
        );
    }

    /// Runs a block in bash and gives what it prints. What the reader fills in, we fill in.
    fn run(&self, block: &str) -> String {
        let filled_in = |line: &&str| !line.starts_with("PASSWORD=") && !line.starts_with("TOKEN=");
        let script: Vec<&str> = block.lines().filter(filled_in).collect();
        let script = self
            .with_our_ports(&script.join("\n"))
            .replace("$(pgrep -x flowgate)", &self.program.id().to_string());
        let output = Command::new("bash")
            .args(["-euc", &script])
            .current_dir(&self.directory)
            .env("PASSWORD", &self.password)
            .env("TOKEN", &self.token)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}\n{errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Keeps the token of an answer.
    fn keep_token(&mut self, answer: &str) {
        if let Some((_, rest)) = answer.split_once("\"access_token\":\"") {
            rest.split('"').next().unwrap().clone_into(&mut self.token);
        }
    }

    fn with_our_ports(&self, text: &str) -> String {
        let [(tls, our_tls), (operations, our_operations)] = &self.ports;
        text.replace(tls, our_tls)
            .replace(operations, our_operations)
    }

    fn append_to_config(&self, text: &str) {
        let file = self.directory.path().join("gateway.toml");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{before}\n{text}")).unwrap();
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

/// The text with everything that is another one each time replaced by what it is.
fn masked(text: &str) -> String {
    let part_of_value = |c: char| c.is_ascii_alphanumeric() || "-_:.".contains(c);
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(part_of_value) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !part_of_value(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        out.push_str(before);
        out.push_str(what_it_is(word).unwrap_or(word));
        rest = after;
    }
    out + rest
}

fn what_it_is(word: &str) -> Option<&'static str> {
    let hex = word.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
    let quiet = word
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    match word.len() {
        64 if hex => Some("REVISION"),
        95 if hex => Some("FINGERPRINT"),
        43 => Some("TOKEN"),
        26 if quiet => Some("PASSWORD"),
        27 if word.ends_with('Z') => Some("TIME"),
        _ => None,
    }
}

#[test]
fn the_commands_print_what_the_readme_says() {
    let blocks = blocks();
    let mut story: Option<Story> = None;
    let mut sign_in = "";
    let mut section = "";
    let mut compared = 0;
    for (at, block) in blocks.iter().enumerate() {
        let shown = blocks
            .get(at + 1)
            .filter(|next| next.language == "text")
            .map(|next| next.text.as_str());
        if block.language == "sh" && block.text.trim() == START {
            let mut started = Story::start();
            started.logs(shown.unwrap());
            story = Some(started);
            section = &block.section;
            continue;
        }
        let Some(story) = &mut story else { continue };
        if block.section != section && block.language == "sh" {
            // Each later section stands for itself: its reader is signed in.
            section = &block.section;
            let answer = story.run(sign_in);
            story.keep_token(&answer);
        }
        match (block.language.as_str(), shown) {
            ("sh", Some(shown)) => {
                let printed = story.run(&block.text);
                assert_eq!(masked(printed.trim_end()), masked(shown.trim_end()));
                compared += 1;
                if block.text.contains("/auth/token") {
                    sign_in = &block.text;
                    story.keep_token(&printed);
                }
            }
            ("json", _) => {
                fs::write(story.directory.path().join("flows.json"), &block.text).unwrap();
            }
            ("toml", _) if section == "Five minutes" => story.append_to_config(&block.text),
            _ => {}
        }
    }
    assert!(compared >= 8, "only {compared} blocks were compared");

    let mut story = story.unwrap();
    story.run(&format!("kill -TERM {}", story.program.id()));
    assert_eq!(story.program.wait().unwrap().code(), Some(0));
}

#[test]
fn the_first_thing_in_it_is_how_to_start_and_how_to_test() {
    let blocks = blocks();
    let commands: Vec<&str> = blocks[0]
        .text
        .lines()
        .map(|line| line.split('#').next().unwrap().trim())
        .collect();
    assert_eq!(commands, [START, "tests/run"]);
    assert!(readme().starts_with("# flowgate\n\n```sh\n"));
}

#[test]
fn every_shell_block_is_bash() {
    let mut files = blocks();
    files.retain(|block| block.language == "sh");
    for block in files {
        let status = Command::new("bash")
            .args(["-nc", &block.text])
            .status()
            .unwrap();
        assert!(status.success(), "{}", block.text);
    }
}

#[test]
fn every_toml_block_is_a_configuration_or_an_addition_to_the_default() {
    for block in blocks().iter().filter(|block| block.language == "toml") {
        let directory = tempfile::tempdir().unwrap();
        for line in block.text.lines().filter(|line| line.contains("_file = ")) {
            let file = line.split('"').nth(1).unwrap();
            fs::write(directory.path().join(file), "a secret\n").unwrap();
        }
        let parses = |text: &str| Config::parse(text, "README.md", directory.path());
        let alone = parses(&block.text);
        let added = parses(&format!("{DEFAULT}\n{}", block.text));
        assert!(
            alone.is_ok() || added.is_ok(),
            "{}\n{}",
            block.text,
            added.unwrap_err()
        );
    }
}

#[test]
fn every_json_block_is_a_flow_set_that_can_be_deployed() {
    for block in blocks().iter().filter(|block| block.language == "json") {
        let submission = Submission::v2(&FlowSet::default(), block.text.as_bytes()).unwrap();
        let missing = flowgate::engine::Engine::missing_types(&submission.flows);
        assert!(missing.is_empty(), "{missing:?}");
    }
}

/// The words in backticks of the paragraph that begins so.
fn named(beginning: &str) -> BTreeSet<String> {
    let text = readme();
    let (_, paragraph) = text.split_once(beginning).unwrap();
    let paragraph = paragraph.split("\n\n").next().unwrap();
    paragraph
        .split('`')
        .skip(1)
        .step_by(2)
        .map(|word| word.replace('\n', " "))
        .collect()
}

#[test]
fn the_list_of_node_types_is_the_engines() {
    let there = named("These node types are there:");
    assert_eq!(there, TYPES.iter().map(ToString::to_string).collect());
}

#[test]
fn the_table_of_metrics_has_all_with_their_labels() {
    let text = readme();
    let rows = text.lines().filter(|line| line.starts_with("| `flowgate_"));
    let documented: BTreeSet<Vec<String>> = rows
        .map(|row| {
            let words = row.split('`').skip(1).step_by(2);
            words.map(str::to_owned).collect()
        })
        .collect();

    let metrics = Metrics::new();
    let _ = (metrics.node_type("change"), metrics.upstream("runtime"));
    let page = metrics.render();
    let series = page
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    assert_eq!(documented, series.filter_map(name_and_labels).collect());
}

#[test]
fn the_table_of_audit_events_has_all() {
    let text = readme();
    let (_, section) = text.split_once("\n## Audit log\n").unwrap();
    let rows = section.split("\n## ").next().unwrap().lines();
    let documented: BTreeSet<&str> = rows
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .flat_map(|names| names.split('`').skip(1).step_by(2))
        .collect();
    let all = Event::ALL.iter().map(|event| event.name());
    assert_eq!(documented, all.collect());
}

/// The metric's name and its labels' names, in their order; `None`: a part of a histogram that another line stands for.
fn name_and_labels(series: &str) -> Option<Vec<String>> {
    let (series, _) = series.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    if name.ends_with("_bucket") || name.ends_with("_sum") {
        return None;
    }
    let labels = labels
        .trim_end_matches('}')
        .split(',')
        .filter_map(|label| label.split_once('='));
    let mut words = vec![name.trim_end_matches("_count").to_owned()];
    words.extend(labels.map(|(name, _)| name.to_owned()));
    Some(words)
}

#[test]
fn the_files_that_it_links_to_exist() {
    for link in readme().split("](").skip(1) {
        let target = link.split(')').next().unwrap();
        if let Some(anchor) = target.strip_prefix('#') {
            let heading = |line: &str| {
                let name = line.strip_prefix("## ")?;
                Some(name.to_lowercase().replace(' ', "-"))
            };
            assert!(
                readme().lines().filter_map(heading).any(|h| h == anchor),
                "{anchor}"
            );
        } else {
            assert!(repository().join(target).exists(), "{target}");
        }
    }
}
