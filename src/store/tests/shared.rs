//! The store that gateways share, on a PostgreSQL: transactions that meet.

use super::{SessionRow, Store, config};
use crate::config::{SharedStore, Storage};
use std::time::Duration;
use tempfile::TempDir;
use testing::postgres::Postgres;

/// The store of one of several gateways.
fn gateway(postgres: &Postgres) -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let shared = SharedStore {
        servers: vec![postgres.url().parse().unwrap()],
        ca_file: None,
        grace: Duration::from_secs(3),
    };
    let storage = Storage {
        shared: Some(shared),
        ..config(&directory)
    };
    let store = Store::open(&storage).unwrap();
    (directory, store)
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
