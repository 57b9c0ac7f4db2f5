//! The directives of nginx that are carried over, that a gateway needs no setting for, and that need the operator.

/// Directives that [`super::server`] and [`super::upstream`] read.
pub(super) const READ: [&str; 33] = [
    "http",
    "server",
    "upstream",
    "location",
    "listen",
    "server_name",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_protocols",
    "ssl_client_certificate",
    "ssl_verify_client",
    "ssl_crl",
    "client_max_body_size",
    "client_header_timeout",
    "client_body_timeout",
    "keepalive_timeout",
    "allow",
    "deny",
    "auth_basic",
    "set_real_ip_from",
    "real_ip_header",
    "add_header",
    "proxy_pass",
    "proxy_connect_timeout",
    "proxy_read_timeout",
    "proxy_ssl_certificate",
    "proxy_ssl_certificate_key",
    "proxy_ssl_trusted_certificate",
    "proxy_ssl_name",
    "proxy_ssl_verify",
    "include",
    "ssl",
    "return",
];

/// Directives that the gateway needs no setting for: it does this by itself, or has no such part.
pub(super) const NEEDLESS: [&str; 52] = [
    // The process, and files.
    "user",
    "worker_processes",
    "worker_rlimit_nofile",
    "pid",
    "events",
    "error_log",
    "access_log",
    "log_format",
    "load_module",
    "sendfile",
    "tcp_nopush",
    "tcp_nodelay",
    "types",
    "types_hash_max_size",
    "default_type",
    "server_tokens",
    "server_names_hash_bucket_size",
    "gzip",
    "gzip_vary",
    "gzip_proxied",
    "gzip_comp_level",
    "gzip_types",
    "gzip_min_length",
    "gzip_disable",
    "gzip_buffers",
    "gzip_http_version",
    "charset",
    "map_hash_bucket_size",
    // TLS: the gateway has modern settings of its own.
    "ssl_ciphers",
    "ssl_prefer_server_ciphers",
    "ssl_session_cache",
    "ssl_session_timeout",
    "ssl_session_tickets",
    "ssl_dhparam",
    "ssl_ecdh_curve",
    "ssl_buffer_size",
    "http2",
    "http2_max_concurrent_streams",
    // Requests to a Node-RED: streamed, with WebSockets, forwarded fields and kept connections.
    "map",
    "proxy_http_version",
    "proxy_buffering",
    "proxy_request_buffering",
    "proxy_buffers",
    "proxy_buffer_size",
    "proxy_busy_buffers_size",
    "proxy_redirect",
    "proxy_cache_bypass",
    "proxy_ssl_server_name",
    "proxy_ssl_session_reuse",
    "proxy_ssl_protocols",
    "reset_timedout_connection",
    "real_ip_recursive",
];

/// Header fields that the gateway sets by itself for an upstream.
pub(super) const FORWARDED: [&str; 10] = [
    "host",
    "upgrade",
    "connection",
    "x-real-ip",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-scheme",
    "proxy",
];

/// Directives with what to do instead.
const ADVICE: [(&str, &str); 12] = [
    (
        "auth_basic_user_file",
        "make an [[auth.user]] for each user, with a password of `flowgate hash-password`",
    ),
    (
        "auth_request",
        "users sign in to flowgate itself, or with [[auth.oidc]]",
    ),
    (
        "limit_req",
        "set rate_limit of an [[auth.user]] or a [[route]]",
    ),
    ("limit_conn", "see [limits] connections_per_address"),
    (
        "rewrite",
        "flowgate changes no paths but that of an [[upstream]] with strip",
    ),
    (
        "if",
        "flowgate has no conditions: see [[route]] and [policy]",
    ),
    (
        "root",
        "flowgate serves no files: let a flow or another server do it",
    ),
    (
        "alias",
        "flowgate serves no files: let a flow or another server do it",
    ),
    (
        "try_files",
        "flowgate serves no files: let a flow or another server do it",
    ),
    (
        "proxy_set_header",
        "flowgate sets Forwarded fields itself, and passes others of the client on",
    ),
    (
        "proxy_send_timeout",
        "[timeouts] body_idle ends connections that take nothing",
    ),
    ("satisfy", "flowgate asks for a sign-in and the network"),
];

/// What to do instead of a directive.
pub(super) fn advice(name: &str) -> &'static str {
    let found = ADVICE.iter().find(|(known, _)| *known == name);
    found.map_or("flowgate has no setting for it", |(_, advice)| advice)
}
