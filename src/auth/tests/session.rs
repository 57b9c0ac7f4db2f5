//! A session and the map of those alive, alone.

use super::*;
use crate::auth::session::*;
use crate::store::SessionRow;
use std::hash::{BuildHasher, BuildHasherDefault};

fn session(token: u8, expires: u64) -> Session {
    let row = SessionRow {
        token: sha256(&[token]),
        user: "ann".into(),
        client: "service-admin".into(),
        scope: vec!["read".into()],
        created: 0,
        expires,
        ..SessionRow::default()
    };
    Session::new(&row, 0)
}

#[test]
fn a_token_is_a_unique_b64token_of_43_characters() {
    let (one, other) = (new_token(), new_token());
    assert_eq!(one.reveal().len(), TOKEN_LENGTH);
    assert!(
        one.reveal()
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    );
    assert_ne!(one.reveal(), other.reveal());
}

#[test]
fn a_token_is_recognised_by_its_checksum_and_other_texts_of_its_length_are_not() {
    let token = new_token();
    let text = token.reveal();
    assert!(has_form(text.as_bytes()));
    for at in [0, 21, 40] {
        let mut other = text.as_bytes().to_vec();
        other[at] = if other[at] == b'A' { b'B' } else { b'A' };
        assert!(!has_form(&other), "{at}");
    }
    for other in [
        "",
        "0123456789012345678901234567890123456789012",
        &text[1..],
    ] {
        assert!(!has_form(other.as_bytes()), "{other}");
    }
    assert!(!has_form(format!("{text}A").as_bytes()));
    assert!(!has_form("ä".repeat(43).as_bytes()));
}

#[test]
fn keys_are_hashed_by_their_first_eight_bytes() {
    let hasher = BuildHasherDefault::<FirstEightBytes>::default();
    let key = sha256(b"abc");
    assert_eq!(hasher.hash_one(key).to_ne_bytes(), key[..8]);
}

#[test]
fn a_session_expires_after_its_absolute_lifetime_despite_use() {
    let session = session(1, 100);
    session.touch(99);
    assert!(!session.is_over(99, None));
    assert!(session.is_over(100, None));
}

#[test]
fn a_session_expires_when_unused_for_the_idle_lifetime() {
    let session = session(1, 1000);
    let idle = Some(Duration::from_mins(1));
    assert!(!session.is_over(59, idle));
    assert!(session.is_over(60, idle));
    session.touch(59);
    assert!(!session.is_over(118, idle));
    assert!(session.is_over(119, idle));
}

#[test]
fn a_session_from_the_future_is_detected_after_a_clock_change() {
    let row = SessionRow {
        token: sha256(&[1]),
        user: "ann".into(),
        client: "service-admin".into(),
        created: 10_000,
        expires: 20_000,
        ..SessionRow::default()
    };
    let session = Session::new(&row, 10_000);
    assert!(!session.is_ahead(10_000 - AHEAD));
    assert!(session.is_ahead(10_000 - AHEAD - 1));
}

#[test]
fn an_earlier_use_does_not_shorten_the_idle_lifetime() {
    let session = session(1, 1000);
    session.touch(50);
    session.touch(40);
    assert!(!session.is_over(109, Some(Duration::from_mins(1))));
}

#[test]
fn a_held_session_reports_that_it_has_ended() {
    let sessions = Sessions::default();
    sessions.insert(session(1, 10));
    sessions.insert(session(2, 20));
    let first = sessions.find(&sha256(&[1])).unwrap();
    assert!(!first.has_ended());

    assert_eq!(
        sessions.end(|session| session.expires <= 10),
        [sha256(&[1])]
    );
    assert!(first.has_ended());
    assert!(sessions.find(&sha256(&[1])).is_none());
    assert_eq!(sessions.len(), 1);
    assert!(!sessions.end_one(&sha256(&[1])), "it is gone already");
}
