//! Requests and revocations at the same time, on real threads and the real map; and any order of
//! them, one by one.

use super::*;
use proptest::prelude::*;
use std::sync::atomic::AtomicBool;
use std::thread;

/// Tokens that are revoked one after the other while they are used.
const TOKENS: usize = 200;

#[tokio::test]
async fn after_a_revocation_no_request_succeeds_and_open_sessions_end() {
    let fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    let mine = caller(&auth, &token(&auth, "ann", "*").await);
    let mut tokens = Vec::new();
    for _ in 0..TOKENS {
        tokens.push(
            auth.create_token(machine(&tokens.len().to_string()), None, NOW)
                .await
                .unwrap()
                .token,
        );
    }
    let tokens = Arc::new(tokens);
    let revoked: Arc<Vec<AtomicBool>> =
        Arc::new((0..TOKENS).map(|_| AtomicBool::new(false)).collect());
    let end = Arc::new(AtomicBool::new(false));
    let users: Vec<_> = (0..3)
        .map(|_| {
            let (auth, tokens) = (auth.clone(), Arc::clone(&tokens));
            let (revoked, end) = (Arc::clone(&revoked), Arc::clone(&end));
            thread::spawn(move || {
                while !end.load(Ordering::SeqCst) {
                    for (token, revoked) in tokens.iter().zip(revoked.iter()) {
                        let late = revoked.load(Ordering::SeqCst);
                        let known = auth.identify(token.reveal(), NOW);
                        assert!(!late || known.is_none(), "a revoked token is good");
                        let session = known.as_ref().and_then(session_of);
                        if let Some(session) = session
                            && revoked.load(Ordering::SeqCst)
                        {
                            assert!(session.has_ended(), "a socket stays open");
                        }
                    }
                }
            })
        })
        .collect();
    for (token, revoked) in tokens.iter().zip(revoked.iter()) {
        let open = session_of(&caller(&auth, token)).unwrap();
        let waiting = tokio::spawn({
            let mut watch = super::watch::watch(&auth, caller(&auth, token));
            async move { watch.lapsed().await }
        });
        auth.revoke(&mine, token.reveal()).await.unwrap();
        revoked.store(true, Ordering::SeqCst);
        assert!(open.has_ended());
        assert_eq!(waiting.await.unwrap(), Lapsed::Session);
    }
    end.store(true, Ordering::SeqCst);
    for user in users {
        user.join().unwrap();
    }
    assert_eq!(auth.active(), 1);
}

/// An operation on the sessions; its argument selects the users or the token.
#[derive(Debug, Clone)]
enum Step {
    SignIn(bool),
    Use(usize),
    Revoke(usize),
    EndAll(bool),
    Reload(bool),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<bool>().prop_map(Step::SignIn),
        3 => (0..8_usize).prop_map(Step::Use),
        3 => (0..8_usize).prop_map(Step::Revoke),
        1 => any::<bool>().prop_map(Step::EndAll),
        1 => any::<bool>().prop_map(Step::Reload),
        1 => Just(Step::Restart),
    ]
}

const fn name(ann: bool) -> &'static str {
    if ann { "ann" } else { "bob" }
}

/// Takes the steps, and beside them keeps a list of who has which token that is good.
async fn take(steps: Vec<Step>) {
    let both = [("ann", "*"), ("bob", "read")];
    let mut fixture = Fixture::with(&both);
    let mut auth = fixture.open().await;
    let mut tokens: Vec<(Secret, bool, bool)> = Vec::new();
    for step in steps {
        match step {
            Step::SignIn(ann) => {
                if let Ok(issued) = auth.sign_in(right(name(ann), ""), NOW).await {
                    tokens.push((issued.token, ann, true));
                }
            }
            Step::Use(i) => {
                if let Some((token, _, good)) = tokens.get(i) {
                    assert_eq!(is_alive(&auth, token, NOW), *good);
                }
            }
            Step::Revoke(i) => {
                if let Some((token, _, good)) = tokens.get_mut(i) {
                    let open = auth.identify(token.reveal(), NOW);
                    let by = open.clone().or_else(|| auth.anonymous());
                    if let Some(by) = by {
                        auth.revoke(&by, token.reveal()).await.unwrap();
                        *good = false;
                    }
                    let session = open.as_ref().and_then(session_of);
                    assert!(session.is_none_or(|session| session.has_ended()));
                }
            }
            Step::EndAll(ann) => {
                let which = SessionSelector::User(name(ann).to_owned());
                auth.end_all(&which, NOW).await.unwrap();
                let his = tokens.iter_mut().filter(|(_, of, _)| *of == ann);
                his.for_each(|(.., good)| *good = false);
            }
            Step::Reload(all) => {
                fixture.config.users = both[..if all { 2 } else { 1 }]
                    .iter()
                    .map(|(name, permissions)| user(name, permissions))
                    .collect();
                auth.reload(&fixture.config).await.unwrap();
                let gone = tokens.iter_mut().filter(|(_, ann, _)| !all && !ann);
                gone.for_each(|(.., good)| *good = false);
            }
            Step::Restart => {
                drop(auth);
                auth = fixture.open().await;
            }
        }
        for (token, _, good) in &tokens {
            assert_eq!(is_alive(&auth, token, NOW), *good);
        }
        let alive = tokens.iter().filter(|(.., good)| *good).count();
        assert_eq!(auth.active(), alive);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_token_is_valid_from_sign_in_until_ended_in_any_order(
        steps in proptest::collection::vec(step(), 1..24)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(take(steps));
    }
}
