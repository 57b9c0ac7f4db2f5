//! Rewrites locations in responses: an upstream's lack the path that leads to it and the gateway's
//! address.
//!
//! Knows `Location`, `Content-Location` and the paths of cookies. Bodies stay as they are: the
//! editor's paths are relative, and those of flows' pages their own affair.

use super::Upstream;
use hyper::header::{CONTENT_LOCATION, HeaderMap, HeaderValue, LOCATION, SET_COOKIE};

impl Upstream {
    /// Makes an answer's headers true for a client for whom this `prefix` stands before every path.
    pub fn rewrite(&self, headers: &mut HeaderMap, prefix: &str) {
        for name in [LOCATION, CONTENT_LOCATION] {
            let own = |value: &HeaderValue| self.local(value.to_str().ok()?, prefix);
            if let Some(local) = headers.get(&name).and_then(own)
                && let Ok(value) = HeaderValue::try_from(local)
            {
                headers.insert(name, value);
            }
        }
        if prefix.is_empty() {
            return;
        }
        if let hyper::header::Entry::Occupied(mut cookies) = headers.entry(SET_COOKIE) {
            for value in cookies.iter_mut() {
                let below = value.to_str().ok().and_then(|text| cookie(text, prefix));
                if let Some(below) = below.and_then(|text| HeaderValue::try_from(text).ok()) {
                    *value = below;
                }
            }
        }
    }

    /// The same place as a path of ours; `None`: it is right as it is, or elsewhere.
    fn local(&self, location: &str, prefix: &str) -> Option<String> {
        let path = if location.starts_with('/') && !location.starts_with("//") {
            location
        } else {
            self.without_own_address(location)?
        };
        match path.starts_with('/') {
            _ if path.is_empty() => Some(format!("{prefix}/")),
            true if path == location && prefix.is_empty() => None,
            true => Some(format!("{prefix}{path}")),
            // nothing but a query
            false => Some(format!("{prefix}/{path}")),
        }
    }

    /// The part after the upstream's own scheme and authority (RFC 3986 §3).
    fn without_own_address<'l>(&self, location: &'l str) -> Option<&'l str> {
        let config = &self.0.config;
        let (scheme, usual) = if config.secure {
            ("https", 443)
        } else {
            ("http", 80)
        };
        let (said, rest) = location.split_once("://")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, usual),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let own = said.eq_ignore_ascii_case(scheme)
            && host.eq_ignore_ascii_case(&config.host)
            && port == config.port;
        own.then_some(path)
    }
}

/// A cookie whose path has the prefix; `None`: it has no path, or must keep it (`__Host-`, RFC
/// 6265bis §4.1.3.2).
fn cookie(text: &str, prefix: &str) -> Option<String> {
    if text
        .get(..7)
        .is_some_and(|start| start.eq_ignore_ascii_case("__Host-"))
    {
        return None;
    }
    let mut placed = false;
    let parts = text.split(';').enumerate().map(|(n, part)| {
        let path = part.trim_start().split_once('=');
        let path = path.filter(|(name, _)| n > 0 && name.trim().eq_ignore_ascii_case("path"));
        match path {
            Some((name, value)) if value.trim().starts_with('/') => {
                placed = true;
                let value = value.trim();
                let value = if value == "/" { "" } else { value };
                format!(" {name}={prefix}{value}")
            }
            _ => part.to_owned(),
        }
    });
    let text = parts.collect::<Vec<_>>().join(";");
    placed.then_some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::metrics::Metrics;
    use std::path::Path;

    fn upstream(url: &str) -> Upstream {
        let text = format!("[upstream]\nurl = \"{url}\"");
        let mut config = Config::parse(&text, "gateway.toml", Path::new("")).unwrap();
        Upstream::open(config.upstreams.remove(0), &Metrics::new()).unwrap()
    }

    #[test]
    fn locations_of_the_upstream_are_rewritten_below_the_prefix() {
        let plain = upstream("http://127.0.0.1:1880");
        for (said, placed) in [
            ("/", Some("/p/")),
            ("/a?b", Some("/p/a?b")),
            ("http://127.0.0.1:1880", Some("/p/")),
            ("HTTP://127.0.0.1:1880/a", Some("/p/a")),
            ("http://127.0.0.1:1880?b", Some("/p/?b")),
            ("http://127.0.0.1/a", None),
            ("https://127.0.0.1:1880/a", None),
            ("http://127.0.0.1:1880.example.org/a", None),
            ("http://127.0.0.1:1880@example.org/a", None),
            ("https://example.org/a", None),
            ("//example.org/a", None),
            ("a/b", None),
            ("", None),
        ] {
            assert_eq!(plain.local(said, "/p").as_deref(), placed, "{said}");
        }
        assert_eq!(plain.local("/a", ""), None);
        assert_eq!(
            plain.local("http://127.0.0.1:1880/a", "").as_deref(),
            Some("/a")
        );
        let secure = upstream("https://[::1]");
        assert_eq!(
            secure.local("https://[::1]/a", "/p").as_deref(),
            Some("/p/a")
        );
        assert_eq!(
            secure.local("https://[::1]:443/a", "/p").as_deref(),
            Some("/p/a")
        );
    }

    #[test]
    fn cookies_stay_below_the_prefix() {
        for (said, placed) in [
            ("a=b; Path=/; HttpOnly", Some("a=b; Path=/p; HttpOnly")),
            ("a=b;path=/x", Some("a=b; path=/p/x")),
            ("path=/; Secure", None),
            ("a=b", None),
            ("a=b; Path=x", None),
            ("__Host-a=b; Path=/; Secure", None),
        ] {
            assert_eq!(cookie(said, "/p").as_deref(), placed, "{said}");
        }
    }
}
