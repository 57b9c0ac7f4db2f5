//! `Auth` as the other rooms use it, over a real store in a directory of its own.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use tempfile::TempDir;

const NOW: u64 = 1_800_000_000;
const HERE: &str = "192.0.2.1";
const ELSEWHERE: &str = "192.0.2.2";

/// A gateway's data directory, the config of its users, and what was opened from both.
struct House {
    directory: TempDir,
    config: config::Auth,
}

impl House {
    /// Users whose password is their name and "'s".
    fn with(users: &[(&str, &str)]) -> Self {
        let throttle = config::Throttle {
            per_user_and_address: 5,
            per_address: 50,
            window: Duration::from_secs(600),
        };
        let config = config::Auth {
            lifetime: Duration::from_secs(1000),
            idle: None,
            users: users
                .iter()
                .map(|(name, permissions)| user(name, permissions))
                .collect(),
            anonymous: None,
            throttle,
        };
        Self {
            directory: TempDir::new().unwrap(),
            config,
        }
    }

    async fn open_at(&self, now: u64) -> (Auth, Option<Secret>) {
        Auth::open(&self.config, 2, self.store(), now)
            .await
            .unwrap()
    }

    async fn open(&self) -> Auth {
        self.open_at(NOW).await.0
    }

    fn store(&self) -> Store {
        let storage = config::Storage {
            directory: self.directory.path().to_owned(),
            history: 10,
            credential_secret: None,
        };
        Store::open(&storage).unwrap()
    }
}

fn user(name: &str, permissions: &str) -> config::User {
    // the least cost that bcrypt has: these tests sign in often
    let hash = bcrypt::hash(format!("{name}'s"), 4).unwrap();
    config::User {
        name: name.into(),
        password_hash: Secret::new(hash),
        permissions: permissions.split(' ').map(Into::into).collect(),
    }
}

fn attempt(user: &str, password: &str, scope: &str, address: &str) -> SignIn {
    SignIn {
        user: user.into(),
        password: Secret::new(password.into()),
        scope: scope
            .split(' ')
            .filter(|name| !name.is_empty())
            .map(SmolStr::new)
            .collect(),
        client: "service-admin".into(),
        address: address.parse().unwrap(),
    }
}

fn right(user: &str, scope: &str) -> SignIn {
    attempt(user, &format!("{user}'s"), scope, HERE)
}

fn wrong(user: &str) -> SignIn {
    attempt(user, "wrong", "*", HERE)
}

async fn token(auth: &Auth, user: &str, scope: &str) -> Secret {
    auth.sign_in(right(user, scope), NOW).await.unwrap().token
}

fn caller(auth: &Auth, token: &Secret) -> Caller {
    auth.identify(token.reveal(), NOW).unwrap()
}

fn is_alive(auth: &Auth, token: &Secret, now: u64) -> bool {
    auth.identify(token.reveal(), now).is_some()
}

async fn fail_five_times(auth: &Auth, now: u64) {
    for _ in 0..5 {
        assert!(matches!(
            auth.sign_in(wrong("ann"), now).await,
            Err(Error::BadCredentials)
        ));
    }
}

async fn wait_told(auth: &Auth, sign_in: SignIn, now: u64) -> Option<u64> {
    match auth.sign_in(sign_in, now).await {
        Err(Error::Throttled { wait }) => Some(wait.as_secs()),
        _ => None,
    }
}

#[tokio::test]
async fn the_right_password_gives_a_token_that_says_who_calls() {
    let house = House::with(&[("ann", "*")]);
    let auth = house.open().await;
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
    let auth = House::with(&[("ann", "*")]).open().await;
    for (user, password) in [
        ("ann", "wrong"),
        ("ann", "ann's "),
        ("Ann", "ann's"),
        ("eve", "ann's"),
        ("ann", ""),
    ] {
        let result = auth.sign_in(attempt(user, password, "*", HERE), NOW).await;
        assert!(
            matches!(result, Err(Error::BadCredentials)),
            "{user} {password}"
        );
    }
    assert_eq!(auth.active(), 0);
}

