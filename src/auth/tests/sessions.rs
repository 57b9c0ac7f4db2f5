//! What becomes of a token: what it may do, how it ends, what a restart keeps.

use super::*;

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
    let open = caller(&auth, &anns);
    let open = open.session().unwrap();
    let both = std::mem::take(&mut house.config.users);
    house.config.users = vec![user("bob", "*")];
    auth.reload(&house.config).await.unwrap();
    assert!(open.has_ended());
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
        Err(RevokeError::NotYours)
    ));
    let narrow = caller(&auth, &bobs_narrow);
    assert!(
        matches!(
            auth.revoke(&narrow, one.reveal()).await,
            Err(RevokeError::NotYours)
        ),
        "the token's scope counts"
    );
    assert!(is_alive(&auth, &bobs, NOW) && is_alive(&auth, &one, NOW));

    auth.revoke(&ann, other.reveal()).await.unwrap();
    auth.revoke(&ann, "unknown").await.unwrap();
    let open = ann.session().unwrap();
    auth.revoke(&caller(&auth, &bobs), one.reveal())
        .await
        .unwrap();
    assert!(open.has_ended());
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
        Err(RevokeError::NotYours)
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
    auth.0.registry.sessions().end_one(&key);
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
    let open = caller(&auth, &unused);
    let open = open.session().unwrap();
    assert!(is_alive(&auth, &used, NOW + 99));
    assert!(
        !is_alive(&auth, &unused, NOW + 100),
        "not alive before the sweep either"
    );
    assert_eq!(auth.sweep(NOW + 100).await.unwrap(), 1);
    assert!(open.has_ended());
    assert!(is_alive(&auth, &used, NOW + 198));
    assert_eq!(auth.sweep(NOW + 1000).await.unwrap(), 1);
    assert_eq!(auth.active(), 0);
    drop(auth);
    assert_eq!(house.open().await.active(), 0);
}

#[tokio::test]
async fn another_password_ends_the_sessions_of_its_user_whenever_it_was_changed() {
    for running in [true, false] {
        let mut house = House::with(&[("ann", "*"), ("bob", "*")]);
        let mut auth = house.open().await;
        let (anns, bobs) = (token(&auth, "ann", "").await, token(&auth, "bob", "").await);
        let service = auth.create_token("ann", vec!["*".into()], None, NOW).await;
        let service = service.unwrap().token;
        let open = session_of(&caller(&auth, &anns)).unwrap();
        let before = house.config.users[0]
            .password_hash
            .replace(Secret::new(bcrypt::hash("another", 4).unwrap()));
        if running {
            auth.reload(&house.config).await.unwrap();
            assert!(open.has_ended());
        } else {
            drop(auth);
            auth = house.open().await;
        }
        assert!(!is_alive(&auth, &anns, NOW));
        assert!(is_alive(&auth, &bobs, NOW) && is_alive(&auth, &service, NOW));
        house.config.users[0].password_hash = before;
        auth.reload(&house.config).await.unwrap();
        assert!(!is_alive(&auth, &anns, NOW), "it does not come back");
    }
}

#[tokio::test]
async fn a_user_whose_password_is_taken_away_keeps_no_session() {
    let mut house = House::with(&[("ann", "*")]);
    let auth = house.open().await;
    let anns = token(&auth, "ann", "").await;
    house.config.users[0].password_hash = None;
    auth.reload(&house.config).await.unwrap();
    assert!(!is_alive(&auth, &anns, NOW));
}

#[tokio::test]
async fn a_stronger_hash_of_the_same_generated_password_ends_nothing() {
    let house = House::with(&[]);
    let (auth, password) = house.open_at(NOW).await;
    let password = password.unwrap();
    let sign_in = || attempt("admin", password.reveal(), "", HERE);
    // The first sign-in replaces the cheap hash.
    let first = auth.sign_in(sign_in(), NOW).await.unwrap().token;
    let second = auth.sign_in(sign_in(), NOW).await.unwrap().token;
    auth.reload(&house.config).await.unwrap();
    assert!(is_alive(&auth, &first, NOW) && is_alive(&auth, &second, NOW));
    drop(auth);
    let auth = house.open().await;
    assert!(is_alive(&auth, &first, NOW) && is_alive(&auth, &second, NOW));
}

#[tokio::test]
async fn a_session_from_before_there_were_records_is_bound_at_the_next_start() {
    let mut house = House::with(&[("ann", "*")]);
    let auth = house.open().await;
    let anns = token(&auth, "ann", "").await;
    let mut row = auth.0.store.sessions().await.unwrap().remove(0);
    row.password = None;
    auth.0.store.save_session(row).await.unwrap();
    drop(auth);
    let auth = house.open().await;
    assert!(is_alive(&auth, &anns, NOW));
    let bound = auth.0.store.sessions().await.unwrap().remove(0).password;
    assert!(bound.is_some());
    house.config.users[0].password_hash = Some(Secret::new(bcrypt::hash("another", 4).unwrap()));
    auth.reload(&house.config).await.unwrap();
    assert!(!is_alive(&auth, &anns, NOW));
}

#[tokio::test]
async fn the_oldest_sessions_of_a_user_end_when_there_are_too_many() {
    let mut house = House::with(&[("ann", "*"), ("bob", "*")]);
    house.config.sessions_per_user = 2;
    let auth = house.open().await;
    let bobs = token(&auth, "bob", "").await;
    let service = auth.create_token("ann", vec!["*".into()], None, NOW).await;
    let service = service.unwrap().token;
    let mut anns = Vec::new();
    for (number, ended) in [0, 0, 1, 1].into_iter().enumerate() {
        // In one second: what counts is their order.
        let issued = auth.sign_in(right("ann", ""), NOW).await.unwrap();
        assert_eq!(issued.ended, ended, "{number}");
        anns.push(issued.token);
    }
    let alive = |auth: &Auth| {
        anns.iter()
            .map(|t| is_alive(auth, t, NOW))
            .collect::<Vec<_>>()
    };
    assert_eq!(alive(&auth), [false, false, true, true]);
    assert!(is_alive(&auth, &bobs, NOW) && is_alive(&auth, &service, NOW));
    house.config.sessions_per_user = 1;
    auth.reload(&house.config).await.unwrap();
    drop(auth);
    let auth = house.open().await;
    assert_eq!(alive(&auth).iter().filter(|alive| **alive).count(), 1);
    assert!(is_alive(&auth, &bobs, NOW) && is_alive(&auth, &service, NOW));
}
