//! Pages behind a sign-in: `[[route]] sign_in = "page"`. [`Browser`] keeps the cookie as a browser
//! does.

use crate::client::{Answer, Client, PASSWORD, Request};
use crate::confused_deputy::agreeable;
use crate::harness::{Gateway, flow_set, public, script, until};
use crate::mock_upstream::{Action, MockUpstream};
use crate::tunnel::open;
use futures_util::StreamExt;
use serde_json::{Value as Json, json};
use tokio_tungstenite::tungstenite::{Error, Message};

const ROUTE: &str =
    "[[route]]\npath = \"/dash\"\nprefix = true\npermission = \"http.read\"\nsign_in = \"page\"\n";

/// A browser: it accepts pages, names the page that makes a request, and keeps the gateway's
/// cookie.
#[derive(Clone)]
pub struct Browser {
    pub client: Client,
    pub cookie: String,
}

impl Browser {
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            cookie: String::new(),
        }
    }

    /// The request of a user who opens a page.
    pub fn navigate(&self, path: &str) -> Request {
        let request = self
            .client
            .get(path)
            .header("Accept", "text/html,*/*;q=0.8");
        self.with_cookie(
            request
                .header("Sec-Fetch-Mode", "navigate")
                .header("Sec-Fetch-Dest", "document")
                .header("Sec-Fetch-Site", "none"),
        )
    }

    /// The form of a page of this origin.
    pub fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Request {
        let origin = format!("https://{}", self.client.address);
        let request = self.client.post(path).form(fields);
        self.with_cookie(request.header("Origin", &origin))
    }

    pub fn with_cookie(&self, request: Request) -> Request {
        if self.cookie.is_empty() {
            return request;
        }
        request.header("Cookie", &format!("theme=dark; {}", self.cookie))
    }

    /// Takes the cookie of an answer over.
    pub fn keep(&mut self, answer: &Answer) {
        let set = answer.header("set-cookie");
        if let Some((cookie, _)) = set.split_once(';') {
            cookie.clone_into(&mut self.cookie);
        }
    }

    /// Signs in on the page at this path.
    pub async fn sign_in_at(&mut self, page: &str, user: &str, back: &str) -> Answer {
        let fields = [("username", user), ("password", PASSWORD), ("return", back)];
        let answer = self.submit(page, &fields).send().await;
        self.keep(&answer);
        answer
    }

    pub async fn sign_in(&mut self, user: &str) {
        let answer = self.sign_in_at("/gateway/sign-in", user, "/dash").await;
        assert_eq!(answer.status, 303, "{}", answer.text());
    }
}

#[tokio::test]
async fn no_upstream_and_no_flow_sets_the_cookie_of_the_gateway() {
    let cookies = [
        "__Host-flowgate=x; Path=/; Secure",
        "=__Host-flowgate=x; Path=/; Secure",
        "__host-Flowgate=x; Path=/; Secure",
        "__Host-flowgate",
        "a=b",
        "theme=__Host-flowgate",
    ];
    let lines: Vec<String> = cookies
        .iter()
        .map(|cookie| format!("Set-Cookie: {cookie}\r\n"))
        .collect();
    let response = format!(
        "HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n",
        lines.concat()
    );
    let behind = MockUpstream::start(move |_| Action::Respond(response.clone())).await;
    let route = public(&["/dash"]);
    let upstream = Gateway::with(&format!("{}\n{route}", behind.config()));
    let engine = Gateway::with(&route);
    let token = engine.sign_in("admin").await;
    let code = format!(
        "msg.headers = {{ 'set-cookie': {} }}; return msg",
        json!(cookies)
    );
    engine
        .deploy(&token, &flow_set(&[script("a", "get", "/dash", &code)]))
        .await;
    for gateway in [upstream, engine] {
        let answer = gateway.get("/dash").send().await;
        assert_eq!(answer.status, 200);
        let set: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
        assert_eq!(set, ["a=b", "theme=__Host-flowgate"]);
    }
}

