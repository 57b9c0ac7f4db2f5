//! The lists of the chapters are complete: node types, metrics, audit events, permissions.
//! Configurations and flow sets in them can be used.

use super::{book, repository};
use engine::load::FlowLoad;
use engine::metrics::Metrics as _;
use flowgate::audit::Event;
use flowgate::config::{Config, DEFAULT};
use flowgate::metrics::{Deployed, Metrics, Phase, RouteClass, Target, Traffic};
use flows::{FlowSet, Submission};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The words in backticks of a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The rows of the tables of a section, without their heads.
fn rows(document: &str, section: &str) -> Vec<String> {
    let text = book::read(document);
    let (_, section) = text.split_once(&format!("\n## {section}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(str::to_owned).collect()
}

#[test]
fn the_list_of_node_types_is_the_engines() {
    let text = book::read("docs/engine.md");
    let (_, list) = text.split_once("The engine has these node types:").unwrap();
    let list = list.split("\n\n").next().unwrap().replace('\n', " ");
    assert_eq!(
        quoted(&list).collect::<BTreeSet<_>>(),
        engine::nodes::types().collect()
    );
}

#[test]
fn the_table_of_metrics_has_all_with_their_labels() {
    let rows = rows("docs/metrics.md", "Series");
    let documented = rows
        .iter()
        .map(|row| quoted(row).map(str::to_owned).collect());
    let documented: BTreeSet<Vec<String>> = documented.collect();
    assert_eq!(documented, series());
}

#[test]
fn the_table_of_tested_packages_has_those_that_the_tests_install() {
    let file = repository().join("tests/node_host/package.json");
    let file: Json = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let installed = file["devDependencies"].as_object().unwrap();
    let installed = installed
        .iter()
        .map(|(name, version)| format!("| `{name}` | {} |", version.as_str().unwrap()));
    let rows = rows("docs/node-host.md", "Tested packages");
    let documented = rows.iter().map(|row| {
        let cells: Vec<&str> = row.split(" | ").take(2).collect();
        format!("{} |", cells.join(" | "))
    });
    assert_eq!(
        documented.collect::<BTreeSet<_>>(),
        installed.collect::<BTreeSet<_>>()
    );
}

/// Labels whose values the operator, the flows or the version decide.
const OPEN_LABELS: [&str; 3] = ["sink", "upstream", "version"];

#[test]
fn the_table_of_label_values_has_those_of_every_label() {
    let mut documented: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for row in rows("docs/metrics.md", "Label values") {
        let cells: Vec<&str> = row.split(" | ").collect();
        let label = quoted(cells[1]).next().unwrap();
        for metric in quoted(cells[0]) {
            let values = quoted(cells[2]).map(str::to_owned).collect();
            documented.insert((metric.to_owned(), label.to_owned()), values);
        }
    }

    let metrics = all_combinations();
    let _ = (metrics.node_host(), metrics.traces());
    let page = metrics.render();
    let mut values: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for (series, _) in page.lines().filter_map(|line| line.rsplit_once(' ')) {
        let Some((name, labels)) = series.strip_suffix('}').and_then(|s| s.split_once('{')) else {
            continue;
        };
        let is_part = name.ends_with("_bucket") || name.ends_with("_sum");
        for (label, value) in labels
            .split("\",")
            .filter_map(|label| label.split_once("=\""))
        {
            let is_open = OPEN_LABELS.contains(&label) && !name.contains("_tls_");
            if !is_part && !is_open {
                let name = name.trim_end_matches("_count").to_owned();
                let all = values.entry((name, label.to_owned())).or_default();
                all.insert(value.trim_end_matches('"').to_owned());
            }
        }
    }
    assert_eq!(documented, values);
}

/// Metrics in which every combination of labels of requests and deployments has occurred.
fn all_combinations() -> Arc<Metrics> {
    let metrics = Metrics::new();
    let traffic = Traffic {
        duration: Duration::ZERO,
        received: 1,
        sent: 1,
    };
    let methods = [
        "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW",
    ];
    for class in RouteClass::ALL {
        for method in methods.map(|method| method.parse().unwrap()) {
            for status in [100, 200, 300, 400, 500] {
                metrics.request(class, &method, status, traffic);
            }
        }
    }
    for kind in ["full", "nodes", "flows", "reload"] {
        for (api, result, target) in Deployed::ALL
            .into_iter()
            .flat_map(|result| Target::ALL.map(|target| (result, target)))
            .flat_map(|(result, target)| [1, 2].map(|api| (api, result, target)))
        {
            metrics.deployment(kind, api, result, target);
        }
        for phase in Phase::ALL {
            metrics.phase(kind, phase, Duration::ZERO);
        }
    }
    metrics.upstream("runtime").answered(200, Duration::ZERO);
    metrics
}

/// Every metric's name and its labels' names, in their order.
fn series() -> BTreeSet<Vec<String>> {
    let metrics = all_combinations();
    let _ = (
        metrics.node_type("change"),
        metrics.node_host(),
        metrics.engine_restarts(),
        metrics.audit_sink("siem"),
        metrics.traces(),
        metrics.shared_store_reached(true),
        metrics.leads("", true),
        metrics.leads("hall-2", true),
    );
    let flows = vec![FlowLoad::new("t".into())];
    metrics.load().flows.store(Arc::new(flows));
    let page = metrics.render();
    let series = page
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    series.filter_map(name_and_labels).collect()
}

/// `None`: a part of a histogram that another line stands for.
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
fn the_table_of_audit_events_has_all() {
    let rows = rows("docs/audit.md", "Events");
    let documented: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row.split(" | ").next())
        .flat_map(quoted)
        .collect();
    let all = Event::ALL.iter().map(|event| event.name());
    assert_eq!(documented, all.collect());
}

#[test]
fn the_table_of_permissions_has_those_of_every_endpoint() {
    let rows = rows("docs/users.md", "Permissions");
    let documented: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row.split(" | ").next())
        .flat_map(quoted)
        .collect();
    let endpoints = ["table.rs", "gateway_table.rs", "entry.rs", "offers.rs"]
        .map(|file| fs::read_to_string(repository().join("src/http/route").join(file)).unwrap());
    let is_permission = |text: &&str| matches!(text.rsplit_once('.'), Some((_, "read" | "write")));
    let needed: BTreeSet<&str> = endpoints
        .iter()
        .flat_map(|text| text.split('"').skip(1).step_by(2))
        .filter(is_permission)
        .collect();
    assert!(needed.len() > 20, "the table of endpoints has moved");
    let missing: Vec<_> = needed.difference(&documented).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let is_whole = |name: &&str| *name != "*" && !name.contains(':');
    let documented: BTreeSet<&str> = documented.into_iter().filter(is_whole).collect();
    assert_eq!(documented, BTreeSet::from(flowgate::config::PERMISSIONS));
}

