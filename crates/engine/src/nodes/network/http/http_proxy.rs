//! `http proxy`: the proxy that http request nodes go through; and which proxy a URL has, from the
//! node or from the environment (`http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`).

use super::cookie;
use crate::node::{BoxedNode, Build, Host, Node, boxed};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::rc::Rc;
use url::Url;
use value::{Failure, Message};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    url: SmolStr,
    noproxy: Json,
}

/// A proxy and the hosts that are called without it.
pub(in crate::nodes::network) struct Proxy {
    url: SmolStr,
    without: Vec<String>,
    credentials: Option<(String, String)>,
}

/// The proxy to connect to, and the credentials for it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(in crate::nodes::network) struct Gate {
    /// Its host.
    pub(in crate::nodes::network) host: String,
    /// Its port.
    pub(in crate::nodes::network) port: u16,
    /// `Proxy-Authorization`, if it wants one.
    pub(in crate::nodes::network) authorization: Option<String>,
    /// True if it is spoken to over TLS.
    pub(in crate::nodes::network) secure: bool,
}

struct HttpProxy(Option<Rc<Proxy>>);

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let credential = |name: &str| {
        let text = build
            .credentials
            .as_ref()
            .and_then(|c| c.get(name)?.as_str());
        text.unwrap_or_default().to_owned()
    };
    let credentials = (credential("username"), credential("password"));
    let names = properties.noproxy.as_array().into_iter().flatten();
    Ok(boxed(HttpProxy(Some(Rc::new(Proxy {
        url: properties.url,
        without: names.filter_map(Json::as_str).map(String::from).collect(),
        credentials: (credentials != Default::default()).then_some(credentials),
    })))))
}

impl Node for HttpProxy {
    fn start(&mut self, host: &mut Host<'_>) {
        if let Some(proxy) = self.0.take() {
            host.publish(proxy);
        }
    }

    fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {}
}

/// The proxy for a URL, if it has one; the error is that of a proxy's URL that is none.
pub(in crate::nodes::network) fn gate(
    url: &Url,
    proxy: Option<&Proxy>,
) -> Result<Option<Gate>, String> {
    let (text, credentials) = match proxy {
        Some(proxy) => {
            if is_without(url, proxy.without.iter().map(String::as_str)) {
                return Ok(None);
            }
            (proxy.url.to_string(), proxy.credentials.clone())
        }
        None => (of_environment(url), None),
    };
    if text.is_empty() {
        return Ok(None);
    }
    let text = if text.contains("://") {
        text
    } else {
        format!("{}://{text}", url.scheme())
    };
    let bad = || format!("Bad proxy url: {text}");
    let parsed = Url::parse(&text).map_err(|_| bad())?;
    // The parser leaves `%XX` in users and passwords.
    let own = (
        cookie::decode(parsed.username()),
        cookie::decode(parsed.password().unwrap_or_default()),
    );
    let credentials = credentials.or_else(|| (own != Default::default()).then_some(own));
    Ok(Some(Gate {
        host: parsed.host_str().ok_or_else(bad)?.to_owned(),
        port: parsed.port_or_known_default().ok_or_else(bad)?,
        authorization: credentials
            .map(|(user, password)| BASE64_STANDARD.encode(format!("{user}:{password}")))
            .map(|pair| format!("Basic {pair}")),
        secure: parsed.scheme() == "https",
    }))
}

fn of_environment(url: &Url) -> String {
    let variable = |name: &str| {
        [name.to_owned(), name.to_uppercase()]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
    };
    let without = variable("no_proxy").unwrap_or_default();
    if is_without(url, without.split([',', ' ', '\t', '\n'])) {
        return String::new();
    }
    variable(&format!("{}_proxy", url.scheme()))
        .or_else(|| variable("all_proxy"))
        .unwrap_or_default()
}

/// Returns whether one of these names the host: `*` is any, `.x` and `*.x` are all that end so,
/// `x:80` only that port.
fn is_without<'a>(url: &Url, mut names: impl Iterator<Item = &'a str>) -> bool {
    let host = url.host_str().unwrap_or_default();
    names.any(|entry| {
        let entry = entry.trim().to_lowercase();
        let (name, port) = match entry.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (name, port),
            _ => (entry.as_str(), ""),
        };
        if name.is_empty() || (!port.is_empty() && port.parse().ok() != url.port_or_known_default())
        {
            return false;
        }
        if name.starts_with(['.', '*']) {
            return host.ends_with(name.trim_start_matches('*'));
        }
        host == name
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn proxy(url: &str, without: &[&str]) -> Proxy {
        Proxy {
            url: url.into(),
            without: without.iter().map(|&w| w.to_owned()).collect(),
            credentials: None,
        }
    }

    #[test]
    fn the_nodes_proxy_is_used_unless_the_host_is_excluded() {
        let url = Url::parse("http://a.example.org:8080/x").unwrap();
        let gate = |proxy: &Proxy| super::gate(&url, Some(proxy)).unwrap();
        let found = gate(&proxy("http://u:p%40@gate:3128", &[])).unwrap();
        assert_eq!((found.host.as_str(), found.port), ("gate", 3128));
        assert_eq!(found.authorization.unwrap(), "Basic dTpwQA==");
        for name in [
            "a.example.org",
            "*.example.org",
            ".org",
            "*",
            "a.example.org:8080",
        ] {
            assert!(gate(&proxy("http://gate:1", &[name])).is_none(), "{name}");
        }
        for name in ["example.org", "a.example.org:80", ""] {
            assert!(gate(&proxy("http://gate:1", &[name])).is_some(), "{name}");
        }
        assert_eq!(gate(&proxy("gate:3128", &[])).unwrap().port, 3128);
    }
}
