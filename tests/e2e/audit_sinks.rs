//! Sinks of the audit log: servers that stall, close and come back get every record, in order, and
//! then `on_failure` holds.

use crate::client::PASSWORD;
use crate::harness::{Gateway, config_text, program, run_command, until};
use crate::mock_upstream::{Action, MockUpstream, ok, status};
use flowgate::audit::SigningKey;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value as Json;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const TAKES: u8 = 0;
const STALLS: u8 = 1;
const RESETS: u8 = 2;

/// A syslog server over TLS (RFC 5425).
struct SyslogServer {
    address: SocketAddr,
    /// The messages that it has read.
    messages: Arc<Mutex<Vec<String>>>,
    mode: Arc<AtomicU8>,
    /// Connections that it did not read to their end.
    refused: Arc<AtomicU8>,
}

impl SyslogServer {
    /// Its certificate is written to `syslog.crt` in the directory.
    async fn start(directory: &Path) -> Self {
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        fs::write(directory.join("syslog.crt"), own.cert.pem()).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            messages: Arc::default(),
            mode: Arc::default(),
            refused: Arc::default(),
        };
        let (messages, mode, refused) = (
            Arc::clone(&server.messages),
            Arc::clone(&server.mode),
            Arc::clone(&server.refused),
        );
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (acceptor, messages, mode, refused) = (
                    acceptor.clone(),
                    Arc::clone(&messages),
                    Arc::clone(&mode),
                    Arc::clone(&refused),
                );
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(tcp).await else {
                        return;
                    };
                    let mut bytes = vec![0; 64];
                    match mode.load(Ordering::SeqCst) {
                        STALLS => {
                            refused.fetch_add(1, Ordering::SeqCst);
                            // Reads nothing until the client gives up.
                            std::future::pending::<()>().await;
                        }
                        RESETS => {
                            let _ = stream.read(&mut bytes).await;
                            refused.fetch_add(1, Ordering::SeqCst);
                        }
                        _ => {
                            bytes.clear();
                            if stream.read_to_end(&mut bytes).await.is_ok() {
                                messages.lock().unwrap().extend(frames(&bytes));
                                let _ = stream.shutdown().await;
                            }
                        }
                    }
                });
            }
        });
        server
    }

    fn set(&self, mode: u8) {
        self.refused.store(0, Ordering::SeqCst);
        self.mode.store(mode, Ordering::SeqCst);
    }

    async fn refuses(&self, times: u8) {
        let refused = || self.refused.load(Ordering::SeqCst);
        until("a connection is not read to its end", async || {
            refused() >= times
        })
        .await;
    }

    /// The records, in the order in which they first came.
    fn records(&self) -> Vec<String> {
        let mut records = Vec::new();
        for message in &*self.messages.lock().unwrap() {
            let (head, line) = message.split_at(message.find(" {").unwrap() + 1);
            let record: Json = serde_json::from_str(line).unwrap();
            let start = format!(
                "<110>1 {} {} flowgate {} {} [meta sequenceId=\"{}\"] ",
                record["time"].as_str().unwrap(),
                flowgate::audit::machine_name(),
                head.split(' ').nth(4).filter(|id| is_id(id)).unwrap(),
                record["event"].as_str().unwrap(),
                record["seq"],
            );
            assert_eq!(head, start);
            if !records.iter().any(|known| known == line) {
                records.push(line.to_owned());
            }
        }
        records
    }
}

/// Returns whether it is the identity of a log.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Reads frames: a length, a space, and so many bytes.
fn frames(mut bytes: &[u8]) -> Vec<String> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|byte| *byte == b' ').unwrap();
        let length: usize = std::str::from_utf8(&bytes[..space])
            .unwrap()
            .parse()
            .unwrap();
        let (message, rest) = bytes[space + 1..].split_at(length);
        messages.push(String::from_utf8(message.to_vec()).unwrap());
        bytes = rest;
    }
    messages
}

