//! Header fields of a request that never reach an upstream or a flow, by name.
//!
//! Three kinds: those of the connection, those that name another request than the authorized one,
//! and those in which a proxy identifies or locates a client. A program behind believes the last
//! kind, so no client may set them.

use hyper::header::HeaderName;

/// What a field's name is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Withheld {
    /// The whole name.
    Name(&'static str),
    /// The beginning of names.
    Prefix(&'static str),
}
use Withheld::{Name, Prefix};

/// Sorted by their text; none begins with a [`Prefix`] other than its own.
const WITHHELD: &[Withheld] = &[
    Name("authorization"),
    Prefix("cf-access-"),
    Prefix("cf-connecting-"),
    Name("cf-pseudo-ipv4"),
    Prefix("client-cert"),
    Name("client-ip"),
    Name("connection"),
    // The writer of the request frames what it sends.
    Name("content-length"),
    // The gateway has answered it.
    Name("expect"),
    Name("fastly-client-ip"),
    // For the history and the audit log.
    Name("flowgate-message"),
    Name("forwarded"),
    Name("host"),
    Name("http2-settings"),
    Prefix("iv-"),
    Name("keep-alive"),
    Prefix("mellon-"),
    // The gateway adds these in the spelling of the upstream's dialect.
    Name("node-red-api-version"),
    Name("node-red-deployment-type"),
    Prefix("oidc-"),
    // httpoxy (CVE-2016-5385).
    Name("proxy"),
    Name("proxy-authenticate"),
    Name("proxy-authorization"),
    Name("proxy-connection"),
    Prefix("remote-"),
    Name("service-api-version"),
    Name("service-deployment-type"),
    Prefix("shib-"),
    Prefix("sm-"),
    Prefix("ssl-client-"),
    Prefix("tailscale-"),
    Name("te"),
    Name("teleport-jwt-assertion"),
    Name("trailer"),
    Name("transfer-encoding"),
    Name("true-client-ip"),
    Name("upgrade"),
    Name("via"),
    Prefix("x-amzn-mtls-"),
    Prefix("x-amzn-oidc-"),
    Name("x-anonymous-consumer"),
    Prefix("x-appengine-user-"),
    Name("x-arr-clientcert"),
    Prefix("x-auth-email"),
    Prefix("x-auth-group"),
    Prefix("x-auth-name"),
    Prefix("x-auth-request-"),
    Prefix("x-auth-role"),
    Prefix("x-auth-sub"),
    Prefix("x-auth-uid"),
    Prefix("x-auth-user"),
    Prefix("x-authenticated-"),
    Prefix("x-authentik-"),
    Name("x-azure-clientip"),
    Name("x-azure-socketip"),
    Prefix("x-client-cert"),
    Name("x-client-ip"),
    Name("x-cluster-client-ip"),
    Prefix("x-consumer-"),
    Prefix("x-credential-"),
    Name("x-email"),
    Name("x-envoy-external-address"),
    Prefix("x-flowgate-"),
    Prefix("x-forwarded-"),
    Prefix("x-goog-authenticated-user-"),
    Name("x-goog-iap-jwt-assertion"),
    Name("x-group"),
    Name("x-groups"),
    // Another method or path than the authorized one; so are `x-method-override`, `x-original-url`,
    // `x-rewrite-url`.
    Name("x-http-method"),
    Name("x-http-method-override"),
    Name("x-id-token"),
    Name("x-jwt-assertion"),
    Name("x-jwt-payload"),
    Name("x-method-override"),
    Prefix("x-ms-client-principal"),
    Prefix("x-ms-token-"),
    Name("x-original-forwarded-for"),
    Name("x-original-url"),
    Prefix("x-pomerium-"),
    Name("x-real-ip"),
    Prefix("x-remote-"),
    Name("x-request-id"),
    Name("x-rewrite-url"),
    Name("x-role"),
    Name("x-roles"),
    Name("x-ssl-cert"),
    Prefix("x-ssl-client-"),
    Prefix("x-token-"),
    Name("x-user"),
    Name("x-user-email"),
    Name("x-user-groups"),
    Name("x-user-id"),
    Name("x-user-name"),
    Name("x-user-roles"),
    Name("x-userinfo"),
    Name("x-username"),
    Prefix("x-vouch-"),
    Prefix("x-webauth-"),
];

/// Where the entries that begin with each byte start: those of byte `b` are
/// `STARTS[b]..STARTS[b + 1]`.
static STARTS: [usize; 257] = {
    let mut starts = [0; 257];
    let (mut byte, mut at) = (0, 0);
    while byte < starts.len() {
        while at < WITHHELD.len() && (WITHHELD[at].text().as_bytes()[0] as usize) < byte {
            at += 1;
        }
        starts[byte] = at;
        byte += 1;
    }
    starts
};

impl Withheld {
    const fn text(self) -> &'static str {
        match self {
            Name(text) | Prefix(text) => text,
        }
    }
}

/// The fields of one request that may pass.
#[derive(Clone, Copy)]
pub struct Passing<'a> {
    /// Fields that only trusted proxies may set (`server.trusted_proxy_headers`).
    pub from_proxies: &'a [HeaderName],
    /// True if the request came from one.
    pub trusted: bool,
}

impl Passing<'_> {
    /// Returns whether a field of this name stays behind.
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

/// Returns whether this field in the trailers causes a refusal: one withheld from a head, because
/// it frames, routes or authorises, or one that describes how to read the content (RFC 9110
/// §6.5.1).
pub(super) fn is_refused_in_trailers(name: &str) -> bool {
    let name = name.replace('_', "-");
    name.starts_with("content-") || name == "cookie" || is_withheld(&name)
}

fn is_withheld(name: &str) -> bool {
    let Some(first) = name.bytes().next().map(usize::from) else {
        return false;
    };
    // Most names that clients send begin as few entries do or none.
    let entries = WITHHELD.get(STARTS[first]..STARTS[first + 1]);
    let entries = entries.unwrap_or_default();
    // The last entry that is not behind the name is the only one that can be it or begin it.
    let after = entries.partition_point(|withheld| withheld.text() <= name);
    let entry = after.checked_sub(1).and_then(|at| entries.get(at));
    entry.is_some_and(|withheld| match withheld {
        Name(text) => *text == name,
        Prefix(text) => name.starts_with(text),
    })
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
    fn the_table_is_sorted_and_no_prefix_covers_another_entry() {
        let texts: Vec<&str> = WITHHELD.iter().map(|withheld| withheld.text()).collect();
        assert!(texts.is_sorted());
        for withheld in WITHHELD {
            let text = withheld.text();
            assert_eq!(text.to_ascii_lowercase(), text);
            assert!(is_withheld(text), "{text}");
            match withheld {
                Name(_) => assert!(!is_withheld(&format!("{text}!")), "{text}"),
                Prefix(_) => {
                    let covered = texts.iter().filter(|other| other.starts_with(text));
                    assert_eq!(covered.count(), 1, "{text}");
                    assert!(is_withheld(&format!("{text}z")), "{text}");
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
