//! `[storage] url`: the PostgreSQL database that several gateways share.

use super::error::SpannedError;
use super::provider_url::is_loopback;
use super::raw;
use super::setting::{Source, Span};
use crypto::Secret;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

const EXPECTED: &str = "the URL of a PostgreSQL database, such as \"postgres://flowgate:PASSWORD@db.example.org/flowgate\"";

/// How long flowgate believes what it knows of sessions while the database cannot be reached. Our
/// choice: a restart or a fail-over of PostgreSQL takes less.
const GRACE: Duration = Duration::from_secs(30);

/// A database that several gateways share.
#[derive(Debug, Clone)]
pub struct SharedStore {
    /// Its servers, each with database and user.
    pub servers: Vec<Config>,
    /// The authorities of its certificate; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// How long requests are answered while it cannot be reached.
    pub grace: Duration,
}

impl SharedStore {
    /// Returns whether passwords and sessions go to another machine unencrypted.
    pub(super) fn is_plain(&self) -> bool {
        let is_plain = |server: &Config| server.get_ssl_mode() == SslMode::Disable;
        let mut servers = self.servers.iter();
        servers.any(|server| is_plain(server) && !is_local(server))
    }
}

pub(super) fn shared_store(
    raw: &mut raw::Storage,
    source: &Source<'_>,
) -> Result<Option<SharedStore>, SpannedError> {
    let url = source.secret(raw.url.take(), raw.url_file.take())?;
    let ca_file = raw.ca_file.take();
    let grace = raw.grace.take();
    let Some((url, span)) = url else {
        let alone = ca_file.or(grace).map(|entry| {
            SpannedError::rule(
                entry.span(),
                "it is about the database that storage.url names, and there is none",
            )
        });
        return alone.map_or(Ok(None), Err);
    };
    Ok(Some(SharedStore {
        servers: servers(&url, &span)?,
        ca_file: ca_file.map(|entry| source.path(&entry)).transpose()?,
        grace: source.duration(
            grace,
            GRACE,
            Duration::from_secs(1)..=Duration::from_hours(1),
        )?,
    }))
}

/// Each of the servers that the URL names; all in one where it names them in its parameters.
fn servers(url: &Secret, span: &Span) -> Result<Vec<Config>, SpannedError> {
    let all = server(url.reveal(), span)?;
    let Some(urls) = url_of_each(url.reveal()) else {
        return Ok(vec![all]);
    };
    let each = urls.iter().map(|url| server(url, span));
    let each: Vec<_> = each.collect::<Result<_, _>>()?;
    let is_alone = |one: &Config| one.get_hosts().len() == 1 && one.get_hostaddrs().len() <= 1;
    Ok(if each.iter().all(is_alone) {
        each
    } else {
        vec![all]
    })
}

/// The URL with each of the hosts in it, which stand between `@` and the path, as the driver reads
/// it.
fn url_of_each(url: &str) -> Option<Vec<String>> {
    let (user, rest) = url.split_once('@')?;
    let (hosts, path) = rest.split_at(rest.find(['/', '?'])?);
    let hosts = hosts.split(',');
    Some(hosts.map(|host| format!("{user}@{host}{path}")).collect())
}

fn server(text: &str, span: &Span) -> Result<Config, SpannedError> {
    let is_url = ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| text.starts_with(scheme));
    let config: Result<Config, _> = text.parse();
    let Some(mut config) = config.ok().filter(|_| is_url) else {
        return Err(SpannedError::rule(
            span.clone(),
            format!("it must be {EXPECTED}"),
        ));
    };
    if config.get_hosts().is_empty() || config.get_user().is_none() || config.get_dbname().is_none()
    {
        let sentence = format!("it must name a host, a user and a database: {EXPECTED}");
        return Err(SpannedError::rule(span.clone(), sentence));
    }
    // Without `sslmode` the driver would go on without TLS where a server, or another machine in
    // between, offers none.
    if config.get_ssl_mode() == SslMode::Prefer {
        let mode = if is_local(&config) {
            SslMode::Disable
        } else {
            SslMode::Require
        };
        config.ssl_mode(mode);
    }
    Ok(config)
}

/// Returns whether it is reached without a network.
fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => is_loopback(name),
        Host::Unix(_) => true,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn mode(url: &str) -> SslMode {
        server(url, &(0..0)).unwrap().get_ssl_mode()
    }

    #[test]
    fn a_database_on_another_machine_is_reached_with_tls_unless_its_url_says_otherwise() {
        assert_eq!(mode("postgres://u:p@db.example.org/d"), SslMode::Require);
        assert_eq!(
            mode("postgres://u:p@db.example.org/d?sslmode=prefer"),
            SslMode::Require
        );
        assert_eq!(
            mode("postgres://u:p@db.example.org/d?sslmode=disable"),
            SslMode::Disable
        );
        assert_eq!(mode("postgres://u:p@127.0.0.1:5433/d"), SslMode::Disable);
        assert_eq!(
            mode("postgresql://u@%2Frun%2Fpostgresql/d"),
            SslMode::Disable
        );
        assert_eq!(
            mode("postgres://u:p@127.0.0.1,db.example.org/d"),
            SslMode::Require
        );
    }

    #[test]
    fn each_server_of_a_url_is_reached_by_itself() {
        let url =
            Secret::new("postgres://u:p@a.example.org:1,127.0.0.1/d?connect_timeout=1".into());
        let found = servers(&url, &(0..0)).unwrap();
        let named: Vec<_> = found
            .iter()
            .map(|one| (one.get_hosts(), one.get_ports()))
            .collect();
        let host = |name: &str| [Host::Tcp(name.to_owned())];
        assert_eq!(
            named,
            [
                (&host("a.example.org")[..], &[1][..]),
                (&host("127.0.0.1")[..], &[5432][..])
            ]
        );
        assert!(found.iter().all(|one| one.get_password() == Some(b"p")));
        let in_parameters = Secret::new("postgres://u:p@/d?host=a&host=b".into());
        assert_eq!(servers(&in_parameters, &(0..0)).unwrap().len(), 1);
    }

    #[test]
    fn a_url_without_a_host_a_user_or_a_database_is_refused() {
        for url in [
            "postgres:///d?user=u",
            "postgres://h/d",
            "postgres://u@h",
            "host=h user=u dbname=d",
            "mysql://u@h/d",
        ] {
            assert!(server(url, &(0..0)).is_err(), "{url}");
        }
    }
}