fn log(directory: &Path) -> Vec<String> {
    let text = fs::read_to_string(directory.join("data/audit.log")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_syslog_server_that_stalls_resets_and_comes_back_gets_every_record_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let server = SyslogServer::start(directory.path()).await;
    let key = SigningKey::make(&directory.path().join("audit.key")).unwrap();
    let lines = format!(
        "[audit]\nsigning_key = \"audit.key\"\n[[audit.sink]]\ntype = \"syslog\"\nurl = \"tls://{}\"\nca_file = \"syslog.crt\"\ntimeout = \"1s\"\n",
        server.address
    );
    fs::write(directory.path().join("gateway.toml"), config_text(&lines)).unwrap();
    let gateway = Gateway::open(&lines, directory);
    gateway.sign_in("admin").await;
    until("the sign-in has arrived", async || {
        server.records().len() >= 2
    })
    .await;

    server.set(STALLS);
    gateway.sign_in("reader").await;
    server.refuses(1).await;
    let failures = "flowgate_audit_sink_failures_total{sink=\"syslog\"}";
    until("the time-out is counted", async || {
        gateway.metric(failures).await >= Some(1.0)
    })
    .await;
    assert!(
        gateway
            .metric("flowgate_audit_sink_lag_records{sink=\"syslog\"}")
            .await
            >= Some(1.0)
    );
    server.set(RESETS);
    gateway.sign_in("deployer").await;
    server.refuses(2).await;
    assert_eq!(server.records().len(), 2);

    // The rest arrives after a restart.
    let directory = gateway.stop().await;
    let before = log(directory.path());
    server.set(TAKES);
    let gateway = Gateway::open(&lines, directory);
    until("nothing is missing", async || {
        server.records().len() > before.len()
    })
    .await;
    let directory = gateway.stop().await;
    let whole = log(directory.path());
    assert_eq!(
        server.records(),
        whole,
        "the end of the process waits for the sink"
    );
    assert!(whole.last().unwrap().contains("audit.checkpoint"));

    // What has arrived shows that the end of the log was cut off, checkpoint by checkpoint.
    let received = directory.path().join("received.log");
    fs::write(&received, server.records().join("\n") + "\n").unwrap();
    let public = key.public().to_string();
    let verify = || {
        let arguments = [
            "audit",
            "verify",
            "--key",
            &public,
            "--seen",
            "received.log",
        ];
        run_command(program(directory.path(), &arguments))
    };
    assert_eq!(verify(), (Some(0), String::new()));
    let end = whole
        .iter()
        .position(|line| line.contains("audit.checkpoint"))
        .unwrap()
        + 1;
    fs::write(
        directory.path().join("data/audit.log"),
        whole[..end].join("\n") + "\n",
    )
    .unwrap();
    let (code, output) = verify();
    assert_eq!(code, Some(1), "{output}");
}

/// A webhook that answers 503 while it is away, and checks all that it gets.
struct Webhook {
    server: MockUpstream,
    away: Arc<AtomicU8>,
    /// The requests that it has answered with 200.
    accepted: Arc<Mutex<Vec<String>>>,
}

const SECRET: &str = "a secret of the webhook";

impl Webhook {
    async fn start() -> Self {
        let away = Arc::<AtomicU8>::default();
        let accepted = Arc::<Mutex<Vec<String>>>::default();
        let (state, all) = (Arc::clone(&away), Arc::clone(&accepted));
        let server = MockUpstream::start(move |request| {
            Action::RespondAndClose(if state.load(Ordering::SeqCst) == 0 {
                all.lock().unwrap().push(request.to_owned());
                ok("application/json", "{}")
            } else {
                status("503 Service Unavailable", "text/plain", "")
            })
        })
        .await;
        Self {
            server,
            away,
            accepted,
        }
    }

    fn config(&self, lines: &str) -> String {
        let address = self.server.address;
        format!(
            "{lines}\n[[audit.sink]]\ntype = \"webhook\"\nname = \"hook\"\nurl = \"http://{address}/audit?a=b\"\nsecret = \"{SECRET}\"\nmax_lag = \"1s\"\n"
        )
    }

    /// The records of the requests that it has accepted, in order; each is signed.
    fn records(&self) -> Vec<String> {
        let mut records: Vec<String> = Vec::new();
        for request in &*self.accepted.lock().unwrap() {
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("POST /audit?a=b HTTP/1.1\r\n"), "{head}");
            let field = |name: &str| {
                let mut lines = head.lines();
                lines.find_map(|line| line.strip_prefix(name)).unwrap()
            };
            let text = format!("{}.{body}", field("flowgate-timestamp: "));
            let tag = crypto::hmac_sha256(SECRET.as_bytes(), text.as_bytes());
            let signature = format!("sha256={}", crypto::hex(&tag));
            assert_eq!(field("flowgate-signature: "), signature);
            let content: Json = serde_json::from_str(body).unwrap();
            let all = content["records"].as_array().unwrap();
            let name = content["gateway"].as_str().unwrap();
            let log = content["log"].as_str().filter(|id| is_id(id)).unwrap();
            let (first, last) = (&all[0]["seq"], &all[all.len() - 1]["seq"]);
            let id = format!("{name}:{log}:{first}-{last}");
            assert_eq!(field("idempotency-key: "), id);
            for record in all.iter().map(Json::to_string) {
                if !records.contains(&record) {
                    records.push(record);
                }
            }
        }
        records
    }
}

