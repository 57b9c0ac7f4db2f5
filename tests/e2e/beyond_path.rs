//! Response headers of flows and upstreams that are for more than their own paths reach no browser.

use crate::harness::{Gateway, public, script};
use crate::mock_upstream::{Action, MockUpstream};
use crate::multiple_upstreams::in_front_of;
use crate::scenario::play;
use serde_json::{Value as Json, json};

/// Header fields that browsers keep for the whole host, and one that is for the response alone.
const FIELDS: [(&str, &str); 9] = [
    ("clear-site-data", "\"*\""),
    ("strict-transport-security", "max-age=1"),
    ("service-worker-allowed", "/"),
    ("alt-svc", "h3=\":443\""),
    ("report-to", "{}"),
    ("login-status", "logged-out"),
    ("shared-storage-write", "clear"),
    ("sec-session-challenge", "\"a\";id=\"b\""),
    ("x-own", "stays"),
];

fn endpoint(tab: &str, path: &str, kind: &str, body: &str) -> Vec<Json> {
    let mut headers: serde_json::Map<String, Json> = FIELDS
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
        .collect();
    headers.insert("content-type".into(), kind.into());
    let (headers, body) = (Json::from(headers), Json::from(body));
    let code = format!("msg.headers = {headers}; msg.payload = {body}; return msg;");
    script(tab, "get", path, &code)
}

async fn with_endpoints(lines: &str) -> Gateway {
    let gateway = Gateway::with(lines);
    let token = gateway.sign_in("admin").await;
    let worker =
        "addEventListener('fetch', (event) => event.respondWith(new Response('the worker')));";
    let flows = [
        endpoint("a", "/sw.js", "text/javascript", worker),
        endpoint("b", "/app/sw.js", "text/javascript", worker),
        endpoint("c", "/app/page", "text/html", "<title>A page</title>"),
    ];
    gateway.deploy(&token, &json!(flows.concat())).await;
    gateway
}

#[tokio::test]
async fn a_flow_sets_nothing_that_a_browser_keeps_for_the_whole_host() {
    let gateway = with_endpoints(&public(&["/app/page"])).await;
    let answer = gateway.get("/app/page").send().await;
    assert_eq!(answer.status, 200);
    for (name, value) in FIELDS {
        let expected = if name == "x-own" { value } else { "" };
        assert_eq!(answer.header(name), expected, "{name}");
    }
}

#[tokio::test]
async fn an_upstream_sets_nothing_that_a_browser_keeps_for_the_whole_host() {
    let upstream = MockUpstream::start(|_| {
        let fields = FIELDS.map(|(name, value)| format!("{name}: {value}\r\n"));
        let fields = fields.concat();
        Action::Respond(format!(
            "HTTP/1.1 200 OK\r\n{fields}content-length: 2\r\n\r\nhi"
        ))
    });
    let upstream = upstream.await;
    let gateway = Gateway::with(&in_front_of(&[(&upstream, "")]));
    let token = gateway.sign_in("admin").await;
    for path in ["/app/page", "/icons/x"] {
        let answer = gateway.get(path).token(&token).send().await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "hi"));
        for (name, value) in FIELDS {
            let expected = if name == "x-own" { value } else { "" };
            assert_eq!(answer.header(name), expected, "{name} of {path}");
        }
    }
}

#[tokio::test]
async fn a_service_worker_above_editor_and_console_is_refused_unless_its_route_is_trusted() {
    let trusted = "[[route]]\npath = \"/trusted.js\"\npublic = true\nsame_origin = true\n";
    let gateway = with_endpoints(&(public(&["/sw.js", "/app/sw.js"]) + trusted)).await;
    let ask = async |path: &str, kind: &str| {
        let request = gateway.get(path).header("Service-Worker", kind);
        let answer = request.send().await;
        (answer.status, answer.text())
    };
    let (status, text) = ask("/sw.js", "script").await;
    assert!(
        status == 403 && text.contains("service_worker_not_allowed"),
        "{text}"
    );
    assert_eq!(ask("/sw.js", "other").await.0, 200);
    assert_eq!(ask("/app/sw.js", "script").await.0, 200);
    assert_eq!(ask("/trusted.js", "script").await.0, 404);
    assert_eq!(gateway.get("/sw.js").send().await.status, 200);
}

#[tokio::test]
async fn a_page_of_a_flow_registers_no_service_worker_for_editor_and_console() {
    // Browsers have no service workers under a certificate that they do not know; on loopback they
    // need none.
    let lines =
        public(&["/sw.js", "/app/sw.js", "/app/page"]) + "[server]\nplain = \"127.0.0.1:0\"\n";
    let gateway = with_endpoints(&lines).await;
    let url = format!("http://{}/", gateway.running.addresses().plain.unwrap());
    play("console/service_worker.mjs", &url, |cue| {
        panic!("unknown cue: {cue}")
    })
    .await;
}
