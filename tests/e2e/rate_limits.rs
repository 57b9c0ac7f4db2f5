//! `rate_limit` of users, service tokens and routes.

use crate::client::{Answer, PASSWORD};
use crate::harness::{Gateway, hash, program, until};

fn users(limit: &str) -> String {
    let hash = hash(PASSWORD);
    let user = |name: &str, rest: &str| {
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = [\"*\"]\n{rest}\n"
        )
    };
    user("busy", limit) + &user("admin", "")
}

/// What a client learns of its limits.
fn told(answer: &Answer) -> (u16, &str, &str) {
    (
        answer.status,
        answer.header("ratelimit-policy"),
        answer.header("ratelimit"),
    )
}

#[tokio::test]
async fn a_user_has_one_limit_for_all_tokens_and_learns_what_is_left() {
    let gateway = Gateway::with(&users("rate_limit = \"3/h\""));
    let tokens = [gateway.sign_in("busy").await, gateway.sign_in("busy").await];
    let ask = async |token: &str| gateway.get("/flows").token(token).send().await;
    let policy = "\"user\";q=3;w=3600";
    assert_eq!(
        told(&ask(&tokens[0]).await),
        (200, policy, "\"user\";r=2;t=1200")
    );
    assert_eq!(
        ask(&tokens[1]).await.header("ratelimit").split(';').nth(1),
        Some("r=1")
    );
    assert_eq!(ask(&tokens[0]).await.status, 200);
    let answer = ask(&tokens[1]).await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (429, "rate_limited")
    );
    assert_eq!(answer.header("ratelimit-policy"), policy);
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1190..=1200).contains(&wait), "{wait}");

    let admin = gateway.sign_in("admin").await;
    assert_eq!(told(&ask(&admin).await), (200, "", ""));
    assert!(gateway.reload(&users("rate_limit = \"5/h\"")).await);
    assert_eq!(ask(&tokens[0]).await.status, 200);
    assert!(gateway.reload(&users("")).await);
    assert_eq!(told(&ask(&tokens[0]).await), (200, "", ""));
}

#[tokio::test]
async fn a_limit_refills_with_time() {
    let gateway = Gateway::with(&users("rate_limit = \"1/s\""));
    let token = gateway.sign_in("busy").await;
    let ask = async || gateway.get("/flows").token(&token).send().await.status;
    assert_eq!(ask().await, 200);
    assert_eq!(ask().await, 429);
    until("a token is there again", async || ask().await == 200).await;
}

#[tokio::test]
async fn a_route_limits_each_user_and_each_address_apart() {
    let route = |path: &str, rest: &str| {
        format!("[[route]]\npath = \"{path}\"\n{rest}\nrate_limit = \"2/h\"\n")
    };
    let lines = route("/open", "public = true") + &route("/closed", "permission = \"read\"");
    let gateway = Gateway::with(&lines);
    let open = async |from: &str| gateway.get("/open").from(from).send().await.status;
    // There is no flow at the path, and a limit.
    for status in [404, 404, 429] {
        assert_eq!(open("127.0.0.1").await, status);
    }
    assert_eq!(open("127.0.0.2").await, 404);
    let (reader, admin) = (
        gateway.sign_in("reader").await,
        gateway.sign_in("admin").await,
    );
    let closed = async |token: &str, from: &str| {
        gateway
            .get("/closed")
            .token(token)
            .from(from)
            .send()
            .await
            .status
    };
    for (from, status) in [("127.0.0.1", 404), ("127.0.0.2", 404), ("127.0.0.3", 429)] {
        assert_eq!(
            closed(&reader, from).await,
            status,
            "a user is one wherever they are"
        );
    }
    assert_eq!(closed(&admin, "127.0.0.1").await, 404);
    for _ in 0..4 {
        assert_eq!(
            closed("", "127.0.0.1").await,
            401,
            "who is not known does not count"
        );
    }
}

#[tokio::test]
async fn an_ipv6_subscriber_with_many_networks_has_few_times_the_limit_of_one() {
    let lines = "[server]\ntrusted_proxies = [\"127.0.0.1/32\"]\n\
        [[route]]\npath = \"/open\"\npublic = true\nrate_limit = \"5/h\"\n";
    let gateway = Gateway::with(lines);
    let mut admitted = 0;
    for n in 0..20 {
        for _ in 0..10 {
            let client = format!("2001:db8:0:{n:x}::1");
            let request = gateway.get("/open").header("x-forwarded-for", &client);
            admitted += usize::from(request.send().await.status == 404);
        }
    }
    assert_eq!(admitted, 20);
    let stranger = gateway
        .get("/open")
        .header("x-forwarded-for", "2001:db8:1::1");
    assert_eq!(stranger.send().await.status, 404);
}

#[tokio::test]
async fn a_service_token_has_a_limit_that_outlives_a_restart() {
    let gateway = Gateway::start();
    let arguments = [
        "token",
        "create",
        "--name",
        "ci",
        "--permission",
        "read",
        "--rate-limit",
        "1/h",
    ];
    let mut command = program(gateway.directory.path(), &arguments);
    let output = command
        .stdout(std::process::Stdio::piped())
        .output()
        .unwrap();
    let token = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let gateway = gateway.restart().await;
    for status in [200, 429] {
        let answer = gateway.get("/flows").token(&token).send().await;
        assert_eq!(answer.status, status);
        assert!(answer.header("ratelimit").starts_with("\"user\";r=0;"));
    }
}
