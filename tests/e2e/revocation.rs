//! An authorization that ends during a request or response ends uploads, waits, responses and
//! streams at once.

use crate::client::{Client, PASSWORD, Request};
use crate::harness::{Gateway, TEST_TIMEOUT, flow_set, hash, page, script, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crate::raw_upstream;
use crate::streaming_request::{Outcome, StreamingRequest};
use crate::tunnel;
use crate::websocket_upstream::WebSocketUpstream;
use http_body_util::BodyExt;
use serde_json::{Value as Json, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const SESSION: &str = "error=\"invalid_token\"";
const PERMISSION: &str = "error=\"insufficient_scope\"";

async fn revoke(client: &Client, caller: &str, token: &str) {
    let answer = client
        .post("/auth/revoke")
        .token(caller)
        .form(&[("token", token)]);
    assert_eq!(answer.send().await.status, 200);
}

/// The users of the harness, with these permissions and this password of the deployer; `None`:
/// without the deployer.
fn users(deployer: Option<(&str, &str)>) -> String {
    let user = |name: &str, permissions: &str, password: &str| {
        let hash = hash(password);
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = {permissions}\n"
        )
    };
    let mut all = user("admin", r#"["*"]"#, PASSWORD) + &user("reader", r#"["read"]"#, PASSWORD);
    if let Some((permissions, password)) = deployer {
        all += &user("deployer", permissions, password);
    }
    all
}

const DEPLOYER: &str = r#"["flows.read", "flows.write"]"#;

/// Requests that change something, each with its body.
fn changes() -> [(&'static str, &'static str, Json); 8] {
    let tab = json!({ "id": "new", "label": "new", "nodes": [] });
    [
        ("POST", "/flows", json!([{ "id": "new", "type": "tab" }])),
        ("POST", "/flow", tab.clone()),
        (
            "PUT",
            "/flow/a",
            json!({ "id": "a", "label": "new", "nodes": [] }),
        ),
        ("POST", "/flows/state", json!({ "state": "stop" })),
        ("POST", "/settings/user", json!({ "view": { "new": true } })),
        (
            "POST",
            "/library/local/functions/new",
            json!({ "text": "new" }),
        ),
        ("POST", "/inject/a-in", json!({ "payload": "new" })),
        ("POST", "/debug/disable", json!({ "nodes": [] })),
    ]
}

/// What the changes would change.
async fn state(gateway: &Gateway, admin: &str) -> Vec<String> {
    let mut all = Vec::new();
    for path in [
        "/flows",
        "/flows/state",
        "/settings/user",
        "/library/local/functions/new",
    ] {
        let answer = gateway.get(path).token(admin).send().await;
        all.push(format!("{} {}", answer.status, answer.text()));
    }
    all
}

fn change(gateway: &Gateway, token: &str, method: &str, path: &str) -> Request {
    let request = gateway.request(method, path).token(token);
    request.header("Content-Type", "application/json")
}

/// Sends ten bytes of a change, revokes its token, and sends the rest.
async fn revoked_within(
    gateway: &Gateway,
    admin: &str,
    http2: bool,
    method: &str,
    path: &str,
    body: Json,
) -> Option<Outcome> {
    let token = gateway.sign_in("admin").await;
    let body = body.to_string();
    let (first, rest) = body.as_bytes().split_at(10);
    let request = change(gateway, &token, method, path);
    let begun = StreamingRequest::send(gateway, request, http2, first, Some(body.len())).await;
    revoke(gateway, admin, &token).await;
    begun.end(rest).await
}

#[tokio::test]
async fn a_token_that_is_revoked_between_two_pieces_of_a_body_changes_nothing() {
    let gateway = Gateway::start();
    let admin = gateway.sign_in("admin").await;
    gateway
        .deploy(&admin, &flow_set(&[page("a", "/a", "a")]))
        .await;
    let before = state(&gateway, &admin).await;
    for http2 in [false, true] {
        for (method, path, body) in changes() {
            let answer = revoked_within(&gateway, &admin, http2, method, path, body).await;
            let shown = format!("{method} {path} {answer:?}");
            // A client that still sends may lose the connection before it has read the answer.
            if let Some(answer) = answer {
                assert_eq!(answer.status, 401, "{shown}");
                assert!(answer.challenge.contains(SESSION), "{shown}");
            }
            assert_eq!(state(&gateway, &admin).await, before, "{shown}");
        }
    }
    let audit = gateway.audit();
    let denied = audit
        .iter()
        .filter(|line| line["event"] == "permission.denied");
    assert!(denied.count() > 0, "{audit:?}");
}

#[tokio::test]
async fn a_revocation_refuses_an_upload_before_its_next_piece() {
    let gateway = Gateway::start();
    let admin = gateway.sign_in("admin").await;
    for http2 in [false, true] {
        let token = gateway.sign_in("deployer").await;
        let request = change(&gateway, &token, "POST", "/flows");
        let begun = StreamingRequest::send(&gateway, request, http2, b"[", Some(1000)).await;
        revoke(&gateway, &admin, &token).await;
        let answer = begun.answer().await.expect("an answer");
        assert_eq!(answer.status, 401);
        assert!(answer.challenge.contains(SESSION), "{answer:?}");
        assert!(answer.body.is_empty());
    }
}

#[tokio::test]
async fn a_reload_between_two_pieces_of_a_body_revokes_as_well() {
    let gateway = Gateway::with(&users(Some((DEPLOYER, PASSWORD))));
    let admin = gateway.sign_in("admin").await;
    let before = state(&gateway, &admin).await;
    for (reload, challenge) in [
        (users(Some((r#"["flows.read"]"#, PASSWORD))), PERMISSION),
        (users(Some((DEPLOYER, "another password"))), SESSION),
        (users(None), SESSION),
    ] {
        for http2 in [false, true] {
            let token = gateway.sign_in("deployer").await;
            let body = json!([{ "id": "new", "type": "tab" }]).to_string();
            let (first, rest) = body.as_bytes().split_at(10);
            let request = change(&gateway, &token, "POST", "/flows");
            let begun =
                StreamingRequest::send(&gateway, request, http2, first, Some(body.len())).await;
            assert!(gateway.reload(&reload).await);
            if let Some(answer) = begun.end(rest).await {
                assert_eq!(answer.status, 401, "{answer:?}");
                assert!(answer.challenge.contains(challenge), "{answer:?}");
            }
            assert_eq!(state(&gateway, &admin).await, before);
            assert!(gateway.reload(&users(Some((DEPLOYER, PASSWORD)))).await);
        }
    }
}

#[tokio::test]
async fn a_user_who_loses_all_permissions_while_revoking_revokes_only_their_own_tokens() {
    let gateway = Gateway::with(&users(Some((r#"["*"]"#, PASSWORD))));
    let (admin, token) = (
        gateway.sign_in("admin").await,
        gateway.sign_in("deployer").await,
    );
    let form = format!("token={admin}");
    let (first, rest) = form.as_bytes().split_at(10);
    let request = gateway
        .post("/auth/revoke")
        .token(&token)
        .header("Content-Type", "application/x-www-form-urlencoded");
    let begun = StreamingRequest::send(&gateway, request, true, first, Some(form.len())).await;
    assert!(gateway.reload(&users(Some((DEPLOYER, PASSWORD)))).await);
    let answer = begun.end(rest).await.unwrap();
    assert_eq!(answer.status, 401);
    assert!(gateway.accepts_token(&admin).await);
}

fn written(behind: &MockUpstream) -> Vec<String> {
    let received_here = behind
        .received()
        .into_iter()
        .map(|received_here| received_here.bytes);
    received_here
        .filter(|bytes| !bytes.starts_with("GET"))
        .collect()
}

/// A runtime that accepts every change of its flows; the first one after `first` milliseconds, if
/// given.
async fn runtime(first: Option<u64>) -> MockUpstream {
    let slow = AtomicBool::new(first.is_some());
    MockUpstream::start(move |request| {
        let answer = ok("application/json", r#"{"rev":"1","flows":[],"id":"a"}"#);
        let write = !request.starts_with("GET");
        match first.filter(|_| write && slow.swap(false, Ordering::SeqCst)) {
            Some(wait) => Action::Delay(wait, answer),
            None => Action::Respond(answer),
        }
    })
    .await
}

#[tokio::test]
async fn nothing_of_a_revoked_upload_reaches_an_upstream() {
    let behind = runtime(None).await;
    let gateway = Gateway::with(&behind.config());
    let admin = gateway.sign_in("admin").await;
    for http2 in [false, true] {
        for (method, path, body) in changes() {
            let answer = revoked_within(&gateway, &admin, http2, method, path, body).await;
            assert!(
                answer.as_ref().is_none_or(|answer| answer.status == 401),
                "{method} {path} {answer:?}"
            );
            assert_eq!(written(&behind), Vec::<String>::new(), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_revoked_token_ends_its_wait_for_the_deploy_lock_at_once() {
    // Longer than this test may take: a request that waits for it to end fails.
    let behind = runtime(Some(3_600_000)).await;
    let gateway = Gateway::with(&behind.config());
    let admin = gateway.sign_in("admin").await;
    let first = gateway.post("/flows").token(&admin).json(&json!([]));
    let first = tokio::spawn(first.try_send());
    until("the first is under way", async || {
        written(&behind).len() == 1
    })
    .await;
    for (method, path, body) in changes().into_iter().take(4) {
        let token = gateway.sign_in("deployer").await;
        let body = body.to_string();
        let request = change(&gateway, &token, method, path);
        let length = Some(body.len());
        let begun = StreamingRequest::send(&gateway, request, false, body.as_bytes(), length).await;
        revoke(&gateway, &admin, &token).await;
        let answer = begun.answer().await.expect("an answer");
        assert_eq!(answer.status, 401, "{method} {path}");
        assert!(answer.challenge.contains(SESSION), "{answer:?}");
    }
    assert_eq!(written(&behind).len(), 1);
    first.abort();
}

fn in_front_of(address: SocketAddr) -> String {
    format!("[upstream]\nurl = \"http://{address}\"\nhealth = \"1h\"\n")
}

/// Events: one at once, then none. Counts the connections that ended.
async fn events(ended: &Arc<AtomicU64>) -> SocketAddr {
    let ended = Arc::clone(ended);
    raw_upstream::start(move |mut tcp, _| {
        let ended = Arc::clone(&ended);
        async move {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
                        9\r\ndata: 1\n\n\r\n";
            tcp.write_all(head.as_bytes()).await.unwrap();
            let _ = tcp.read(&mut [0]).await;
            ended.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await
}

#[tokio::test]
async fn events_of_an_upstream_end_with_the_authorization_of_their_reader() {
    let ended = Arc::default();
    let before = in_front_of(events(&ended).await) + &users(Some((r#"["http.read"]"#, PASSWORD)));
    let gateway = Gateway::with(&before);
    let upstream = before.split("[[auth").next().unwrap().to_owned();
    let admin = gateway.sign_in("admin").await;
    let mut count = 0;
    for http2 in [false, true] {
        for reload in [
            None,
            Some(users(Some((DEPLOYER, PASSWORD)))),
            Some(users(Some((r#"["http.read"]"#, "another password")))),
            Some(users(None)),
            // What the path needs is another thing now.
            Some(
                users(Some((r#"["http.read"]"#, PASSWORD)))
                    + "[[route]]\npath = \"/x\"\npermission = \"other.read\"\n",
            ),
        ] {
            let token = gateway.sign_in("deployer").await;
            let mut connection = gateway.connect(http2).await.unwrap();
            let request = gateway.get("/x").token(&token);
            let response = connection.begin(request).await.unwrap();
            assert_eq!(response.status(), 200);
            let mut body = response.into_body();
            let event = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(event, "data: 1\n\n");
            match &reload {
                None => revoke(&gateway, &admin, &token).await,
                Some(reload) => assert!(gateway.reload(&(upstream.clone() + reload)).await),
            }
            let end = timeout(TEST_TIMEOUT, body.frame()).await.expect("it ends");
            assert!(end.is_some_and(|end| end.is_err()), "it looks whole");
            count += 1;
            until("the upstream sees the disconnect", async || {
                ended.load(Ordering::SeqCst) == count
            })
            .await;
            assert!(gateway.reload(&before).await);
        }
    }
}

#[tokio::test]
async fn events_end_with_the_lifetime_and_the_idle_time_out_of_their_token() {
    for lines in ["lifetime = \"2s\"", "idle = \"2s\""] {
        let ended = Arc::default();
        let lines = in_front_of(events(&ended).await) + &format!("[auth]\n{lines}\n");
        let gateway = Gateway::with(&lines);
        let since = std::time::Instant::now();
        let token = gateway.sign_in("reader").await;
        let mut connection = gateway.connect(false).await.unwrap();
        let request = gateway.get("/x").token(&token);
        let mut body = connection.begin(request).await.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        let end = timeout(TEST_TIMEOUT, body.frame()).await.expect("it ends");
        assert!(end.unwrap().is_err());
        assert!(since.elapsed().as_millis() > 900, "not before");
        until("the upstream sees the disconnect", async || {
            ended.load(Ordering::SeqCst) == 1
        })
        .await;
    }
}

#[tokio::test]
async fn a_revoked_token_ends_a_long_download() {
    let address = raw_upstream::start(|mut tcp: TcpStream, _| async move {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 1000000000000\r\n\r\n";
        tcp.write_all(head.as_bytes()).await.unwrap();
        let piece = vec![b'x'; 64 * 1024];
        while tcp.write_all(&piece).await.is_ok() {}
    })
    .await;
    let gateway = Gateway::with(&in_front_of(address));
    let admin = gateway.sign_in("admin").await;
    for http2 in [false, true] {
        let token = gateway.sign_in("reader").await;
        let mut connection = gateway.connect(http2).await.unwrap();
        let request = gateway.get("/x").token(&token);
        let mut body = connection.begin(request).await.unwrap().into_body();
        for _ in 0..10 {
            body.frame().await.unwrap().unwrap();
        }
        revoke(&gateway, &admin, &token).await;
        let end = async {
            loop {
                match body.frame().await {
                    Some(Ok(_)) => {}
                    end => break end,
                }
            }
        };
        let end = timeout(TEST_TIMEOUT, end).await.expect("it ends");
        assert!(end.is_some_and(|end| end.is_err()), "it looks whole");
    }
}

#[tokio::test]
async fn a_revoked_token_ends_the_wait_for_a_response() {
    let begun = Arc::new(AtomicU64::new(0));
    let received = Arc::clone(&begun);
    let address = raw_upstream::start(move |mut tcp, _| {
        let received = Arc::clone(&received);
        async move {
            received.fetch_add(1, Ordering::SeqCst);
            let _ = tcp.read(&mut [0]).await;
        }
    })
    .await;
    let gateway = Gateway::with(&in_front_of(address));
    let admin = gateway.sign_in("admin").await;
    let token = gateway.sign_in("reader").await;
    let waiting = tokio::spawn(gateway.get("/x").token(&token).send());
    until("it is asked for", async || {
        begun.load(Ordering::SeqCst) == 1
    })
    .await;
    revoke(&gateway, &admin, &token).await;
    let answer = timeout(TEST_TIMEOUT, waiting).await.unwrap().unwrap();
    assert_eq!(answer.status, 401);
    assert!(answer.header("www-authenticate").contains(SESSION));
}

#[tokio::test]
async fn a_revoked_token_ends_an_upload_to_an_upstream() {
    let (bytes, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, over) = (Arc::clone(&bytes), Arc::clone(&ended));
    // Takes whatever comes; an answer comes first, so that the body is all that lasts.
    let address = raw_upstream::start(move |mut tcp, head| {
        let (counted, over) = (Arc::clone(&counted), Arc::clone(&over));
        async move {
            if head.contains("/early") {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                tcp.write_all(head.as_bytes()).await.unwrap();
            }
            let mut all = Vec::new();
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = tcp.read(&mut piece).await {
                counted.fetch_add(count as u64, Ordering::SeqCst);
                all.extend_from_slice(&piece[..count]);
            }
            assert!(!all.ends_with(b"0\r\n\r\n"), "it looks whole");
            over.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    let gateway = Gateway::with(&in_front_of(address));
    let admin = gateway.sign_in("admin").await;
    let mut count = 0;
    for http2 in [false, true] {
        for path in ["/late", "/early"] {
            let token = gateway.sign_in("admin").await;
            let request = gateway.post(path).token(&token);
            bytes.store(0, Ordering::SeqCst);
            let mut begun = StreamingRequest::send(&gateway, request, http2, b"first", None).await;
            until("it arrives", async || bytes.load(Ordering::SeqCst) >= 5).await;
            revoke(&gateway, &admin, &token).await;
            let before = bytes.load(Ordering::SeqCst);
            // What is sent after the revocation has returned stays here.
            begun.piece(&[b'x'; 1000]).await;
            let answer = begun.end(b"last").await;
            assert!(answer.is_none_or(|answer| answer.status == 401), "{path}");
            count += 1;
            until("it is cut", async || ended.load(Ordering::SeqCst) == count).await;
            assert_eq!(bytes.load(Ordering::SeqCst), before, "{path}");
        }
    }
}

#[tokio::test]
async fn a_revoked_token_ends_responses_of_endpoints() {
    const LENGTH: usize = 64 << 20;
    let gateway = Gateway::start();
    let admin = gateway.sign_in("admin").await;
    let long = format!("msg.payload = 'x'.repeat({LENGTH}); return msg");
    let flows = [
        script("a", "get", "/long", &long),
        script(
            "b",
            "get",
            "/never",
            "setTimeout(() => node.send(msg), 3600000)",
        ),
    ];
    gateway.deploy(&admin, &flow_set(&flows)).await;

    for http2 in [false, true] {
        let token = gateway.sign_in("reader").await;
        let mut connection = gateway.connect(http2).await.unwrap();
        let request = gateway.get("/long").token(&token);
        let mut body = connection.begin(request).await.unwrap().into_body();
        let mut length = body
            .frame()
            .await
            .unwrap()
            .unwrap()
            .into_data()
            .unwrap()
            .len();
        revoke(&gateway, &admin, &token).await;
        let end = loop {
            match body.frame().await {
                Some(Ok(frame)) => length += frame.into_data().map_or(0, |data| data.len()),
                end => break end,
            }
        };
        assert!(end.is_some(), "{length} of {LENGTH} bytes look whole");
    }

    let token = gateway.sign_in("reader").await;
    assert!(gateway.reload(&users(Some((DEPLOYER, PASSWORD)))).await);
    let waiting = tokio::spawn(gateway.get("/never").token(&token).send());
    let in_flight = "flowgate_requests_in_flight{route=\"endpoint\"}";
    until("it waits", async || {
        gateway.metric(in_flight).await == Some(1.0)
    })
    .await;
    let none = users(Some((DEPLOYER, PASSWORD))).replace(r#"["read"]"#, r#"["flows.read"]"#);
    assert!(gateway.reload(&none).await);
    let answer = timeout(TEST_TIMEOUT, waiting).await.unwrap().unwrap();
    assert_eq!(answer.status, 401);
    assert!(answer.header("www-authenticate").contains(PERMISSION));
}

#[tokio::test]
async fn a_changed_password_ends_tunnels() {
    let far = WebSocketUpstream::echo().await;
    let lines = |password| far.config("") + &users(Some((r#"["*"]"#, password)));
    let gateway = Gateway::with(&lines(PASSWORD));
    let token = gateway.sign_in("deployer").await;
    let mut socket = tunnel::open_as(&gateway, &token).await.unwrap();
    tunnel::try_out(&mut socket).await;
    assert!(gateway.reload(&lines("another password")).await);
    assert_eq!(tunnel::closing(socket).await, 1008);
}

#[tokio::test]
async fn a_changed_password_ends_sessions_and_the_channels_of_editors() {
    let lines = |password| users(Some((r#"["*"]"#, password)));
    let gateway = Gateway::with(&lines(PASSWORD));
    let (token, other) = (
        gateway.sign_in("deployer").await,
        gateway.sign_in("admin").await,
    );
    let mut channel = gateway.editor(&token).await;
    assert!(gateway.reload(&lines("another password")).await);
    assert!(!gateway.accepts_token(&token).await);
    channel.is_rejected().await;
    assert!(gateway.accepts_token(&other).await, "another user's stays");
    // It does not come back with the password, and not after a restart.
    assert!(gateway.reload(&lines(PASSWORD)).await);
    assert!(!gateway.accepts_token(&token).await);
    let again = gateway.sign_in("deployer").await;
    let gateway = gateway.restart().await;
    assert!(!gateway.accepts_token(&token).await && gateway.accepts_token(&again).await);
}

#[tokio::test]
async fn a_password_that_is_changed_while_the_gateway_is_stopped_ends_sessions_too() {
    let gateway = Gateway::with(&users(Some((DEPLOYER, PASSWORD))));
    let (token, other) = (
        gateway.sign_in("deployer").await,
        gateway.sign_in("admin").await,
    );
    let changed = users(Some((DEPLOYER, "another password")));
    let gateway = gateway.restart_with(&changed).await;
    assert!(!gateway.accepts_token(&token).await);
    assert!(gateway.accepts_token(&other).await);
    let gateway = gateway
        .restart_with(&users(Some((DEPLOYER, PASSWORD))))
        .await;
    assert!(
        !gateway.accepts_token(&token).await,
        "it does not come back"
    );
}

#[tokio::test]
async fn the_oldest_session_of_a_user_ends_when_there_are_too_many() {
    let gateway = Gateway::start();
    let other = gateway.sign_in("reader").await;
    let mut tokens = Vec::new();
    for _ in 0..101 {
        tokens.push(gateway.sign_in("admin").await);
    }
    assert!(
        !gateway.accepts_token(&tokens[0]).await,
        "the oldest has ended"
    );
    for token in &tokens[1..] {
        assert!(gateway.accepts_token(token).await);
    }
    assert!(gateway.accepts_token(&other).await, "each user has his own");
    let fewer = "[auth]\nsessions_per_user = 2\n";
    let gateway = gateway.restart_with(fewer).await;
    let mut alive = 0;
    for token in &tokens {
        alive += usize::from(gateway.accepts_token(token).await);
    }
    assert_eq!(alive, 2);
    assert!(gateway.accepts_token(&other).await);
}