#[tokio::test]
async fn a_user_whose_hash_is_none_cannot_sign_in() {
    let mut house = House::with(&[("ann", "*")]);
    house.config.users[0].password_hash = Secret::new("ann's".into());
    let auth = house.open().await;
    assert!(matches!(
        auth.sign_in(right("ann", "*"), NOW).await,
        Err(Error::BadCredentials)
    ));
}

#[tokio::test]
async fn that_a_scope_is_not_covered_is_told_only_after_the_password_was_right() {
    let auth = House::with(&[("ann", "read")]).open().await;
    assert!(matches!(
        auth.sign_in(right("ann", "*"), NOW).await,
        Err(Error::InvalidScope)
    ));
    assert!(matches!(
        auth.sign_in(right("ann", "read write"), NOW).await,
        Err(Error::InvalidScope)
    ));
    assert!(matches!(
        auth.sign_in(wrong("ann"), NOW).await,
        Err(Error::BadCredentials)
    ));
    assert_eq!(auth.active(), 0);
    assert!(auth.sign_in(right("ann", "flows.read"), NOW).await.is_ok());
}

#[tokio::test]
async fn what_a_token_may_do_follows_the_user_at_the_time_of_use() {
    let mut house = House::with(&[("ann", "*")]);
    let auth = house.open().await;
    let (all, asked) = (
        token(&auth, "ann", "").await,
        token(&auth, "ann", "*").await,
    );
    house.config.users = vec![user("ann", "read")];
    auth.reload(&house.config).await.unwrap();
    for token in [all, asked] {
        let permissions = caller(&auth, &token).permissions;
        assert!(permissions.cover("flows.read"));
        assert!(!permissions.cover("flows.write"));
        assert_eq!(permissions.shown(), Shown::Only(vec!["read".into()]));
    }
}

#[tokio::test]
async fn a_restart_keeps_tokens_and_revocations() {
    let house = House::with(&[("ann", "*")]);
    let auth = house.open().await;
    let (kept, revoked) = (
        token(&auth, "ann", "read").await,
        token(&auth, "ann", "*").await,
    );
    auth.revoke(&caller(&auth, &kept), revoked.reveal())
        .await
        .unwrap();
    drop(auth);

    let auth = house.open().await;
    assert_eq!(auth.active(), 1);
    assert!(!is_alive(&auth, &revoked, NOW));
    assert!(
        !caller(&auth, &kept).permissions.cover("flows.write"),
        "the scope is kept too"
    );
    assert!(
        !is_alive(&auth, &kept, NOW + 1000),
        "the lifetime does not start again"
    );
}

#[tokio::test]
async fn the_store_holds_no_token() {
    let house = House::with(&[("ann", "*")]);
    let auth = house.open().await;
    let token = token(&auth, "ann", "*").await;
    let rows = auth.0.store.sessions().await.unwrap();
    assert_eq!(rows[0].token, sha256(token.reveal().as_bytes()));
    assert!(!format!("{rows:?}").contains(token.reveal()));
}

#[tokio::test]
async fn the_sessions_of_a_user_who_is_gone_never_come_back() {
    let mut house = House::with(&[("ann", "*"), ("bob", "*")]);
    let auth = house.open().await;
    let (anns, bobs) = (
        token(&auth, "ann", "*").await,
        token(&auth, "bob", "*").await,
    );
    let open = caller(&auth, &anns).session.unwrap();
    let both = std::mem::take(&mut house.config.users);
    house.config.users = vec![user("bob", "*")];
    auth.reload(&house.config).await.unwrap();
    open.over().await;
    house.config.users = both;
    auth.reload(&house.config).await.unwrap();
    assert!(!is_alive(&auth, &anns, NOW));
    assert!(is_alive(&auth, &bobs, NOW));
    drop(auth);
    assert!(!is_alive(&house.open().await, &anns, NOW));
}

#[tokio::test]
async fn a_user_removed_while_the_gateway_was_down_is_gone_for_good() {
    let mut house = House::with(&[("ann", "*"), ("bob", "*")]);
    let anns = token(&house.open().await, "ann", "*").await;
    let ann = house.config.users.remove(0);
    drop(house.open().await);
    house.config.users.push(ann);
    assert!(!is_alive(&house.open().await, &anns, NOW));
}

