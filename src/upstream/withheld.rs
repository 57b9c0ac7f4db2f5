//! Header fields of a request that never reach an upstream or a flow, by name.
//!
//! Three kinds: those of the connection, those that name another request than the authorized one, and those by which a
//! proxy says who or where a client is. A program behind believes the last kind, so no client may set them.

use hyper::header::HeaderName;

/// Whole names, and beginnings of names, by their first letter, so that few are compared with each field.
const fn withheld(first: u8) -> (&'static [&'static str], &'static [&'static str]) {
    match first {
        b'a' => (&["authorization"], &[]),
        b'c' => (
            // The framing of what is really sent is made where it is written.
            &[
                "cf-pseudo-ipv4",
                "client-ip",
                "connection",
                "content-length",
            ],
            &["cf-access-", "cf-connecting-", "client-cert"],
        ),
        // The gateway has answered it.
        b'e' => (&["expect"], &[]),
        b'f' => (&["fastly-client-ip", "forwarded"], &[]),
        b'h' => (&["host", "http2-settings"], &[]),
        b'k' => (&["keep-alive"], &[]),
        // The twins of those that are spelled as the upstream does.
        b'n' => (&["node-red-api-version", "node-red-deployment-type"], &[]),
        b'p' => (
            &[
                // httpoxy (CVE-2016-5385)
                "proxy",
                "proxy-authenticate",
                "proxy-authorization",
                "proxy-connection",
            ],
            &[],
        ),
        b'r' => (&[], &["remote-"]),
        b's' => (
            &["service-api-version", "service-deployment-type"],
            &["ssl-client-"],
        ),
        b't' => (
            &[
                "te",
                "teleport-jwt-assertion",
                "trailer",
                "transfer-encoding",
                "true-client-ip",
            ],
            &["tailscale-"],
        ),
        b'u' => (&["upgrade"], &[]),
        b'v' => (&["via"], &[]),
        _ => (&[], &[]),
    }
}

/// The same of names that begin with `x-`, by their third letter.
const fn withheld_x(third: u8) -> (&'static [&'static str], &'static [&'static str]) {
    match third {
        b'a' => (
            &[
                "x-anonymous-consumer",
                "x-arr-clientcert",
                "x-azure-clientip",
                "x-azure-socketip",
            ],
            &[
                "x-amzn-mtls-",
                "x-amzn-oidc-",
                "x-appengine-user-",
                "x-auth-request-",
                "x-authenticated-",
                "x-authentik-",
            ],
        ),
        b'c' => (
            &["x-client-ip", "x-cluster-client-ip"],
            &["x-client-cert", "x-consumer-", "x-credential-"],
        ),
        b'e' => (&["x-email", "x-envoy-external-address"], &[]),
        b'f' => (&[], &["x-flowgate-", "x-forwarded-"]),
        b'g' => (
            &["x-goog-iap-jwt-assertion", "x-group", "x-groups"],
            &["x-goog-authenticated-user-"],
        ),
        // Another method or path than the one that was authorized; so are "method-override" and the two "-url".
        b'h' => (&["x-http-method", "x-http-method-override"], &[]),
        b'i' => (&["x-id-token"], &[]),
        b'j' => (&["x-jwt-assertion", "x-jwt-payload"], &[]),
        b'm' => (
            &["x-method-override"],
            &["x-ms-client-principal", "x-ms-token-"],
        ),
        b'o' => (&["x-original-forwarded-for", "x-original-url"], &[]),
        b'p' => (&[], &["x-pomerium-"]),
        b'r' => (
            &[
                "x-real-ip",
                "x-request-id",
                "x-rewrite-url",
                "x-role",
                "x-roles",
            ],
            &["x-remote-"],
        ),
        b's' => (&["x-ssl-cert"], &["x-ssl-client-"]),
        b't' => (&[], &["x-token-"]),
        b'u' => (
            &[
                "x-user",
                "x-user-email",
                "x-user-groups",
                "x-user-id",
                "x-user-name",
                "x-user-roles",
                "x-userinfo",
                "x-username",
            ],
            &[],
        ),
        b'v' => (&[], &["x-vouch-"]),
        b'w' => (&[], &["x-webauth-"]),
        _ => (&[], &[]),
    }
}

/// The fields of one request that may pass.
#[derive(Clone, Copy)]
pub struct Passing<'a> {
    /// What trusted proxies may set, and nobody else (`server.trusted_proxy_headers`).
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

/// Whether a request is refused that has this field in its trailers: what stays behind of a head, because it frames,
/// routes or authorises, and what says how to read the content (RFC 9110 §6.5.1).
pub(super) fn is_refused_in_trailers(name: &str) -> bool {
    let name = name.replace('_', "-");
    name.starts_with("content-") || name == "cookie" || is_withheld(&name)
}

fn is_withheld(name: &str) -> bool {
    let (names, beginnings) = match name.as_bytes() {
        [b'x', b'-', third, ..] => withheld_x(*third),
        [first, ..] => withheld(*first),
        [] => return false,
    };
    names.contains(&name) || beginnings.iter().any(|begin| name.starts_with(begin))
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
    fn every_name_stands_under_its_letter_and_no_beginning_covers_one() {
        for letter in 0..=u8::MAX {
            for (at, (names, beginnings)) in [(0, withheld(letter)), (2, withheld_x(letter))] {
                for name in names.iter().chain(beginnings) {
                    assert_eq!(name.as_bytes()[at], letter, "{name}");
                    assert_eq!(name.starts_with("x-"), at == 2);
                    assert_eq!(name.to_ascii_lowercase(), **name);
                    assert!(is_withheld(name));
                }
                for name in names {
                    let mut covered = beginnings.iter().map(|begin| name.starts_with(begin));
                    assert!(!covered.any(|covered| covered), "{name}");
                }
            }
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
