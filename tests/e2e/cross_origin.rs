//! Pages of other origins in a browser that also reaches a gateway: they can change nothing and
//! read nothing.
//!
//! There are no cookies. What else a browser adds by itself is its certificate and its place in the
//! network.

use crate::certificate_authority::{Authority, ClientCertificate};
use crate::client::Request;
use crate::client_certificate_channels::tunnel_flow;
use crate::client_certificates::gateway;
use crate::harness::{Gateway, flow_set, page, public, script, until};
use crate::tunnel;
use serde_json::json;
use tokio_tungstenite::tungstenite::Error;

/// What a browser adds to what a page of this origin makes it send.
fn foreign_pages() -> Vec<Vec<(&'static str, &'static str)>> {
    vec![
        vec![("Origin", "https://elsewhere.example")],
        vec![("Origin", "null")],
        vec![("Origin", "https://localhost")],
        vec![("Origin", "http://localhost.elsewhere.example")],
        vec![("Sec-Fetch-Site", "cross-site")],
        vec![("Sec-Fetch-Site", "same-site")],
        vec![
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Mode", "navigate"),
        ],
        vec![
            ("Sec-Fetch-Site", "same-origin"),
            ("Origin", "https://elsewhere.example"),
        ],
        vec![
            ("Sec-Fetch-Site", "same-origin"),
            ("Sec-Fetch-Site", "cross-site"),
        ],
        vec![("Origin", "OWN"), ("Origin", "https://elsewhere.example")],
        vec![("Origin", "OWN"), ("Sec-Fetch-Site", "cross-site")],
        // An origin that may open the channel may do nothing as the certificate's user.
        vec![("Origin", "https://trusted.example")],
    ]
}

fn from_page(request: Request, fields: &[(&str, &str)], own: &str) -> Request {
    fields.iter().fold(request, |request, (name, value)| {
        request.header(name, if *value == "OWN" { own } else { value })
    })
}

#[tokio::test]
async fn a_page_of_another_origin_can_do_nothing_with_the_browsers_certificate() {
    let authority = Authority::new("ours");
    let gateway = gateway(
        &authority,
        "[comms]\norigins = [\"https://trusted.example\"]\n",
    );
    let client = gateway.with_certificate(&authority.sign(&ClientCertificate::named("root")));
    let token = gateway.sign_in("admin").await;
    let flows = [
        page("a", "/hello", "hello"),
        tunnel_flow().as_array().unwrap().clone(),
    ];
    let before = gateway.deploy(&token, &flow_set(&flows)).await;
    let own = format!("https://{}", gateway.address);
    for fields in foreign_pages() {
        for request in [
            client.deployment("", &json!([]), None),
            client
                .post("/flows")
                .header("Content-Type", "text/plain")
                .body("[]"),
            client.post("/inject/x"),
            client.request("DELETE", "/flow/a"),
            client.get("/flows"),
            client.get("/hello"),
            client.post("/auth/revoke").form(&[("token", &token)]),
            client.get("/settings").http2(),
        ] {
            let answer = from_page(request, &fields, &own).send().await;
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (403, "invalid_origin"),
                "{fields:?}"
            );
        }
        let headers: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, if *value == "OWN" { own.as_str() } else { value }))
            .collect();
        let socket = tunnel::open(&client, "/ws", &headers).await;
        assert!(
            matches!(socket, Err(Error::Http(refusal)) if refusal.status() == 403),
            "{fields:?}"
        );
        // With a token a page knows what it does; what it may read of it, CORS decides.
        let with_token = from_page(client.get("/flows").token(&token), &fields, &own);
        assert_eq!(with_token.send().await.status, 200, "{fields:?}");
    }
    assert_eq!(gateway.flows(&token).await["rev"], *before);
    until("the audit log tells of it", async || {
        gateway.audit().iter().any(|line| {
            let by = line["by"].as_str().unwrap_or_default();
            line["event"] == "permission.denied"
                && line["reason"] == "origin"
                && line["user"] == "admin"
                && by.starts_with("certificate ")
        })
    })
    .await;
    for fields in [
        &[][..],
        &[("Sec-Fetch-Site", "none")],
        &[("Sec-Fetch-Site", "same-origin")],
        &[("Origin", "OWN")],
        &[("Origin", "OWN"), ("Sec-Fetch-Site", "same-origin")],
    ] {
        let request = from_page(client.deployment("", &flow_set(&flows), None), fields, &own);
        assert_eq!(request.send().await.status, 200, "{fields:?}");
    }
}

