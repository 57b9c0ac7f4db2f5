//! The hosts under which requests are answered, and those under which a caller needs no token.
//!
//! A page whose name an attacker resolves to the gateway (DNS rebinding) has the gateway's own
//! origin in its browser. Access without a token (an open API, the anonymous user, a client's
//! certificate) is therefore granted only under names that an attacker cannot have.

use crate::config::{Config, Host, Hosts};
use arc_swap::{ArcSwap, ArcSwapOption};
use std::sync::atomic::{AtomicBool, Ordering};

/// The hosts of one gateway; a reload replaces them.
pub struct ServedHosts {
    /// `[server] hosts`; `None`: every host is answered.
    listed: ArcSwapOption<Hosts>,
    /// `[server] endpoint_hosts`; `None`: endpoints are answered under the same hosts as everything
    /// else.
    endpoints: ArcSwapOption<Hosts>,
    /// The names in the served certificates.
    certified: ArcSwap<Hosts>,
    /// The hosts of upstreams, which change with a restart only.
    upstreams: Hosts,
    /// The machine's name.
    machine: Hosts,
    reported: AtomicBool,
}

impl ServedHosts {
    pub(super) fn new(config: &Config) -> Self {
        let upstreams = config.upstreams.iter();
        let upstreams = upstreams.flat_map(|upstream| &upstream.mount.hosts);
        Self {
            listed: ArcSwapOption::from_pointee(config.server.hosts.clone()),
            endpoints: ArcSwapOption::from_pointee(config.server.endpoint_hosts.clone()),
            certified: ArcSwap::default(),
            upstreams: Hosts::named(upstreams.map(String::as_str)),
            machine: Hosts::named(machine_name().as_deref()),
            reported: AtomicBool::new(false),
        }
    }

    pub(super) fn reload(&self, config: &Config) {
        let listed = config.server.hosts.clone();
        self.listed.store(listed.map(Into::into));
        let endpoints = config.server.endpoint_hosts.clone();
        self.endpoints.store(endpoints.map(Into::into));
    }

    /// Takes over the names in the served certificates.
    pub fn certify(&self, names: &[String]) {
        let names = names.iter().map(String::as_str);
        self.certified.store(Hosts::named(names).into());
    }

    /// Returns whether requests for this host are answered at all.
    pub fn answers(&self, host: Host<'_>) -> bool {
        let listed = self.listed.load();
        let listed = listed.as_ref();
        listed.is_none_or(|listed| listed.contains(host) || self.upstreams.contains(host))
            || self.is_of_endpoints(host)
    }

    /// Returns whether endpoints have hosts of their own.
    pub fn separates_endpoints(&self) -> bool {
        self.endpoints.load().is_some()
    }

    /// Returns whether this host is one of those.
    pub fn is_of_endpoints(&self, host: Host<'_>) -> bool {
        let endpoints = self.endpoints.load();
        endpoints.as_ref().is_some_and(|hosts| hosts.contains(host))
    }

    /// Returns whether every host is answered, so that none needs to be looked at.
    pub fn answers_all(&self) -> bool {
        self.listed.load().is_none()
    }

    /// Returns whether callers without a token are answered under this host.
    pub fn is_own(&self, host: Host<'_>) -> bool {
        if !self.answers_all() {
            return self.answers(host);
        }
        host.is_local()
            || self.machine.contains(host)
            || self.upstreams.contains(host)
            || self.is_of_endpoints(host)
            || self.certified.load().contains(host)
    }

    /// Returns whether this host is a name that the operator has written, or that a served
    /// certificate has; what is only local, as every address is, counts no more than "*".
    pub fn is_named(&self, host: Host<'_>) -> bool {
        let listed = self.listed.load();
        let mut listed = listed.iter().filter(|listed| !listed.is_everything());
        listed.any(|listed| listed.contains(host))
            || self.upstreams.contains(host)
            || self.certified.load().contains(host)
    }

    /// Returns whether a refused host has not been reported yet.
    pub fn is_first_refusal(&self) -> bool {
        !self.reported.swap(true, Ordering::Relaxed)
    }
}

/// The hosts under which the operations listener answers, beside local ones.
pub fn of_operations(config: &Config) -> Hosts {
    let machine = Hosts::named(machine_name().as_deref());
    let listed = config.server.hosts.clone().unwrap_or_default();
    machine.and(&listed).and(&config.operations_hosts)
}

/// The machine's name, if it is one that a host can have.
pub fn machine_name() -> Option<String> {
    let names = rustix::system::uname();
    let name = names.nodename().to_str().ok()?.to_ascii_lowercase();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}