#[tokio::test]
async fn ones_own_tokens_may_be_revoked_by_anyone_and_anothers_with_everything_only() {
    let house = House::with(&[("ann", "read"), ("bob", "*")]);
    let auth = house.open().await;
    let (one, other) = (token(&auth, "ann", "").await, token(&auth, "ann", "").await);
    let (bobs, bobs_narrow) = (
        token(&auth, "bob", "*").await,
        token(&auth, "bob", "read").await,
    );
    let ann = caller(&auth, &one);

    assert!(matches!(
        auth.revoke(&ann, bobs.reveal()).await,
        Err(Error::NotYours)
    ));
    let narrow = caller(&auth, &bobs_narrow);
    assert!(
        matches!(
            auth.revoke(&narrow, one.reveal()).await,
            Err(Error::NotYours)
        ),
        "the token's scope counts"
    );
    assert!(is_alive(&auth, &bobs, NOW) && is_alive(&auth, &one, NOW));

    auth.revoke(&ann, other.reveal()).await.unwrap();
    auth.revoke(&ann, "unknown").await.unwrap();
    let open = ann.session.clone().unwrap();
    auth.revoke(&caller(&auth, &bobs), one.reveal())
        .await
        .unwrap();
    open.over().await;
    assert!(!is_alive(&auth, &one, NOW) && !is_alive(&auth, &other, NOW));
}

#[tokio::test]
async fn whoever_has_no_token_has_what_the_operator_gives_and_revokes_nothing() {
    let mut house = House::with(&[("ann", "*")]);
    assert!(house.open().await.anonymous().is_none());
    house.config.anonymous = Some(vec!["read".into()]);
    let auth = house.open().await;
    let anonymous = auth.anonymous().unwrap();
    assert!(
        anonymous.permissions.cover("flows.read") && !anonymous.permissions.cover("flows.write")
    );
    let anns = token(&auth, "ann", "*").await;
    assert!(matches!(
        auth.revoke(&anonymous, anns.reveal()).await,
        Err(Error::NotYours)
    ));
    assert!(is_alive(&auth, &anns, NOW));
}

#[tokio::test]
async fn what_the_store_failed_to_forget_is_forgotten_at_the_next_occasion() {
    let house = House::with(&[("ann", "*")]);
    let auth = house.open().await;
    let (one, other) = (token(&auth, "ann", "").await, token(&auth, "ann", "").await);
    // as a revocation leaves it when the store fails
    let key = sha256(one.reveal().as_bytes());
    auth.0.sessions.end_one(&key);
    auth.owed().insert(key);
    auth.revoke(&caller(&auth, &other), one.reveal())
        .await
        .unwrap();
    assert!(auth.owed().is_empty());
    drop(auth);
    assert!(!is_alive(&house.open().await, &one, NOW));
}

#[tokio::test]
async fn a_sweep_ends_what_is_over() {
    let mut house = House::with(&[("ann", "*")]);
    house.config.idle = Some(Duration::from_secs(100));
    let auth = house.open().await;
    let (used, unused) = (token(&auth, "ann", "").await, token(&auth, "ann", "").await);
    let open = caller(&auth, &unused).session.unwrap();
    assert!(is_alive(&auth, &used, NOW + 99));
    assert!(
        !is_alive(&auth, &unused, NOW + 100),
        "not alive before the sweep either"
    );
    assert_eq!(auth.sweep(NOW + 100).await.unwrap(), 1);
    open.over().await;
    assert!(is_alive(&auth, &used, NOW + 198));
    assert_eq!(auth.sweep(NOW + 1000).await.unwrap(), 1);
    assert_eq!(auth.active(), 0);
    drop(auth);
    assert_eq!(house.open().await.active(), 0);
}

