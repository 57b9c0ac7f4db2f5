//! Withholds what a flow, a package or an upstream says for more than its own paths: console,
//! editor and the endpoints of others have the same host.

use super::access_error::AccessError;
use super::error::Error;
use super::page_session;
use super::request_context::RequestContext;
use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// Sent by browsers with each request for the script of a service worker (Service Workers §6.1).
const SERVICE_WORKER: HeaderName = HeaderName::from_static("service-worker");

/// Removes what is valid beyond the path from a response, and cookies with the names of ours.
pub(super) fn withhold(headers: &mut HeaderMap) {
    let beyond = headers.keys().filter(|name| is_beyond(name.as_str()));
    let beyond: Vec<HeaderName> = beyond.cloned().collect();
    for name in beyond {
        headers.remove(name);
    }
    page_session::withhold(headers);
}

/// Returns whether browsers keep a response header field for the whole host, or for any of its
/// paths.
fn is_beyond(name: &str) -> bool {
    // For the host: RFC 6797, RFC 7838, RFC 7469, RFC 9163.
    matches!(
        name,
        "strict-transport-security"
            | "alt-svc"
            | "public-key-pins"
            | "public-key-pins-report-only"
            | "expect-ct"
    )
    // For the origin: Clear Site Data, Network Error Logging, Reporting, Client Hints, HTML
    // Standard §7.1.1, FedCM (Login Status), Storage Access, Shared Storage, Device Bound Session
    // Credentials.
    || matches!(
        name,
        "clear-site-data"
            | "nel"
            | "report-to"
            | "accept-ch"
            | "critical-ch"
            | "origin-agent-cluster"
            | "set-login"
            | "login-status"
            | "shared-storage-write"
            | "activate-storage-access"
            | "sec-session-registration"
            | "sec-session-challenge"
            | "secure-session-registration"
            | "secure-session-challenge"
    )
    // For paths that it names: Service Workers §6.1, RFC 9842 §2.1.
    || matches!(name, "service-worker-allowed" | "use-as-dictionary")
}

/// Refuses the script of a service worker for pages of editor or console: it would answer in their
/// place, also when the flow or the package is gone. It is for all pages below its own directory.
pub(super) fn check_service_worker(ctx: &RequestContext<'_>) -> Result<(), Error> {
    let asked = ctx.head.headers.get(SERVICE_WORKER);
    let is_script = asked.is_some_and(|value| value == HeaderValue::from_static("script"));
    if !is_script || !ctx.may_serve_pages || ctx.gateway.hosts.separates_endpoints() {
        return Ok(());
    }
    let scope = directory(&ctx.head.uri);
    let mut pages = ctx.gateway.backends.all().iter().flat_map(|backend| {
        let mount = &backend.mount;
        ["/", "/gateway/", "/debug/view/"].map(|page| {
            let path = format!("{}{}{page}", mount.path, mount.admin_root);
            path.to_ascii_lowercase()
        })
    });
    if pages.any(|page| page.starts_with(&scope)) {
        return Err(AccessError::ServiceWorker.into());
    }
    Ok(())
}

/// The path of a script up to its last slash: the widest scope of its service worker.
fn directory(script: &Uri) -> String {
    let path = script.path();
    let end = path.rfind('/').map_or(0, |slash| slash + 1);
    path.get(..end).unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_browsers_keep_for_the_host_is_withheld_and_the_rest_is_not() {
        let mut headers = HeaderMap::new();
        let fields = [
            "strict-transport-security",
            "clear-site-data",
            "service-worker-allowed",
            "login-status",
            "shared-storage-write",
            "sec-session-challenge",
            "sec-session-registration",
            "set-cookie",
            "content-type",
        ];
        for name in fields {
            headers.append(name, HeaderValue::from_static("a=1"));
            headers.append(name, HeaderValue::from_static("b=2"));
        }
        withhold(&mut headers);
        let mut kept: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["content-type", "set-cookie"]);
        assert_eq!(headers.len(), 4);
    }

    #[test]
    fn a_service_worker_is_for_the_directory_of_its_script() {
        for (uri, scope) in [
            ("/sw.js?x=/a/", "/"),
            ("/Dash/sw.js", "/dash/"),
            ("https://host/a/b/", "/a/b/"),
        ] {
            assert_eq!(directory(&uri.parse().unwrap()), scope);
        }
    }
}
