//! Sign-ins that are accepted or refused; the first admin.

use super::*;
use limits::ip_prefix::IpPrefix;

fn wrong(user: &str) -> SignIn {
    attempt(user, "wrong", "*", HERE)
}

async fn fail_five_times(auth: &Auth, now: u64) {
    for _ in 0..5 {
        assert!(matches!(
            auth.sign_in(wrong("ann"), now).await,
            Err(SignInError::BadCredentials { .. })
        ));
    }
}

async fn reported_wait(auth: &Auth, sign_in: SignIn, now: u64) -> Option<u64> {
    match auth.sign_in(sign_in, now).await {
        Err(SignInError::Throttled { wait }) => Some(wait.as_secs()),
        _ => None,
    }
}

#[tokio::test]
async fn the_right_password_gives_a_token_that_identifies_the_caller() {
    let fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    let issued = auth.sign_in(right("ann", "read"), NOW).await.unwrap();
    assert_eq!(issued.expires_in, Duration::from_secs(1000));
    let caller = caller(&auth, &issued.token);
    assert_eq!(caller.user, "ann");
    assert!(caller.permissions.cover("flows.read"));
    assert!(!caller.permissions.cover("flows.write"));
    assert_eq!(auth.active(), 1);
    assert!(is_alive(&auth, &issued.token, NOW + 999));
    assert!(!is_alive(&auth, &issued.token, NOW + 1000));
    for other in [
        "",
        &issued.token.reveal()[1..],
        &issued.token.reveal().to_lowercase(),
    ] {
        assert!(auth.identify(other, NOW).is_none(), "{other}");
    }
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_user_are_the_same_error() {
    let auth = Fixture::with(&[("ann", "*")]).open().await;
    for (user, password) in [
        ("ann", "wrong"),
        ("ann", "ann's "),
        ("Ann", "ann's"),
        ("eve", "ann's"),
        ("ann", ""),
    ] {
        let result = auth.sign_in(attempt(user, password, "*", HERE), NOW).await;
        assert!(
            matches!(result, Err(SignInError::BadCredentials { .. })),
            "{user} {password}"
        );
    }
    assert_eq!(auth.active(), 0);
}

#[tokio::test]
async fn a_user_with_an_invalid_hash_cannot_sign_in() {
    let mut fixture = Fixture::with(&[("ann", "*")]);
    fixture.config.users[0].password_hash = Some(Secret::new("ann's".into()));
    let auth = fixture.open().await;
    assert!(matches!(
        auth.sign_in(right("ann", "*"), NOW).await,
        Err(SignInError::BadCredentials { .. })
    ));
}

#[tokio::test]
async fn an_uncovered_scope_is_reported_only_after_the_right_password() {
    let auth = Fixture::with(&[("ann", "read")]).open().await;
    assert!(matches!(
        auth.sign_in(right("ann", "*"), NOW).await,
        Err(SignInError::InvalidScope)
    ));
    assert!(matches!(
        auth.sign_in(right("ann", "read write"), NOW).await,
        Err(SignInError::InvalidScope)
    ));
    assert!(matches!(
        auth.sign_in(wrong("ann"), NOW).await,
        Err(SignInError::BadCredentials { .. })
    ));
    assert_eq!(auth.active(), 0);
    assert!(auth.sign_in(right("ann", "flows.read"), NOW).await.is_ok());
}

#[tokio::test]
async fn after_five_failures_the_right_password_waits_except_from_other_addresses() {
    let auth = Fixture::with(&[("ann", "*")]).open().await;
    fail_five_times(&auth, NOW).await;
    assert_eq!(
        reported_wait(&auth, right("ann", "*"), NOW + 10).await,
        Some(590)
    );
    assert!(
        auth.sign_in(attempt("ann", "ann's", "*", ELSEWHERE), NOW + 10)
            .await
            .is_ok()
    );
    assert!(auth.sign_in(right("ann", "*"), NOW + 600).await.is_ok());
}

#[tokio::test]
async fn a_block_outlives_a_restart() {
    let fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    fail_five_times(&auth, NOW).await;
    drop(auth);
    let auth = fixture.open_at(NOW + 10).await.0;
    assert_eq!(
        reported_wait(&auth, right("ann", "*"), NOW + 10).await,
        Some(590)
    );
}

#[tokio::test]
async fn a_success_clears_its_failures_across_a_restart() {
    let fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    for _ in 0..4 {
        assert!(auth.sign_in(wrong("ann"), NOW).await.is_err());
    }
    assert!(auth.sign_in(right("ann", "*"), NOW).await.is_ok());
    drop(auth);
    let auth = fixture.open().await;
    fail_five_times(&auth, NOW).await;
}

#[tokio::test]
async fn of_fifty_wrong_sign_ins_at_once_five_are_tried() {
    let auth = Fixture::with(&[("ann", "*")]).open().await;
    let results = at_once(&auth, || wrong("ann")).await;
    assert_eq!(
        results
            .iter()
            .filter(|result| matches!(result, Err(SignInError::BadCredentials { .. })))
            .count(),
        5
    );
    assert_eq!(
        results
            .iter()
            .filter(|result| matches!(result, Err(SignInError::Throttled { .. })))
            .count(),
        45
    );
}

#[tokio::test]
async fn fifty_right_sign_ins_at_once_all_succeed() {
    let auth = Fixture::with(&[("ann", "*")]).open().await;
    let results = at_once(&auth, || right("ann", "*")).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(auth.active(), 50);
}

async fn at_once(auth: &Auth, sign_in: impl Fn() -> SignIn) -> Vec<Result<Issued, SignInError>> {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (auth, sign_in) = (auth.clone(), sign_in());
        tasks.spawn(async move { auth.sign_in(sign_in, NOW).await });
    }
    tasks.join_all().await
}

