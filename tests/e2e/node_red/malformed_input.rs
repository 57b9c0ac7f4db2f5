//! Malformed input of clients with and without a token: Node-RED survives, and receives nothing
//! malformed.
//!
//! The same stream of odd sign-ins, paths and bytes goes to a real Node-RED and to an upstream that
//! records it. It is made from a seed, which a failure names: it can be repeated.

use super::{NodeRed, PROTECTED, Release, TOKEN};
use crate::client::Client;
use crate::harness::Gateway;
use crate::mock_upstream::{Action, MockUpstream, ok};
use serde_json::Value as Json;
use std::fmt::Write;

const SEED: u64 = 0x5eed;
const MANY: usize = 600;

/// Parts of paths that are unusual or refused.
const WORDS: [&str; 24] = [
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "prototype",
    "null",
    "undefined",
    "*",
    "@x",
    "-1",
    "a;b=1",
    "flows",
    "global",
    "local",
    "%61",
    "%F0%9F%92%A5",
    "%00",
    "%2e%2e",
    "..%2f..%2fsettings.js",
    "..",
    "%5c",
    "%zz",
    "%ff%fe",
    "%0d%0aX:1",
];

/// Where paths begin.
const ROOTS: [&str; 20] = [
    "flow",
    "flows",
    "nodes",
    "nodes/node-red",
    "context",
    "context/global",
    "context/flow",
    "credentials",
    "library/local/flows",
    "library",
    "settings",
    "settings/user",
    "plugins",
    "icons",
    "locales",
    "resources",
    "inject",
    "debug",
    "projects",
    "auth",
];

/// JSON where text is expected.
const VALUES: [&str; 14] = [
    "null",
    "true",
    "0",
    "-1e999",
    "[]",
    "{}",
    r#""""#,
    r#""admin""#,
    r#"["admin"]"#,
    r#"{"$ne":null}"#,
    r#"{"__proto__":{"x":1}}"#,
    r#"{"toString":1}"#,
    r#""\u0000""#,
    r#""\ud800""#,
];

/// Numbers that look like chance (xorshift64*, Vigna 2016).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Sends the whole stream; whatever the answers are, none tells of an error on the gateway's side.
async fn send_all(client: &Client, tokens: &[String]) {
    let mut chance = Chance(SEED);
    for number in 0..MANY {
        let odd = match chance.below(6) {
            0 => sign_in(&mut chance),
            1 => bytes(&mut chance),
            _ => path(&mut chance, &tokens[number % tokens.len()]),
        };
        let host = client.address;
        let answer = client
            .raw_exchange(&odd.replace("<host>", &host.to_string()))
            .await;
        let status = answer.get(9..12).unwrap_or("none");
        assert!(
            !status.starts_with('5') || status == "502",
            "{SEED:#x}/{number}: {odd:?}: {answer}"
        );
    }
}

/// A form or JSON that is none, or has fields of the wrong kind.
fn sign_in(chance: &mut Chance) -> String {
    let mut body = String::from("{");
    for field in [
        "client_id",
        "grant_type",
        "scope",
        "username",
        "password",
        "__proto__",
        "constructor",
    ] {
        match chance.below(5) {
            0 => {}
            1 => write!(body, "\"{field}\":{},", chance.of(&VALUES)).unwrap(),
            _ => write!(body, "\"{field}\":\"node-red-admin\",").unwrap(),
        }
    }
    let body = match chance.below(4) {
        0 => body,
        1 => "username[]=admin&username[__proto__]=1&password=x&client_id[a]=1&grant_type=password"
            .to_owned(),
        _ => body.trim_end_matches(',').to_owned() + "}",
    };
    let kind = chance.of(&[
        "application/json",
        "application/x-www-form-urlencoded",
        "text/plain",
        "multipart/form-data",
    ]);
    let path = chance.of(&["/auth/token", "/AUTH/token/", "/auth/revoke", "/auth/login"]);
    whole("POST", path, &format!("Content-Type: {kind}\r\n"), &body)
}

/// A request for odd segments below a path of the admin API, with a token that may suffice or not.
fn path(chance: &mut Chance, token: &str) -> String {
    let mut path = format!("/{}", chance.of(&ROOTS));
    for _ in 0..chance.below(4) {
        path.push('/');
        // Mostly those that pass.
        let words = if chance.below(4) > 0 {
            &WORDS[..16]
        } else {
            &WORDS
        };
        path.push_str(chance.of(words));
    }
    if chance.below(3) == 0 {
        write!(
            path,
            "?{}={}",
            chance.of(&["store", "lng", "__proto__[x]", "x"]),
            chance.of(&WORDS)
        )
        .unwrap();
    }
    let method = chance.of(&[
        "GET", "GET", "GET", "GET", "HEAD", "PUT", "POST", "POST", "DELETE", "OPTIONS", "PROPFIND",
    ]);
    let mut headers =
        format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
    headers.push_str(chance.of(&[
        "",
        "",
        "",
        "Accept: application/json\r\n",
        "Node-RED-API-Version: __proto__\r\n",
        "Node-RED-API-Version: v2\r\nService-API-Version: v1\r\n",
        "Content-Encoding: gzip\r\n",
        "X-HTTP-Method-Override: DELETE\r\n",
        "Cookie: access_token=1\r\n",
    ]));
    let body = match method {
        "GET" | "HEAD" | "OPTIONS" => "",
        _ => chance.of(&VALUES),
    };
    whole(method, &path, &headers, body)
}

