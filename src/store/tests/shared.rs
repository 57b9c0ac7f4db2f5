//! The store that gateways share, on a PostgreSQL: transactions that meet.

use super::{Error, SessionRow, Store, config};
use crate::config::{SharedStore, Storage};
use crate::store::accept_new_secret;
use crate::store::credentials::seal;
use crypto::{Secret, hex};
use flows::Credentials;
use std::time::Duration;
use tempfile::TempDir;
use testing::postgres::Postgres;

/// The storage of one of several gateways with this secret.
fn storage(postgres: &Postgres, directory: &TempDir, secret: Option<&str>) -> Storage {
    let shared = SharedStore {
        servers: vec![postgres.url().parse().unwrap()],
        ca_file: None,
        grace: Duration::from_secs(3),
    };
    Storage {
        shared: Some(shared),
        credential_secret: secret.map(|secret| Secret::new(secret.into())),
        ..config(directory)
    }
}

/// The store of one of several gateways.
fn gateway(postgres: &Postgres) -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&storage(postgres, &directory, Some("secret"))).unwrap();
    (directory, store)
}

/// Returns whether a gateway with this secret starts.
fn starts_with(postgres: &Postgres, secret: Option<&str>) -> bool {
    let directory = tempfile::tempdir().unwrap();
    match Store::open(&storage(postgres, &directory, secret)) {
        Ok(_) => true,
        Err(Error::OtherSecret) => false,
        Err(error) => panic!("{error}"),
    }
}

fn tokens(round: u8) -> Vec<[u8; 32]> {
    (0..20).map(|number| [number * 12 + round; 32]).collect()
}

async fn begin_sessions(store: &Store, tokens: &[[u8; 32]]) {
    for token in tokens {
        let session = SessionRow {
            token: *token,
            user: "admin".to_owned(),
            ..SessionRow::default()
        };
        store.save_session(session).await.unwrap();
    }
}

#[tokio::test]
async fn gateways_that_end_the_same_sessions_at_a_time_do_not_wait_for_each_other() {
    let postgres = Postgres::start();
    let ((_one, one), (_other, other)) = (gateway(&postgres), gateway(&postgres));
    for round in 0..10 {
        let tokens = tokens(round);
        begin_sessions(&one, &tokens).await;
        let backwards: Vec<_> = tokens.iter().rev().copied().collect();
        let used = backwards.iter().map(|token| (*token, 5)).collect();
        let (ended, also_ended, saved) = tokio::join!(
            one.remove_sessions(tokens.clone()),
            other.remove_sessions(backwards),
            other.save_uses(used)
        );
        ended.and(also_ended).and(saved).unwrap();
        assert_eq!(one.sessions().await.unwrap(), []);
    }
    drop((one, other));
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = 'flowgate'";
    assert_eq!(postgres.sql(deadlocks), "0");
}

#[tokio::test]
async fn a_transaction_that_the_database_undoes_is_carried_out_again() {
    let postgres = Postgres::start();
    let (_directory, store) = gateway(&postgres);
    postgres.sql(
        "CREATE SEQUENCE attempt;
         CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            CASE nextval('attempt')
                WHEN 1 THEN RAISE 'as if' USING ERRCODE = '40P01';
                WHEN 2 THEN RAISE 'as if' USING ERRCODE = '40001';
                ELSE RETURN NEW;
            END CASE;
         END $$;
         CREATE TRIGGER undo BEFORE INSERT ON session FOR EACH ROW EXECUTE FUNCTION undo()",
    );
    begin_sessions(&store, &[[1; 32]]).await;
    assert_eq!(postgres.sql("SELECT last_value FROM attempt"), "3");
    assert_eq!(postgres.sql("SELECT count(*) FROM change"), "1");
}

#[test]
fn a_gateway_with_another_secret_does_not_start() {
    let postgres = Postgres::start();
    assert!(starts_with(&postgres, None));
    assert!(starts_with(&postgres, Some("secret")));
    for wrong in [None, Some("another")] {
        assert!(!starts_with(&postgres, wrong));
    }
    assert!(starts_with(&postgres, Some("secret")));
}

#[test]
fn a_gateway_that_cannot_read_what_an_older_version_has_stored_does_not_start() {
    let postgres = Postgres::start();
    assert!(starts_with(&postgres, None));
    let secret = Secret::new("secret".into());
    let file = hex(&seal(&Credentials::default(), &secret).unwrap());
    postgres.sql(&format!(
        "INSERT INTO engine_state VALUES ('flows_cred.json', decode('{file}', 'hex'))"
    ));
    assert!(!starts_with(&postgres, Some("another")));
    assert!(starts_with(&postgres, Some("secret")));
}

#[test]
fn a_secret_that_is_lost_is_replaced_and_what_it_encrypted_is_kept() {
    let postgres = Postgres::start();
    assert!(starts_with(&postgres, Some("lost")));
    let lost = Secret::new("lost".into());
    let file = hex(&seal(&Credentials::default(), &lost).unwrap());
    postgres.sql(&format!(
        "INSERT INTO engine_state VALUES ('flows_cred.json', decode('{file}', 'hex'))"
    ));
    let directory = tempfile::tempdir().unwrap();
    accept_new_secret(&storage(&postgres, &directory, Some("new"))).unwrap();
    assert!(starts_with(&postgres, Some("new")) && !starts_with(&postgres, Some("lost")));
    let kept = "SELECT name || ' ' || encode(content, 'hex') FROM engine_state";
    assert_eq!(
        postgres.sql(kept),
        format!("flows_cred.json.undecryptable {file}")
    );
}