/// Where a relative reference leads from a path (RFC 3986 §5.2.4).
pub fn resolved(from: &str, reference: &str) -> String {
    let directory = from.split_once('?').map_or(from, |(path, _)| path);
    let mut segments: Vec<&str> = directory.split('/').collect();
    segments.pop();
    let (path, query) = reference.split_once('?').unwrap_or((reference, ""));
    for segment in path.split('/') {
        match segment {
            ".." if segments.len() > 1 => drop(segments.pop()),
            "." | ".." => {}
            other => segments.push(other),
        }
    }
    let query = if query.is_empty() {
        String::new()
    } else {
        format!("?{query}")
    };
    segments.join("/") + &query
}

/// Flows that show what they get of a request, and a WebSocket.
fn flows() -> Json {
    let code = "msg.payload = { user: msg.req.user, cookies: msg.req.cookies, headers: msg.req.headers }; return msg";
    let mut flows = flow_set(&[
        script("a", "get", "/dash", code),
        script("b", "post", "/dash/save", code),
        script("c", "get", "/open", code),
    ]);
    let listener = json!([
        { "id": "t", "type": "tab", "label": "T" },
        { "id": "l", "type": "websocket-listener", "path": "/dash/ws", "wholemsg": "false" },
        { "id": "in", "type": "websocket in", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [["out"]] },
        { "id": "out", "type": "websocket out", "z": "t", "x": 1, "y": 1, "server": "l", "client": "", "wires": [] },
    ]);
    flows
        .as_array_mut()
        .unwrap()
        .extend(listener.as_array().unwrap().clone());
    flows
}

async fn started(lines: &str) -> Gateway {
    let gateway = Gateway::with(&format!("{}{ROUTE}{lines}", public(&["/open"])));
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &flows()).await;
    gateway
}

#[tokio::test]
async fn a_browser_is_led_to_the_sign_in_and_back_and_the_flow_sees_the_user() {
    let gateway = started("").await;
    let mut browser = Browser::new(&gateway);
    let answer = browser.navigate("/dash?tab=1&x=%2F").send().await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.header("cache-control"), "no-store");
    let page = resolved("/dash", answer.header("location"));
    assert_eq!(
        page,
        "/gateway/sign-in?return=%2Fdash%3Ftab%3D1%26x%3D%252F"
    );

    let answer = browser.navigate(&page).send().await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, "text/html; charset=utf-8")
    );
    let policy = answer.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    assert!(policy.contains("form-action 'self'; frame-ancestors 'none'; base-uri 'none'"));
    assert_eq!(answer.header("referrer-policy"), "same-origin");
    let html = answer.text();
    assert!(
        !html.contains("<script") && html.contains("value=\"/dash?tab=1&amp;x=%2F\""),
        "{html}"
    );

    let answer = browser
        .sign_in_at("/gateway/sign-in", "reader", "/dash?tab=1")
        .await;
    assert_eq!(answer.status, 303);
    assert_eq!(
        resolved("/gateway/sign-in", answer.header("location")),
        "/dash?tab=1"
    );
    let set = answer.header("set-cookie");
    assert!(set.starts_with("__Host-flowgate="), "{set}");
    assert!(
        set.ends_with("; Path=/; Max-Age=604800; Secure; HttpOnly; SameSite=Lax"),
        "{set}"
    );

    let answer = browser.navigate("/dash?tab=1").send().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("cache-control"), "private");
    let seen = answer.json();
    assert_eq!(
        seen["user"],
        json!({ "username": "reader", "permissions": ["read"] })
    );
    assert_eq!(seen["cookies"], json!({ "theme": "dark" }));
    let token = browser.cookie.split_once('=').unwrap().1;
    assert!(!seen.to_string().contains(token) && !seen.to_string().contains("__Host"));
    let record = gateway
        .audit()
        .into_iter()
        .find(|record| record["event"] == "auth.login" && record["client"] == "page");
    assert_eq!(record.unwrap()["user"], "reader");
}