#[tokio::test]
async fn a_webhook_that_fails_blocks_nothing_up_to_its_bound_and_then_on_failure_holds() {
    for on_failure in ["refuse", "continue"] {
        let hook = Webhook::start().await;
        hook.away.store(1, Ordering::SeqCst);
        let lines = hook.config(&format!("[audit]\non_failure = \"{on_failure}\""));
        let gateway = Gateway::with(&lines);
        let token = gateway.sign_in("admin").await;
        gateway.deploy(&token, &serde_json::json!([])).await;

        let readyz = async || gateway.operations("/readyz").await.json();
        until("the sink lags by more than it may", async || {
            readyz().await["status"] == "degraded"
        })
        .await;
        let audit = readyz().await["audit"].to_string();
        assert!(audit.contains("lagging"), "{audit}");
        let deploy = gateway
            .deployment(&token, &serde_json::json!([]), None)
            .send()
            .await;
        let sign_in = gateway.sign_in_request("admin", PASSWORD, "").send().await;
        if on_failure == "refuse" {
            assert_eq!(
                (deploy.status, deploy.code()),
                (503, "audit_unavailable".into())
            );
            assert_eq!(sign_in.status, 503);
        } else {
            assert_eq!((deploy.status, sign_in.status), (200, 200));
        }
        assert_eq!(gateway.get("/flows").token(&token).send().await.status, 200);

        hook.away.store(0, Ordering::SeqCst);
        until("it takes records again", async || {
            readyz().await["status"] == "ready"
        })
        .await;
        gateway.deploy(&token, &serde_json::json!([])).await;
        let directory = gateway.stop().await;
        assert_eq!(hook.records(), log(directory.path()), "{on_failure}");
        let lost = fs::read_to_string(directory.path().join("data/audit.sink.hook")).unwrap();
        let (position, log_id) = lost.trim().split_once(' ').unwrap();
        assert!(is_id(log_id), "{lost}");
        let position: usize = position.parse().unwrap();
        assert_eq!(position, log(directory.path()).len());
    }
}

#[tokio::test]
async fn a_collector_of_opentelemetry_gets_the_records_with_its_token() {
    let collector = MockUpstream::start(|_| Action::Respond(ok("application/json", "{}"))).await;
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("otlp.token"), "abc.def\n").unwrap();
    let lines = format!(
        "[[audit.sink]]\ntype = \"otlp\"\nurl = \"http://{}/v1/logs\"\ntoken_file = \"otlp.token\"\n",
        collector.address
    );
    let gateway = Gateway::open(&lines, directory);
    gateway.sign_in("admin").await;
    let directory = gateway.stop().await;
    let mut lines = Vec::new();
    for request in collector.received() {
        let (head, body) = request.bytes.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/logs HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("\r\nauthorization: Bearer abc.def"), "{head}");
        let logs: Json = serde_json::from_str(body).unwrap();
        let records = &logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"];
        let records = records.as_array().unwrap().iter();
        lines.extend(
            records.map(|record| record["body"]["stringValue"].as_str().unwrap().to_owned()),
        );
    }
    assert_eq!(lines, log(directory.path()));
}

/// A proxy of TCP: it takes every connection and what comes on it, before it tries to reach its
/// server; without one it ends the connection, as `HAProxy` and nginx do.
struct Proxy {
    address: SocketAddr,
    /// The server, while there is one.
    server: Arc<Mutex<Option<SocketAddr>>>,
}

