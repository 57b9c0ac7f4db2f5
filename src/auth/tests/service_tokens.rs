//! Service tokens that users make: when, and with which rights.

use super::*;

fn new_token(permissions: &[&str]) -> NewToken {
    NewToken {
        name: "ci".into(),
        permissions: permissions.iter().map(|name| (*name).into()).collect(),
        networks: Vec::new(),
        rate_limit: None,
        lifetime: Some(Duration::from_hours(1)),
    }
}

#[tokio::test]
async fn a_token_is_made_within_five_minutes_of_the_password_and_no_later() {
    let fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    let ann = caller(&auth, &token(&auth, "ann", "").await);
    let made = new_token(&["flows.read"]);
    let may = async |now: u64| auth.may_create_token(&ann, &made, now).await;
    may(NOW).await.unwrap();
    may(NOW + 299).await.unwrap();
    let needed = StepUpNeeded::Password;
    let late = may(NOW + 300).await;
    assert!(
        matches!(late, Err(CreateTokenError::Unconfirmed(Unconfirmed::NotFresh(what))) if what == needed)
    );
    auth.step_up(&ann, false, NOW + 300).await.unwrap();
    may(NOW + 300).await.unwrap();
}

#[tokio::test]
async fn a_token_has_the_rights_that_it_and_the_user_both_have() {
    let mut fixture = Fixture::with(&[("ann", "*"), ("bob", "*")]);
    let auth = fixture.open().await;
    let made = new_token(&["flows.read", "flows.write"]);
    let issued = auth.create_token(made, Some("ann"), NOW).await.unwrap();
    let permissions = || caller(&auth, &issued.token).permissions;
    assert!(permissions().cover("flows.write") && !permissions().cover("nodes.read"));
    assert_eq!(auth.creator_of("token:ci").unwrap(), "ann");
    fixture.config.users = vec![user("ann", "read"), user("bob", "*")];
    auth.reload(&fixture.config).await.unwrap();
    assert!(permissions().cover("flows.read") && !permissions().cover("flows.write"));
    assert!(!permissions().cover("nodes.read"));
    assert_eq!(auth.permissions_of("token:ci", NOW), Some(permissions()));
    fixture.config.users = vec![user("bob", "*")];
    auth.reload(&fixture.config).await.unwrap();
    assert!(!is_alive(&auth, &issued.token, NOW));
    assert_eq!(auth.permissions_of("token:ci", NOW), None);
    assert!(auth.tokens(NOW).is_empty());
}

#[tokio::test]
async fn a_token_is_not_made_for_a_user_who_is_removed_meanwhile() {
    let fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    let made = auth.create_token(new_token(&["*"]), Some("eve"), NOW).await;
    assert!(matches!(made, Err(CreateTokenError::Unconfirmed(_))));
    drop(auth);
    assert_eq!(fixture.open().await.active(), 0);
}

#[tokio::test]
async fn of_two_tokens_that_are_made_at_once_one_takes_the_last_place_of_the_user() {
    let fixture = Fixture::with(&[("ann", "*"), ("bob", "*")]);
    let auth = fixture.open().await;
    let make = async |name: String, user: &str| {
        let made = NewToken {
            name,
            ..new_token(&["flows.read"])
        };
        auth.create_token(made, Some(user), NOW).await
    };
    for number in 0..99 {
        make(format!("ci{number}"), "ann").await.unwrap();
    }
    let (one, other) = tokio::join!(make("a".into(), "ann"), make("b".into(), "ann"));
    assert_ne!(one.is_ok(), other.is_ok());
    let refused = one.err().or(other.err()).unwrap();
    assert!(matches!(refused, CreateTokenError::TooMany));
    make("c".into(), "bob").await.unwrap();
}
