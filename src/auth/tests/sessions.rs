//! Tokens: their permissions, how they end, and which survive a restart.

use super::*;

#[tokio::test]
async fn the_permissions_of_a_token_follow_the_user_at_use() {
    let mut fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    let (all, asked) = (
        token(&auth, "ann", "").await,
        token(&auth, "ann", "*").await,
    );
    fixture.config.users = vec![user("ann", "read")];
    auth.reload(&fixture.config).await.unwrap();
    for token in [all, asked] {
        let permissions = caller(&auth, &token).permissions;
        assert!(permissions.cover("flows.read"));
        assert!(!permissions.cover("flows.write"));
        assert_eq!(permissions.shown(), Shown::Only(vec!["read".into()]));
    }
}

#[tokio::test]
async fn a_restart_keeps_tokens_and_revocations() {
    let fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    let (kept, revoked) = (
        token(&auth, "ann", "read").await,
        token(&auth, "ann", "*").await,
    );
    auth.revoke(&caller(&auth, &kept), revoked.reveal())
        .await
        .unwrap();
    drop(auth);

    let auth = fixture.open().await;
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
    let fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    let token = token(&auth, "ann", "*").await;
    let rows = auth.0.store.sessions().await.unwrap();
    assert_eq!(rows[0].token, sha256(token.reveal().as_bytes()));
    assert!(!format!("{rows:?}").contains(token.reveal()));
}

#[tokio::test]
async fn the_sessions_of_a_removed_user_never_return() {
    let mut fixture = Fixture::with(&[("ann", "*"), ("bob", "*")]);
    let auth = fixture.open().await;
    let (anns, bobs) = (
        token(&auth, "ann", "*").await,
        token(&auth, "bob", "*").await,
    );
    let open = caller(&auth, &anns);
    let open = open.session().unwrap();
    let both = std::mem::take(&mut fixture.config.users);
    fixture.config.users = vec![user("bob", "*")];
    auth.reload(&fixture.config).await.unwrap();
    assert!(open.has_ended());
    fixture.config.users = both;
    auth.reload(&fixture.config).await.unwrap();
    assert!(!is_alive(&auth, &anns, NOW));
    assert!(is_alive(&auth, &bobs, NOW));
    drop(auth);
    assert!(!is_alive(&fixture.open().await, &anns, NOW));
}

#[tokio::test]
async fn the_sessions_of_a_user_removed_during_downtime_never_return() {
    let mut fixture = Fixture::with(&[("ann", "*"), ("bob", "*")]);
    let anns = token(&fixture.open().await, "ann", "*").await;
    let ann = fixture.config.users.remove(0);
    drop(fixture.open().await);
    fixture.config.users.push(ann);
    assert!(!is_alive(&fixture.open().await, &anns, NOW));
}