/// What is hardly a request.
fn bytes(chance: &mut Chance) -> String {
    let line = chance.of(&[
        "GET /flows HTTP/1.1",
        "GET  /flows HTTP/1.1",
        "GET /flows HTTP/9.9",
        "GET /\u{e4} HTTP/1.1",
        "POST /auth/token HTTP/1.1",
        "GET http://127.0.0.1/flows HTTP/1.1",
        "CONNECT 127.0.0.1:1880 HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "PRI * HTTP/2.0",
        "GET /comms HTTP/1.1",
        "G\u{1}T / HTTP/1.1",
        "GET /theme\thttp HTTP/1.1",
        "",
    ]);
    let mut request = format!("{line}\r\nHost: <host>\r\nConnection: close\r\n");
    for _ in 0..chance.below(3) {
        request.push_str(chance.of(&[
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: -1\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding : chunked\r\n",
            "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n",
            "Upgrade: websocket\r\nConnection: Upgrade\r\n",
            " folded: line\r\n",
            "no colon\r\n",
            "X: \u{0}\r\n",
            "Host: other\r\n",
            "Expect: 200-ok\r\n",
            "__proto__: 1\r\n",
        ]));
    }
    request + "\r\n0\r\n\r\n"
}

fn whole(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: <host>\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
}

async fn tokens(gateway: &Gateway) -> Vec<String> {
    let (admin, reader) = (
        gateway.sign_in("admin").await,
        gateway.sign_in("reader").await,
    );
    vec![admin.clone(), admin, reader, "x".to_owned()]
}

/// The throttle refuses no sign-in: all of them come from one address.
const THROTTLE: &str = "[auth.throttle]\nper_user_and_address = 100000\nper_address = 100000\n";

#[tokio::test]
async fn no_request_to_the_gateway_ends_node_red() {
    let red = NodeRed::start(Release::Four, PROTECTED);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("token"), TOKEN).unwrap();
    let lines = red.config_with("token_file = \"token\"") + THROTTLE;
    let gateway = Gateway::open(&lines, directory);
    let tokens = tokens(&gateway).await;
    let rev = gateway.flows(&tokens[0]).await["rev"].clone();
    send_all(&gateway, &tokens).await;

    assert!(!red.log().contains("ncaught"), "{}", red.log());
    assert_eq!(
        gateway.get("/flows").token(&tokens[0]).send().await.status,
        200
    );
    assert_eq!(
        gateway.flows(&tokens[0]).await["rev"],
        rev,
        "nothing was deployed"
    );
    let direct = red.request("GET", "/flows").token(TOKEN).send().await;
    assert_eq!(direct.status, 200);
}

#[tokio::test]
async fn the_upstream_receives_only_well_formed_requests() {
    let behind = MockUpstream::start(|_| {
        Action::Respond(ok("application/json", r#"{"rev":"1","flows":[]}"#))
    })
    .await;
    let gateway = Gateway::with(&(behind.config() + THROTTLE));
    let tokens = tokens(&gateway).await;
    send_all(&gateway, &tokens).await;
    let received_here = behind.received();
    assert!(
        received_here.len() >= MANY / 6,
        "{} of {MANY} requests",
        received_here.len()
    );
    for request in received_here {
        if let Err(wrong) = well_formed(&request.bytes) {
            panic!("{wrong}: {:?}", request.bytes);
        }
    }
}

/// What the gateway owes its upstream.
fn well_formed(request: &str) -> Result<(), &'static str> {
    let must = |holds: bool, what| if holds { Ok(()) } else { Err(what) };
    let (head, body) = request.split_once("\r\n\r\n").ok_or("no head")?;
    let (line, fields) = head.split_once("\r\n").ok_or("no headers")?;
    let parts: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1"] = parts[..] else {
        return Err("no request line");
    };
    must(
        method.bytes().all(|b| b.is_ascii_uppercase()),
        "an odd method",
    )?;
    let (path, _) = target.split_once('?').unwrap_or((target, ""));
    let lower = path.to_ascii_lowercase();
    must(
        path.starts_with('/') && target.bytes().all(|b| b.is_ascii_graphic()),
        "an odd target",
    )?;
    must(!lower.starts_with("/auth"), "a sign-in")?;
    must(
        ![
            "//", "/./", "/../", "\\", "%2f", "%5c", "%00", "%0d", "%ff", "%61",
        ]
        .iter()
        .any(|odd| lower.contains(odd)),
        "not the canonical path",
    )?;
    must(
        !lower.ends_with("/..") && !lower.ends_with("/."),
        "not the canonical path",
    )?;
    for field in fields.split("\r\n") {
        let (name, value) = field.split_once(": ").ok_or("a header without a value")?;
        let ours = ![
            "authorization",
            "connection",
            "upgrade",
            "expect",
            "te",
            "http2-settings",
        ]
        .contains(&name);
        must(ours, "a header that stays behind")?;
        must(
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b)),
            "an odd header",
        )?;
        must(value.bytes().all(|b| b >= b' '), "an odd value")?;
        let version = name == "node-red-api-version";
        must(
            !version || ["v1", "v2"].contains(&value),
            "an API version that there is not",
        )?;
    }
    let json = || serde_json::from_str::<Json>(body);
    let checked = ["/flows", "/flow"].contains(&lower.trim_end_matches('/'));
    must(
        !checked || method != "POST" || json().is_ok(),
        "flows that are no JSON",
    )
}
