//! Users, sessions and watches under shuttle: random orders, thousands of them, in which threads
//! can take their steps.
//!
//! The files of `auth` that share anything between threads are compiled here a second time, over
//! locks and atomics that shuttle controls (`sync_shim`); the tests run their code and no copy of
//! it. `races` tests `DashMap` and `ArcSwap` themselves with real threads. A step of the store lies
//! between the tested ones and changes none of them.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "not all of these files is needed here, and not as widely"
)]
#![allow(clippy::duplicate_mod, reason = "over other locks and atomics")]

#[path = "../../auth_watch.rs"]
mod auth_watch;
#[path = "../../caller.rs"]
mod caller;
#[path = "../../federated.rs"]
mod federated;
#[path = "../../registry.rs"]
mod registry;
#[path = "../../session.rs"]
mod session;
mod sync_shim;
#[path = "../../users.rs"]
mod users;
#[path = "../../wakers.rs"]
mod wakers;
mod watches;

use super::super::{Permissions, Withheld, password};
use super::NOW;

use crate::config;
use crate::store::SessionRow;
use caller::{AuthMethod, Caller, Certificate};
use crypto::Secret;
use registry::Registry;
use session::Session;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;
use std::sync::Arc;
use std::time::Duration;
use users::Users;

/// Orders that are tried for each story.
const ORDERS: usize = 2_000;

/// When the sessions end here.
const END: u64 = NOW + 100;