#[tokio::test]
async fn the_cookie_counts_for_its_routes_only() {
    let gateway = started("").await;
    let mut browser = Browser::new(&gateway);
    browser.sign_in("admin").await;
    let token = browser.cookie.split_once('=').unwrap().1.to_owned();
    for path in [
        "/flows",
        "/settings",
        "/gateway/sessions",
        "/gateway/verify",
        "/gateway/deployments",
        "/other",
    ] {
        let answer = browser.navigate(path).send().await;
        assert_eq!(answer.status, 401, "{path}");
        let answer = gateway.get(path).token(&token).send().await;
        assert_eq!(answer.status, 401, "{path} as a bearer token");
    }
    let revoked = gateway
        .post("/auth/revoke")
        .token(&token)
        .form(&[("token", &token)]);
    assert_eq!(revoked.send().await.status, 401);
    let mut channel = gateway.comms().await;
    channel.send(&json!({ "auth": token })).await;
    channel.is_rejected().await;
    assert_eq!(browser.navigate("/dash").send().await.status, 200);
    let bearer = gateway.sign_in("reader").await;
    let answer = browser.navigate("/dash").token(&bearer).send().await;
    assert_eq!(
        answer.json()["user"]["username"],
        "reader",
        "a token counts more"
    );
    let cookie = format!("__Host-flowgate={bearer}");
    let forged = Browser {
        cookie,
        ..browser.clone()
    };
    assert_eq!(
        forged.navigate("/dash").send().await.status,
        303,
        "a token is no cookie"
    );
    let open = browser.navigate("/open").send().await.json();
    assert_eq!(
        (&open["user"], &open["cookies"]),
        (&Json::Null, &json!({ "theme": "dark" }))
    );
}

#[tokio::test]
async fn an_api_call_without_the_cookie_is_refused_and_not_redirected() {
    let gateway = started("").await;
    let browser = Browser::new(&gateway);
    let plain = gateway.get("/dash");
    let fetched = plain.clone().header("Accept", "text/html");
    for request in [
        plain.clone(),
        plain.clone().header("Accept", "application/json"),
        fetched
            .clone()
            .header("Sec-Fetch-Mode", "cors")
            .header("Sec-Fetch-Dest", "empty"),
        fetched.clone().header("X-Requested-With", "XMLHttpRequest"),
        fetched.clone().method("POST"),
        browser.navigate("/dash").header("Sec-Fetch-Dest", "script"),
        browser.navigate("/dash").token("unknown"),
    ] {
        let answer = request.send().await;
        assert_eq!((answer.status, answer.header("location")), (401, ""));
    }
    assert_eq!(
        fetched.send().await.status,
        303,
        "an old browser says no more"
    );
    let refused = open(&gateway, "/dash/ws", &[("Accept", "text/html")]).await;
    assert!(matches!(refused, Err(Error::Http(refusal)) if refusal.status() == 401));
}

#[tokio::test]
async fn other_pages_cannot_act_with_the_cookie_but_may_link_to_a_page() {
    let gateway = started("").await;
    let mut browser = Browser::new(&gateway);
    browser.sign_in("reader").await;
    let own = format!("https://{}", gateway.address);
    let save = || browser.with_cookie(gateway.post("/dash/save"));
    let read = || browser.with_cookie(gateway.get("/dash"));
    let foreign = "https://evil.example";
    for (request, status) in [
        (save().header("Origin", &own), 200),
        (save().header("Sec-Fetch-Site", "same-origin"), 200),
        (save(), 403),
        (save().header("Origin", foreign), 403),
        (save().header("Origin", "null"), 403),
        (
            save()
                .header("Origin", &own)
                .header("Sec-Fetch-Site", "same-site"),
            403,
        ),
        (
            save()
                .header("Origin", foreign)
                .header("Sec-Fetch-Mode", "navigate"),
            403,
        ),
        (read(), 200),
        (
            read()
                .header("Sec-Fetch-Site", "cross-site")
                .header("Sec-Fetch-Mode", "navigate"),
            200,
        ),
        (
            read()
                .header("Sec-Fetch-Site", "same-site")
                .header("Sec-Fetch-Mode", "no-cors"),
            403,
        ),
        (read().header("Origin", foreign), 403),
    ] {
        assert_eq!(request.send().await.status, status);
    }
    let cookie = browser.cookie.as_str();
    for (headers, opens) in [
        (vec![("Cookie", cookie), ("Origin", own.as_str())], true),
        (vec![("Cookie", cookie), ("Origin", foreign)], false),
        (vec![("Cookie", cookie)], false),
    ] {
        assert_eq!(
            open(&gateway, "/dash/ws", &headers).await.is_ok(),
            opens,
            "{headers:?}"
        );
    }
    until("the refusals are recorded", async || {
        let audit = gateway.audit().into_iter();
        audit.filter(|record| record["reason"] == "origin").count() >= 5
    })
    .await;
}

