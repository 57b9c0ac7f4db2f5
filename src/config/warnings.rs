//! What is allowed in a configuration, and is a mistake more often than not.

use super::error::nearest;
use super::permissions::permission_hint;
use super::{Auth, Config, EngineListen, Hosts, Upstream};
use std::net::SocketAddr;

impl Config {
    /// Warnings for the operator at start.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let accounts = self.upstreams.iter().filter_map(Upstream::account_warning);
        let others = self.open_warning().into_iter().chain(self.trust_warning());
        let others = others.chain(self.rebinding_warning()).chain(accounts);
        let others = others.chain(self.plain_store_warning());
        let others = others.chain(self.unsigned_sessions_warning());
        let others = others.chain(self.unserved_certificate_warning());
        let others = others.chain(self.grant_warnings());
        let others = others.chain(self.deployer_warning());
        let others = others.chain(self.same_origin_warnings());
        others.chain(self.permission_warnings())
    }

    /// Permissions with whose they are, for the operator.
    pub(super) fn held(&self) -> Vec<(String, &[String])> {
        let mut held = Vec::new();
        if let Some(auth) = &self.auth {
            let users = auth.users.iter();
            held.extend(
                users.map(|user| (format!("the user \"{}\"", user.name), &user.permissions[..])),
            );
            held.extend(
                auth.anonymous
                    .iter()
                    .map(|list| ("auth.anonymous".to_owned(), &list[..])),
            );
            let issuers = auth.jwt.iter().map(|issuer| (&issuer.name, &issuer.grants));
            let providers = auth
                .oidc
                .iter()
                .map(|provider| (&provider.name, &provider.grants));
            for (name, grants) in issuers.chain(providers) {
                held.extend(
                    grants
                        .iter()
                        .map(|grant| (format!("a grant of \"{name}\""), &grant.permissions[..])),
                );
            }
        }
        for upstream in &self.upstreams {
            let mount = &upstream.mount;
            held.extend(mount.permissions.iter().map(|(user, list)| {
                (
                    format!("the user \"{user}\" at the upstream \"{}\"", mount.name),
                    &list[..],
                )
            }));
        }
        held
    }

    /// No user of the configuration may deploy, as after the first one was added in place of the
    /// `admin` of the first start.
    fn deployer_warning(&self) -> Option<String> {
        let auth = self.auth.as_ref().filter(|auth| !auth.users.is_empty())?;
        let deploys = |name: &String| {
            matches!(name.as_str(), "*" | "write" | "*.write") || name.starts_with("flows.write")
        };
        let held = self.held();
        let mut held = held.iter().flat_map(|(_, list)| list.iter());
        let names: Vec<&str> = auth.users.iter().map(|user| user.name.as_str()).collect();
        (!held.any(deploys)).then(|| {
            format!("no user may deploy, for want of flows.write ({}), and the `admin` of the first start is there only without any [[auth.user]]", names.join(", "))
        })
    }

    /// Why a permission may be a mistake; `None`: something needs it.
    pub fn permission_hint(&self, name: &str) -> Option<String> {
        let routes = self.routes.iter().chain(&self.admin_routes);
        let of_routes = routes.filter_map(|route| route.permission.as_deref());
        if let Some(kind) = name
            .strip_prefix("node-types:")
            .filter(|kind| !kind.is_empty())
        {
            return self.node_type_hint(kind);
        }
        permission_hint(name, &of_routes.collect::<Vec<_>>())
    }

    /// Why a permission for a type of nodes may be a mistake; `None`: a policy restricts it.
    fn node_type_hint(&self, kind: &str) -> Option<String> {
        let policies = self.upstreams.iter().map(|upstream| &upstream.mount.policy);
        let policies = policies.chain([&self.policy]);
        let restricted = policies.flat_map(|policy| policy.restrict_types.clone());
        let restricted: Vec<String> = restricted.collect();
        let is_pattern = kind.contains(['*', '?']);
        (!is_pattern && !restricted.iter().any(|one| one == kind)).then(|| {
            let meant = nearest(kind, &restricted);
            let meant = meant.map_or_else(String::new, |meant| {
                format!("; did you mean \"node-types:{meant}\"?")
            });
            format!("no [policy] restrict_types needs the permission \"node-types:{kind}\"{meant}")
        })
    }

    /// Permissions that nothing needs.
    fn permission_warnings(&self) -> Vec<String> {
        let hint = |whose: String, list: &[String]| {
            let hints = list.iter().filter_map(|name| self.permission_hint(name));
            hints
                .map(|hint| format!("{whose}: {hint}"))
                .collect::<Vec<_>>()
        };
        self.held()
            .into_iter()
            .flat_map(|(whose, list)| hint(whose, list))
            .collect()
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

    /// The rows of sessions in the shared database have no MAC.
    fn unsigned_sessions_warning(&self) -> Option<String> {
        let storage = &self.storage;
        let is_unsigned = storage.shared.is_some() && storage.credential_secret.is_none();
        (is_unsigned && self.auth.is_some()).then(|| {
            "storage.url without storage.credential_secret: whoever can write to the database can insert a session, and \
             acts as any user; with the secret, the same at all gateways, rows carry a MAC"
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
