//! What is allowed in a configuration, and is a mistake more often than not.

use super::{Auth, Config, EngineListen, Hosts, Upstream};
use std::net::SocketAddr;

impl Config {
    /// Warnings for the operator at start.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let accounts = self.upstreams.iter().filter_map(Upstream::account_warning);
        let others = self.open_warning().into_iter().chain(self.trust_warning());
        let others = others.chain(self.rebinding_warning()).chain(accounts);
        let others = others.chain(self.plain_store_warning());
        let others = others.chain(self.unserved_certificate_warning());
        others.chain(self.grant_warnings())
    }

    /// The shared database is reached without TLS.
    fn plain_store_warning(&self) -> Option<String> {
        let shared = self.storage.shared.as_ref()?;
        shared.is_plain().then(|| {
            "storage.url has sslmode=disable: whoever is between here and the database reads and changes sessions, and \
             so acts as any user"
                .to_owned()
        })
    }

    /// A certificate is ordered, and there is no listener that the authority can validate it at.
    fn unserved_certificate_warning(&self) -> Option<String> {
        let is_unserved = self.tls.acme.is_some() && self.server.listen.is_empty();
        is_unserved.then(|| {
            "[tls.acme] has no effect: server.listen is empty, so no TLS listener shows the certificate".to_owned()
        })
    }

    /// Grants for upstreams that are not there give nothing.
    fn grant_warnings(&self) -> Vec<String> {
        let issuers = self.auth.iter().flat_map(|auth| &auth.jwt);
        let providers = self.auth.iter().flat_map(|auth| &auth.oidc);
        let grants = issuers.map(|issuer| &issuer.grants);
        let grants = grants.chain(providers.map(|provider| &provider.grants));
        let named = grants.flatten().filter_map(|grant| grant.upstream.as_ref());
        let is_there = |name: &&String| {
            let mut upstreams = self.upstreams.iter();
            upstreams.any(|upstream| upstream.mount.name == **name)
        };
        let absent = named.filter(|name| !is_there(name));
        let sentence = |name| {
            format!("a grant is for the upstream \"{name}\", which is not there: it gives nothing")
        };
        absent.map(sentence).collect()
    }

    /// Every client is a trusted proxy.
    fn trust_warning(&self) -> Option<String> {
        let network = self.server.trusted_proxies.everything()?;
        Some(format!(
            "server.trusted_proxies has {network}: every client is believed what it says of its own address, so the \
             throttle, the limits for one address, the audit log and the access log can all be deceived"
        ))
    }

    /// Callers without a token are answered under every host.
    fn rebinding_warning(&self) -> Option<String> {
        let closed = |auth: &Auth| auth.anonymous.is_none() && self.tls.clients.is_none();
        let everything = self.server.hosts.as_ref().is_some_and(Hosts::is_everything);
        (everything && !self.auth.as_ref().is_some_and(closed)).then(|| {
            "server.hosts has \"*\" and not everyone needs a token: a web page of any name that resolves to the \
             gateway (DNS rebinding) acts for its reader"
                .to_owned()
        })
    }

    /// No sign-in is required: the first of [`warnings`](Self::warnings).
    pub fn open_warning(&self) -> Option<String> {
        if self.auth.is_some() || matches!(self.engine.listen, Some(EngineListen::Unix(_))) {
            return None;
        }
        let listen: Vec<String> = self
            .server
            .listen
            .iter()
            .chain(&self.server.plain)
            .map(SocketAddr::to_string)
            .collect();
        Some(format!(
            "authentication is off: everyone who reaches {} may read and replace the flows; an [auth] table requires a sign-in",
            listen.join(", ")
        ))
    }
}
