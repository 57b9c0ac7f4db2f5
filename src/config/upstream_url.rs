//! The address of an upstream: `http://`, `https://`, or `unix:` and the path of a socket.

use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

pub(super) const URL: &str = "a URL without path, such as \"http://127.0.0.1:1880\" or \"https://flows.example.org\", or \
     \"unix:\" and the path of a socket of at most 107 bytes";

/// The longest path of a socket, in bytes (unix(7): `sun_path` has 108, with the terminating NUL).
const MAX_PATH: usize = 107;

/// Where an upstream listens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UpstreamUrl {
    /// True if it is spoken to over TLS.
    pub(super) secure: bool,
    /// A name, or an address without brackets; of a socket `localhost`, as clients that name no
    /// host mean it.
    pub(super) host: String,
    /// The port; of a socket 80.
    pub(super) port: u16,
    /// The Unix socket, instead of host and port.
    pub(super) socket: Option<PathBuf>,
}

impl UpstreamUrl {
    /// Reads it. The path of a socket is relative to `base`.
    pub(super) fn parse(url: &str, base: &Path) -> Option<Self> {
        let Some(path) = url.strip_prefix("unix:") else {
            let (secure, host, port) = address(url)?;
            return Some(Self {
                secure,
                host,
                port,
                socket: None,
            });
        };
        Some(Self {
            secure: false,
            host: "localhost".to_owned(),
            port: 80,
            socket: Some(socket_path(path, base)?),
        })
    }

    /// The default name of the upstream: host and port, or the name of its socket's file.
    pub(super) fn name(&self) -> String {
        let file = self.socket.as_ref().and_then(|path| path.file_name());
        if let Some(file) = file {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let name = file.to_string_lossy();
            return name
                .chars()
                .map(|c| if plain(c) { c } else { '-' })
                .collect();
        }
        let (host, port) = (&self.host, self.port);
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }
}

/// The path of a Unix socket, relative to `base`; `None`: it names no file, or is too long for one.
pub(super) fn socket_path(path: &str, base: &Path) -> Option<PathBuf> {
    let is_file = !path.is_empty() && !path.ends_with('/') && !path.contains('\0');
    let path = base.join(path);
    (is_file && path.as_os_str().len() <= MAX_PATH).then_some(path)
}

/// Scheme, host and port. Nothing else may stand there: a path would be another root than the
/// editor sees, and a password belongs into a file.
fn address(url: &str) -> Option<(bool, String, u16)> {
    let (secure, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return None,
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let usual = if secure { 443 } else { 80 };
    if let Some(bracketed) = authority.strip_prefix('[') {
        let (host, port) = bracketed.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        let port = match port.strip_prefix(':') {
            Some(port) => number_of(port)?,
            None if port.is_empty() => usual,
            None => return None,
        };
        return Some((secure, host.to_owned(), port));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, number_of(port)?),
        None => (authority, usual),
    };
    host_name(host).then(|| (secure, host.to_ascii_lowercase(), port))
}

fn number_of(port: &str) -> Option<u16> {
    let digits = port.bytes().all(|b| b.is_ascii_digit());
    port.parse().ok().filter(|port| digits && *port > 0)
}

pub(super) fn host_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    !text.is_empty() && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_a_scheme_a_host_and_a_port() {
        for (url, secure, host, port) in [
            ("http://127.0.0.1:1880", false, "127.0.0.1", 1880),
            ("http://localhost/", false, "localhost", 80),
            ("https://Flows.Example.org", true, "flows.example.org", 443),
            ("https://[::1]:8443/", true, "::1", 8443),
            ("http://[::1]", false, "::1", 80),
        ] {
            assert_eq!(address(url), Some((secure, host.to_owned(), port)), "{url}");
        }
    }

    #[test]
    fn paths_passwords_and_other_schemes_are_no_part_of_an_upstream() {
        for url in [
            "",
            "http://",
            "127.0.0.1:1880",
            "ftp://x",
            "http://x/admin",
            "http://a:b@x",
            "http://x:0",
            "http://x:99999",
            "http://x:+80",
            "http://[::1",
            "http://[x]",
            "http://[::1]x",
            "http://x?y",
            "http://x y",
        ] {
            assert_eq!(address(url), None, "{url}");
        }
    }

    #[test]
    fn a_socket_is_a_path_relative_to_the_file_and_named_after_its_own() {
        let parse = |url: &str| UpstreamUrl::parse(url, Path::new("/etc/flowgate"));
        for (url, path, name) in [
            (
                "unix:/run/flowgate/engine.sock",
                "/run/flowgate/engine.sock",
                "engine.sock",
            ),
            ("unix:run/a b", "/etc/flowgate/run/a b", "a-b"),
        ] {
            let found = parse(url).expect("a socket");
            assert_eq!(found.socket.as_deref(), Some(Path::new(path)), "{url}");
            assert_eq!(found.name(), name, "{url}");
            assert!(!found.secure);
        }
        let long = format!("unix:/{}", "a".repeat(107));
        for url in ["unix:", "unix:/", "unix:/run/", &long, "UNIX:/run/a"] {
            assert_eq!(parse(url), None, "{url}");
        }
        let name = |url| parse(url).map(|found| found.name());
        assert_eq!(name("http://[::1]").as_deref(), Some("[::1]:80"));
        assert_eq!(name("http://a:1").as_deref(), Some("a:1"));
    }
}
