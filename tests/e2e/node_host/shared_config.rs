//! Native config nodes that packages use too: MQTT brokers, TLS configurations, HTTP proxies.

use super::{Hosted, chain, function, trial};
use crate::harness::until;
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use testing::ports;

/// A broker that wants a password, and logs every packet. Ends with the test.
struct Mosquitto {
    child: Child,
    directory: TempDir,
    port: u16,
}

const USER: &str = "gateway";
const PASSWORD: &str = "correct horse";

impl Mosquitto {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = ports::free();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let mut passwd = Command::new("mosquitto_passwd");
        passwd.args(["-b", "-c", &at("passwords"), USER, PASSWORD]);
        assert!(passwd.stderr(Stdio::null()).status().unwrap().success());
        let config = format!(
            // As root it would become another user, who may not read the directory.
            "user root\nlistener {port} 127.0.0.1\npassword_file {}\nlog_dest file {}\nlog_type all\n",
            at("passwords"),
            at("log")
        );
        fs::write(at("conf"), config).unwrap();
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap());
        let mut program = Command::new("mosquitto");
        program.env("PATH", path).args(["-c", &at("conf")]);
        program.stdout(Stdio::null()).stderr(Stdio::null());
        let child = program
            .spawn()
            .expect("mosquitto is installed by tests/run");
        until("the broker listens", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .is_ok()
        })
        .await;
        Self {
            child,
            directory,
            port,
        }
    }

    /// How often its log has this text.
    fn logged(&self, text: &str) -> usize {
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap();
        log.matches(text).count()
    }

    fn node(&self) -> Json {
        json!({
            "id": "b", "type": "mqtt-broker", "broker": "127.0.0.1", "port": self.port.to_string(), "clientid": "one",
            "autoConnect": true, "usetls": false, "protocolVersion": "4", "keepalive": "60", "cleansession": true,
            "birthTopic": "birth", "birthPayload": "here", "birthQos": "0", "birthRetain": "false",
            "willTopic": "will", "willPayload": "gone", "willQos": "0", "willRetain": "false",
            "credentials": { "user": USER, "password": PASSWORD }
        })
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A foreign node that uses the broker as packages do.
fn with_broker(id: &str, setup: &str, input: &str) -> Json {
    let mut node = trial(id, input);
    node["broker"] = "b".into();
    let register = "node.broker = RED.nodes.getNode(config.broker); node.broker.register(node);";
    node["setup"] = format!("{register} {setup}").into();
    node["closing"] = "node.broker.deregister(node, () => {}, removed)".into();
    node["wires"] = json!([["out"]]);
    node
}

fn native(id: &str, kind: &str, topic: &str, to: &str) -> Json {
    json!({ "id": id, "type": kind, "z": "t", "topic": topic, "qos": "1", "retain": "false", "datatype": "utf8",
        "broker": "b", "inputs": 0, "x": 5, "y": 1, "wires": if to.is_empty() { json!([]) } else { json!([[to]]) } })
}

/// `GET /do` publishes from a foreign node, `GET /show` shows what another one has got.
fn flows(broker: &Mosquitto, native_nodes: &[Json], topic: &str) -> Json {
    let publish = "node.broker.publish({ topic: 'from/foreign', payload: 'a message', qos: 1, retain: false }, () => {});
                   msg.payload = ['published']; send(msg); done()";
    let mut flow = chain(vec![with_broker("p", "", publish)]);
    let subscribe = format!(
        "node.broker.subscribe('{topic}', 1, (topic, payload) => {{
            node.context().global.set('seen', [topic, payload.toString()]);
        }}, node.id)"
    );
    let mut show = function("g", "msg.payload = global.get('seen') || []; return msg");
    show["wires"] = json!([["out"]]);
    flow.extend([
        broker.node(),
        with_broker("s", &subscribe, ""),
        json!({ "id": "in2", "type": "http in", "z": "t", "method": "get", "url": "/show", "x": 1, "y": 1, "wires": [["g"]] }),
        show,
    ]);
    flow.extend_from_slice(native_nodes);
    json!(flow)
}

async fn comes_back(hosted: &Hosted, topic: &str) {
    // A message is lost while one side has not subscribed yet.
    until(topic, async || {
        let published = hosted.get("/do").send().await;
        let seen = hosted.get("/show").send().await;
        published.status == 200 && seen.status == 200 && seen.json() == json!([topic, "a message"])
    })
    .await;
}

