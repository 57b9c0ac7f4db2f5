//! Header fields of a request that never reach an upstream or a flow, by name.
//!
//! Three kinds: those of the connection, those that name another request than the authorized one, and those in which a
//! proxy identifies or locates a client. A program behind believes the last kind, so no client may set them.

use hyper::header::HeaderName;

/// Whole names, sorted.
const NAMES: &[&str] = &[
    "authorization",
    "cf-pseudo-ipv4",
    "client-ip",
    "connection",
    // The writer of the request frames what it sends.
    "content-length",
    // The gateway has answered it.
    "expect",
    "fastly-client-ip",
    // For the history and the audit log.
    "flowgate-message",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    // The gateway adds these in the spelling of the upstream's dialect.
    "node-red-api-version",
    "node-red-deployment-type",
    // httpoxy (CVE-2016-5385).
    "proxy",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "service-api-version",
    "service-deployment-type",
    "te",
    "teleport-jwt-assertion",
    "trailer",
    "transfer-encoding",
    "true-client-ip",
    "upgrade",
    "via",
    "x-anonymous-consumer",
    "x-arr-clientcert",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-email",
    "x-envoy-external-address",
    "x-goog-iap-jwt-assertion",
    "x-group",
    "x-groups",
    // Another method or path than the authorized one; so are `x-method-override`, `x-original-url`, `x-rewrite-url`.
    "x-http-method",
    "x-http-method-override",
    "x-id-token",
    "x-jwt-assertion",
    "x-jwt-payload",
    "x-method-override",
    "x-original-forwarded-for",
    "x-original-url",
    "x-real-ip",
    "x-request-id",
    "x-rewrite-url",
    "x-role",
    "x-roles",
    "x-ssl-cert",
    "x-user",
    "x-user-email",
    "x-user-groups",
    "x-user-id",
    "x-user-name",
    "x-user-roles",
    "x-userinfo",
    "x-username",
];

/// Beginnings of names, sorted; none begins with another.
const PREFIXES: &[&str] = &[
    "cf-access-",
    "cf-connecting-",
    "client-cert",
    "iv-",
    "mellon-",
    "oidc-",
    "remote-",
    "shib-",
    "sm-",
    "ssl-client-",
    "tailscale-",
    "x-amzn-mtls-",
    "x-amzn-oidc-",
    "x-appengine-user-",
    "x-auth-email",
    "x-auth-group",
    "x-auth-name",
    "x-auth-request-",
    "x-auth-role",
    "x-auth-sub",
    "x-auth-uid",
    "x-auth-user",
    "x-authenticated-",
    "x-authentik-",
    "x-client-cert",
    "x-consumer-",
    "x-credential-",
    "x-flowgate-",
    "x-forwarded-",
    "x-goog-authenticated-user-",
    "x-ms-client-principal",
    "x-ms-token-",
    "x-pomerium-",
    "x-remote-",
    "x-ssl-client-",
    "x-token-",
    "x-vouch-",
    "x-webauth-",
];

/// The fields of one request that may pass.
#[derive(Clone, Copy)]
pub struct Passing<'a> {
    /// Fields that only trusted proxies may set (`server.trusted_proxy_headers`).
    pub from_proxies: &'a [HeaderName],
    /// Whether the request came from one.
    pub trusted: bool,
}

impl Passing<'_> {
    /// Whether a field of this name stays behind.
    pub(super) fn withholds(self, name: &HeaderName) -> bool {
        if !self.from_proxies.is_empty() && self.from_proxies.contains(name) {
            return !self.trusted;
        }
        let name = name.as_str();
        if name.contains('_') {
            // CGI and its kin read `_` and `-` alike, so both spellings are one name.
            let name = name.replace('_', "-");
            return is_withheld(&name)
                || self.from_proxies.iter().any(|ours| ours.as_str() == name);
        }
        is_withheld(name)
    }
}

/// Whether this field in the trailers causes a refusal: one withheld from a head, because it frames, routes or
/// authorises, or one that describes how to read the content (RFC 9110 §6.5.1).
pub(super) fn is_refused_in_trailers(name: &str) -> bool {
    let name = name.replace('_', "-");
    name.starts_with("content-") || name == "cookie" || is_withheld(&name)
}

fn is_withheld(name: &str) -> bool {
    let after = PREFIXES.partition_point(|prefix| *prefix <= name);
    let prefix = after.checked_sub(1).and_then(|at| PREFIXES.get(at));
    prefix.is_some_and(|prefix| name.starts_with(prefix)) || NAMES.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn withholds(name: &str, from_proxies: &[HeaderName], trusted: bool) -> bool {
        let passing = Passing {
            from_proxies,
            trusted,
        };
        name.parse().is_ok_and(|name| passing.withholds(&name))
    }

    #[test]
    fn the_tables_are_sorted_and_no_entry_covers_another() {
        assert!(NAMES.is_sorted() && PREFIXES.is_sorted());
        for prefix in PREFIXES {
            let all = || NAMES.iter().chain(PREFIXES);
            assert_eq!(
                all().filter(|name| name.starts_with(prefix)).count(),
                1,
                "{prefix}"
            );
            assert!(is_withheld(prefix) && is_withheld(&format!("{prefix}z")));
        }
        for name in NAMES {
            assert!(is_withheld(name), "{name}");
            assert!(!is_withheld(&format!("{name}!")), "{name}");
        }
        for name in NAMES.iter().chain(PREFIXES) {
            assert_eq!(name.to_ascii_lowercase(), **name);
        }
    }

    #[test]
    fn ordinary_fields_of_clients_pass() {
        for name in [
            "accept",
            "accept-language",
            "cache-control",
            "content-type",
            "cookie",
            "dnt",
            "if-none-match",
            "origin",
            "range",
            "referer",
            "sec-fetch-site",
            "sec-websocket-key",
            "user-agent",
            "x-access-token",
            "x-api-key",
            "x-auth-token",
            "x-csrf-token",
            "x-requested-with",
            "x-user-agent",
            "x-custom",
            "x_custom",
            "cf-ray",
            "traceparent",
            "authentication-info",
        ] {
            assert!(!withholds(name, &[], false), "{name}");
        }
    }

    #[test]
    fn a_field_of_trusted_proxies_passes_from_them_only_and_in_one_spelling() {
        let names = ["x-authentik-username", "x-ours"].map(HeaderName::from_static);
        for name in ["x-authentik-username", "x-ours"] {
            assert!(!withholds(name, &names, true), "{name}");
            assert!(withholds(name, &names, false), "{name}");
        }
        for name in [
            "x_authentik_username",
            "x_ours",
            "x-authentik-groups",
            "remote-user",
        ] {
            assert!(withholds(name, &names, true), "{name}");
            assert!(withholds(name, &names, false), "{name}");
        }
        assert!(!withholds("x-theirs", &names, false));
    }
}