#[tokio::test]
async fn without_authentication_another_origin_changes_nothing() {
    let listen = "[server]\nlisten = [\"127.0.0.1:0\"]\n";
    let open = format!(
        "auth = \"off\"\n{listen}[headers]\ncors_origins = [\"https://trusted.example\"]\n"
    );
    let anonymous =
        "[auth]\nanonymous = [\"*\"]\n[headers]\ncors_origins = [\"https://trusted.example\"]\n";
    for gateway in [Gateway::with(&open), Gateway::with(anonymous)] {
        let own = format!("https://{}", gateway.address);
        let changes = || {
            [
                gateway.deployment("", &json!([]), None),
                gateway.post("/inject/x"),
                gateway.post("/debug/disable"),
                gateway.request("DELETE", "/flow/a"),
                gateway
                    .post("/flows/state")
                    .json(&json!({ "state": "stop" })),
            ]
        };
        for (fields, foreign) in [
            (&[("Origin", "https://elsewhere.example")][..], true),
            (&[("Origin", "null")], true),
            (&[("Sec-Fetch-Site", "cross-site")], true),
            (&[("Sec-Fetch-Site", "same-site")], true),
            (
                &[
                    ("Origin", "https://trusted.example"),
                    ("Sec-Fetch-Site", "cross-site"),
                ],
                false,
            ),
            (
                &[("Origin", "OWN"), ("Sec-Fetch-Site", "same-origin")],
                false,
            ),
            (&[], false),
        ] {
            for request in changes() {
                let answer = from_page(request, fields, &own).send().await;
                assert_eq!(
                    answer.status == 403,
                    foreign,
                    "{fields:?}: {}",
                    answer.text()
                );
            }
            // What is only read cannot be read by the page.
            let read = from_page(gateway.get("/flows"), fields, &own).send().await;
            assert_eq!(read.status, 200);
            let allowed = fields.iter().any(|(_, value)| value.contains("trusted"));
            assert_eq!(
                read.headers.contains_key("access-control-allow-origin"),
                allowed
            );
        }
    }
}

#[tokio::test]
async fn endpoints_of_flows_set_their_own_cors_headers() {
    let gateway = Gateway::with(&public(&["/hook"]));
    let token = gateway.sign_in("admin").await;
    let allow =
        "msg.headers = { 'Access-Control-Allow-Origin': '*' }; msg.payload = 'ok'; return msg";
    let hook = script("a", "post", "/hook", allow);
    gateway.deploy(&token, &flow_set(&[hook])).await;
    let answer = gateway
        .post("/hook")
        .header("Origin", "https://elsewhere.example")
        .header("Sec-Fetch-Site", "cross-site");
    let answer = answer.send().await;
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (200, "*")
    );
}

#[tokio::test]
async fn cookies_are_ignored_and_never_set() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("admin").await;
    for name in [
        "access_token",
        "token",
        "session",
        "Authorization",
        "connect.sid",
    ] {
        let cookie = format!("{name}={token}");
        let form = gateway
            .post("/flows")
            .header("Cookie", &cookie)
            .form(&[("flows", "[]"), ("access_token", &token)]);
        assert_eq!(form.send().await.status, 401, "{name}");
        let read = gateway.get("/flows").header("Cookie", &cookie);
        assert_eq!(read.send().await.status, 401, "{name}");
    }
    for request in [
        gateway.sign_in_request("admin", crate::client::PASSWORD, ""),
        gateway.get("/auth/login"),
        gateway.get("/settings").token(&token),
        gateway.get("/flows").token(&token),
        gateway.get("/none"),
    ] {
        assert!(!request.send().await.headers.contains_key("set-cookie"));
    }
}