impl Proxy {
    /// It tries for this long to reach its server.
    async fn start(patience: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::<Mutex<Option<SocketAddr>>>::default();
        let behind = Arc::clone(&server);
        tokio::spawn(async move {
            loop {
                let (mut front, _) = listener.accept().await.unwrap();
                let server = *behind.lock().unwrap();
                tokio::spawn(async move {
                    let Some(server) = server else {
                        let mut taken = [0; 4096];
                        let taking =
                            async { while front.read(&mut taken).await.is_ok_and(|n| n > 0) {} };
                        let _ = tokio::time::timeout(patience, taking).await;
                        tokio::time::sleep(patience).await;
                        let _ = front.shutdown().await;
                        return;
                    };
                    let mut back = TcpStream::connect(server).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut front, &mut back).await;
                });
            }
        });
        Self { address, server }
    }
}

/// A syslog server without TLS; its address, and what it has read.
async fn plain_syslog_server() -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let received = Arc::<Mutex<Vec<u8>>>::default();
    let all = Arc::clone(&received);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let all = Arc::clone(&all);
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                if stream.read_to_end(&mut bytes).await.is_ok() {
                    all.lock().unwrap().extend(bytes);
                }
            });
        }
    });
    (address, received)
}

#[tokio::test]
async fn records_that_a_proxy_takes_for_a_syslog_server_that_is_gone_are_kept_and_sent_again() {
    for patience in [Duration::ZERO, Duration::from_secs(1)] {
        let proxy = Proxy::start(patience).await;
        let lines = format!(
            "[[audit.sink]]\ntype = \"syslog\"\nurl = \"tcp://{}\"\nmax_lag = \"1s\"\n",
            proxy.address
        );
        let gateway = Gateway::with(&lines);
        gateway.sign_in("admin").await;
        let readyz = async || gateway.operations("/readyz").await.json();
        until("the sink lags", async || {
            readyz().await["status"] == "degraded"
        })
        .await;
        let audit = readyz().await["audit"].to_string();
        assert!(audit.contains("lagging"), "{audit}");
        let taken = "flowgate_audit_sink_records_total{sink=\"syslog\"}";
        assert_eq!(gateway.metric(taken).await, Some(0.0));
        assert!(
            !gateway
                .directory
                .path()
                .join("data/audit.sink.syslog")
                .exists()
        );

        let (server, received) = plain_syslog_server().await;
        *proxy.server.lock().unwrap() = Some(server);
        until("a probe has found the server", async || {
            readyz().await["status"] == "ready"
        })
        .await;
        assert_eq!(
            gateway.metric(taken).await,
            Some(0.0),
            "none is acknowledged"
        );
        let sent = "flowgate_audit_sink_sent_total{sink=\"syslog\"}";
        assert!(gateway.metric(sent).await >= Some(2.0));
        let directory = gateway.stop().await;
        let lines = log(directory.path());
        let all = || {
            let messages = frames(&received.lock().unwrap());
            let has = |line: &String| messages.iter().any(|message| message.ends_with(&**line));
            lines.iter().all(has)
        };
        until("nothing is missing", async || all()).await;
    }
}

#[tokio::test]
async fn a_collector_that_rejects_a_number_of_records_that_cannot_be_has_taken_none() {
    for number in ["\"99999999999999999999\"", "-5", "100000"] {
        let collector = MockUpstream::start(move |_| {
            let body = format!("{{\"partialSuccess\":{{\"rejectedLogRecords\":{number}}}}}");
            Action::Respond(ok("application/json", &body))
        })
        .await;
        let lines = format!(
            "[[audit.sink]]\ntype = \"otlp\"\nurl = \"http://{}/v1/logs\"\n",
            collector.address
        );
        let gateway = Gateway::with(&lines);
        gateway.sign_in("admin").await;
        let mut sent = 0;
        until("the records are sent again", async || {
            sent += collector.take().len();
            sent >= 2
        })
        .await;
        for kind in ["records", "lost"] {
            let series = format!("flowgate_audit_sink_{kind}_total{{sink=\"otlp\"}}");
            let count = gateway.metric(&series).await;
            assert_eq!(count, Some(0.0), "{kind} {number}");
        }
    }
}

#[tokio::test]
async fn check_names_a_sink_that_cannot_be_opened() {
    let directory = tempfile::tempdir().unwrap();
    let lines =
        "[[audit.sink]]\ntype = \"syslog\"\nurl = \"tls://127.0.0.1\"\nca_file = \"missing.crt\"\n";
    fs::write(directory.path().join("gateway.toml"), config_text(lines)).unwrap();
    let (code, output) = run_command(program(directory.path(), &["check"]));
    assert_eq!(code, Some(1));
    assert!(
        output.contains("audit.sink syslog: ") && output.contains("missing.crt"),
        "{output}"
    );
}
