//! The documentation is true: `gateway.toml` parses, is the built-in default, and names every key
//! there is; the tables of SECURITY.md and the files in `deploy/` agree with it; the commands of
//! the README, of every chapter of `docs/` and of the examples print what is shown; links lead
//! somewhere; lists are complete; the references that comments cite have the sections that are
//! cited.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests"
)]

#[path = "docs/book.rs"]
mod book;
#[path = "docs/citations.rs"]
mod citations;
#[cfg(feature = "engine")]
#[path = "docs/commands.rs"]
mod commands;
#[path = "docs/configuration.rs"]
mod configuration;
#[path = "docs/containers.rs"]
mod containers;
#[path = "docs/errors.rs"]
mod errors;
#[path = "docs/language.rs"]
mod language;
#[cfg(feature = "engine")]
#[path = "docs/lists.rs"]
mod lists;
#[path = "docs/release.rs"]
mod release;
#[path = "docs/rpm_package.rs"]
mod rpm_package;

use flowgate::config::{Config, DEFAULT, EngineListen, Error, Problem};
use std::collections::BTreeSet;
use std::path::Path;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The keys that may stand in a table, as the error about an unknown one tells; `None`: there is no
/// such table.
fn known_keys(header: &str) -> Option<Vec<String>> {
    let text = format!("{header}\n\"?\" = 1\n");
    match Config::parse(&text, "test.toml", Path::new("")) {
        Err(Error::Diagnostic(wrong)) => match wrong.problem {
            Problem::UnknownKey { known, .. } if wrong.key.ends_with('?') => Some(known),
            _ => None,
        },
        _ => None,
    }
}

/// Every key of the config with its table: `limits.body`, `auth.user.name`.
fn all_keys(table: &str, header: &str, out: &mut BTreeSet<String>) {
    for key in known_keys(header).unwrap() {
        let key = if table.is_empty() {
            key
        } else {
            format!("{table}.{key}")
        };
        let several = format!("[[{key}]]");
        // A table within one of several.
        let within = format!("[[{table}]]\n{several}");
        let headers = [format!("[{key}]"), several, within];
        match headers.iter().find(|header| known_keys(header).is_some()) {
            Some(header) => all_keys(&key, header, out),
            None => drop(out.insert(key)),
        }
    }
}

/// A setting, switched on or off: `#` and prose have a space between them.
fn setting(line: &str) -> Option<&str> {
    let line = line.strip_prefix('#').unwrap_or(line);
    (!line.is_empty() && !line.starts_with([' ', '#'])).then_some(line)
}

#[test]
fn gateway_toml_is_the_built_in_default_and_runs_as_it_is() {
    let text = std::fs::read_to_string(repository().join("gateway.toml")).unwrap();
    assert_eq!(text, DEFAULT);
    let config = Config::load(Some(&repository().join("gateway.toml"))).unwrap();
    assert!(config.auth.is_some(), "the default is closed");
    assert!(
        config
            .server
            .listen
            .iter()
            .all(|address| address.ip().is_loopback())
    );
}

#[test]
fn every_key_stands_in_gateway_toml_and_no_other() {
    let mut keys = BTreeSet::new();
    all_keys("", "", &mut keys);
    assert!(
        keys.contains("limits.body")
            && keys.contains("auth.user.name")
            && keys.contains("tls.certificate.key")
    );

    let mut documented = BTreeSet::from(["auth".to_owned()]);
    let mut table = String::new();
    for line in DEFAULT.lines().filter_map(setting) {
        if line.starts_with('[') {
            table = format!("{}.", line.trim_matches(['[', ']']));
        } else {
            let key = line.split(" = ").next().unwrap();
            documented.insert(format!("{table}{key}"));
        }
    }
    keys.insert("auth".to_owned());
    assert_eq!(keys, documented);
}

#[test]
fn every_setting_has_a_sentence_before_it() {
    let mut said = false;
    for line in DEFAULT.lines() {
        match setting(line) {
            None => said = line.starts_with("# ") || (said && line.is_empty()),
            Some(line) if !line.starts_with('[') => assert!(said, "nothing is said about: {line}"),
            Some(_) => {}
        }
    }
}

#[test]
fn every_setting_that_is_switched_off_parses_when_switched_on() {
    let lines: Vec<&str> = DEFAULT.lines().collect();
    let off = |line: &&str| line.starts_with('#') && setting(line).is_some();
    let mut blocks = 0;
    let mut at = 0;
    while at < lines.len() {
        let length = lines[at..].iter().take_while(|line| off(line)).count();
        if length > 0 {
            blocks += 1;
            switched_on(&lines, at, length);
        }
        at += length.max(1);
    }
    assert!(blocks >= 9, "only {blocks} blocks were found");
}

