//! The session map under shuttle: random orders, thousands of them, in which threads can take their steps.
//!
//! `session.rs` itself is compiled here a second time, over a map whose locks shuttle schedules: `DashMap`'s own cannot
//! be. So what is tried are all steps of ours around the map; that the map keeps its word, `races` tries with real
//! threads. The steps of signing in, of a request and of a reload are those of `Auth`, in its order, over the users that
//! there are.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "not all of a session is needed, and not as widely"
)]

mod map;
#[allow(clippy::duplicate_mod, reason = "over another map")]
#[path = "../../session.rs"]
mod session;

use super::super::inventory;
use crate::store::SessionRow;
use session::{Session, Sessions};
use shuttle::sync::RwLock;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;
use std::sync::Arc;

/// Orders that are tried for each story.
const ORDERS: usize = 2_000;

/// What `Auth` is made of here: who there is, and the sessions.
#[derive(Default)]
struct House {
    users: RwLock<Vec<&'static str>>,
    sessions: Sessions,
}

fn row(token: u8, user: &str) -> SessionRow {
    SessionRow {
        token: [token; 32],
        user: user.into(),
        client: "service-admin".into(),
        scope: Vec::new(),
        created: 0,
        expires: 1000,
    }
}

impl House {
    fn with(users: &[&'static str]) -> Arc<Self> {
        let house = Self::default();
        *house.users.write().unwrap() = users.to_vec();
        Arc::new(house)
    }

    /// `Auth::identify`
    fn identify(&self, token: u8) -> Option<Arc<Session>> {
        let session = self.sessions.find(&[token; 32])?;
        let known = self.has(&session.user);
        (known && !session.is_over(1, None)).then(|| {
            session.touch(1);
            session
        })
    }

    fn has(&self, user: &str) -> bool {
        self.users.read().unwrap().contains(&user)
    }

    /// `Auth::start_session`, after the store: true if the token is handed out.
    fn start(&self, token: u8, user: &str) -> bool {
        self.sessions.insert(Session::new(&row(token, user), 0));
        let stays = self.has(user);
        if !stays {
            self.sessions.end_one(&[token; 32]);
        }
        stays
    }

    /// `Auth::revoke`, without the store: that comes after.
    fn revoke(&self, token: u8) {
        self.sessions.end_one(&[token; 32]);
    }

    /// `Auth::reload`
    fn reload(&self, users: &[&'static str]) {
        *self.users.write().unwrap() = users.to_vec();
        self.sessions.end(|session| !self.has(&session.user));
    }
}

/// What somebody does.
type Doing = Box<dyn FnOnce(&House) + Send>;

/// Runs two or more things at once.
fn together(house: &Arc<House>, all: Vec<Doing>) {
    let threads: Vec<_> = all
        .into_iter()
        .map(|one| {
            let house = Arc::clone(house);
            thread::spawn(move || one(&house))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn after_a_revocation_has_returned_no_request_succeeds_and_what_was_open_knows_it() {
    shuttle::check_random(
        || {
            let house = House::with(&["ann"]);
            house.start(1, "ann");
            house.start(3, "ann");
            let returned = Arc::new(AtomicBool::new(false));
            let request = |returned: Arc<AtomicBool>| -> Doing {
                Box::new(move |house| {
                    for _ in 0..2 {
                        let late = returned.load(Ordering::SeqCst);
                        let socket = house.identify(1);
                        assert!(!late || socket.is_none(), "a revoked token is good");
                        // Whoever got in before knows, once it has returned, that it is over.
                        if let Some(session) = socket
                            && returned.load(Ordering::SeqCst)
                        {
                            assert!(*session.ended.borrow(), "a socket stays open");
                        }
                        assert!(house.identify(3).is_some(), "another token is none of it");
                    }
                })
            };
            let done = Arc::clone(&returned);
            let revoke: Doing = Box::new(move |house| {
                house.revoke(1);
                done.store(true, Ordering::SeqCst);
            });
            let requests = (
                request(Arc::clone(&returned)),
                request(Arc::clone(&returned)),
            );
            together(&house, vec![revoke, requests.0, requests.1]);
            assert_eq!(house.sessions.len(), 1);
        },
        ORDERS,
    );
}

#[test]
fn two_who_revoke_the_same_token_both_return_when_it_is_dead() {
    shuttle::check_random(
        || {
            let house = House::with(&["ann"]);
            house.start(1, "ann");
            let revoke = || -> Doing {
                Box::new(|house| {
                    let open = house.identify(1);
                    house.revoke(1);
                    assert!(house.identify(1).is_none());
                    assert!(open.is_none_or(|session| *session.ended.borrow()));
                })
            };
            together(&house, vec![revoke(), revoke()]);
            assert_eq!(house.sessions.len(), 0);
        },
        ORDERS,
    );
}

#[test]
fn a_user_who_is_removed_while_he_signs_in_has_no_session_afterwards() {
    shuttle::check_random(
        || {
            let house = House::with(&["ann", "bob"]);
            let sign_in: Doing = Box::new(|house| {
                house.start(1, "ann");
            });
            let other: Doing = Box::new(|house| {
                assert!(house.start(2, "bob"), "a user who stays signs in");
            });
            let reload: Doing = Box::new(|house| {
                house.reload(&["bob"]);
                assert!(house.identify(1).is_none(), "a removed user is let in");
            });
            together(&house, vec![sign_in, other, reload]);
            assert!(house.sessions.find(&[1; 32]).is_none());
            // He comes back: what he had before does not.
            house.reload(&["ann", "bob"]);
            assert!(house.identify(1).is_none() && house.identify(2).is_some());
        },
        ORDERS,
    );
}

#[test]
fn sessions_that_end_all_at_once_end_while_others_begin() {
    shuttle::check_random(
        || {
            let house = House::with(&["ann"]);
            for token in 1..4 {
                house.start(token, "ann");
            }
            let open = house.identify(2).unwrap();
            let begin: Doing = Box::new(|house| {
                assert!(house.start(9, "ann"));
            });
            let end: Doing = Box::new(|house| {
                let ended = house.sessions.end(|session| session.key[0] < 4);
                assert_eq!(ended.len(), 3);
                assert!((1..4).all(|token| house.identify(token).is_none()));
            });
            together(&house, vec![begin, end]);
            assert!(*open.ended.borrow() && house.identify(9).is_some());
        },
        ORDERS,
    );
}
