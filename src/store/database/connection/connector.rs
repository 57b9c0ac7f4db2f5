//! How PostgreSQL is reached: addresses, password, TLS, and the limits of a session there.

use crate::config::SharedStore;
use crate::store::Error;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The time to reach a server, and to sign in there; a third of it for each address that its name
/// may have. Our choice: a server in the same building answers in milliseconds.
const CONNECT: Duration = Duration::from_secs(3);

/// The failure of a server that is not heard of in time.
const SILENT: &str = "it does not answer";

/// The time for data that were sent to arrive. Our choice, as above.
const ARRIVE: Duration = Duration::from_secs(5);

/// The oldest version that has `idle_session_timeout`.
const OLDEST: i32 = 140_000;

/// What a session may take. A gateway that was stopped in the midst of something must not hold a
/// lock for ever; one that is alive asks something every few seconds. A transaction may be idle for
/// a shorter time than a gateway waits for an answer: a `COMMIT` that the gateway has given up on
/// changes nothing when it arrives. Our choices.
const LIMITS: &str = "
    SET statement_timeout = '8s'; SET lock_timeout = '5s'; SET idle_session_timeout = '20s';
    SET idle_in_transaction_session_timeout = '8s';
";

/// The error of a wait for a lock that has lasted for as long as the server allows.
pub(in crate::store) const LOCK_IS_TAKEN: SqlState = SqlState::LOCK_NOT_AVAILABLE;

/// A connection as `tokio-postgres` drives it.
type Driver =
    tokio_postgres::Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Connects to the shared store.
#[derive(Clone)]
pub(in crate::store) struct Connector {
    /// Of which one has the database at a time.
    servers: Vec<Config>,
    tls: MakeRustlsConnect,
}

impl Connector {
    pub(in crate::store) fn new(shared: &SharedStore) -> Result<Self, Error> {
        let mut servers = shared.servers.clone();
        let hosts: usize = servers.iter().map(|server| server.get_hosts().len()).sum();
        for server in &mut servers {
            if hosts > 1 {
                // The others are its replicas.
                server.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
            server
                .application_name("flowgate")
                .connect_timeout(CONNECT / 3)
                .tcp_user_timeout(ARRIVE)
                .keepalives_idle(ARRIVE);
        }
        Ok(Self {
            servers,
            tls: MakeRustlsConnect::new(client_tls(shared.ca_file.as_deref())?),
        })
    }

    /// A new connection, with the limits of a session; what it returns beside has to be driven by a
    /// task.
    pub(in crate::store) async fn connect(&self) -> Result<Client, Error> {
        let (client, driver) = self.open().await?;
        tokio::spawn(async move {
            // The next question finds that it has ended.
            let _ = driver.await;
        });
        limit(&client).await?;
        Ok(client)
    }

    /// A new connection that is not driven yet. All servers are tried at a time: one that hangs, or
    /// whose machine is gone, must not keep us from the one that has taken over.
    pub(in crate::store) async fn open(&self) -> Result<(Client, Driver), Error> {
        let mut tries = JoinSet::new();
        for server in &self.servers {
            let (server, tls) = (server.clone(), self.tls.clone());
            tries.spawn(async move { timeout(CONNECT, server.connect(tls)).await });
        }
        let mut failures = Vec::new();
        while let Some(ended) = tries.join_next().await {
            match ended {
                Ok(Ok(Ok(connected))) => return Ok(connected),
                Ok(Ok(Err(error))) => failures.push(text(&error)),
                _ => failures.push(SILENT.to_owned()),
            }
        }
        Err(Error::Unreachable(failures.join("; ")))
    }
}

/// Sets the limits of a session, and refuses a server that is too old.
pub(in crate::store) async fn limit(client: &Client) -> Result<(), Error> {
    let limited = async {
        let version = "SELECT current_setting('server_version_num')::int4";
        let version: i32 = client.query_one(version, &[]).await?.get(0);
        if version >= OLDEST {
            client.batch_execute(LIMITS).await?;
        }
        Ok::<_, tokio_postgres::Error>(version)
    };
    match timeout(CONNECT, limited).await {
        Ok(Ok(OLDEST..)) => Ok(()),
        Ok(Ok(version)) => {
            let version = version / 10_000;
            let sentence =
                format!("PostgreSQL has version {version}, and flowgate needs 14 or newer");
            Err(Error::Database(sentence))
        }
        Ok(Err(error)) => Err(failure(&error)),
        Err(_) => Err(Error::Unreachable(SILENT.to_owned())),
    }
}

/// The error of a statement: the connection is lost, others are in its way, or PostgreSQL refuses
/// it.
pub(in crate::store) fn failure(error: &tokio_postgres::Error) -> Error {
    const UNDONE: [SqlState; 2] = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    const TOO_LATE: [SqlState; 2] = [LOCK_IS_TAKEN, SqlState::QUERY_CANCELED];
    let has = |states: &[SqlState]| error.code().is_some_and(|code| states.contains(code));
    let is_undone = has(&UNDONE);
    if is_lost(error) {
        Error::Unreachable(text(error))
    } else if is_undone || has(&TOO_LATE) {
        Error::Busy {
            reason: text(error),
            is_undone,
        }
    } else {
        Error::Database(text(error))
    }
}

/// Returns whether the connection is of no use any more.
pub(in crate::store) fn is_lost(error: &tokio_postgres::Error) -> bool {
    const OF_SERVER: [&SqlState; 5] = [
        &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        &SqlState::ADMIN_SHUTDOWN,
        &SqlState::CRASH_SHUTDOWN,
        &SqlState::CANNOT_CONNECT_NOW,
        // It has become, or always was, a standby.
        &SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    match error.code() {
        None => true,
        Some(code) => {
            OF_SERVER.contains(&code)
                || ["08", "57P"]
                    .iter()
                    .any(|class| code.code().starts_with(class))
        }
    }
}

/// The error in one line, without the values of the statement.
fn text(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    match error.as_db_error() {
        Some(refusal) => format!("{} ({})", refusal.message(), refusal.code().code()),
        None => error
            .source()
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
    }
}

/// TLS that trusts the authorities of a file, or those of the system. Verification is never off.
fn client_tls(ca_file: Option<&Path>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(file) => {
            let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
            let read: Vec<_> = read.map_err(|error| no_authority(file, &error))?;
            for certificate in read {
                roots
                    .add(certificate)
                    .map_err(|error| no_authority(file, &error))?;
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Error::Database(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn no_authority(file: &Path, reason: &dyn std::fmt::Display) -> Error {
    Error::Invalid {
        what: file.display().to_string(),
        reason: format!("it has no certificates of authorities: {reason}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn of_several_servers_the_one_that_may_write_is_wanted() {
        let wanted = |urls: &[&str]| -> Vec<_> {
            let servers = urls.iter().map(|url| url.parse().unwrap()).collect();
            let shared = SharedStore {
                servers,
                ca_file: None,
                grace: CONNECT,
            };
            let servers = Connector::new(&shared).unwrap().servers;
            let attributes = servers.iter().map(Config::get_target_session_attrs);
            attributes.collect()
        };
        let (any, writes) = (TargetSessionAttrs::Any, TargetSessionAttrs::ReadWrite);
        assert_eq!(wanted(&["postgres://u@a/d"]), [any]);
        assert_eq!(
            wanted(&["postgres://u@a/d", "postgres://u@b/d"]),
            [writes; 2]
        );
        assert_eq!(wanted(&["postgres://u@/d?host=a&host=b"]), [writes]);
    }
}
