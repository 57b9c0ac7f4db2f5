//! The packages of the node host, as it reports them: whether it can be reached over HTTP, the
//! routes that packages add to the admin API (`RED.httpAdmin`), the types that packages have, and
//! the packages that are left out because they end the host.
//!
//! The engine's thread writes it, every worker reads it without a lock.

use crate::http_path::PathPattern;
use crate::script::regexp;
use arc_swap::ArcSwap;
use hyper::Method;
use rustc_hash::FxHashSet;
use serde::Deserialize;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use value::Failure;

/// Routes that the host may report. More end it.
pub(crate) const MAX_REPORTED: usize = 10_000;

/// Routes of all packages, at most, and those of them with regular expressions. Our choice:
/// packages have some tens each.
const MAX_ROUTES: usize = 1_000;
const MAX_PATTERNS: usize = 500;

/// Bytes of the path of a route, at most.
const MAX_PATH: usize = 1024;

/// Steps that the regular expressions of all routes may take for one request, at worst: some
/// milliseconds, in which a worker answers no other one. Routes beyond are not found; one that may
/// take more by itself never is.
const MATCH_STEPS: f64 = 1e6;

/// Bytes of a path that are logged.
const MAX_LOGGED: usize = 120;

/// Who decides whether a caller may use a route that a package has added to the admin API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageAccess {
    /// The package: the route asks for permissions (`RED.auth.needsPermission`).
    Package,
    /// The gateway: the route asks for none.
    Gateway,
}

/// The packages.
#[derive(Debug, Default)]
pub(crate) struct PackageState {
    is_up: AtomicBool,
    routes: ArcSwap<Vec<AdminRoute>>,
    left_out: ArcSwap<BTreeSet<SmolStr>>,
    types: ArcSwap<FxHashSet<SmolStr>>,
    errors: ArcSwap<BTreeMap<String, String>>,
    packaged_subflows: ArcSwap<BTreeMap<String, PackagedSubflow>>,
    /// True if routes that are not served were logged, since the packages were loaded.
    has_warned: AtomicBool,
}

/// A node set that a package makes of a subflow (`RED.nodes.registerSubflow`).
#[derive(Debug)]
pub struct PackagedSubflow {
    /// Its types.
    pub types: Vec<SmolStr>,
    /// The HTML for the editor, which Node-RED's runtime makes.
    pub html: String,
}

/// A route of the admin API.
#[derive(Debug)]
struct AdminRoute {
    /// `None`: all.
    method: Option<Method>,
    /// What its paths begin with, in lower case: most requests are for others, and need no regular
    /// expression.
    begin: String,
    path: PathPattern,
    access: PackageAccess,
}

/// A route as the host reports it.
#[derive(Deserialize, Debug)]
pub(crate) struct ReportedRoute {
    /// Empty: all.
    #[serde(default)]
    method: String,
    /// As Express reads it; of a regular expression its source.
    path: String,
    #[serde(default)]
    is_regex: bool,
    /// True if the paths below belong to it too (`use`).
    #[serde(default)]
    below: bool,
    /// True if it asks for permissions.
    #[serde(default)]
    asks: bool,
}

