//! What ACME (RFC 8555) needs: [`mod@order`] speaks with a certification authority, through
//! [`client`]; [`challenge`] proves to it, on the TLS listeners, that the names are ours; [`files`]
//! keeps the account and the certificate.

mod challenge;
mod client;
mod files;
mod order;

#[cfg(test)]
pub(super) use challenge::Challenges;
pub(super) use challenge::is_challenge;
pub(super) use files::{Lifetime, failed_order, kept, lifetime, write_failed_order};
pub(super) use order::{Error, order};

use crate::config;
use crate::upstream::{OpenError, Outbound, OutboundTls};

/// Whether orders could be made with the files that the config names; contacts no authority.
pub(super) fn check(acme: &config::Acme) -> Result<(), OpenError> {
    let url = acme.directory.uri();
    let tls = OutboundTls {
        ca_file: acme.ca_file.as_deref(),
        certificate: None,
    };
    let tls = (!acme.directory.is_loopback()).then_some(&tls);
    // An IPv6 address stands in brackets in a URL only.
    let host = url.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Outbound::open(host, 443, tls).map(drop)
}