#[tokio::test]
async fn no_other_page_signs_a_browser_in_or_out() {
    let gateway = started("").await;
    let mut browser = Browser::new(&gateway);
    browser.sign_in("reader").await;
    let fields = [("username", "admin"), ("password", PASSWORD)];
    for path in ["/gateway/sign-in", "/gateway/sign-out"] {
        let form = browser.with_cookie(gateway.post(path).form(&fields));
        for request in [
            form.clone(),
            form.clone().header("Origin", "https://evil.example"),
            form.clone()
                .header("Sec-Fetch-Site", "cross-site")
                .header("Sec-Fetch-Mode", "navigate"),
        ] {
            let answer = request.send().await;
            assert_eq!(
                (answer.status, answer.header("set-cookie")),
                (403, ""),
                "{path}"
            );
        }
    }
    assert_eq!(
        browser.navigate("/dash").send().await.json()["user"]["username"],
        "reader"
    );
}

#[tokio::test]
async fn the_sign_in_leads_to_no_other_host() {
    let gateway = started("").await;
    for back in [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "/%2Fevil",
        "javascript:alert(1)",
        "/a\r\nX: y",
        "\u{0}",
    ] {
        let mut browser = Browser::new(&gateway);
        let answer = browser.sign_in_at("/gateway/sign-in", "reader", back).await;
        if back == "\u{0}" {
            assert_eq!(answer.status, 400);
            continue;
        }
        assert_eq!(answer.status, 303);
        assert_eq!(
            resolved("/gateway/sign-in", answer.header("location")),
            "/gateway/sign-in",
            "{back:?}"
        );
        let page = browser.navigate("/gateway/sign-in").send().await.text();
        assert!(page.contains("<strong>reader</strong>") && page.contains("sign-out"));
    }
}

