//! `[engine.listen]`: the socket of an engine that runs apart from its gateway. It makes the whole
//! file an engine's, in which nothing can be configured that the gateway decides.

use super::error::SpannedError;
use super::headers::RESOURCE_POLICY;
use super::raw;
use super::setting::Source;
use super::upstream_url::socket_path;
use super::{Config, Headers};
use nix::unistd::{Group, User};
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::Spanned;

const ADDRESS: &str = "\"unix:\" and the path of a socket of at most 107 bytes, or a loopback address with a port, such \
     as \"127.0.0.1:1880\"";
pub(super) const USER: &str = "the name of a user of this system, or a user id";
pub(super) const GROUP: &str = "the name of a group of this system, or a group id";
const PATH: &str = "the path of a file or directory";
const MODE: &str =
    "\"0600\" or \"0660\": the modes in which only the owner, or its group too, can connect";

/// Where an engine listens that runs apart from its gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineListen {
    /// A Unix socket: the gateway is known by its user.
    Unix(EngineSocket),
    /// An address of this machine, which every user of it reaches.
    Loopback(SocketAddr),
}

/// The Unix socket of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineSocket {
    /// Its path.
    pub path: PathBuf,
    /// Its mode.
    pub mode: u32,
    /// The id of its group; `None`: that of the process.
    pub group: Option<u32>,
    /// The ids of the users whose processes may connect, beside root and the engine's own.
    pub users: Vec<u32>,
}

/// Reads the table.
pub(super) fn listen(
    table: Spanned<raw::EngineListen>,
    source: &Source<'_>,
) -> Result<EngineListen, SpannedError> {
    let span = table.span();
    let raw = table.into_inner();
    let Some(address) = &raw.address else {
        let sentence = format!("[engine.listen] needs an address: {ADDRESS}");
        return Err(SpannedError::rule(span, sentence));
    };
    let parse = |text: &str| match text.strip_prefix("unix:") {
        Some(path) => socket_path(path, source.base).map(Place::Socket),
        None => loopback(text).map(Place::Address),
    };
    let path = match source.parsed(address, ADDRESS, parse)? {
        Place::Socket(path) => path,
        Place::Address(address) => {
            let users = raw.users.as_ref().map(Spanned::span);
            let others = [&raw.mode, &raw.group].into_iter().flatten();
            if let Some(span) = users.or_else(|| others.map(Spanned::span).next()) {
                let sentence = "mode, group and users are for a Unix socket";
                return Err(SpannedError::rule(span, sentence));
            }
            return Ok(EngineListen::Loopback(address));
        }
    };
    let mode = |entry: &Spanned<toml::Value>| source.parsed(entry, MODE, mode);
    let group = |entry: &Spanned<toml::Value>| source.parsed(entry, GROUP, group_id);
    Ok(EngineListen::Unix(EngineSocket {
        path,
        mode: raw.mode.as_ref().map_or(Ok(0o600), mode)?,
        group: raw.group.as_ref().map(group).transpose()?,
        users: source.list(raw.users, USER, user_id)?.unwrap_or_default(),
    }))
}

/// Reads the paths that the engine cannot open.
pub(super) fn inaccessible_paths(
    table: &Spanned<raw::EngineListen>,
    source: &Source<'_>,
) -> Result<Vec<PathBuf>, SpannedError> {
    let list = table.get_ref().inaccessible_paths.clone();
    let path = |text: &str| (!text.is_empty()).then(|| source.base.join(text));
    Ok(source.list(list, PATH, path)?.unwrap_or_default())
}

enum Place {
    Socket(PathBuf),
    Address(SocketAddr),
}

fn loopback(text: &str) -> Option<SocketAddr> {
    let address: SocketAddr = text.parse().ok()?;
    address.ip().is_loopback().then_some(address)
}

/// Connecting needs the right to write (unix(7)); other users than those of the group never have
/// it.
fn mode(text: &str) -> Option<u32> {
    match text {
        "0600" => Some(0o600),
        "0660" => Some(0o660),
        _ => None,
    }
}

/// The id of a user, who must be there.
pub(super) fn user_id(text: &str) -> Option<u32> {
    let named = || Some(User::from_name(text).ok()??.uid.as_raw());
    text.parse().ok().or_else(named)
}

pub(super) fn group_id(text: &str) -> Option<u32> {
    let named = || Some(Group::from_name(text).ok()??.gid.as_raw());
    text.parse().ok().or_else(named)
}