#[test]
fn every_toml_block_is_a_configuration_or_an_addition_to_the_default() {
    let mut documents = book::documents();
    // Its blocks are those of gateway.toml, which has a test of its own.
    documents.retain(|document| document != "docs/configuration.md");
    for document in documents {
        let blocks = book::blocks(&book::read(&document));
        for block in blocks.iter().filter(|block| block.language == "toml") {
            let directory = tempfile::tempdir().unwrap();
            let files = block.text.lines().filter(|line| line.contains("_file = "));
            for line in files {
                let file = line.split('"').nth(1).unwrap();
                let hash = "$2b$08$W99V1mAwhUg5M9.hX6kjY.qtLHyvMOmTvm/hfRdpVY8u2XJsIHwFC\n";
                let is_key_set = line.starts_with("jwks_file");
                let content = if is_key_set { "{ \"keys\": [] }" } else { hash };
                fs::write(directory.path().join(file), content).unwrap();
            }
            let parses = |text: &str| Config::parse(text, &document, directory.path());
            let alone = parses(&block.text);
            let added = parses(&format!("{DEFAULT}\n{}", block.text));
            assert!(
                alone.is_ok() || added.is_ok(),
                "{}\n{}\n{}",
                block.text,
                alone.unwrap_err(),
                added.unwrap_err()
            );
        }
    }
}

