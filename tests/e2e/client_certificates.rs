//! Client certificates: which user they identify, and that they change nothing for clients without
//! one.

use crate::certificate_authority::{Authority, ClientCertificate, self_signed};
use crate::client::{Answer, Client, PASSWORD, Request};
use crate::harness::{Gateway, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use crypto::{hex, sha256};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Users who are known by certificates, beside `admin` and the others, who have passwords.
pub fn users(more: &str) -> String {
    let hash = crate::harness::hash(PASSWORD);
    format!(
        "[tls]\nclient_ca = \"ca.pem\"\n{more}\n\
         [[auth.user]]\nname = \"admin\"\npassword_hash = \"{hash}\"\ncertificates = [\"cn:root\"]\npermissions = [\"*\"]\n\
         [[auth.user]]\nname = \"reader\"\npassword_hash = \"{hash}\"\npermissions = [\"read\"]\n\
         [[auth.user]]\nname = \"robot\"\ncertificates = [\"dns:robot.example.org\", \"email:robot@example.org\"]\npermissions = [\"read\"]\n"
    )
}

/// A gateway that accepts what an authority has signed.
pub fn gateway(authority: &Authority, more: &str) -> Gateway {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("ca.pem"), &authority.pem).unwrap();
    Gateway::open(&users(more), directory)
}

/// The user as whom the gateway identifies a client; empty: none.
async fn known_as(client: &Client, certificate: &Arc<CertifiedKey>) -> String {
    let client = client.with_certificate(certificate);
    who(&client.get("/settings").send().await)
}

fn who(settings: &Answer) -> String {
    match settings.status {
        200 => settings.json()["user"]["username"]
            .as_str()
            .unwrap()
            .to_owned(),
        401 => String::new(),
        other => panic!("{other}: {}", settings.text()),
    }
}

/// Returns whether a client with this certificate gets as far as an answer.
async fn gets_in(client: &Client, certificate: &Arc<CertifiedKey>) -> bool {
    let client = client.with_certificate(certificate);
    client.get("/auth/login").try_send().await.is_ok()
}

#[tokio::test]
async fn any_name_of_a_certificate_identifies_its_user_with_that_users_permissions() {
    let authority = Authority::new("ours");
    let by_fingerprint = authority.sign(&ClientCertificate::named("somebody"));
    let digits = hex(&sha256(&by_fingerprint.cert[0])).to_uppercase();
    let more = format!(
        "[[auth.user]]\nname = \"exact\"\ncertificates = [\"sha256:{digits}\"]\npermissions = [\"flows.write\"]\n"
    );
    let gateway = gateway(&authority, "");
    assert!(gateway.reload(&(users("") + &more)).await);
    for (client, user) in [
        (ClientCertificate::named("root"), "admin"),
        (
            ClientCertificate::named("x").dns("ROBOT.example.org"),
            "robot",
        ),
        (
            ClientCertificate::named("x")
                .dns("other.example")
                .dns("robot.example.org"),
            "robot",
        ),
        (
            ClientCertificate::named("x").email("robot@Example.org"),
            "robot",
        ),
        (ClientCertificate::named("Root"), ""),
        (ClientCertificate::named("root "), ""),
        (ClientCertificate::named("robot.example.org"), ""),
        (ClientCertificate::named("x").email("Robot@example.org"), ""),
        (ClientCertificate::named("x").dns("a.robot.example.org"), ""),
        (ClientCertificate::named("x").dns("*.example.org"), ""),
        (ClientCertificate::named("admin"), ""),
    ] {
        assert_eq!(known_as(&gateway, &authority.sign(&client)).await, user);
    }
    let exact = gateway.with_certificate(&by_fingerprint);
    let rev = exact.deployment("", &json!([]), None).send().await.rev();
    assert_eq!(
        exact.get("/flows").send().await.status,
        401,
        "no more than he may"
    );
    let robot = gateway
        .with_certificate(&authority.sign(&ClientCertificate::named("x").dns("robot.example.org")));
    for http2 in [false, true] {
        let request = |request: Request| if http2 { request.http2() } else { request };
        let flows = robot.get("/flows").header("Service-API-Version", "v2");
        assert_eq!(request(flows).send().await.json()["rev"], *rev);
        let refused = request(robot.deployment("", &json!([]), None)).send().await;
        assert_eq!(refused.status, 401);
        assert!(
            refused
                .header("www-authenticate")
                .contains("insufficient_scope")
        );
    }
    let settings = robot.get("/settings").send().await.json();
    assert_eq!(settings["user"]["permissions"], "read");
    let checks = "flowgate_token_checks_total{result=\"certificate\"}";
    assert!(gateway.metric(checks).await > Some(4.0));
}