/// A user: name, permission, password.
type UserSpec = (&'static str, &'static str, &'static str);

const ANN: UserSpec = ("ann", "*", "a");
const BOB: UserSpec = ("bob", "*", "b");

fn users(all: &[UserSpec]) -> Users {
    let user = |(name, permission, password): &UserSpec| config::User {
        name: (*name).to_owned(),
        password_hash: Some(Secret::new((*password).to_owned())),
        certificates: Vec::new(),
        totp: None,
        rate_limit: None,
        networks: None,
        permissions: vec![(*permission).to_owned()],
    };
    let config = config::Auth {
        conditions: config::Conditions::default(),
        lifetime: Duration::from_secs(100),
        idle: None,
        users: all.iter().map(user).collect(),
        anonymous: None,
        sign_in_page: false,
        passkeys: false,
        sessions_per_user: 3,
        jwt: Vec::new(),
        oidc: Vec::new(),
        throttle: config::Throttle {
            per_user_and_address: 5,
            per_address: 50,
            per_user: 20,
            bad_tokens_per_address: 100,
            window: Duration::from_mins(10),
        },
    };
    Users::new(&config, None)
}

fn registry(all: &[UserSpec]) -> Arc<Registry> {
    Arc::new(Registry::new(users(all), NOW))
}

/// A session of a user who has signed in with this password.
fn session(token: u8, (user, _, password): UserSpec) -> Session {
    let row = SessionRow {
        token: [token; 32],
        user: user.into(),
        client: "service-admin".into(),
        created: NOW,
        expires: END,
        password: Some(crypto::sha256(password.as_bytes())),
        ..SessionRow::default()
    };
    Session::new(&row, NOW)
}

fn is_known(registry: &Registry, token: u8) -> bool {
    registry.identify(&[token; 32], NOW).is_some()
}

/// The work of one thread.
type ThreadBody = Box<dyn FnOnce(&Arc<Registry>) + Send>;

/// Runs two or more things at once.
fn run_concurrently(registry: &Arc<Registry>, all: Vec<ThreadBody>) {
    let threads: Vec<_> = all
        .into_iter()
        .map(|one| {
            let registry = Arc::clone(registry);
            thread::spawn(move || one(&registry))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

fn revoke(registry: &Registry, token: u8) {
    registry.sessions().end_one(&[token; 32]);
}

#[test]
fn after_a_revocation_no_request_succeeds_and_open_callers_have_ended() {
    shuttle::check_random(
        || {
            let registry = registry(&[ANN]);
            registry.admit(session(1, ANN)).unwrap();
            registry.admit(session(3, ANN)).unwrap();
            let returned = Arc::new(AtomicBool::new(false));
            let request = |returned: Arc<AtomicBool>| -> ThreadBody {
                Box::new(move |registry| {
                    for _ in 0..2 {
                        let late = returned.load(Ordering::SeqCst);
                        let caller = registry.identify(&[1; 32], NOW);
                        assert!(!late || caller.is_none(), "a revoked token is good");
                        // A caller identified before finds, once it has returned, that the session
                        // has ended.
                        if let Some(caller) = caller
                            && returned.load(Ordering::SeqCst)
                        {
                            assert!(caller.session().unwrap().has_ended());
                        }
                        assert!(is_known(registry, 3), "another token is none of it");
                    }
                })
            };
            let done = Arc::clone(&returned);
            let revoke: ThreadBody = Box::new(move |registry| {
                revoke(registry, 1);
                done.store(true, Ordering::SeqCst);
            });
            let requests = (
                request(Arc::clone(&returned)),
                request(Arc::clone(&returned)),
            );
            run_concurrently(&registry, vec![revoke, requests.0, requests.1]);
            assert_eq!(registry.sessions().len(), 1);
        },
        ORDERS,
    );
}

#[test]
fn concurrent_revocations_of_a_token_return_after_it_has_ended() {
    shuttle::check_random(
        || {
            let registry = registry(&[ANN]);
            registry.admit(session(1, ANN)).unwrap();
            let revoke = || -> ThreadBody {
                Box::new(|registry| {
                    let open = registry.identify(&[1; 32], NOW);
                    revoke(registry, 1);
                    assert!(!is_known(registry, 1));
                    assert!(open.is_none_or(|caller| caller.session().unwrap().has_ended()));
                })
            };
            run_concurrently(&registry, vec![revoke(), revoke()]);
            assert_eq!(registry.sessions().len(), 0);
        },
        ORDERS,
    );
}

#[test]
fn a_session_that_requests_look_up_at_once_ends_for_all_of_them() {
    shuttle::check_random(
        || {
            let registry = registry(&[ANN]);
            let open = Arc::new(shuttle::sync::Mutex::new(Vec::new()));
            let look_up = || -> ThreadBody {
                let open = Arc::clone(&open);
                Box::new(move |registry| {
                    registry.restore(session(1, ANN));
                    let caller = registry.identify(&[1; 32], NOW).unwrap();
                    open.lock().unwrap().push(caller);
                })
            };
            run_concurrently(&registry, vec![look_up(), look_up(), look_up()]);
            revoke(&registry, 1);
            for caller in open.lock().unwrap().iter() {
                assert!(caller.session().unwrap().has_ended());
            }
        },
        ORDERS,
    );
}

#[test]
fn removal_or_password_change_during_a_sign_in_leaves_no_session() {
    for other_password in [false, true] {
        shuttle::check_random(
            move || {
                let registry = registry(&[ANN, BOB]);
                let sign_in: ThreadBody = Box::new(|registry| {
                    registry.admit(session(1, ANN));
                });
                let other: ThreadBody = Box::new(|registry| {
                    let admitted = registry.admit(session(2, BOB));
                    assert!(admitted.is_some(), "a user who stays signs in");
                });
                let reload: ThreadBody = Box::new(move |registry| {
                    let ann = ("ann", "*", "other");
                    let after = [BOB, ann];
                    registry.reload(users(&after[..if other_password { 2 } else { 1 }]));
                    assert!(!is_known(registry, 1), "he is let in");
                });
                run_concurrently(&registry, vec![sign_in, other, reload]);
                assert!(registry.sessions().find(&[1; 32]).is_none());
                // Sessions of before do not return with the user.
                registry.reload(users(&[ANN, BOB]));
                assert!(!is_known(&registry, 1) && is_known(&registry, 2));
            },
            ORDERS,
        );
    }
}

#[test]
fn sessions_can_be_ended_together_while_others_begin() {
    shuttle::check_random(
        || {
            let registry = registry(&[ANN]);
            for token in 1..4 {
                registry.admit(session(token, ANN)).unwrap();
            }
            let open = registry.identify(&[2; 32], NOW).unwrap();
            let begin: ThreadBody = Box::new(|registry| {
                registry.restore(session(9, ANN));
            });
            let end: ThreadBody = Box::new(|registry| {
                let ended = registry.sessions().end(|session| session.key[0] < 4);
                assert_eq!(ended.len(), 3);
                assert!((1..4).all(|token| !is_known(registry, token)));
            });
            run_concurrently(&registry, vec![begin, end]);
            assert!(open.session().unwrap().has_ended() && is_known(&registry, 9));
        },
        ORDERS,
    );
}

#[test]
fn concurrent_sign_ins_keep_only_the_newest_sessions_up_to_the_limit() {
    shuttle::check_random(
        || {
            let registry = registry(&[ANN]);
            registry.admit(session(1, ANN)).unwrap();
            registry.admit(session(2, ANN)).unwrap();
            let sign_in = |token: u8| -> ThreadBody {
                Box::new(move |registry| {
                    registry.admit(session(token, ANN)).unwrap();
                })
            };
            run_concurrently(&registry, vec![sign_in(3), sign_in(4), sign_in(5)]);
            assert_eq!(registry.sessions().len(), 3);
            assert!((3..6).all(|token| is_known(&registry, token)));
        },
        ORDERS,
    );
}
