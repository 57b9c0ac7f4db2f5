//! Users with a second factor: codes of an authenticator app, and recovery codes.

use crate::client::{Answer, Client, PASSWORD};
use crate::harness::{Gateway, hash, program};
use crate::sign_in_page::Browser;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto::{hmac_sha1, sha256};
use std::time::{SystemTime, UNIX_EPOCH};

/// In base32: GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ.
const SECRET: &[u8] = b"12345678901234567890";
const RECOVERY: &str = "abcd-efgh-jkmn-2345";

pub fn lines() -> String {
    format!(
        "[[auth.user]]\nname = \"ann\"\npassword_hash = \"{}\"\npermissions = [\"*\"]\n\
         totp_secret = \"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\"\nrecovery_codes = [\"{}\"]\n\
         [auth.throttle]\nper_user_and_address = 100\nper_user = 1000\nper_address = 1000\n",
        hash(PASSWORD),
        crypto::hex(&sha256(RECOVERY.as_bytes()))
    )
}

/// The code that an authenticator app shows `steps` of 30 seconds from now.
pub fn code(steps: i64) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let step = (now / 30).checked_add_signed(steps).unwrap();
    let tag = hmac_sha1(SECRET, &step.to_be_bytes());
    let at = usize::from(tag[19] & 15);
    let number = u32::from_be_bytes(tag[at..at + 4].try_into().unwrap()) & 0x7fff_ffff;
    format!("{:06}", number % 1_000_000)
}

async fn sign_in(client: &Client, password: &str) -> Answer {
    client.sign_in_request("ann", password, "").send().await
}

#[tokio::test]
async fn an_editor_sends_the_code_at_the_end_of_the_password_and_each_code_counts_once() {
    let gateway = Gateway::with(&lines());
    let without = sign_in(&gateway, PASSWORD).await;
    let wrong = gateway.sign_in_request("ann", "wrong", "").send().await;
    assert_eq!(
        (without.status, without.text()),
        (wrong.status, wrong.text())
    );
    for wrong in [
        format!("{PASSWORD}000000"),
        format!("wrong{}", code(0)),
        code(0),
        format!("{PASSWORD}{}", code(9)),
    ] {
        assert_eq!(
            sign_in(&gateway, &wrong).await.code(),
            "invalid_grant",
            "{wrong}"
        );
    }
    // Said once: each is right until the step after its own ends.
    let (now, next) = (code(0), code(1));
    let password = format!("{PASSWORD}{next}");
    assert_eq!(sign_in(&gateway, &password).await.status, 200);
    assert_eq!(
        sign_in(&gateway, &password).await.code(),
        "invalid_grant",
        "it was used"
    );
    let gateway = gateway.restart().await;
    assert_eq!(
        sign_in(&gateway, &password).await.code(),
        "invalid_grant",
        "also before a restart"
    );
    assert_eq!(
        sign_in(&gateway, &format!("{PASSWORD}{now}")).await.status,
        200
    );
}

#[tokio::test]
async fn two_sign_ins_at_a_time_with_one_code_give_one_token() {
    let gateway = Gateway::with(&lines());
    let password = format!("{PASSWORD}{}", code(1));
    let both = (0..4).map(|_| sign_in(&gateway, &password));
    let answers = futures_util::future::join_all(both).await;
    assert_eq!(
        answers.iter().filter(|answer| answer.status == 200).count(),
        1
    );
}

#[tokio::test]
async fn a_recovery_code_counts_once_and_only_with_the_password() {
    let gateway = Gateway::with(&lines());
    assert_eq!(
        sign_in(&gateway, &format!("wrong{RECOVERY}")).await.code(),
        "invalid_grant"
    );
    assert_eq!(
        sign_in(&gateway, &format!("{PASSWORD}{RECOVERY}"))
            .await
            .status,
        200
    );
    let gateway = gateway.restart().await;
    assert_eq!(
        sign_in(&gateway, &format!("{PASSWORD}{RECOVERY}"))
            .await
            .code(),
        "invalid_grant"
    );
    assert_eq!(
        sign_in(&gateway, &format!("{PASSWORD}abcd-efgh-jkmn-2346"))
            .await
            .code(),
        "invalid_grant"
    );
}

#[tokio::test]
async fn the_page_has_a_field_for_the_code_and_basic_has_no_second_factor() {
    let route =
        "[[route]]\npath = \"/dash\"\npermission = \"read\"\nsign_in = \"page\"\nbasic = true\n";
    let gateway = Gateway::with(&format!("{route}{}", lines()));
    let browser = Browser::new(&gateway);
    let submit = async |code: &str| {
        let fields = [("username", "ann"), ("password", PASSWORD), ("code", code)];
        browser
            .submit("/gateway/sign-in", &fields)
            .send()
            .await
            .status
    };
    assert_eq!(submit("").await, 403);
    assert_eq!(submit("000000").await, 403);
    assert_eq!(submit(&format!(" {} ", code(1))).await, 303);
    assert_eq!(submit(RECOVERY).await, 303);
    for password in [PASSWORD.to_owned(), format!("{PASSWORD}{}", code(0))] {
        let pair = STANDARD.encode(format!("ann:{password}"));
        let answer = gateway
            .get("/dash")
            .header("Authorization", &format!("Basic {pair}"));
        assert_eq!(answer.send().await.status, 401);
    }
}

#[tokio::test]
async fn wrong_codes_are_throttled_like_wrong_passwords() {
    let lines = lines().replace("per_user_and_address = 100", "per_user_and_address = 3");
    let gateway = Gateway::with(&lines);
    for status in [400, 400, 400, 429] {
        assert_eq!(
            sign_in(&gateway, &format!("{PASSWORD}000000")).await.status,
            status
        );
    }
    assert_eq!(
        sign_in(&gateway, &format!("{PASSWORD}{}", code(0)))
            .await
            .status,
        429
    );
}

#[tokio::test]
async fn what_the_command_prints_is_a_second_factor() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = program(directory.path(), &["totp", "ann b"]);
    let output = command
        .stdout(std::process::Stdio::piped())
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("uri: otpauth://totp/flowgate:ann%20b?secret="),
        "{printed}"
    );
    let settings: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains(" = "))
        .collect();
    let user = format!(
        "[[auth.user]]\nname = \"ann\"\npassword_hash = \"{}\"\npermissions = [\"*\"]\n{}\n",
        hash(PASSWORD),
        settings.join("\n")
    );
    let gateway = Gateway::with(&user);
    let codes: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("recovery: "))
        .collect();
    assert_eq!(codes.len(), 8);
    assert_eq!(
        sign_in(&gateway, &format!("{PASSWORD}{}", codes[7]))
            .await
            .status,
        200
    );
}