#[tokio::test]
async fn sign_out_revocation_and_reload_end_the_session_and_its_websockets() {
    let gateway = started("").await;
    let own = format!("https://{}", gateway.address);
    let mut browser = Browser::new(&gateway);
    browser.sign_in("reader").await;
    let first = browser.clone();
    browser.sign_in("reader").await;
    assert_ne!(first.cookie, browser.cookie);
    assert_eq!(
        first.navigate("/dash").send().await.status,
        303,
        "a sign-in ends the session before"
    );

    let admin = gateway.sign_in("admin").await;
    let ends = async |number: usize, browser: &Browser| {
        let headers = [
            ("Cookie", browser.cookie.as_str()),
            ("Origin", own.as_str()),
        ];
        let mut socket = open(&gateway, "/dash/ws", &headers).await.unwrap();
        match number {
            0 => {
                let answer = browser.submit("/gateway/sign-out", &[]).send().await;
                assert_eq!(answer.status, 303);
                assert!(
                    answer
                        .header("set-cookie")
                        .starts_with("__Host-flowgate=; Path=/; Max-Age=0")
                );
                assert_eq!(
                    resolved("/gateway/sign-out", answer.header("location")),
                    "/gateway/sign-in"
                );
            }
            1 => {
                let path = "/gateway/sessions?user=reader";
                let answer = gateway.request("DELETE", path).token(&admin).send().await;
                assert_eq!(answer.json()["revoked"], 1);
            }
            // The route no longer has a page.
            _ => {
                let lines = ROUTE.replace("sign_in = \"page\"", "");
                assert!(gateway.reload(&lines).await);
            }
        }
        let closed = loop {
            match socket.next().await {
                Some(Ok(Message::Close(frame))) => break frame.map(|frame| u16::from(frame.code)),
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(closed, Some(1008));
        until("the cookie counts no more", async || {
            browser.navigate("/dash").send().await.status != 200
        })
        .await;
    };
    for number in 0..3 {
        browser.sign_in("reader").await;
        Box::pin(ends(number, &browser)).await;
    }
    let mut late = browser.clone();
    let answer = late.sign_in_at("/gateway/sign-in", "reader", "/").await;
    assert_eq!(answer.status, 404, "without such a route there is no page");
}

#[tokio::test]
async fn sessions_of_pages_survive_a_restart_and_end_when_they_expire() {
    let gateway = started("[auth]\nlifetime = \"3s\"").await;
    let mut browser = Browser::new(&gateway);
    browser.sign_in("reader").await;
    let gateway = gateway.restart().await;
    let browser = Browser {
        client: (*gateway).clone(),
        ..browser
    };
    assert_eq!(browser.navigate("/dash").send().await.status, 200);
    until("the session has expired", async || {
        browser.navigate("/dash").send().await.status == 303
    })
    .await;
}

#[tokio::test]
async fn wrong_passwords_show_the_form_again_and_are_throttled() {
    let gateway = started("[auth.throttle]\nper_user_and_address = 2").await;
    let browser = Browser::new(&gateway);
    let wrong = [
        ("username", "reader"),
        ("password", "no"),
        ("return", "/dash"),
    ];
    for status in [403, 403, 429] {
        let answer = browser.submit("/gateway/sign-in", &wrong).send().await;
        assert_eq!((answer.status, answer.header("set-cookie")), (status, ""));
        assert_eq!(answer.header("retry-after").is_empty(), status == 403);
        let page = answer.text();
        assert!(
            page.contains("role=\"alert\"") && page.contains("value=\"/dash\""),
            "{page}"
        );
        assert!(!page.contains("\"no\"") && !page.contains("reader"));
    }
    let answer = gateway.sign_in_request("reader", PASSWORD, "").send().await;
    assert_eq!(answer.status, 429, "it is one throttle");
}

#[tokio::test]
async fn a_user_without_the_permission_is_told_so_and_may_sign_out() {
    let lines = ROUTE.replace("http.read", "plant.view");
    let gateway = Gateway::with(&lines);
    let mut browser = Browser::new(&gateway);
    browser.sign_in("reader").await;
    let answer = browser.navigate("/dash/a").send().await;
    assert_eq!(answer.status, 403);
    let page = answer.text();
    assert!(
        page.contains("may not see") && page.contains("action=\"../gateway/sign-out\""),
        "{page}"
    );
    let fetched = browser.with_cookie(gateway.get("/dash/a")).send().await;
    assert_eq!(fetched.status, 401);
}

#[tokio::test]
async fn without_tls_no_password_is_asked_for() {
    let gateway = Gateway::with(&format!("{ROUTE}[server]\nplain = \"127.0.0.1:0\"\n"));
    let address = gateway.running.addresses().plain.unwrap();
    let plain = Client {
        address,
        ..(*gateway).clone()
    };
    let answer = plain.get("/gateway/sign-in").plain().send().await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("HTTPS") && !answer.text().contains("<form"));
}

#[tokio::test]
async fn in_front_of_an_upstream_the_cookie_stays_and_the_identity_goes_on() {
    let upstream = agreeable().await;
    let lines = format!(
        "[[upstream]]\nname = \"a\"\nurl = \"http://{}\"\npath = \"/plant\"\nadmin_root = \"/admin\"\nidentity_headers = true\n{ROUTE}",
        upstream.address
    );
    let gateway = Gateway::with(&lines);
    let mut browser = Browser::new(&gateway);
    let answer = browser.navigate("/plant/dash/x/").send().await;
    let page = resolved("/plant/dash/x/", answer.header("location"));
    assert_eq!(
        page,
        "/plant/admin/gateway/sign-in?return=%2Fplant%2Fdash%2Fx%2F"
    );
    let page = "/plant/admin/gateway/sign-in";
    let answer = browser.sign_in_at(page, "reader", "/plant/dash/x/").await;
    assert_eq!(resolved(page, answer.header("location")), "/plant/dash/x/");
    upstream.take();
    let forged = browser
        .navigate("/plant/dash/x/")
        .header("X-Flowgate-User", "root");
    assert_eq!(forged.send().await.status, 200);
    let [left] = &upstream.take()[..] else {
        panic!("one request")
    };
    let head = left.bytes.to_ascii_lowercase();
    assert!(
        head.contains("x-flowgate-user: reader\r\n") && head.contains("cookie: theme=dark\r\n"),
        "{head}"
    );
    assert!(!head.contains("__host") && !head.contains("root"));
}