#[tokio::test]
async fn disconnecting_before_the_response_counts_as_a_failure() {
    let auth = Fixture::with(&[("ann", "*")]).open().await;
    for _ in 0..5 {
        tokio::select! {
            biased;
            _ = auth.sign_in(wrong("ann"), NOW) => unreachable!("a hash takes longer than one look"),
            () = std::future::ready(()) => {}
        }
    }
    assert_eq!(
        reported_wait(&auth, right("ann", "*"), NOW).await,
        Some(600)
    );
}

#[tokio::test]
async fn with_too_many_sign_ins_waiting_the_next_must_retry_later() {
    let auth = Fixture::with(&[("ann", "*")]).open().await;
    let prefix = |n: u32| IpPrefix::of(IpAddr::V4(n.into()));
    let (mut turns, mut waiting) = (Vec::new(), Vec::new());
    for n in 0.. {
        let mut turn = Box::pin(auth.0.hashing.turn(prefix(n), false));
        tokio::select! {
            biased;
            turn = &mut turn => match turn {
                Some(turn) => turns.push(turn),
                None => break,
            },
            () = std::future::ready(()) => waiting.push(turn),
        }
    }
    assert_eq!(turns.len(), HASHING);
    assert_eq!(reported_wait(&auth, right("ann", "*"), NOW).await, Some(1));
    drop((turns, waiting));
    assert!(auth.sign_in(right("ann", "*"), NOW).await.is_ok());
}

#[tokio::test]
async fn guessing_from_many_addresses_delays_only_new_ones_across_a_restart() {
    let fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    assert!(auth.sign_in(right("ann", "*"), NOW).await.is_ok());
    let mut guessed = Vec::new();
    for n in 1..=20 {
        let guess = attempt("ann", "wrong", "*", &format!("198.51.100.{n}"));
        match auth.sign_in(guess, NOW).await {
            Err(SignInError::BadCredentials { guessed: g, .. }) => guessed.push(g),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(guessed.iter().position(|guessed| *guessed), Some(19));
    assert_eq!(auth.guessing(), 1);
    drop(auth);

    let auth = fixture.open().await;
    let elsewhere = || attempt("ann", "ann's", "*", ELSEWHERE);
    assert!(auth.sign_in(right("ann", "*"), NOW).await.is_ok(), "known");
    assert_eq!(reported_wait(&auth, elsewhere(), NOW).await, Some(1));
    assert!(auth.sign_in(elsewhere(), NOW + 1).await.is_ok());
    assert!(
        auth.sign_in(elsewhere(), NOW + 1).await.is_ok(),
        "known too"
    );
}

#[tokio::test]
async fn the_first_start_makes_an_admin_and_shows_the_password_once() {
    let mut fixture = Fixture::with(&[]);
    let (auth, password) = fixture.open_at(NOW).await;
    let password = password.unwrap();
    let sign_in = || attempt("admin", password.reveal(), "*", HERE);
    assert!(auth.sign_in(sign_in(), NOW).await.is_ok());
    drop(auth);

    let (auth, again) = fixture.open_at(NOW).await;
    assert!(again.is_none());
    let token = auth.sign_in(sign_in(), NOW).await.unwrap().token;
    assert!(caller(&auth, &token).permissions.cover("*"));

    fixture.config.users = vec![user("ann", "*")];
    auth.reload(&fixture.config).await.unwrap();
    assert!(
        !is_alive(&auth, &token, NOW),
        "users in the config replace the admin"
    );
    assert!(matches!(
        auth.sign_in(sign_in(), NOW).await,
        Err(SignInError::BadCredentials { .. })
    ));
}

#[tokio::test]
async fn no_admin_is_made_when_the_config_has_users() {
    assert!(
        Fixture::with(&[("ann", "*")])
            .open_at(NOW)
            .await
            .1
            .is_none()
    );
}