impl PackageState {
    /// Sets whether the host can be reached.
    pub(crate) fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Relaxed);
    }

    /// Returns whether the host can be reached.
    pub(crate) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Replaces the types. They stay when the host ends: the next process has most often the same.
    pub(crate) fn set_types(&self, types: FxHashSet<SmolStr>) {
        self.types.store(Arc::new(types));
        self.has_warned.store(false, Ordering::Relaxed);
    }

    /// Returns whether a package has this type.
    pub(crate) fn has(&self, kind: &str) -> bool {
        self.types.load().contains(kind)
    }

    /// Replaces the reasons why node sets were not loaded.
    pub(crate) fn set_errors(&self, errors: BTreeMap<String, String>) {
        self.errors.store(Arc::new(errors));
    }

    /// Why node sets were not loaded, by their ids.
    pub(crate) fn errors(&self) -> Arc<BTreeMap<String, String>> {
        self.errors.load_full()
    }

    /// Replaces the packaged subflows. They stay when the host ends, as the types do.
    pub(crate) fn set_packaged_subflows(&self, sets: BTreeMap<String, PackagedSubflow>) {
        self.packaged_subflows.store(Arc::new(sets));
    }

    /// The packaged subflows, by `package/set`.
    pub(crate) fn packaged_subflows(&self) -> Arc<BTreeMap<String, PackagedSubflow>> {
        self.packaged_subflows.load_full()
    }

    /// Replaces the packages that are left out.
    pub(crate) fn set_left_out(&self, packages: &BTreeSet<SmolStr>) {
        self.left_out.store(Arc::new(packages.clone()));
    }

    /// The packages that are left out.
    pub(crate) fn left_out(&self) -> Arc<BTreeSet<SmolStr>> {
        self.left_out.load_full()
    }

    /// Replaces the routes. They stay when the host ends: their paths do not become endpoints
    /// meanwhile.
    pub(crate) fn set_routes(&self, reported: &[ReportedRoute]) {
        let mut routes: Vec<AdminRoute> = Vec::new();
        let mut patterns = 0;
        let mut refused: Vec<&str> = Vec::new();
        for route in reported {
            let begin = route.begin();
            let found = route.patterns().ok().filter(|_| is_own(&begin));
            let found = found.unwrap_or_default();
            let searches = found.iter().filter(|path| path.steps(0) > 0.0).count();
            let has_room =
                routes.len() + found.len() <= MAX_ROUTES && patterns + searches <= MAX_PATTERNS;
            if found.is_empty() || !has_room {
                refused.push(&route.path);
                continue;
            }
            patterns += searches;
            routes.extend(found.into_iter().map(|path| {
                AdminRoute {
                    method: route
                        .method
                        .parse()
                        .ok()
                        .filter(|_| !route.method.is_empty()),
                    begin: begin.clone(),
                    path,
                    access: if route.asks {
                        PackageAccess::Package
                    } else {
                        PackageAccess::Gateway
                    },
                }
            }));
        }
        if let Some(first) = refused.first()
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(target: "node_host", count = refused.len(), path = ?short(first), limit = MAX_ROUTES, "admin routes of packages are not served: their paths do not begin with a segment of their own, cannot be read, or there are too many");
        }
        self.routes.store(routes.into());
    }

    /// Who decides about a request to a path of the admin API, in lower case; `None`: no package
    /// has this route.
    pub(crate) fn access(&self, method: &Method, path: &str) -> Option<PackageAccess> {
        let routes = self.routes.load();
        let mut left = MATCH_STEPS;
        let found = routes.iter().find(|route| {
            let of_method = route.method.as_ref().is_none_or(|own| {
                own == method || (*method == Method::HEAD && *own == Method::GET)
            });
            if !of_method || !path.starts_with(&route.begin) {
                return false;
            }
            left -= route.path.steps(path.len());
            left >= 0.0 && route.path.matched(path).is_some()
        });
        found.map(|route| route.access)
    }
}

impl ReportedRoute {
    /// The text, in lower case, with which all paths of the route begin: the whole segments before
    /// anything special, of a regular expression the plain characters. Other paths that the
    /// expression matches are not the route's.
    fn begin(&self) -> String {
        if self.path.len() > MAX_PATH {
            return String::new();
        }
        if self.is_regex {
            return beginning(&self.path).to_lowercase();
        }
        let special = self.path.find(|c| "()[]{}*+?:\\|^$.".contains(c));
        let plain = match special {
            Some(at) => self.path.get(..at).and_then(|plain| plain.rfind('/')),
            None => Some(self.path.trim_end_matches('/').len()),
        };
        let begin = plain.and_then(|end| self.path.get(..end));
        begin.unwrap_or_default().to_lowercase()
    }

    fn patterns(&self) -> Result<Vec<PathPattern>, Failure> {
        if self.is_regex {
            let regex = regexp::compile(&self.path, "i").map_err(|e| Failure::error(e.message))?;
            return Ok(vec![PathPattern::Pattern(Box::new(regex), Vec::new())]);
        }
        let mut patterns = vec![PathPattern::parse(&self.path)?];
        if self.below {
            let path = self.path.trim_end_matches('/');
            patterns.push(PathPattern::parse(&format!("{path}/*"))?);
        }
        Ok(patterns)
    }
}

/// The plain characters that a regular expression for paths begins with: `/x` of `^\/x[0-9]+$`.
fn beginning(source: &str) -> String {
    let mut plain = String::new();
    let Some(rest) = source.strip_prefix('^').filter(|_| !source.contains('|')) else {
        return plain;
    };
    let mut characters = rest.chars().peekable();
    while let Some(first) = characters.next() {
        let character = match first {
            '\\' => characters.next().filter(char::is_ascii_punctuation),
            c if c.is_ascii_alphanumeric() || "/-_~".contains(c) => Some(c),
            _ => None,
        };
        let is_repeated = characters.peek().is_some_and(|c| "*+?{".contains(*c));
        match character.filter(|_| !is_repeated) {
            Some(character) => plain.push(character),
            None => break,
        }
    }
    plain
}

