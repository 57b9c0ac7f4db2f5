//! `[cluster]`: gateways of which one runs the engine, and another one takes over when it fails.

use super::error::SpannedError;
use super::raw;
use super::setting::{Source, Span};
use super::{Certificate, Storage};
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::{Spanned, Value};

/// The expected form of `advertise`, for errors.
const EXPECTED: &str = "a URL such as \"https://10.0.0.5:8444\", with a port and without a path";

/// `[cluster]`.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The host at which the other members reach this one; its certificate names it.
    pub host: String,
    /// The port there.
    pub port: u16,
    /// The listener for the other members.
    pub listen: SocketAddr,
    /// The certificate that this member shows to others.
    pub certificate: Certificate,
    /// PEM file of the authorities of the members' certificates.
    pub ca_file: PathBuf,
}

/// The whole table. `is_isolated`: whether the gateway starts its engine as a process.
pub(super) fn cluster(
    raw: Option<Spanned<raw::Cluster>>,
    storage: &Storage,
    is_isolated: bool,
    source: &Source<'_>,
) -> Result<Option<Box<Cluster>>, SpannedError> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    let (table, raw) = (raw.span(), raw.into_inner());
    let missing = if storage.shared.is_none() {
        "storage.url: a database that all members share"
    } else if !is_isolated {
        "engine.isolation: the member that takes over starts the engine as a process"
    } else if storage.credential_secret.is_none() {
        "storage.credential_secret, the same at all members: it encrypts the credentials of the flows"
    } else {
        return of_table(raw, &table, source).map(Box::new).map(Some);
    };
    Err(SpannedError::rule(
        table,
        format!("[cluster] needs {missing}"),
    ))
}

fn of_table(raw: raw::Cluster, table: &Span, source: &Source<'_>) -> Result<Cluster, SpannedError> {
    let needed = |entry: Option<Spanned<Value>>, name: &str| {
        let sentence = format!("[cluster] needs {name}");
        entry.ok_or_else(|| SpannedError::rule(table.clone(), sentence))
    };
    let advertise = needed(raw.advertise, "advertise")?;
    let (host, port) = source.parsed(&advertise, EXPECTED, host_and_port)?;
    let listen = match &raw.listen {
        Some(entry) => source.parsed(entry, "an address such as \"0.0.0.0:8444\"", address)?,
        None => own_address(&host, port, advertise.span())?,
    };
    Ok(Cluster {
        host,
        port,
        listen,
        certificate: Certificate {
            cert: source.path(&needed(raw.cert, "cert")?)?,
            key: source.path(&needed(raw.key, "key")?)?,
        },
        ca_file: source.path(&needed(raw.ca_file, "ca_file")?)?,
    })
}

fn address(text: &str) -> Option<SocketAddr> {
    text.parse().ok()
}

/// The address at which a member is reached, if it is one.
fn own_address(host: &str, port: u16, span: Span) -> Result<SocketAddr, SpannedError> {
    let address = host.parse().map_err(|_| {
        let sentence = "advertise has a host name, so cluster.listen must say at which address the other members are awaited";
        SpannedError::rule(span, sentence)
    })?;
    Ok(SocketAddr::new(address, port))
}

/// The host, without brackets, and the port of a URL that has nothing else.
fn host_and_port(text: &str) -> Option<(String, u16)> {
    let authority = text.strip_prefix("https://")?;
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    let (host, port) = authority.rsplit_once(':')?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().ok()?.to_string(),
        None if host.contains([':', '/', '@', '?', '#']) || host.is_empty() => return None,
        None => host.to_ascii_lowercase(),
    };
    let port = port.parse().ok().filter(|port| *port != 0)?;
    Some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_reached_at_a_host_and_a_port() {
        for (text, expected) in [
            ("https://10.0.0.5:8444", Some(("10.0.0.5", 8444))),
            (
                "https://Edge-1.example.org:8444/",
                Some(("edge-1.example.org", 8444)),
            ),
            ("https://[2001:db8::1]:8444", Some(("2001:db8::1", 8444))),
            ("https://10.0.0.5", None),
            ("http://10.0.0.5:8444", None),
            ("https://10.0.0.5:0", None),
            ("https://user@10.0.0.5:8444", None),
            ("https://10.0.0.5:8444/path", None),
            ("https://:8444", None),
            ("https://2001:db8::1:8444", None),
        ] {
            let found = host_and_port(text);
            let found = found.as_ref().map(|(host, port)| (host.as_str(), *port));
            assert_eq!(found, expected, "{text}");
        }
    }
}