#[tokio::test]
async fn a_token_takes_precedence_over_a_certificate_even_if_it_is_invalid() {
    let authority = Authority::new("ours");
    let gateway = gateway(&authority, "");
    let root = gateway.with_certificate(&authority.sign(&ClientCertificate::named("root")));
    let reader = root.sign_in("reader").await;
    let settings = root.get("/settings").token(&reader).send().await;
    assert_eq!(who(&settings), "reader");
    let deployment = root.deployment(&reader, &json!([]), None).send().await;
    assert_eq!(deployment.status, 401, "the certificate adds nothing");
    let revoked = root
        .post("/auth/revoke")
        .form(&[("token", &reader)])
        .send()
        .await;
    assert_eq!(revoked.status, 200, "an admin may, by certificate too");
    for authorization in [
        format!("Bearer {reader}"),
        "Bearer nonsense".to_owned(),
        "Basic cm9vdDpyb290".to_owned(),
    ] {
        let answer = root.get("/flows").header("Authorization", &authorization);
        assert_eq!(answer.send().await.status, 401, "{authorization}");
    }
    let machine = authority.sign(&ClientCertificate::named("x").dns("robot.example.org"));
    let machine = gateway.with_certificate(&machine);
    let foreign = gateway.sign_in("reader").await;
    let answer = machine.post("/auth/revoke").form(&[("token", &foreign)]);
    assert_eq!(answer.send().await.status, 401, "another user's");
    assert!(gateway.accepts_token(&foreign).await);
}

