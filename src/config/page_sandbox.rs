//! Why pages that flows serve are sandboxed in browsers, and the routes that are not.
//!
//! A page of the origin of console and editor reads their tokens in the browser's storage. A user
//! who may change some flows only, or needs approval, could take those of others so.

use super::permissions::writes_some_flows_only;
use super::{Config, Route};

/// The rest of the notice.
const REMEDY: &str = "their scripts have an origin of their own (\"null\"). With server.endpoint_hosts they have hosts of \
    their own instead; same_origin = true in a [[route]] is for pages that only trusted users can change";

impl Config {
    /// Returns why pages of endpoints are sandboxed; none: no setting requires it. Tokens with a
    /// scope of some flows require it too.
    pub fn sandbox_reasons(&self) -> Vec<String> {
        if self.auth.is_none() || self.server.endpoint_hosts.is_some() {
            return Vec::new();
        }
        let held = self.held().into_iter();
        let limited = held.filter(|(_, list)| writes_some_flows_only(list));
        let mut reasons: Vec<String> = limited
            .map(|(whose, _)| format!("{whose} may change some flows only"))
            .collect();
        let upstreams = self.upstreams.iter();
        let mut policies = upstreams
            .map(|upstream| &upstream.mount.policy)
            .chain([&self.policy]);
        if policies.any(|policy| !policy.approval.flows.is_empty()) {
            reasons.push("changes need approval (policy.approve)".to_owned());
        }
        reasons
    }

    /// Returns the notice that pages of endpoints are sandboxed, with the reasons; `None`: no
    /// setting requires it.
    pub fn sandbox_notice(&self) -> Option<String> {
        let reasons = self.sandbox_reasons();
        (!reasons.is_empty()).then(|| {
            format!(
                "pages of endpoints are sandboxed, because {}: {REMEDY}",
                reasons.join(", and ")
            )
        })
    }

    /// Names each route whose pages are not sandboxed.
    pub(super) fn same_origin_warnings(&self) -> Vec<String> {
        let named = |table: &'static str| {
            move |route: &Route| {
                let upstream = route.upstream.as_ref();
                let upstream = upstream
                    .map_or_else(String::new, |name| format!(" of the upstream \"{name}\""));
                let path = &route.path;
                if self.server.endpoint_hosts.is_some() {
                    format!(
                        "the [[{table}]] {path}{upstream} has same_origin = true without effect: endpoints have hosts of their own"
                    )
                } else {
                    format!(
                        "the [[{table}]] {path}{upstream} has same_origin = true: a user who can change its pages can take the tokens of all users of console and editor who open them"
                    )
                }
            }
        };
        let is_named = |route: &&Route| route.same_origin;
        let routes = self.routes.iter().filter(is_named).map(named("route"));
        let admin = self.admin_routes.iter().filter(is_named);
        routes.chain(admin.map(named("admin_route"))).collect()
    }
}