/// Returns whether a beginning of paths is a package's own: it has a segment, so that it is not the
/// whole admin API.
fn is_own(begin: &str) -> bool {
    let mut characters = begin.chars();
    characters.next() == Some('/') && characters.next().is_some_and(|c| c != '/')
}

/// A path as it is logged.
fn short(path: &str) -> &str {
    let end = path.floor_char_boundary(MAX_LOGGED);
    path.get(..end).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use PackageAccess::{Gateway, Package};
    use serde_json::{Value as Json, json};
    use std::time::{Duration, Instant};

    fn served(routes: &Json) -> PackageState {
        let served = PackageState::default();
        let routes: Vec<ReportedRoute> = serde_json::from_value(routes.clone()).unwrap();
        served.set_routes(&routes);
        served
    }

    #[test]
    fn admin_routes_are_found_by_method_and_path_as_in_express() {
        let served = served(&json!([
            { "method": "GET", "path": "/ui_base/js/*" },
            { "method": "PATCH", "path": "/dashboard/api/v1/:id/flows", "asks": true },
            { "path": "/Tool/", "below": true },
            { "method": "GET", "path": "^\\/x[0-9]+$", "is_regex": true },
            { "method": "GET", "path": "/broken(" },
        ]));
        for (method, path, access) in [
            (Method::GET, "/ui_base/js/a/b.js", Some(Gateway)),
            (Method::HEAD, "/ui_base/js/a.js", Some(Gateway)),
            (Method::POST, "/ui_base/js/a.js", None),
            (Method::PATCH, "/dashboard/api/v1/d/flows", Some(Package)),
            (Method::GET, "/dashboard/api/v1/d/flows", None),
            (Method::PUT, "/tool", Some(Gateway)),
            (Method::GET, "/tool/a/b", Some(Gateway)),
            (Method::GET, "/tools", None),
            (Method::GET, "/x12", Some(Gateway)),
            (Method::GET, "/x", None),
            (Method::GET, "/", None),
        ] {
            assert_eq!(served.access(&method, path), access, "{method} {path}");
        }
    }

    #[test]
    fn a_package_gets_no_path_but_its_own() {
        let served = served(&json!([
            { "path": "/", "below": true }, { "path": "", "below": true }, { "path": "*" },
            { "path": "/*" }, { "path": "/:any" }, { "path": "/:a/b/c" }, { "path": "//", "below": true },
            { "path": "^\\/.*$", "is_regex": true }, { "path": ".", "is_regex": true },
            { "path": "^\\/(a|b)", "is_regex": true }, { "path": "^\\/x?", "is_regex": true },
            { "path": "^\\/own\\/[a-z]+$", "is_regex": true }, { "path": "^\\/two|\\/flow", "is_regex": true },
        ]));
        for path in ["/", "/a", "/flow", "/x", "/a/b/c", "/two", "/own"] {
            assert_eq!(served.access(&Method::POST, path), None, "{path}");
        }
        assert_eq!(served.access(&Method::POST, "/own/a"), Some(Gateway));
    }

    #[test]
    fn ten_thousand_routes_with_hostile_expressions_are_bounded_and_matched_by_a_budget() {
        let hostile =
            |n: usize| json!({ "path": format!("^\\/a(.*)(.*)(a+)+{n}$"), "is_regex": true });
        let plain = |n: usize| json!({ "path": format!("/plain{n}/a-:x-:y-:z") });
        let mut routes: Vec<Json> = (0..5_000).map(hostile).collect();
        routes.extend((0..4_000).map(plain));
        routes.extend((0..1_000).map(|n| json!({ "path": format!("/fixed{n}") })));
        let served = served(&json!(routes));
        assert_eq!(served.access(&Method::GET, "/fixed0"), Some(Gateway));
        assert!(served.routes.load().len() <= MAX_ROUTES);
        let began = Instant::now();
        let long = format!("/{}", "a".repeat(8_000));
        for _ in 0..10 {
            assert_eq!(served.access(&Method::GET, &long), None);
        }
        // Without the budget it takes hours; a busy machine takes some seconds.
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{:?}",
            began.elapsed()
        );
    }

    #[test]
    fn a_later_report_replaces_the_one_before() {
        let served = served(&json!([{ "path": "/a" }]));
        served.set_routes(&[]);
        assert_eq!(served.access(&Method::GET, "/a"), None);
    }
}
