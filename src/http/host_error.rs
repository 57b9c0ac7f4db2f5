//! Why a host is not answered.

/// Why the host of a request is not answered, or not with what is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum HostError {
    /// No runtime has the host.
    #[error("this host is not served here")]
    Unknown,
    /// `[server] hosts` does not list it.
    #[error("this host is not answered: it is not in [server] hosts of gateway.toml")]
    NotListed,
    /// It could be another's name for the gateway, and the caller has no token.
    #[error(
        "without a token this host is not answered: it is no address and no name of this gateway; names are added in \
         [server] hosts of gateway.toml"
    )]
    NotOwn,
    /// It is not in `[server] endpoint_hosts`, and an endpoint is asked for.
    #[error(
        "endpoints are not answered under this host, but under those of [server] endpoint_hosts"
    )]
    NotOfEndpoints,
    /// It is in `[server] endpoint_hosts`, and something else than an endpoint is asked for.
    #[error(
        "this host is one of [server] endpoint_hosts: nothing but endpoints is answered under it"
    )]
    OfEndpoints,
}