#[tokio::test]
async fn a_foreign_node_uses_the_broker_of_native_nodes_with_a_connection_of_its_own() {
    let broker = Mosquitto::start().await;
    let hosted = Hosted::start().await;
    let relay = [
        native("m", "mqtt in", "from/foreign", "o"),
        native("o", "mqtt out", "to/foreign", ""),
    ];
    hosted.run(&flows(&broker, &relay, "to/foreign")).await;
    comes_back(&hosted, "to/foreign").await;
    // Two connections with the same credentials, neither of which the broker closes for the other
    // one's sake.
    let connected = |client: &str| broker.logged(&format!(" as {client} (p2, c1, k60, u'{USER}')"));
    assert_eq!((connected("one"), connected("one-node-host")), (1, 1));
    assert!(broker.logged("PUBLISH from one (d0, q0, r0, m0, 'birth'") == 1);
    assert!(broker.logged("PUBLISH from one-node-host (d0, q0, r0, m0, 'birth'") == 0);
    // Each client's will follows its connection in the log.
    assert_eq!(broker.logged("Will message specified"), 1);

    // A broker that only foreign nodes use is one client, as in Node-RED.
    hosted.run(&flows(&broker, &[], "from/foreign")).await;
    comes_back(&hosted, "from/foreign").await;
    assert_eq!((connected("one"), connected("one-node-host")), (2, 1));
    assert_eq!(broker.logged("Will message specified"), 2);
}

/// Two foreign nodes that show what they get from config nodes with credentials.
fn with_tls_and_proxy() -> Json {
    let mut node = trial(
        "a",
        "const { ca, servername } = RED.nodes.getNode(config.tls).addTLSOptions({});
         const { url, credentials } = RED.nodes.getNode(config.proxy);
         msg.payload = [ca, servername, url, credentials.username, credentials.password]; send(msg); done()",
    );
    (node["tls"], node["proxy"]) = (json!("tls"), json!("proxy"));
    let mut flow = chain(vec![node]);
    flow.extend([
        json!({ "id": "tls", "type": "tls-config", "cert": "", "key": "", "ca": "", "servername": "name.example",
            "verifyservercert": true, "credentials": { "cadata": "an authority" } }),
        json!({ "id": "proxy", "type": "http proxy", "url": "http://proxy.example:3128", "noproxy": [],
            "credentials": { "username": "a user", "password": "a password" } }),
    ]);
    json!(flow)
}

#[tokio::test]
async fn foreign_nodes_get_tls_and_proxy_settings_with_their_credentials() {
    let hosted = Hosted::start().await;
    hosted.run(&with_tls_and_proxy()).await;
    let expected = json!([
        "an authority",
        "name.example",
        "http://proxy.example:3128",
        "a user",
        "a password"
    ]);
    assert_eq!(hosted.show("/do").await, expected);

    // A change of the config node restarts the foreign node that uses it.
    let mut changed = with_tls_and_proxy();
    let proxy = changed.as_array_mut().unwrap().last_mut().unwrap();
    proxy["credentials"] = json!({ "username": "another user", "password": "another password" });
    proxy["url"] = "http://other.example:3128".into();
    hosted.run_more(&changed).await;
    let shown = hosted.show("/do").await;
    assert_eq!(shown[2], "http://other.example:3128");
    assert_eq!(
        (&shown[3], &shown[4]),
        (&json!("another user"), &json!("another password"))
    );
}

/// Leaves the user directory the runtime, but not @node-red/nodes.
pub fn without_native_nodes(user: &Path) {
    let scope = user.join("node_modules/@node-red");
    let all = fs::read_link(&scope).unwrap();
    fs::remove_file(&scope).unwrap();
    fs::create_dir(&scope).unwrap();
    for package in ["registry", "runtime", "util"] {
        std::os::unix::fs::symlink(all.join(package), scope.join(package)).unwrap();
    }
}

#[tokio::test]
async fn config_nodes_are_inert_without_the_package_of_native_nodes() {
    let hosted = Hosted::prepared("", without_native_nodes).await;
    let mut node = trial(
        "a",
        "msg.payload = [typeof RED.nodes.getNode(config.tls).addTLSOptions]; send(msg); done()",
    );
    node["tls"] = "tls".into();
    let mut flow = chain(vec![node]);
    flow.push(json!({ "id": "tls", "type": "tls-config", "cert": "", "key": "", "ca": "" }));
    hosted.run(&json!(flow)).await;
    assert_eq!(hosted.show("/do").await, json!(["undefined"]));
}