#[tokio::test]
async fn users_may_revoke_their_own_tokens_and_others_with_all_permissions_only() {
    let fixture = Fixture::with(&[("ann", "read"), ("bob", "*")]);
    let auth = fixture.open().await;
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
async fn anonymous_callers_have_the_configured_permissions_and_cannot_revoke() {
    let mut fixture = Fixture::with(&[("ann", "*")]);
    assert!(fixture.open().await.anonymous().is_none());
    fixture.config.anonymous = Some(vec!["read".into()]);
    let auth = fixture.open().await;
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
async fn a_failed_deletion_of_a_session_is_retried_later() {
    let fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
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
    assert!(!is_alive(&fixture.open().await, &one, NOW));
}

#[tokio::test]
async fn a_sweep_ends_expired_sessions() {
    let mut fixture = Fixture::with(&[("ann", "*")]);
    fixture.config.idle = Some(Duration::from_secs(100));
    let auth = fixture.open().await;
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
    assert_eq!(fixture.open().await.active(), 0);
}

#[tokio::test]
async fn a_password_change_ends_sessions_even_if_made_during_downtime() {
    for running in [true, false] {
        let mut fixture = Fixture::with(&[("ann", "*"), ("bob", "*")]);
        let mut auth = fixture.open().await;
        let (anns, bobs) = (token(&auth, "ann", "").await, token(&auth, "bob", "").await);
        let service = auth.create_token(machine("ann"), None, NOW).await;
        let service = service.unwrap().token;
        let open = session_of(&caller(&auth, &anns)).unwrap();
        let before = fixture.config.users[0]
            .password_hash
            .replace(Secret::new(bcrypt::hash("another", 4).unwrap()));
        if running {
            auth.reload(&fixture.config).await.unwrap();
            assert!(open.has_ended());
        } else {
            drop(auth);
            auth = fixture.open().await;
        }
        assert!(!is_alive(&auth, &anns, NOW));
        assert!(is_alive(&auth, &bobs, NOW) && is_alive(&auth, &service, NOW));
        fixture.config.users[0].password_hash = before;
        auth.reload(&fixture.config).await.unwrap();
        assert!(!is_alive(&auth, &anns, NOW), "it does not come back");
    }
}

#[tokio::test]
async fn removing_a_users_password_ends_their_sessions() {
    let mut fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    let anns = token(&auth, "ann", "").await;
    fixture.config.users[0].password_hash = None;
    auth.reload(&fixture.config).await.unwrap();
    assert!(!is_alive(&auth, &anns, NOW));
}

#[tokio::test]
async fn rehashing_the_generated_password_ends_no_session() {
    let fixture = Fixture::with(&[]);
    let (auth, password) = fixture.open_at(NOW).await;
    let password = password.unwrap();
    let sign_in = || attempt("admin", password.reveal(), "", HERE);
    // The first sign-in replaces the cheap hash.
    let first = auth.sign_in(sign_in(), NOW).await.unwrap().token;
    let second = auth.sign_in(sign_in(), NOW).await.unwrap().token;
    auth.reload(&fixture.config).await.unwrap();
    assert!(is_alive(&auth, &first, NOW) && is_alive(&auth, &second, NOW));
    drop(auth);
    let auth = fixture.open().await;
    assert!(is_alive(&auth, &first, NOW) && is_alive(&auth, &second, NOW));
}

#[tokio::test]
async fn the_generated_admin_ends_with_the_first_user_and_nothing_revives_it() {
    for at_restart in [false, true] {
        let mut fixture = Fixture::with(&[]);
        let (auth, password) = fixture.open_at(NOW).await;
        let password = password.unwrap();
        let sign_in = || attempt("admin", password.reveal(), "", HERE);
        let session = auth.sign_in(sign_in(), NOW).await.unwrap().token;
        let none = std::mem::take(&mut fixture.config.users);
        fixture.config.users = Fixture::with(&[("ann", "read")]).config.users;
        let auth = if at_restart {
            drop(auth);
            fixture.open().await
        } else {
            auth.reload(&fixture.config).await.unwrap();
            auth
        };
        assert!(!is_alive(&auth, &session, NOW));
        assert!(auth.sign_in(sign_in(), NOW).await.is_err());
        fixture.config.users = none;
        auth.reload(&fixture.config).await.unwrap();
        assert!(auth.sign_in(sign_in(), NOW).await.is_err());
        drop(auth);
        let (auth, another) = fixture.open_at(NOW).await;
        assert!(auth.sign_in(sign_in(), NOW).await.is_err());
        let another = another.unwrap();
        let sign_in = attempt("admin", another.reveal(), "", HERE);
        assert!(auth.sign_in(sign_in, NOW).await.is_ok());
        assert!(!is_alive(&auth, &session, NOW));
    }
}

#[tokio::test]
async fn a_session_without_a_password_record_is_bound_at_restart() {
    let mut fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    let anns = token(&auth, "ann", "").await;
    let mut row = auth.0.store.sessions().await.unwrap().remove(0);
    row.password = None;
    auth.0.store.save_session(row).await.unwrap();
    drop(auth);
    let auth = fixture.open().await;
    assert!(is_alive(&auth, &anns, NOW));
    let bound = auth.0.store.sessions().await.unwrap().remove(0).password;
    assert!(bound.is_some());
    fixture.config.users[0].password_hash = Some(Secret::new(bcrypt::hash("another", 4).unwrap()));
    auth.reload(&fixture.config).await.unwrap();
    assert!(!is_alive(&auth, &anns, NOW));
}

#[tokio::test]
async fn a_session_in_use_stays_while_another_program_signs_in_again_and_again() {
    let mut fixture = Fixture::with(&[("ann", "*")]);
    fixture.config.sessions_per_user = 3;
    let auth = fixture.open().await;
    let editor = token(&auth, "ann", "").await;
    let unused = token(&auth, "ann", "").await;
    for minute in 1..10 {
        let now = NOW + minute * 60;
        let script = auth.sign_in(right("ann", ""), now).await.unwrap();
        assert_eq!(script.ended, usize::from(minute > 1));
        assert!(is_alive(&auth, &script.token, now));
        assert!(is_alive(&auth, &editor, now + 30), "minute {minute}");
    }
    assert!(!is_alive(&auth, &unused, NOW + 600));
}

#[tokio::test]
async fn the_sessions_of_a_user_not_used_for_longest_end_when_there_are_too_many() {
    let mut fixture = Fixture::with(&[("ann", "*"), ("bob", "*")]);
    fixture.config.sessions_per_user = 2;
    let auth = fixture.open().await;
    let bobs = token(&auth, "bob", "").await;
    let service = auth.create_token(machine("ann"), None, NOW).await;
    let service = service.unwrap().token;
    let mut anns = Vec::new();
    for (number, ended) in [0, 0, 1, 1].into_iter().enumerate() {
        // All in one second: their order decides.
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
    fixture.config.sessions_per_user = 1;
    auth.reload(&fixture.config).await.unwrap();
    drop(auth);
    let auth = fixture.open().await;
    assert_eq!(alive(&auth).iter().filter(|alive| **alive).count(), 1);
    assert!(is_alive(&auth, &bobs, NOW) && is_alive(&auth, &service, NOW));
}