#[tokio::test]
async fn after_five_failures_even_the_right_password_waits_but_not_elsewhere() {
    let auth = House::with(&[("ann", "*")]).open().await;
    fail_five_times(&auth, NOW).await;
    assert_eq!(
        wait_told(&auth, right("ann", "*"), NOW + 10).await,
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
    let house = House::with(&[("ann", "*")]);
    let auth = house.open().await;
    fail_five_times(&auth, NOW).await;
    drop(auth);
    let auth = house.open_at(NOW + 10).await.0;
    assert_eq!(
        wait_told(&auth, right("ann", "*"), NOW + 10).await,
        Some(590)
    );
}

#[tokio::test]
async fn a_success_clears_its_failures_over_a_restart_too() {
    let house = House::with(&[("ann", "*")]);
    let auth = house.open().await;
    for _ in 0..4 {
        assert!(auth.sign_in(wrong("ann"), NOW).await.is_err());
    }
    assert!(auth.sign_in(right("ann", "*"), NOW).await.is_ok());
    drop(auth);
    let auth = house.open().await;
    fail_five_times(&auth, NOW).await;
}

#[tokio::test]
async fn of_fifty_wrong_sign_ins_at_once_five_are_tried() {
    let auth = House::with(&[("ann", "*")]).open().await;
    let results = at_once(&auth, || wrong("ann")).await;
    assert_eq!(
        results
            .iter()
            .filter(|result| matches!(result, Err(Error::BadCredentials)))
            .count(),
        5
    );
    assert_eq!(
        results
            .iter()
            .filter(|result| matches!(result, Err(Error::Throttled { .. })))
            .count(),
        45
    );
}

#[tokio::test]
async fn fifty_right_sign_ins_at_once_all_come_in() {
    let auth = House::with(&[("ann", "*")]).open().await;
    let results = at_once(&auth, || right("ann", "*")).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(auth.active(), 50);
}

async fn at_once(auth: &Auth, sign_in: impl Fn() -> SignIn) -> Vec<Result<Issued, Error>> {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (auth, sign_in) = (auth.clone(), sign_in());
        tasks.spawn(async move { auth.sign_in(sign_in, NOW).await });
    }
    tasks.join_all().await
}

#[tokio::test]
async fn hanging_up_before_the_answer_is_a_failure() {
    let auth = House::with(&[("ann", "*")]).open().await;
    for _ in 0..5 {
        tokio::select! {
            biased;
            _ = auth.sign_in(wrong("ann"), NOW) => unreachable!("a hash takes longer than one look"),
            () = std::future::ready(()) => {}
        }
    }
    assert_eq!(wait_told(&auth, right("ann", "*"), NOW).await, Some(600));
}

#[tokio::test]
async fn with_too_many_sign_ins_waiting_the_next_is_told_to_come_back() {
    let auth = House::with(&[("ann", "*")]).open().await;
    let places: Vec<_> = std::iter::from_fn(|| auth.0.hashing.enter()).collect();
    assert_eq!(wait_told(&auth, right("ann", "*"), NOW).await, Some(1));
    drop(places);
    assert!(auth.sign_in(right("ann", "*"), NOW).await.is_ok());
}

#[tokio::test]
async fn the_first_start_makes_an_admin_and_shows_the_password_once() {
    let mut house = House::with(&[]);
    let (auth, password) = house.open_at(NOW).await;
    let password = password.unwrap();
    let sign_in = || attempt("admin", password.reveal(), "*", HERE);
    assert!(auth.sign_in(sign_in(), NOW).await.is_ok());
    drop(auth);

    let (auth, again) = house.open_at(NOW).await;
    assert!(again.is_none());
    let token = auth.sign_in(sign_in(), NOW).await.unwrap().token;
    assert!(caller(&auth, &token).permissions.cover("*"));

    house.config.users = vec![user("ann", "*")];
    auth.reload(&house.config).await.unwrap();
    assert!(
        !is_alive(&auth, &token, NOW),
        "users in the config replace the admin"
    );
    assert!(matches!(
        auth.sign_in(sign_in(), NOW).await,
        Err(Error::BadCredentials)
    ));
}

#[tokio::test]
async fn no_admin_is_made_when_the_config_has_users() {
    assert!(House::with(&[("ann", "*")]).open_at(NOW).await.1.is_none());
}
