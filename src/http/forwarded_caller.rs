//! The caller as the gateway in front of this engine names it, in the header fields that it sets
//! for an upstream.
//!
//! That gateway has authorized the request; it knows the permissions of its paths, and of the paths
//! that npm packages add to the admin API only some. So these are authorized here, too, by the
//! caller's permissions.

use super::Peer;
use super::path::percent_decoded;
use super::route::Target;
use crate::auth::{AuthMethod, Caller, Permissions};
use crate::upstream::{PERMISSIONS, REQUEST_ID, USER};
use hyper::header::{HeaderMap, HeaderName};
use hyper::http::request::Parts;
use smol_str::SmolStr;

/// Characters of a request's id. Our choice: a gateway's has 16.
const MAX_ID: usize = 64;

/// Returns whether the gateway in front has authorized a request for this target.
pub(super) fn is_authorized(peer: &Peer, target: Target) -> bool {
    peer.is_gateway && target != Target::PackageAdmin
}

/// The caller. Flows and packages are shown its own permissions; everything else is authorized
/// already, and done as a whole. A gateway that names no permissions grants none to packages.
pub(super) fn read(headers: &HeaderMap, target: Target) -> Caller {
    let user = field(headers, &USER).map(decoded).unwrap_or_default();
    let permissions = match target {
        Target::Endpoint | Target::PackageAdmin => {
            let names = field(headers, &PERMISSIONS).unwrap_or_default();
            Permissions::of(names.split_ascii_whitespace().map(decoded).collect())
        }
        _ => Permissions::all(),
    };
    Caller {
        known: if user.is_empty() {
            AuthMethod::Anonymous
        } else {
            AuthMethod::Gateway
        },
        user,
        permissions,
    }
}

/// The id that the gateway in front has given the request, so that the logs of both have the same.
pub(super) fn request_id(peer: &Peer, head: &Parts) -> Option<SmolStr> {
    let id = field(&head.headers, &REQUEST_ID).filter(|_| peer.is_gateway)?;
    let plain = id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    (plain && !id.is_empty() && id.len() <= MAX_ID).then(|| id.into())
}

fn field<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn decoded(text: &str) -> SmolStr {
    String::from_utf8_lossy(&percent_decoded(text.as_bytes())).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn headers(fields: &[(&HeaderName, &'static str)]) -> HeaderMap {
        let fields = fields.iter();
        fields
            .map(|(name, value)| ((*name).clone(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn flows_and_packages_get_the_callers_own_permissions() {
        let sent = headers(&[
            (&USER, "%C3%84nn%20B"),
            (&PERMISSIONS, "http.read flows.read:L%20*"),
        ]);
        for target in [Target::Endpoint, Target::PackageAdmin] {
            let caller = read(&sent, target);
            assert_eq!(caller.user, "Änn B");
            assert!(caller.is_known() && caller.permissions.cover("http.read"));
            assert!(!caller.permissions.cover("flows.write"));
            assert_eq!(caller.permissions.user[1], "flows.read:L *");
        }
        assert!(read(&sent, Target::Deploy).permissions.cover("flows.write"));
    }

    #[test]
    fn a_gateway_that_names_no_permissions_grants_none_to_packages() {
        let caller = read(&HeaderMap::new(), Target::PackageAdmin);
        assert!(!caller.is_known() && !caller.permissions.cover("nodes.read"));
    }
}
