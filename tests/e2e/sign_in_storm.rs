//! Sign-ins under attack: storms that fill the queue for hashing, and guesses of one user from many
//! addresses.

use crate::client::{Answer, Client, Connection, PASSWORD};
use crate::harness::{Gateway, until};
use std::net::IpAddr;
use tokio::sync::mpsc;

/// The user's hash takes long enough (bcrypt, cost 10: some 50 ms) that a storm lasts while others
/// sign in.
fn costly_user() -> String {
    let hash = bcrypt::hash(PASSWORD, 10).unwrap();
    format!(
        "[[auth.user]]\nname = \"ann\"\npassword_hash = \"{hash}\"\npermissions = [\"*\"]\n\
         [limits]\nh2_streams = 200\n"
    )
}

/// Sign-ins of users that do not exist, each of another one, `each` from every address at the same
/// time; their status codes in the order of the answers.
async fn storm(client: &Client, from: &[IpAddr], each: usize) -> mpsc::UnboundedReceiver<u16> {
    let (done, answers) = mpsc::unbounded_channel();
    for address in from {
        let Connection::Http2(sender) = client.connect_from(*address, true).await.unwrap() else {
            unreachable!("it was asked for");
        };
        for n in 0..each {
            let request = client.sign_in_request(&format!("{address} {n}"), "wrong", "");
            let (mut connection, done) = (Connection::Http2(sender.clone()), done.clone());
            tokio::spawn(async move {
                let answer = connection.send(request).await.unwrap();
                done.send(answer.status).unwrap();
            });
        }
    }
    answers
}

/// Waits until the queue is full: sign-ins of the storm are refused.
async fn first_refusal(storm: &mut mpsc::UnboundedReceiver<u16>) {
    while let Some(status) = storm.recv().await {
        if status == 429 {
            return;
        }
    }
    panic!("the storm does not fill the queue");
}

async fn sign_in(client: &Client, user: &str, from: &str) -> Answer {
    client
        .sign_in_request(user, PASSWORD, "")
        .from(from)
        .send()
        .await
}

fn loopback(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[tokio::test]
async fn a_storm_of_sign_ins_from_one_address_does_not_block_users_at_others() {
    let gateway = Gateway::with(&costly_user());
    let attacker = [loopback("127.0.0.2"); 3];
    let mut storm = storm(&gateway, &attacker, 95).await;
    first_refusal(&mut storm).await;
    let answer = sign_in(&gateway, "ann", "127.0.0.3").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let (mut tried, mut refused) = (0, 1);
    while let Some(status) = storm.recv().await {
        match status {
            400 => tried += 1,
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(tried <= 50, "{tried} guesses of one address");
    assert!(refused >= 285 - 50 - 1, "{refused}");
}

#[tokio::test]
async fn a_storm_from_many_addresses_does_not_delay_a_user_at_a_known_address() {
    let gateway = Gateway::with(&costly_user());
    assert_eq!(sign_in(&gateway, "ann", "127.0.0.3").await.status, 200);
    let gateway = gateway.restart().await;
    let attackers: Vec<_> = (1..=200)
        .map(|n| loopback(&format!("127.0.1.{n}")))
        .collect();
    let mut storm = storm(&gateway, &attackers, 3).await;
    first_refusal(&mut storm).await;
    for _ in 0..3 {
        let answer = sign_in(&gateway, "ann", "127.0.0.3").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let answer = sign_in(&gateway, "ann", "127.0.0.4").await;
    assert!(
        matches!(answer.status, 200 | 429),
        "an unknown client waits or gets 429: {}",
        answer.status
    );
}

/// One guess from each of 60 addresses; how many were tried, and how many were refused.
async fn guess_from_60_addresses(client: &Client, user: &str) -> (usize, usize) {
    let (mut tried, mut refused) = (0, 0);
    for n in 1..=60 {
        let client_id = ["service-admin", "node-red-admin"][n % 2];
        let guess = client.post("/auth/token").form(&[
            ("client_id", client_id),
            ("grant_type", "password"),
            ("scope", ""),
            ("username", user),
            ("password", "wrong"),
        ]);
        let answer = guess.from(&format!("127.0.2.{n}")).send().await;
        match answer.status {
            400 => tried += 1,
            429 => {
                assert_eq!(answer.code(), "temporarily_unavailable");
                let wait: u64 = answer.header("retry-after").parse().unwrap();
                assert!((1..=60).contains(&wait), "{wait}");
                refused += 1;
            }
            other => panic!("{other}"),
        }
    }
    (tried, refused)
}

#[tokio::test]
async fn guesses_of_one_user_from_many_addresses_are_slowed_and_reported_once() {
    let gateway = Gateway::start();
    assert_eq!(sign_in(&gateway, "admin", "127.0.0.1").await.status, 200);
    assert_eq!(guess_from_60_addresses(&gateway, "admin").await, (20, 40));

    let known = sign_in(&gateway, "admin", "127.0.0.1").await;
    assert_eq!(known.status, 200, "the user where they signed in before");
    assert_eq!(sign_in(&gateway, "reader", "127.0.2.1").await.status, 200);
    let episodes = "flowgate_login_guessing_episodes_total";
    assert_eq!(gateway.metric(episodes).await, Some(1.0));
    let reported = |gateway: &Gateway| {
        let lines = gateway.audit();
        let lines = lines.into_iter().filter(|l| l["event"] == "auth.guessing");
        lines.collect::<Vec<_>>()
    };
    until("it is in the audit log", async || {
        !reported(&gateway).is_empty()
    })
    .await;
    let lines = reported(&gateway);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["user"], "admin");
}

#[tokio::test]
async fn a_new_device_signs_in_after_a_wait_while_its_user_is_guessed() {
    let gateway = Gateway::start();
    guess_from_60_addresses(&gateway, "admin").await;
    assert_eq!(sign_in(&gateway, "admin", "127.0.0.9").await.status, 429);
    until("the new device may sign in", async || {
        sign_in(&gateway, "admin", "127.0.0.9").await.status == 200
    })
    .await;
    let again = sign_in(&gateway, "admin", "127.0.0.9").await;
    assert_eq!(again.status, 200, "from now on it is known");
}

#[tokio::test]
async fn guesses_of_an_unknown_user_are_answered_like_those_of_a_known_one() {
    let gateway = Gateway::start();
    assert_eq!(guess_from_60_addresses(&gateway, "eve").await, (20, 40));
}

#[tokio::test]
async fn guesses_and_known_addresses_are_remembered_over_a_restart() {
    let gateway = Gateway::start();
    assert_eq!(sign_in(&gateway, "admin", "127.0.0.1").await.status, 200);
    guess_from_60_addresses(&gateway, "admin").await;
    let gateway = gateway.restart().await;
    assert_eq!(sign_in(&gateway, "admin", "127.0.0.9").await.status, 429);
    assert_eq!(sign_in(&gateway, "admin", "127.0.0.1").await.status, 200);
}
