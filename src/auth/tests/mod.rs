//! `Auth` as the other rooms use it, over a real store in a directory of its own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod races;
mod schedules;
mod service_tokens;
mod session;
mod sessions;
mod sign_in;
mod wakers;
mod watch;

use super::wakers::Wakers;
use super::*;
use std::collections::HashMap;
use std::sync::LazyLock;
use tempfile::TempDir;

const NOW: u64 = 1_800_000_000;
/// Passwords hashed at a time: more than failures that one address may have.
const HASHING: usize = 8;
const HERE: &str = "192.0.2.1";
const ELSEWHERE: &str = "192.0.2.2";

/// A gateway's data directory, the config of its users, and what was opened from both.
struct Fixture {
    directory: TempDir,
    config: config::Auth,
}

impl Fixture {
    /// Users whose password is their name and "'s".
    fn with(users: &[(&str, &str)]) -> Self {
        let throttle = config::Throttle {
            per_user_and_address: 5,
            per_address: 50,
            per_user: 20,
            bad_tokens_per_address: 100,
            window: Duration::from_mins(10),
        };
        let config = config::Auth {
            conditions: config::Conditions::default(),
            lifetime: Duration::from_secs(1000),
            idle: None,
            users: users
                .iter()
                .map(|(name, permissions)| user(name, permissions))
                .collect(),
            anonymous: None,
            sign_in_page: false,
            passkeys: false,
            sessions_per_user: 100,
            jwt: Vec::new(),
            oidc: Vec::new(),
            throttle,
        };
        Self {
            directory: TempDir::new().unwrap(),
            config,
        }
    }

    async fn open_at(&self, now: u64) -> (Auth, Option<Secret>) {
        Auth::open(&self.config, HASHING, self.store(), now)
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
            history_age: Duration::from_hours(24),
            history_bytes: 1 << 20,
            credential_secret: None,
            shared: None,
        };
        Store::open(&storage).unwrap()
    }
}

fn user(name: &str, permissions: &str) -> config::User {
    static HASHES: LazyLock<Mutex<HashMap<String, String>>> = LazyLock::new(Mutex::default);
    // the least cost that bcrypt has: these tests sign in often. The same each time: another hash
    // is another password
    let hash = || bcrypt::hash(format!("{name}'s"), 4).unwrap();
    let mut hashes = HASHES.lock();
    let hash = hashes.entry(name.to_owned()).or_insert_with(hash).clone();
    config::User {
        name: name.into(),
        password_hash: Some(Secret::new(hash)),
        certificates: Vec::new(),
        totp: None,
        rate_limit: None,
        networks: None,
        permissions: permissions.split(' ').map(Into::into).collect(),
    }
}

fn attempt(user: &str, password: &str, scope: &str, address: &str) -> SignIn {
    SignIn {
        here: None,
        code: None,
        user: user.into(),
        password: Secret::new(password.into()),
        scope: scope
            .split(' ')
            .filter(|name| !name.is_empty())
            .map(SmolStr::new)
            .collect(),
        client: "service-admin".into(),
        agent: String::new(),
        address: address.parse().unwrap(),
    }
}

/// A service token with all permissions that never ends.
fn machine(name: &str) -> NewToken {
    NewToken {
        name: name.into(),
        permissions: vec!["*".into()],
        networks: Vec::new(),
        rate_limit: None,
        lifetime: None,
    }
}

fn right(user: &str, scope: &str) -> SignIn {
    attempt(user, &format!("{user}'s"), scope, HERE)
}

async fn token(auth: &Auth, user: &str, scope: &str) -> Secret {
    auth.sign_in(right(user, scope), NOW).await.unwrap().token
}

fn caller(auth: &Auth, token: &Secret) -> Caller {
    auth.identify(token.reveal(), NOW).unwrap()
}

fn session_of(caller: &Caller) -> Option<Arc<Session>> {
    match &caller.known {
        AuthMethod::Token(session) => Some(Arc::clone(session)),
        AuthMethod::Anonymous | AuthMethod::Gateway | AuthMethod::Certificate(_) => None,
    }
}

fn is_alive(auth: &Auth, token: &Secret, now: u64) -> bool {
    auth.identify(token.reveal(), now).is_some()
}
