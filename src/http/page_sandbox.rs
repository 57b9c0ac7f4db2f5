//! The sandbox of pages that flows make: with it a browser gives them an origin of their own (HTML
//! Standard §7.1.3), and not that of console and editor, where tokens are in the browser's storage.
//!
//! The header field is added to those of the flow: a browser enforces every policy (CSP Level 3
//! §4.1), so none of the flow's own can take it away.

use super::path::Path;
use super::request_context::RequestContext;
use super::route::{Admin, Editor, Route, Target};
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue};

/// All that a page may do but `allow-same-origin`, and navigating a page around it.
const SANDBOX: HeaderValue = HeaderValue::from_static(
    "sandbox allow-downloads allow-forms allow-modals allow-orientation-lock allow-pointer-lock allow-popups \
     allow-presentation allow-scripts",
);

/// The file of the stock editor, other than its page, that is a page of the editor's origin: its
/// debug window.
const DEBUG_WINDOW: &str = "/debug/view/view.html";

/// Types that no browser shows as a document with scripts. Those of images, audio, video and fonts
/// are others; a viewer of PDF does not work in a sandbox.
const INERT: [&str; 11] = [
    "application/javascript",
    "application/json",
    "application/octet-stream",
    "application/pdf",
    "application/wasm",
    "application/zip",
    "text/css",
    "text/csv",
    "text/event-stream",
    "text/javascript",
    "text/plain",
];

/// Returns whether a flow may make the response to a request. At an upstream that is each path
/// which its editor and packages do not take, under whatever name; a `[[route]]` or
/// `[[admin_route]]` may exempt some.
pub(super) fn may_serve_pages(
    ctx: &RequestContext<'_>,
    path: &Path<'_>,
    route: &Route<'_>,
) -> bool {
    let is_editors = match route.target {
        Target::Admin(Admin::Editor(Editor::Page)) | Target::PackageAdmin => true,
        Target::Admin(Admin::Editor(Editor::DebugView)) => path.admin() == Some(DEBUG_WINDOW),
        _ => false,
    };
    // The gateway in front adds it to what its engine answers.
    !is_editors && !route.same_origin && !ctx.peer.is_gateway
}

/// Adds the sandbox to a response that a flow may have made, if a browser could show it as a page.
pub(super) fn add(ctx: &RequestContext<'_>, headers: &mut HeaderMap) {
    let gateway = ctx.gateway;
    if ctx.may_serve_pages
        && gateway.page_sandbox.is_active(gateway.auth.as_ref())
        && !is_inert(headers)
    {
        headers.append(CONTENT_SECURITY_POLICY, SANDBOX);
    }
}

/// Returns whether the type is one, and one of those that are no page: others, and none, may be.
fn is_inert(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else {
        return false;
    };
    let Ok(text) = only.to_str() else {
        return false;
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.+/".contains(&b);
    // A comma joins several types, of which a browser takes the last (Fetch Standard §2.2.2).
    if text.contains(',') || !essence.bytes().all(plain) {
        return false;
    }
    let is_media = essence.split_once('/').is_some_and(|(kind, name)| {
        matches!(kind, "image" | "audio" | "video" | "font")
            && !name.is_empty()
            && !name.contains("xml")
            && !name.contains('/')
    });
    is_media || INERT.contains(&essence.as_str())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_type_that_could_be_a_page_is_sandboxed() {
        let inert = |types: &[&str]| {
            let fields = types
                .iter()
                .map(|text| (CONTENT_TYPE, HeaderValue::from_str(text).unwrap()));
            is_inert(&fields.collect())
        };
        for page in [
            &[][..],
            &[""],
            &["text/html"],
            &["TEXT/HTML; charset=utf-8"],
            &["application/xhtml+xml"],
            &["image/svg+xml"],
            &["image/svg+XML;x"],
            &["text/xml"],
            &["application/rss+xml"],
            &["multipart/x-mixed-replace; boundary=x"],
            &["unknown/unknown"],
            &["*/*"],
            &["text"],
            &["text/plain", "text/html"],
            &["text/plain, text/html"],
            &["text/plain;a=\",\", text/html"],
            &["image/png/html"],
            &["text/ html"],
            &["image/"],
        ] {
            assert!(!inert(page), "{page:?}");
        }
        for other in [
            "text/plain; charset=utf-8",
            "application/json",
            "Image/PNG",
            "video/mp4",
            "application/pdf",
        ] {
            assert!(inert(&[other]), "{other}");
        }
    }

    #[test]
    fn a_sandbox_never_keeps_the_origin() {
        let sandbox = SANDBOX;
        let words = sandbox.to_str().unwrap();
        assert!(words.starts_with("sandbox ") && !words.contains("same-origin"));
        assert!(!words.contains("navigation") && !words.contains("escape"));
    }
}
