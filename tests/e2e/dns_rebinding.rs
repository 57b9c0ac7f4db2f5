//! DNS rebinding: a page whose name resolves to the gateway has the gateway's origin in its
//! browser, so only the `Host` of its requests distinguishes it from a page of the gateway.

use crate::certificate_authority::{Authority, ClientCertificate};
use crate::client::{Answer, Client, Request};
use crate::client_certificate_channels::tunnel_flow;
use crate::client_certificates;
use crate::comms_client::ServerMessage;
use crate::harness::{Gateway, Process, flow_set, page, public};
use crate::multiple_upstreams::{in_front_of, named};
use crate::tunnel;
use serde_json::json;
use std::path::Path;
use tokio_tungstenite::tungstenite::Error;

/// A name of the attacker's, which resolves to the gateway now.
const REBOUND: &str = "rebound.example";

/// As the browser sends what a page of a rebound name asks for, which is of its own origin.
fn rebound(client: &Client, request: Request) -> Request {
    as_page_of(client, request, REBOUND)
}

/// As the browser of a page of this name sends it.
fn as_page_of(client: &Client, request: Request, name: &str) -> Request {
    let host = format!("{name}:{}", client.address.port());
    request
        .header("Origin", &format!("https://{host}"))
        .header("Sec-Fetch-Site", "same-origin")
        .host(&host)
}

/// What the attack that was found deployed: a command that the gateway's machine runs.
fn attack() -> serde_json::Value {
    json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "i", "type": "inject", "z": "t", "x": 1, "y": 1, "once": true, "wires": [["x"]] },
        { "id": "x", "type": "exec", "z": "t", "x": 1, "y": 1, "command": "id", "wires": [[], [], []] },
    ])
}

#[track_caller]
fn is_misdirected(answer: &Answer, what: &str) {
    let found = (answer.status, answer.code());
    assert_eq!(found, (421, "misdirected_request".to_owned()), "{what}");
    let text = answer.text();
    assert!(text.contains("[server] hosts"), "{what}: {text}");
}

fn is_refused_with_421<T>(opened: &Result<T, Error>) -> bool {
    matches!(opened, Err(Error::Http(refusal)) if refusal.status() == 421)
}

/// Gateways that need no sign-in.
fn open_gateways() -> [Gateway; 2] {
    let hello = public(&["/public"]);
    let listen = "[server]\nlisten = [\"127.0.0.1:0\"]\n";
    [
        Gateway::with(&format!("auth = \"off\"\n{listen}{hello}")),
        Gateway::with(&format!("[auth]\nanonymous = [\"*\"]\n{hello}")),
    ]
}

#[tokio::test]
async fn without_authentication_a_rebound_name_reads_and_changes_nothing() {
    for gateway in open_gateways() {
        let flows = [
            page("a", "/hello", "hello"),
            page("b", "/public", "for all"),
            tunnel_flow().as_array().unwrap().clone(),
        ];
        let before = gateway.deploy("", &flow_set(&flows)).await;
        for request in [
            gateway.deployment("", &attack(), None),
            gateway.get("/flows"),
            gateway.get("/settings"),
            gateway.get("/hello"),
            gateway.post("/inject/x"),
            gateway.request("DELETE", "/flow/a"),
            gateway.get("/no-such-endpoint"),
        ] {
            for request in [request.clone(), request.http2()] {
                let answer = rebound(&gateway, request.clone()).send().await;
                is_misdirected(&answer, &format!("{}", answer.status));
            }
        }
        let host = format!("{REBOUND}:{}", gateway.address.port());
        let socket = tunnel::open(&gateway, "/ws", &[("Host", &host)]).await;
        assert!(is_refused_with_421(&socket));
        assert_eq!(gateway.flows("").await["rev"], *before);
        // What needs no sign-in under any name.
        for path in ["/public", "/auth/login", "/comms"] {
            let answer = rebound(&gateway, gateway.get(path)).send().await;
            assert_ne!(answer.status, 421, "{path}");
        }
    }
}