#[tokio::test]
async fn a_certificate_counts_on_its_own_connection_only_and_no_header_replaces_it() {
    let authority = Authority::new("ours");
    let gateway = gateway(&authority, "");
    let root = authority.sign(&ClientCertificate::named("root"));
    let client = gateway.with_certificate(&root);
    // Two connections at once, over HTTP/2, that are both used again and again.
    let mut with = client.connect(true).await.unwrap();
    let mut without = gateway.connect(true).await.unwrap();
    for _ in 0..3 {
        assert_eq!(with.send(gateway.get("/flows")).await.unwrap().status, 200);
        let named = gateway.get("/flows");
        let named = [
            "X-SSL-Client-CN",
            "SSL-Client-Cert",
            "X-Forwarded-Client-Cert",
            "Client-Cert",
            "X-Forwarded-User",
        ]
        .into_iter()
        .fold(named, |request, name| request.header(name, "root"));
        assert_eq!(without.send(named).await.unwrap().status, 401);
    }
    // No session is resumed: each connection shows its certificate and has it checked.
    for version in [&TLS12, &TLS13] {
        let tls = Arc::new(client.tls_with_versions(&[version], &["http/1.1"]));
        for _ in 0..3 {
            let stream = gateway
                .connect_tls(Arc::clone(&tls), HERE, "localhost")
                .await;
            let mut raw = crate::client::Raw(stream.unwrap());
            let kind = raw.0.get_ref().1.handshake_kind();
            assert_eq!(kind, Some(rustls::HandshakeKind::Full));
            raw.send("GET /flows HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .await;
            assert!(raw.rest().await.starts_with("HTTP/1.1 200 "));
        }
    }
}

#[tokio::test]
async fn invalid_certificates_are_refused_in_the_handshake() {
    let authority = Authority::new("ours");
    for more in ["", "client_certificates = \"required\"\n"] {
        let gateway = gateway(&authority, more);
        let root = || ClientCertificate::named("root");
        for (what, certificate) in [
            ("over", authority.sign(&root().good(-7200, -1))),
            ("not yet valid", authority.sign(&root().good(600, 7200))),
            ("for servers", authority.sign(&root().for_servers())),
            (
                "of another authority",
                Authority::new("theirs").sign(&root()),
            ),
            (
                "of another authority of that name",
                Authority::new("ours").sign(&root()),
            ),
            ("self-signed", self_signed(&root())),
        ] {
            assert!(!gets_in(&gateway, &certificate).await, "{what}");
        }
        assert!(gets_in(&gateway, &authority.sign(&root())).await);
        let without = gateway.get("/auth/login").try_send().await.is_ok();
        assert_eq!(without, more.is_empty(), "a client without one");
        until("failures are counted", async || {
            let page = gateway.operations("/metrics").await.text();
            let mut lines = page.lines();
            lines.any(|line| {
                line.starts_with("flowgate_tls_handshakes_total{")
                    && line.contains("result=\"failed\"")
                    && !line.ends_with(" 0")
            })
        })
        .await;
    }
}

#[tokio::test]
async fn revoked_certificates_are_refused_and_an_expired_crl_counts_as_missing() {
    let authority = Authority::new("ours");
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    std::fs::write(file("ca.pem"), &authority.pem).unwrap();
    std::fs::write(file("crl.pem"), authority.revoking(&[7], 3600)).unwrap();
    let (crl, list) = (file("crl.pem"), users("client_crl = \"crl.pem\"\n"));
    let gateway = Gateway::open(&list, directory);
    let client = |number| authority.sign(&ClientCertificate::named("root").number(number));
    let (seven, eight) = (client(7), client(8));
    assert!(!gets_in(&gateway, &seven).await);
    assert!(gets_in(&gateway, &eight).await);

    std::fs::write(&crl, authority.revoking(&[7, 8], 3600)).unwrap();
    assert!(gateway.reload(&list).await);
    assert!(!gets_in(&gateway, &eight).await);
    std::fs::write(&crl, authority.revoking(&[7], -60)).unwrap();
    assert!(gateway.reload(&list).await);
    assert!(!gets_in(&gateway, &eight).await, "the list is over");
    std::fs::write(&crl, "no list").unwrap();
    assert!(!gateway.reload(&list).await);
    assert!(gateway.reload(&users("")).await);
    assert!(gets_in(&gateway, &seven).await, "nobody looks any more");
}

#[tokio::test]
async fn a_reload_replaces_the_authorities_for_new_connections() {
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let gateway = gateway(&one, "");
    let of_one = one.sign(&ClientCertificate::named("root"));
    let of_two = two.sign(&ClientCertificate::named("root"));
    let mut open = gateway
        .with_certificate(&of_one)
        .connect(true)
        .await
        .unwrap();
    assert_eq!(open.send(gateway.get("/flows")).await.unwrap().status, 200);
    assert!(!gets_in(&gateway, &of_two).await);

    let file = gateway.directory.path().join("ca.pem");
    for broken in [
        "",
        "no PEM",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        std::fs::write(&file, broken).unwrap();
        assert!(!gateway.reload(&users("")).await, "{broken:?}");
        assert_eq!(
            known_as(&gateway, &of_one).await,
            "admin",
            "all stays as it was"
        );
    }
    std::fs::write(&file, &two.pem).unwrap();
    assert!(gateway.reload(&users("")).await);
    assert_eq!(known_as(&gateway, &of_two).await, "admin");
    assert!(!gets_in(&gateway, &of_one).await);
    assert_eq!(
        open.send(gateway.get("/flows")).await.unwrap().status,
        200,
        "what is open stays"
    );
    assert!(
        gateway
            .reload(&users("client_certificates = \"required\"\n"))
            .await
    );
    assert!(gateway.get("/auth/login").try_send().await.is_err());
    // What a name means is looked up each time.
    let renamed = users("").replace("cn:root", "cn:somebody");
    assert!(gateway.reload(&renamed).await);
    assert_eq!(open.send(gateway.get("/flows")).await.unwrap().status, 401);
}

#[tokio::test]
async fn a_certificate_with_the_names_of_two_users_identifies_neither() {
    let authority = Authority::new("ours");
    let gateway = gateway(&authority, "");
    let both = authority.sign(&ClientCertificate::named("root").dns("robot.example.org"));
    assert_eq!(known_as(&gateway, &both).await, "");
    let same = ClientCertificate::named("x")
        .dns("robot.example.org")
        .email("robot@example.org");
    assert_eq!(known_as(&gateway, &authority.sign(&same)).await, "robot");
}

#[tokio::test]
async fn the_audit_log_records_the_authentication_method() {
    let authority = Authority::new("ours");
    let gateway = gateway(&authority, "");
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &json!([])).await;
    let root = authority.sign(&ClientCertificate::named("root"));
    let client = gateway.with_certificate(&root);
    client.deploy("", &json!([])).await;
    let by: Vec<_> = gateway
        .audit()
        .iter()
        .filter(|line| line["user"] == "admin")
        .map(|line| {
            format!(
                "{} {}",
                line["event"].as_str().unwrap(),
                line["by"].as_str().unwrap()
            )
        })
        .collect();
    let fingerprint = hex(&sha256(&root.cert[0]));
    let expected = [
        "auth.login password".to_owned(),
        "flows.deploy token".to_owned(),
        format!("flows.deploy certificate sha256:{fingerprint}"),
    ];
    assert_eq!(by, expected);
}