/// Parses the file with the block of `length` lines at `at` switched on, and the files that it
/// names in place.
fn switched_on(lines: &[&str], at: usize, length: usize) {
    let block: Vec<&str> = lines[at..at + length]
        .iter()
        .filter_map(|line| setting(line))
        .collect();
    let directory = tempfile::tempdir().unwrap();
    for place in ["secrets", "certs"] {
        std::fs::create_dir(directory.path().join(place)).unwrap();
    }
    for line in block.iter().filter(|line| line.contains("_file = ")) {
        let file = line.split('"').nth(1).unwrap();
        let hash = "$2b$08$W99V1mAwhUg5M9.hX6kjY.qtLHyvMOmTvm/hfRdpVY8u2XJsIHwFC\n";
        let content = if line.starts_with("token_file") {
            "a-token\n"
        } else if line.starts_with("totp_secret_file") {
            "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\n"
        } else if line.starts_with("url_file") {
            "postgres://user:password@127.0.0.1/database\n"
        } else if line.starts_with("jwks_file") {
            "{ \"keys\": [] }"
        } else if line.starts_with("eab_hmac_key_file") {
            "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W\n"
        } else {
            hash
        };
        std::fs::write(directory.path().join(file), content).unwrap();
    }
    let text: Vec<&str> = lines[..at]
        .iter()
        .chain(&block)
        .chain(&lines[at + length..])
        .copied()
        .collect();
    let text = text.join("\n");
    let text = with_its_needs(&block, text);
    let config = Config::parse(&text, "gateway.toml", directory.path());
    assert!(
        config.is_ok(),
        "{}\n{}",
        block.join("\n"),
        config.unwrap_err()
    );
}

/// The file with a block switched on, and what that block excludes or needs elsewhere.
fn with_its_needs(block: &[&str], text: String) -> String {
    // `auth = "off"` and [auth] exclude each other, and the file says so.
    let text = if block.contains(&"auth = \"off\"") {
        without_auth_tables(&text)
    } else {
        text
    };
    // It makes the file that of an engine, which the others are not.
    let text = if block.contains(&"[engine.listen]") {
        block.join("\n")
    } else {
        text
    };
    // Members of a cluster share a database, and start the engine as a process.
    let text = if block.contains(&"[cluster]") {
        let shared = "[storage]\nurl = \"postgres://flowgate@127.0.0.1/flowgate\"\ncredential_secret = \"secret\"\n";
        let text = text.replace("[storage]\n", shared);
        text.replace("[engine]\n", "[engine]\nisolation = \"process\"\n")
    } else {
        text
    };
    // Gateways that share a database stand in front of upstreams.
    let is_shared = block
        .iter()
        .any(|line| line.contains("postgres:") || line.starts_with("url_file"));
    if is_shared {
        text + "\n[upstream]\nurl = \"http://127.0.0.1:1880\"\n"
    } else {
        text
    }
}

fn without_auth_tables(text: &str) -> String {
    let mut within = false;
    let outside = text.lines().filter(|line| {
        if line.starts_with('[') {
            within = line.starts_with("[auth");
        }
        !within
    });
    outside.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_defaults_of_security_md_are_those_of_gateway_toml() {
    let text = std::fs::read_to_string(repository().join("SECURITY.md")).unwrap();
    let default: toml::Table = DEFAULT.parse().unwrap();
    let mut rows = 0;
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let words: Vec<&str> = row.split('`').collect();
        let (key, said) = (words[1], words[3]);
        let mut value = &toml::Value::Table(default.clone());
        for part in key.split('.') {
            value = value
                .get(part)
                .unwrap_or_else(|| panic!("there is no {key}"));
        }
        if let Some(only) = value.as_array().and_then(|list| list.first()) {
            value = only;
        }
        let really = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        assert_eq!(said, really, "{key}");
        rows += 1;
    }
    assert!(rows > 20);
}