#[tokio::test]
async fn without_authentication_the_machines_names_and_all_addresses_are_served() {
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_str().unwrap().to_lowercase();
    for gateway in open_gateways() {
        for name in [
            "127.0.0.1",
            "[::1]",
            "192.0.2.7",
            "localhost",
            "LocalHost.",
            "gateway.localhost",
            &machine,
        ] {
            let changed = gateway.deployment("", &json!([]), None);
            let answer = as_page_of(&gateway, changed, name).send().await;
            assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        }
        for name in [
            "localhost.example",
            "notlocalhost",
            "127.0.0.1.example",
            "127.1",
            "2130706433",
            "localhost.example.",
        ] {
            let read = gateway.get("/flows");
            let answer = as_page_of(&gateway, read, name).send().await;
            is_misdirected(&answer, name);
        }
        // No browser leaves the host out.
        let answer = gateway.raw_exchange("GET /flows HTTP/1.0\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
    }
}

#[tokio::test]
async fn a_channel_of_a_rebound_name_receives_nothing_without_a_token() {
    let [open, anonymous] = open_gateways();
    let host = |client: &Client| format!("{REBOUND}:{}", client.address.port());
    let refused = open.open_comms(&[("Host", &host(&open))]).await;
    assert!(is_refused_with_421(&refused.map(drop)));
    let name = host(&anonymous);
    let mut channel = anonymous.open_comms(&[("Host", &name)]).await.unwrap().0;
    channel.subscribe("#").await;
    assert_eq!(
        channel.receive().await,
        ServerMessage::Auth("fail".to_owned())
    );
    let token = anonymous.sign_in("reader").await;
    let mut channel = anonymous.open_comms(&[("Host", &name)]).await.unwrap().0;
    channel.send(&json!({ "auth": token })).await;
    assert_eq!(
        channel.receive().await,
        ServerMessage::Auth("ok".to_owned())
    );
}

#[tokio::test]
async fn a_token_is_valid_under_any_host_name() {
    let gateway = Gateway::with("[auth]\nanonymous = [\"read\"]\n");
    let token = gateway.sign_in("admin").await;
    let ask = |request| rebound(&gateway, request).send();
    let changed = gateway.deployment(&token, &json!([]), None);
    assert_eq!(ask(changed).await.status, 200);
    is_misdirected(&ask(gateway.get("/flows")).await, "the anonymous user");
    let anonymous = gateway.get("/flows").token("nonsense");
    assert_eq!(ask(anonymous).await.status, 401);
    let sign_in_request = gateway.sign_in_request("reader", crate::client::PASSWORD, "");
    assert_eq!(ask(sign_in_request).await.status, 200);
    // Without anonymous users there is nothing that a name could open.
    let closed = Gateway::start();
    let answer = rebound(&closed, closed.get("/flows")).send().await;
    assert_eq!(answer.status, 401);
}

#[tokio::test]
async fn a_client_certificate_is_accepted_under_known_host_names_only() {
    let authority = Authority::new("ours");
    let gateway = client_certificates::gateway(&authority, "");
    let client = gateway.with_certificate(&authority.sign(&ClientCertificate::named("root")));
    let answer = rebound(&client, client.deployment("", &attack(), None));
    is_misdirected(&answer.send().await, "a deployment");
    is_misdirected(
        &rebound(&client, client.get("/flows")).send().await,
        "reading",
    );
    let host = format!("{REBOUND}:{}", client.address.port());
    let mut channel = client.open_comms(&[("Host", &host)]).await.unwrap().0;
    channel.subscribe("#").await;
    assert_eq!(
        channel.receive().await,
        ServerMessage::Auth("fail".to_owned())
    );
    let own = as_page_of(&client, client.get("/flows"), "localhost");
    assert_eq!(own.send().await.status, 200);
}

/// Writes a self-signed certificate for a name; gives the lines of TOML that name it.
fn certificate(directory: &Path, name: &str) -> String {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    std::fs::write(directory.join("own.pem"), made.cert.pem()).unwrap();
    std::fs::write(directory.join("own.key"), made.signing_key.serialize_pem()).unwrap();
    "[[tls.certificate]]\ncert = \"own.pem\"\nkey = \"own.key\"\n".to_owned()
}

/// A gateway with its own certificate, asked over its plain listener, because its clients do not
/// trust that.
fn with_certificate(name: &str) -> (Gateway, Client, String) {
    let directory = tempfile::tempdir().unwrap();
    let lines = certificate(directory.path(), name);
    let lines = format!(
        "auth = \"off\"\n[server]\nlisten = [\"127.0.0.1:0\"]\nplain = \"127.0.0.1:0\"\n{lines}"
    );
    let gateway = Gateway::open(&lines, directory);
    let mut plain = (*gateway).clone();
    plain.address = gateway.running.addresses().plain.unwrap();
    (gateway, plain, lines)
}

#[tokio::test]
async fn host_names_of_the_server_certificates_are_known_and_follow_a_reload() {
    let (gateway, plain, lines) = with_certificate("*.flows.example");
    let status = async |host: &str| plain.get("/flows").plain().host(host).send().await.status;
    assert_eq!(status("hall.flows.example").await, 200);
    assert_eq!(status("HALL.flows.example:8443").await, 200);
    assert_eq!(
        status("flows.example").await,
        421,
        "a wildcard is one label"
    );
    assert_eq!(status("a.b.flows.example").await, 421);
    certificate(gateway.directory.path(), "other.example");
    assert!(gateway.reload(&lines).await);
    assert_eq!(status("hall.flows.example").await, 421);
    assert_eq!(status("other.example").await, 200);
}

#[tokio::test]
async fn the_hosts_of_upstreams_are_known() {
    let (hall, rest) = (named("hall").await, named("rest").await);
    let lines = in_front_of(&[(&hall, "host = [\"hall.example\"]"), (&rest, "")]);
    let open = "auth = \"off\"\n[server]\nlisten = [\"127.0.0.1:0\"]\n";
    let gateway = Gateway::with(&format!("{open}{lines}"));
    let ask = |host| gateway.get("/x").host(host).send();
    assert_eq!(ask("hall.example").await.text(), "hall GET /x HTTP/1.1");
    is_misdirected(&ask(REBOUND).await, "the upstream of all hosts");
    let others = || {
        rest.received()
            .into_iter()
            .filter(|h| h.bytes.contains("/x"))
    };
    assert_eq!(others().count(), 0, "nothing reached it");
    // With a list they need not be in it.
    let lines = lines.replace("[[upstream]]", "[[upstream]] #");
    let listed = open.replace("[server]", "[server]\nhosts = [\"flows.example\"]");
    let gateway = Gateway::with(&format!("{listed}{lines}"));
    let ask = async |host| gateway.get("/x").host(host).send().await.status;
    assert_eq!(ask("hall.example").await, 200);
    assert_eq!(ask("flows.example").await, 200);
    assert_eq!(ask("127.0.0.1").await, 421);
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_forwarded_host_counts() {
    let open =
        "auth = \"off\"\n[server]\nlisten = [\"127.0.0.1:0\"]\ntrusted_proxies = [\"127.0.0.2\"]\n";
    let gateway = Gateway::with(open);
    let through = async |hosts: &[&str], own: &str| {
        let request = gateway.get("/flows").from("127.0.0.2").host(own);
        let forwarded = |request: Request, host: &&str| request.header("X-Forwarded-Host", host);
        hosts.iter().fold(request, forwarded).send().await.status
    };
    assert_eq!(through(&["localhost"], "backend").await, 200);
    assert_eq!(through(&["127.0.0.1:8443"], "backend").await, 200);
    assert_eq!(through(&[REBOUND], "localhost").await, 421);
    assert_eq!(through(&[], "localhost").await, 200);
    assert_eq!(through(&[], REBOUND).await, 421);
    // A proxy that adds to what its client says: the client may say anything.
    let list = format!("localhost, {REBOUND}");
    assert_eq!(through(&[&list], "localhost").await, 421);
    assert_eq!(through(&["localhost", REBOUND], "localhost").await, 421);
    assert_eq!(through(&["localhost, 127.0.0.1"], "backend").await, 200);
    assert_eq!(through(&["a b"], "localhost").await, 421);
    // From other clients the field does not count.
    let liar = gateway.get("/flows").host(REBOUND);
    let liar = liar.header("X-Forwarded-Host", "localhost").send().await;
    is_misdirected(&liar, "a client that is no proxy");
}

#[tokio::test]
async fn with_a_list_of_hosts_no_other_host_is_served() {
    let server = |hosts: &str| format!("[server]\nlisten = [\"127.0.0.1:0\"]\nhosts = {hosts}\n");
    let lines = server(r#"["flows.example", "*.plant.example", "port.example:8443", "[::1]"]"#);
    let gateway = Gateway::with(&format!("{lines}{}", public(&["/public"])));
    let sign_in_request = gateway.sign_in_request("admin", crate::client::PASSWORD, "");
    let token = sign_in_request.host("flows.example").send().await.json();
    let token = token["access_token"].as_str().unwrap();
    for host in [
        "flows.example",
        "FLOWS.example.:1",
        "hall.plant.example",
        "a.b.plant.example:8443",
        "port.example:8443",
        "[::1]",
        "[0:0::1]:8443",
    ] {
        let answer = gateway.get("/flows").token(token).host(host).send().await;
        assert_eq!(answer.status, 200, "{host}");
        let http2 = gateway.get("/flows").token(token).host(host).http2();
        assert_eq!(http2.send().await.status, 200, "{host}");
    }
    for host in [
        "localhost",
        "127.0.0.1",
        "plant.example",
        "port.example",
        "port.example:443",
        "notflows.example",
        "a.flows.example",
        "[::2]",
        REBOUND,
    ] {
        for request in [
            gateway.get("/flows").token(token),
            gateway.get("/auth/login"),
            gateway.get("/public"),
            gateway.get("//"),
            gateway.get("/comms"),
            gateway.get("/flows").token("nonsense").http2(),
        ] {
            is_misdirected(&request.host(host).send().await, host);
        }
    }
    let asking = async |host| gateway.get("/auth/login").host(host).send().await.status;
    assert!(gateway.reload(&server(r#"["other.example"]"#)).await);
    assert_eq!(asking("flows.example").await, 421);
    assert_eq!(asking("other.example").await, 200);
    assert!(gateway.reload(&server(r#"["*"]"#)).await);
    assert_eq!(asking(REBOUND).await, 200);
}

#[tokio::test]
async fn a_list_of_hosts_limits_anonymous_access_to_its_names() {
    let open =
        "auth = \"off\"\n[server]\nlisten = [\"127.0.0.1:0\"]\nhosts = [\"flows.example\"]\n";
    let gateway = Gateway::with(open);
    let ask = async |host| gateway.get("/flows").host(host).send().await.status;
    assert_eq!(ask("flows.example").await, 200);
    assert_eq!(ask("127.0.0.1").await, 421);
    assert_eq!(ask(REBOUND).await, 421);
}

#[tokio::test]
async fn the_operations_listener_serves_known_host_names_only() {
    let without = Gateway::start();
    for host in ["flowgate:9090", REBOUND] {
        assert_eq!(without.operations_as(host, "/metrics").await.status, 421);
    }
    let gateway = Gateway::with("operations_hosts = [\"flowgate\", \"*.monitored.example\"]\n");
    for host in [
        "127.0.0.1:9090",
        "10.0.0.7",
        "[::1]:9090",
        "localhost:9090",
        "flowgate:9090",
        "a.monitored.example",
    ] {
        for path in ["/metrics", "/healthz", "/readyz"] {
            let answer = gateway.operations_as(host, path).await;
            assert_eq!(answer.status, 200, "{host} {path}");
        }
    }
    for host in [REBOUND, "flowgate.example:9090", "monitored.example", ""] {
        for path in ["/metrics", "/healthz", "/readyz", "/none"] {
            let answer = gateway.operations_as(host, path).await;
            assert_eq!(answer.status, 421, "{host} {path}");
            assert!(answer.text().contains("operations_hosts"), "{host}");
        }
    }
    let listed = "[server]\nhosts = [\"flows.example\"]\n";
    let listed = Gateway::with(listed);
    assert_eq!(
        listed
            .operations_as("flows.example:9090", "/metrics")
            .await
            .status,
        200
    );
    assert_eq!(
        listed
            .operations_as("127.0.0.1:9090", "/metrics")
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn the_log_names_the_host_and_the_setting_once() {
    let directory = tempfile::tempdir().unwrap();
    let open = "auth = \"off\"\n[server]\nlisten = [\"127.0.0.1:0\"]\n";
    let process = Process::start(open, directory.path());
    for _ in 0..3 {
        assert_eq!(
            rebound(&process, process.get("/flows")).send().await.status,
            421
        );
    }
    process.signal("TERM");
    let named = |line: &&String| line.contains(REBOUND) && line.contains("[server] hosts");
    assert_eq!(process.whole_log().iter().filter(named).count(), 1);
}