/// The configuration of an engine that runs apart: it is reached there only, everyone who reaches
/// it may do everything, and what concerns users, browsers and records is the gateway's.
pub(super) fn apart(config: Config) -> Config {
    let Some(listen) = config.engine.listen.clone() else {
        return config;
    };
    let mut config = config;
    config.server.listen = Vec::new();
    config.server.plain = match listen {
        EngineListen::Unix(_) => None,
        EngineListen::Loopback(address) => Some(address),
    };
    config.headers = gateways_decide(config.headers);
    config.console.enabled = false;
    config.audit.off = true;
    config.audit.refuse = false;
    config
}

/// The gateway adds these fields as it is configured, unless a response has them.
fn gateways_decide(headers: Headers) -> Headers {
    let mut own = headers.own;
    own.retain(|(name, _)| *name != RESOURCE_POLICY);
    Headers {
        hsts: None,
        own,
        resource_policy: None,
        ..headers
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::path::Path;

    fn parse(text: &str) -> Result<Config, String> {
        let config = Config::parse(text, "engine.toml", Path::new("/etc/flowgate"));
        config.map_err(|error| error.to_string())
    }

    #[test]
    fn an_engines_file_names_a_socket_and_who_may_connect() {
        let text = "[engine.listen]\naddress = \"unix:/run/a.sock\"\nmode = \"0660\"\ngroup = \"root\"\nusers = [\"root\", \"1234\"]\n";
        let config = parse(text).unwrap();
        let socket = EngineSocket {
            path: "/run/a.sock".into(),
            mode: 0o660,
            group: Some(0),
            users: vec![0, 1234],
        };
        assert_eq!(config.engine.listen, Some(EngineListen::Unix(socket)));
        assert!(config.server.listen.is_empty() && config.server.plain.is_none());
        assert!(config.operations.is_none() && config.auth.is_none());
        assert!(config.audit.off && !config.console.enabled);
        let text = "[engine.listen]\naddress = \"127.0.0.1:1880\"\n";
        let config = parse(text).unwrap();
        assert_eq!(config.server.plain, "127.0.0.1:1880".parse().ok());
    }

    #[test]
    fn paths_that_the_engine_cannot_open_are_relative_to_its_file() {
        let paths = |list: &str| {
            let listen = "[engine.listen]\naddress = \"unix:/run/a.sock\"\n";
            let config = parse(&format!("{listen}inaccessible_paths = {list}\n"));
            config.map(|config| config.engine.inaccessible_paths)
        };
        let both = ["/etc/flowgate/gateway.toml", "/var/lib/flowgate"].map(PathBuf::from);
        assert_eq!(
            paths(r#"["gateway.toml", "/var/lib/flowgate"]"#).unwrap(),
            both
        );
        assert!(paths(r#"[""]"#).is_err() && paths("\"/a\"").is_err());
        assert!(parse("[engine]\ninaccessible_paths = [\"/a\"]\n").is_err());
    }

    #[test]
    fn what_the_gateway_decides_cannot_be_configured_in_an_engines_file() {
        let listen = "[engine.listen]\naddress = \"unix:a.sock\"\n";
        for lines in [
            "[auth]\n",
            "[upstream]\nurl = \"http://127.0.0.1:1880\"\n",
            "[tls]\ntls12 = false\n",
            "[policy]\nread_only = true\n",
            "[audit]\nkeep = 3\n",
            "[server]\nlisten = [\"0.0.0.0:8443\"]\n",
            "[[route]]\npath = \"/a\"\npublic = true\n",
        ] {
            let error = parse(&format!("{lines}{listen}")).unwrap_err();
            assert!(error.contains("no such key"), "{lines}: {error}");
        }
        assert!(parse(&format!("[server]\nworkers = 1\n{listen}")).is_ok());
    }

    #[test]
    fn a_socket_is_never_open_to_all_by_mistake() {
        for lines in [
            "address = \"0.0.0.0:1880\"",
            "address = \"/run/a.sock\"",
            "address = \"unix:a\"\nmode = \"0666\"",
            "address = \"unix:a\"\nusers = [\"no-such-user\"]",
            "address = \"127.0.0.1:1880\"\nusers = [\"root\"]",
            "mode = \"0600\"",
        ] {
            assert!(
                parse(&format!("[engine.listen]\n{lines}\n")).is_err(),
                "{lines}"
            );
        }
    }
}
