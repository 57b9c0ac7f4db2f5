//! The throttle of guessed passwords and tokens: which clients are blocked, which are not, and for
//! how long.

use crate::client::{Answer, Client, PASSWORD};
use crate::harness::{Gateway, until};

async fn fail(client: &Client, user: &str, from: &str, times: usize) {
    for _ in 0..times {
        let answer = client
            .sign_in_request(user, "wrong", "")
            .from(from)
            .send()
            .await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "invalid_grant")
        );
    }
}

async fn sign_in(client: &Client, user: &str, from: &str) -> Answer {
    client
        .sign_in_request(user, PASSWORD, "")
        .from(from)
        .send()
        .await
}

#[tokio::test]
async fn after_five_failures_even_the_right_password_is_blocked() {
    let gateway = Gateway::start();
    fail(&gateway, "admin", "127.0.0.1", 5).await;
    let answer = sign_in(&gateway, "admin", "127.0.0.1").await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (429, "temporarily_unavailable")
    );
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((590..=600).contains(&wait), "{wait}");
    assert_eq!(answer.header("cache-control"), "no-store");
}

#[tokio::test]
async fn failures_at_one_address_do_not_block_a_user_at_another() {
    let gateway = Gateway::start();
    fail(&gateway, "admin", "127.0.0.2", 5).await;
    assert_eq!(sign_in(&gateway, "admin", "127.0.0.2").await.status, 429);
    assert_eq!(sign_in(&gateway, "admin", "127.0.0.1").await.status, 200);
    assert_eq!(sign_in(&gateway, "reader", "127.0.0.2").await.status, 200);
}

#[tokio::test]
async fn an_untrusted_forwarded_header_does_not_change_the_blocked_address() {
    let gateway = Gateway::start();
    fail(&gateway, "admin", "127.0.0.1", 5).await;
    let elsewhere = gateway.sign_in_request("admin", PASSWORD, "");
    let answer = elsewhere
        .header("X-Forwarded-For", "203.0.113.9")
        .send()
        .await;
    assert_eq!(answer.status, 429);
}

#[tokio::test]
async fn a_success_resets_the_failures_of_its_user() {
    let gateway = Gateway::start();
    for _ in 0..2 {
        fail(&gateway, "admin", "127.0.0.1", 4).await;
        assert_eq!(sign_in(&gateway, "admin", "127.0.0.1").await.status, 200);
    }
}

#[tokio::test]
async fn an_address_that_fails_with_many_names_is_blocked_for_every_name() {
    let gateway = Gateway::with("[auth.throttle]\nper_address = 8");
    for n in 0..8 {
        fail(&gateway, &format!("guess{n}"), "127.0.0.2", 1).await;
    }
    assert_eq!(sign_in(&gateway, "admin", "127.0.0.2").await.status, 429);
    assert_eq!(sign_in(&gateway, "admin", "127.0.0.1").await.status, 200);
}

#[tokio::test]
async fn unknown_users_are_blocked_like_known_ones() {
    let gateway = Gateway::start();
    fail(&gateway, "nobody", "127.0.0.1", 5).await;
    assert_eq!(sign_in(&gateway, "nobody", "127.0.0.1").await.status, 429);
}

#[tokio::test]
async fn a_block_survives_a_restart() {
    let gateway = Gateway::start();
    fail(&gateway, "admin", "127.0.0.1", 5).await;
    let gateway = gateway.restart().await;
    assert_eq!(sign_in(&gateway, "admin", "127.0.0.1").await.status, 429);
    assert_eq!(sign_in(&gateway, "admin", "127.0.0.2").await.status, 200);
}

#[tokio::test]
async fn a_block_ends_with_its_window() {
    let gateway = Gateway::with("[auth.throttle]\nwindow = \"2s\"");
    fail(&gateway, "admin", "127.0.0.1", 5).await;
    let mut waits = 0;
    until("the block is over", async || {
        let answer = sign_in(&gateway, "admin", "127.0.0.1").await;
        waits += usize::from(answer.status == 429);
        answer.status == 200
    })
    .await;
    assert!(waits > 0, "there was no block");
}

#[tokio::test]
async fn concurrent_guesses_are_limited_like_sequential_ones() {
    let gateway = Gateway::start();
    let guesses =
        (0..20).map(|_| tokio::spawn(gateway.sign_in_request("admin", "wrong", "").send()));
    let mut tried = 0;
    for guess in guesses.collect::<Vec<_>>() {
        tried += usize::from(guess.await.unwrap().status == 400);
    }
    assert_eq!(tried, 5);
}

#[tokio::test]
async fn an_address_that_guesses_tokens_is_blocked_but_its_valid_tokens_are_not() {
    let gateway = Gateway::with("[auth.throttle]\nbad_tokens_per_address = 10");
    let token = gateway.sign_in("reader").await;
    let ask = async |token: &str, from: &str| {
        let request = gateway.get("/flows").token(token).from(from);
        request.send().await
    };
    for n in 0..10 {
        let guess = format!("{n:043}");
        assert_eq!(ask(&guess, "127.0.0.2").await.status, 401);
    }
    let refused = ask("guess", "127.0.0.2").await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "too_many_bad_tokens")
    );
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((590..=600).contains(&wait), "{wait}");
    assert_eq!(
        ask(&token, "127.0.0.2").await.status,
        200,
        "a good one from there"
    );
    assert_eq!(ask("", "127.0.0.2").await.status, 401, "and none");
    assert_eq!(
        ask("guess", "127.0.0.1").await.status,
        401,
        "and a bad one from elsewhere"
    );
    let sign_in_request = gateway
        .sign_in_request("reader", PASSWORD, "")
        .from("127.0.0.2");
    assert_eq!(sign_in_request.send().await.status, 200, "and a sign-in");
    let counted = "flowgate_token_checks_total{result=\"throttled\"}";
    assert_eq!(gateway.metric(counted).await, Some(1.0));
}

#[tokio::test]
async fn guesses_over_a_channel_count_as_any_others() {
    let gateway = Gateway::with("[auth.throttle]\nbad_tokens_per_address = 3");
    let token = gateway.sign_in("reader").await;
    for _ in 0..3 {
        let mut channel = gateway.comms().await;
        channel.send(&serde_json::json!({ "auth": "guess" })).await;
        channel.is_rejected().await;
    }
    let guess = gateway.get("/flows").token("guess").send().await;
    assert_eq!(guess.status, 429);
    // A good one is as good as ever.
    gateway.editor(&token).await;
    assert!(gateway.accepts_token(&token).await);
}