/// The engine's file and unit fit the gateway's socket and the users of both. Those are not there
/// where tests run.
fn an_engine_that_runs_apart_fits(deploy: &Path, socket: &Path) {
    let read = |file: &str| std::fs::read_to_string(deploy.join(file)).unwrap();
    let (text, users) = (read("engine.toml"), read("flowgate.sysusers"));
    for (named, kind) in [
        ("users = [\"flowgate\"]", "u flowgate "),
        ("group = \"flowgate-socket\"", "g flowgate-socket "),
    ] {
        assert!(
            text.contains(named) && users.contains(&format!("\n{kind}")),
            "{named}"
        );
    }
    let text = text.replace("\"flowgate\"", "\"root\"");
    let text = text.replace("\"flowgate-socket\"", "\"root\"");
    let config = Config::parse(&text, "engine.toml", Path::new("/etc/flowgate")).unwrap();
    let Some(EngineListen::Unix(listen)) = &config.engine.listen else {
        panic!("it has no socket");
    };
    assert_eq!((listen.path.as_path(), listen.mode), (socket, 0o660));
    let units = ["flowgate.service", "flowgate-engine.service"].map(read);
    assert!(
        units
            .iter()
            .all(|unit| unit.contains("\nSupplementaryGroups=flowgate-socket\n"))
    );
    let [gateway, engine] = units;
    assert!(gateway.contains("\nUser=flowgate\n") && engine.contains("\nUser=flowgate-engine\n"));
    let directory = socket.parent().unwrap().strip_prefix("/run").unwrap();
    assert!(engine.contains(&format!("\nRuntimeDirectory={}\n", directory.display())));
    let state = config.storage.directory.strip_prefix("/var/lib").unwrap();
    assert!(engine.contains(&format!("\nStateDirectory={}\n", state.display())));
    assert!(engine.contains(" --config /etc/flowgate/engine.toml engine\n"));
    a_node_host_of_its_own_fits(deploy, &engine);
}

fn a_node_host_of_its_own_fits(deploy: &Path, engine: &str) {
    let read = |name: &str| std::fs::read_to_string(deploy.join(name)).unwrap();
    let unit = read("flowgate-nodes.service");
    let text = read("engine.toml").replace("\n#", "\n");
    let (_, lines) = text.split_once("[engine.node_host]").unwrap();
    // These users need not be there.
    let lines = lines.replace("\"flowgate-nodes\"", "\"root\"");
    let config =
        Config::parse(&format!("[engine.node_host]{lines}"), "engine.toml", deploy).unwrap();
    let host = config.engine.node_host.unwrap();
    let socket = host.socket.unwrap();
    let run = format!(
        " node-host --socket {} --directory {}\n",
        socket.path.display(),
        host.directory.display()
    );
    assert!(unit.contains(&run), "{run}");
    assert!(read("flowgate.sysusers").contains("\nu flowgate-nodes "));
    assert!(engine.contains("\nSupplementaryGroups=flowgate-nodes\n"));
    for line in [
        "User=flowgate-nodes",
        "Group=flowgate-nodes",
        "Restart=always",
    ] {
        assert!(unit.contains(&format!("\n{line}\n")), "{line}");
    }
    let state = host.directory.strip_prefix("/var/lib").unwrap();
    assert!(unit.contains(&format!("\nStateDirectory={}\n", state.display())));
    // V8 cannot run with it.
    assert!(!unit.contains("\nMemoryDenyWriteExecute=yes"));
}

#[test]
fn the_configuration_for_servers_parses_and_its_unit_gives_it_enough() {
    let deploy = repository().join("deploy");
    let config = Config::load(Some(&deploy.join("gateway.toml"))).unwrap();
    let unit = std::fs::read_to_string(deploy.join("flowgate.service")).unwrap();
    let number = |name: &str| -> u64 {
        let line = unit.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim_end_matches('s').parse().unwrap()
    };
    let needed = config.server.drain + config.engine.close_timeout;
    assert!(number("TimeoutStopSec=") > needed.as_secs());
    assert!(number("LimitNOFILE=") > config.limits.connections as u64);
    assert!(unit.contains("\nType=notify\n") && number("WatchdogSec=") > 0);
    let socket = std::fs::read_to_string(deploy.join("flowgate.socket")).unwrap();
    let behind = &config.upstreams[0];
    assert!(behind.identity_headers && behind.mount.name == "engine");
    an_engine_that_runs_apart_fits(&deploy, behind.socket.as_deref().unwrap());
    let ports = config.server.listen.iter().map(std::net::SocketAddr::port);
    for port in ports {
        assert!(socket.contains(&format!("\nListenStream={port}\n")));
    }

    let scrape = std::fs::read_to_string(deploy.join("monitoring/prometheus.yml")).unwrap();
    assert!(scrape.contains(&config.operations.unwrap().to_string()));
    let state = std::path::Path::new("/var/lib/flowgate");
    assert!(config.storage.directory.starts_with(state) && config.tls.directory.starts_with(state));
}