#[test]
fn every_json_block_is_a_flow_set_that_can_be_deployed() {
    for document in book::documents() {
        let blocks = book::blocks(&book::read(&document));
        for block in blocks.iter().filter(|block| block.language == "json") {
            let submission = Submission::v2(&FlowSet::default(), block.text.as_bytes()).unwrap();
            let missing = engine::Engine::missing_types(&submission.flows);
            assert!(missing.is_empty(), "{document}: {missing:?}");
        }
    }
}

/// A YAML file as JSON, read with the library that Node-RED uses.
fn yaml(file: &Path) -> Json {
    let script = "console.log(JSON.stringify(require('js-yaml').load(require('fs').readFileSync(process.argv[1], 'utf8'))))";
    let output = std::process::Command::new("node")
        .args(["-e", script])
        .arg(file)
        .current_dir(repository().join("tests"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", file.display());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn rules_alerts_and_dashboards_use_metrics_that_there_are() {
    let directory = repository().join("deploy/monitoring");
    let scrape = yaml(&directory.join("prometheus.yml"));
    let target = &scrape["scrape_configs"][0]["static_configs"][0]["targets"][0];
    let operations = Config::parse(DEFAULT, "gateway.toml", Path::new("")).unwrap();
    assert_eq!(*target, operations.operations.unwrap().to_string());

    let rules = |file: &str| {
        let groups = yaml(&directory.join(file));
        groups["groups"][0]["rules"].as_array().unwrap().clone()
    };
    let (recorded, alerts) = (rules("rules.yml"), rules("alerts.yml"));
    let mut expressions: Vec<String> = Vec::new();
    for rule in recorded.iter().chain(&alerts) {
        expressions.push(rule["expr"].as_str().unwrap().to_owned());
    }
    for dashboard in ["gateway", "engine", "upstreams"] {
        let file = directory.join(format!("grafana/{dashboard}.json"));
        let dashboard: Json = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                expressions.push(target["expr"].as_str().unwrap().to_owned());
            }
        }
    }
    assert!(expressions.len() > 60, "{}", expressions.len());
    let mut names: BTreeSet<String> = series().into_iter().map(|words| words[0].clone()).collect();
    names.extend(
        recorded
            .iter()
            .map(|rule| rule["record"].as_str().unwrap().to_owned()),
    );
    for expression in &expressions {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c));
        for word in words.filter(|word| word.contains("flowgate_")) {
            let name = word.trim_end_matches("_bucket");
            assert!(names.contains(name), "{word}");
        }
    }

    let described = book::read("deploy/monitoring/README.md");
    let described = described
        .lines()
        .filter(|line| line.starts_with("| `Flowgate"));
    let described: BTreeSet<&str> = described
        .filter_map(|row| row.split(" | ").next())
        .flat_map(quoted)
        .collect();
    let there = alerts.iter().filter_map(|alert| alert["alert"].as_str());
    assert_eq!(described, there.collect());
}

#[test]
fn the_compose_example_mounts_and_builds_files_that_there_are() {
    let directory = repository().join("examples/node-red-compose");
    let compose = yaml(&directory.join("compose.yml"));
    for service in ["node-red", "flowgate"] {
        for volume in compose["services"][service]["volumes"].as_array().unwrap() {
            let source = volume.as_str().unwrap().split(':').next().unwrap();
            let there = compose["volumes"].get(source).is_some();
            assert!(there || directory.join(source).exists(), "{source}");
        }
    }
    let build = &compose["services"]["flowgate"]["build"];
    let context = directory.join(build["context"].as_str().unwrap());
    assert!(context.join(build["dockerfile"].as_str().unwrap()).exists());

    let config = Config::load(Some(&directory.join("gateway.toml"))).unwrap();
    let state = Path::new("/var/lib/flowgate");
    assert!(config.storage.directory.starts_with(state) && config.tls.directory.starts_with(state));
}
