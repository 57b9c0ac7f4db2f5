//! `[cluster]`: gateways of which one runs the engine, and another one takes over when it fails;
//! with `place`, each shard of the flows has an engine of its own.

use super::error::SpannedError;
use super::raw;
use super::setting::{Source, Span};
use super::{Certificate, Config, EngineProcess, Storage};
use flows::Places;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
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
    /// The shard that this member is to run; `None`: it is to run none, and does if others fail.
    pub name: Option<String>,
    /// Which flows are in which shard.
    pub places: Places,
    /// The process of each shard but the main one, here.
    pub shards: BTreeMap<String, EngineProcess>,
}

/// The expected form of a shard's name, for errors.
const NAME: &str = "the name of a member, of at most 32 lower-case letters, digits and \"-\"";

/// The whole table. `process`: that of the engine, if the gateway starts it as one.
pub(super) fn cluster(
    raw: Option<Spanned<raw::Cluster>>,
    storage: &Storage,
    process: Option<&EngineProcess>,
    source: &Source<'_>,
) -> Result<Option<Box<Cluster>>, SpannedError> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    let (table, raw) = (raw.span(), raw.into_inner());
    let missing = match process {
        _ if storage.shared.is_none() => "storage.url: a database that all members share",
        None => "engine.isolation: the member that takes over starts the engine as a process",
        _ if storage.credential_secret.is_none() => {
            "storage.credential_secret, the same at all members: it encrypts the credentials of the flows"
        }
        Some(process) => {
            let cluster = of_table(raw, &table, process, source);
            return cluster.map(Box::new).map(Some);
        }
    };
    Err(SpannedError::rule(
        table,
        format!("[cluster] needs {missing}"),
    ))
}

fn of_table(
    raw: raw::Cluster,
    table: &Span,
    process: &EngineProcess,
    source: &Source<'_>,
) -> Result<Cluster, SpannedError> {
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
    let name = raw.name.map(|entry| source.parsed(&entry, NAME, name));
    let (name, mut places) = (name.transpose()?, Places::default());
    for (tab, place) in raw.place {
        let shard = source.parsed(&place, NAME, self::name)?;
        places.tabs.insert(tab.into_inner(), shard);
    }
    let text = |text: &str| Some(text.to_owned());
    let own_globals = source.list(raw.own_global_context, "the label or id of a tab", text)?;
    places.own_globals = own_globals.into_iter().flatten().collect();
    let operations = operations(raw.operations, &places, source)?;
    let shards = places.shards().into_iter();
    let shards = shards.map(|shard| {
        let process = process.of_shard(shard, operations.get(shard).copied(), table)?;
        Ok((shard.to_owned(), process))
    });
    Ok(Cluster {
        host,
        port,
        listen,
        certificate: Certificate {
            cert: source.path(&needed(raw.cert, "cert")?)?,
            key: source.path(&needed(raw.key, "key")?)?,
        },
        ca_file: source.path(&needed(raw.ca_file, "ca_file")?)?,
        shards: shards.collect::<Result<_, _>>()?,
        name,
        places,
    })
}

/// Where the engine of each shard has its operations listener, for those that have one.
fn operations(
    raw: BTreeMap<Spanned<String>, Spanned<Value>>,
    places: &Places,
    source: &Source<'_>,
) -> Result<BTreeMap<String, SocketAddr>, SpannedError> {
    let shards = places.shards();
    let address = |(name, entry): (Spanned<String>, Spanned<Value>)| {
        if !shards.contains(name.get_ref().as_str()) {
            let sentence = "this is for the names of members in cluster.place";
            return Err(SpannedError::rule(name.span(), sentence));
        }
        Ok((name.into_inner(), source.address(&entry)?))
    };
    raw.into_iter().map(address).collect()
}

/// Completes the places with what is known of the engine, and makes them a rule for deployments.
pub(super) fn placed(mut config: Config) -> Config {
    let Some(cluster) = &mut config.cluster else {
        return config;
    };
    let host = config.engine.node_host.as_ref();
    cluster.places.hosts_functions = host.is_some_and(|host| host.functions);
    let places = Some(&cluster.places).filter(|places| !places.tabs.is_empty());
    let places = places.cloned().map(Arc::new);
    for upstream in &mut config.upstreams {
        upstream.mount.policy.places.clone_from(&places);
    }
    config
}

fn name(text: &str) -> Option<String> {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    ((1..=32).contains(&text.len()) && text.bytes().all(is_plain)).then(|| text.to_owned())
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