#[tokio::test]
async fn a_trusted_proxys_certificate_does_not_identify_its_clients() {
    let authority = Authority::new("ours");
    let trusted = "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let root = authority.sign(&ClientCertificate::named("root"));
    let required = "client_certificates = \"required\"\n".to_owned();
    let before = gateway(&authority, &(required.clone() + trusted));
    let client = before.with_certificate(&root);
    let forwarded = client
        .get("/flows")
        .header("X-Forwarded-For", "203.0.113.9");
    assert_eq!(forwarded.send().await.status, 401);
    assert_eq!(client.get("/flows").send().await.status, 401);
    assert_eq!(
        client.get("/flows").from("127.0.0.2").send().await.status,
        200
    );

    // A proxy that only passes bytes on does not see what is within TLS: the certificate is the
    // client's.
    let behind = gateway(
        &authority,
        &format!("{required}{trusted}proxy_protocol = true\n"),
    );
    let mut tcp = behind.tcp(HERE).await.unwrap();
    tcp.write_all(b"PROXY TCP4 203.0.113.9 203.0.113.1 4711 443\r\n")
        .await
        .unwrap();
    let tls = Arc::new(behind.with_certificate(&root).tls(&["http/1.1"]));
    let name = "localhost".try_into().unwrap();
    let stream = tokio_rustls::TlsConnector::from(tls)
        .connect(name, tcp)
        .await
        .unwrap();
    let mut raw = crate::client::Raw(stream);
    raw.send("GET /flows HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await;
    assert!(raw.rest().await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn an_upstream_receives_the_user_of_a_certificate_and_never_the_certificate() {
    let authority = Authority::new("ours");
    let behind = MockUpstream::start(|_| Action::Respond(ok("application/json", "[]"))).await;
    let lines = behind.config_with("health = \"1h\"\nidentity_headers = true");
    let gateway = gateway(&authority, &lines);
    let robot = authority.sign(&ClientCertificate::named("x").dns("robot.example.org"));
    let client = gateway.with_certificate(&robot);
    assert_eq!(client.get("/flows").send().await.status, 200);
    let received = behind.only().to_ascii_lowercase();
    assert!(
        received.contains("x-flowgate-user: robot\r\n"),
        "{received}"
    );
    assert!(
        !received.contains("cert") && !received.contains("authorization"),
        "{received}"
    );
    let foreign = client
        .get("/flows")
        .header("Origin", "https://elsewhere.example");
    assert_eq!(foreign.send().await.status, 403);
}

#[tokio::test]
async fn curl_authenticates_with_a_certificate() {
    let authority = Authority::new("ours");
    let gateway = gateway(&authority, "client_certificates = \"required\"\n");
    let file = |name: &str| gateway.directory.path().join(name);
    let files = (file("root.pem"), file("root.key"));
    authority.write(&ClientCertificate::named("root"), &files.0, &files.1);
    let mut curl = std::process::Command::new("curl");
    curl.args(["--silent", "--show-error", "--cacert"])
        .arg(file("certs/self-signed.crt"));
    curl.arg("--cert").arg(&files.0).arg("--key").arg(&files.1);
    curl.arg(format!("https://{}/settings", gateway.address));
    let log = curl.output().unwrap();
    let settings: serde_json::Value = serde_json::from_slice(&log.stdout).unwrap();
    assert_eq!(settings["user"]["username"], "admin", "{log:?}");
}
