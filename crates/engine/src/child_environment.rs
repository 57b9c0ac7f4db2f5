//! The environment of the node host, and of npm.

use std::ffi::OsString;

/// The variables of our environment that they get: for finding programs and time zones, and for
/// proxies and certificate authorities, without which packages reach nothing in many networks. None
/// of the gateway's secrets.
const VARIABLES: [&str; 18] = [
    "PATH",
    "TZ",
    "LANG",
    "LC_ALL",
    "NODE_ENV",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "XDG_RUNTIME_DIR",
];

/// These variables with their values, as far as they are set.
pub fn child_environment() -> impl Iterator<Item = (&'static str, OsString)> {
    let variables = VARIABLES.into_iter();
    variables.filter_map(|name| Some((name, std::env::var_os(name)?)))
}
