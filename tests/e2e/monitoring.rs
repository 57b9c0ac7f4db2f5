//! deploy/monitoring with a real Prometheus: it scrapes flowgate, and evaluates every rule and
//! every panel.

use crate::harness::{Gateway, flow_set, page, public, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::reverse_proxies::free_address;
use serde_json::Value as Json;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A Prometheus with the files of deploy/monitoring, stopped when dropped.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn monitoring() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/monitoring")
}

impl Prometheus {
    /// Scrapes these operations listeners each second instead of the one of the file.
    async fn scraping(targets: &[SocketAddr]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for file in ["rules.yml", "alerts.yml"] {
            fs::copy(monitoring().join(file), directory.path().join(file)).unwrap();
        }
        let shown: Vec<String> = targets
            .iter()
            .map(|target| format!("\"{target}\""))
            .collect();
        let config = fs::read_to_string(monitoring().join("prometheus.yml")).unwrap();
        let config = config
            .replace("15s", "1s\n  evaluation_interval: 1s")
            .replace("\"127.0.0.1:9090\"", &shown.join(", "));
        fs::write(directory.path().join("prometheus.yml"), config).unwrap();
        let address = free_address();
        let child = Command::new("prometheus")
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={address}"))
            .current_dir(directory.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let prometheus = Self {
            child,
            address,
            _directory: directory,
        };
        until("Prometheus has scraped all of them twice", async || {
            let scraped = "count(count_over_time(flowgate_build_info[1m]) > 1)";
            value(&prometheus.query(scraped)) == Some(targets.len() as f64)
        })
        .await;
        prometheus
    }

    /// The response of an endpoint of its API, to a form with this query.
    fn ask(&self, endpoint: &str, query: &str) -> Json {
        let output = Command::new("curl")
            .args(["--silent", "--get", "--data-urlencode"])
            .arg(format!("query={query}"))
            .arg(format!("http://{}/api/v1/{endpoint}", self.address))
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn query(&self, expression: &str) -> Json {
        self.ask("query", expression)
    }
}

/// The first value of a result.
fn value(response: &Json) -> Option<f64> {
    let value = response["data"]["result"].get(0)?;
    value["value"][1].as_str()?.parse().ok()
}

/// Every expression of the dashboards, with its variables filled in.
fn panels() -> Vec<String> {
    let mut expressions = Vec::new();
    for file in fs::read_dir(monitoring().join("grafana")).unwrap() {
        let dashboard = fs::read(file.unwrap().path()).unwrap();
        let dashboard: Json = serde_json::from_slice(&dashboard).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let expression = target["expr"].as_str().unwrap();
                let filled = expression.replace("$instance", ".*");
                expressions.push(filled.replace("$__rate_interval", "1m"));
            }
        }
    }
    expressions
}

#[tokio::test]
async fn prometheus_scrapes_flowgate_and_evaluates_all_rules_and_panels() {
    let own = Gateway::with(&public(&["/hello"]));
    let token = own.sign_in("admin").await;
    let flows = flow_set(&[page("a", "/hello", "hello")]);
    own.deploy(&token, &flows).await;
    let upstream = MockUpstream::start(|_| Action::Respond(ok("text/plain", "x"))).await;
    let front = Gateway::with(&upstream.config());
    let prometheus = Prometheus::scraping(&[own.operations, front.operations]).await;

    let requests = "sum(flowgate_requests_total{route=\"endpoint\",status=\"2xx\"})";
    let before = value(&prometheus.query(requests)).unwrap_or_default();
    for _ in 0..3 {
        assert_eq!(own.get("/hello").send().await.status, 200);
    }
    until("the requests are scraped", async || {
        value(&prometheus.query(requests)) == Some(before + 3.0)
    })
    .await;

    for expression in panels() {
        let response = prometheus.query(&expression);
        assert_eq!(response["status"], "success", "{expression}: {response}");
    }
    until(
        "every rule has been evaluated without an error",
        async || {
            let groups = prometheus.ask("rules", "");
            let groups = groups["data"]["groups"].as_array().cloned();
            let rules = groups.unwrap_or_default();
            let rules = rules
                .iter()
                .flat_map(|group| group["rules"].as_array().unwrap());
            let health: Vec<&Json> = rules.map(|rule| &rule["health"]).collect();
            health.len() > 10 && health.iter().all(|health| *health == "ok")
        },
    )
    .await;
    let stopped = prometheus.query("ALERTS{alertname=\"FlowgateUpstreamUnhealthy\"}");
    assert_eq!(stopped["data"]["result"], Json::Array(Vec::new()));
}
