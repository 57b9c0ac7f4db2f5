//! Routes that npm packages add to the admin API of our own engine (`RED.httpAdmin`): a caller is
//! always needed, whatever the package thinks. Which paths these are is reported by the node host.

use super::Needs::{Anyone, Nothing, Permission};
use super::{Route, Target, rule};
use crate::config::{AmbientCredentials, PathRules};
use crate::http::path::Path;
use crate::metrics::RouteClass;
use crate::upstream::Authorization;
use engine::package_state::PackageAccess;
use hyper::Method;

/// Files that the editor loads before it has a token, in packages that are widely used: styles and
/// scripts of node-red-dashboard. An `[[admin_route]]` opens others.
const OPEN: &str = "/ui_base/";

/// What a route needs for which the package asks for no permission: to read, and to write. It is a
/// part of the palette, and its effects are those that a flow may have.
const READ: &str = "nodes.read";
const WRITE: &str = "flows.write";

impl<'a> Route<'a> {
    /// The same route, unless a package has added one for its path to the admin API; then that.
    /// `find` knows those.
    pub(in crate::http) fn or_of_package(
        self,
        method: &Method,
        path: &Path<'_>,
        rules: &'a PathRules,
        find: impl FnOnce(&str) -> Option<PackageAccess>,
    ) -> Self {
        let unlisted = self.target == Target::Endpoint;
        let Some((admin, key)) = path.admin().zip(path.admin_key()).filter(|_| unlisted) else {
            return self;
        };
        let Some(access) = find(admin) else {
            return self;
        };
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let needs = match (rule(method, &key, &rules.admin), access) {
            (Some(rule), _) => rule.permission.as_deref().map_or(Nothing, Permission),
            (None, PackageAccess::Package) => Anyone,
            (None, PackageAccess::Gateway) if reads && admin.starts_with(OPEN) => Nothing,
            (None, PackageAccess::Gateway) => Permission(if reads { READ } else { WRITE }),
        };
        Self {
            target: Target::PackageAdmin,
            needs,
            class: RouteClass::Admin,
            authorization: Authorization::None,
            ambient: AmbientCredentials::default(),
            networks: None,
            limited: None,
            same_origin: false,
            may_be_admin: false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::{Needs, route};
    use super::*;

    /// The needs of a request for a path that a package has added, or of an endpoint.
    fn needs(
        method: &Method,
        raw: &str,
        access: Option<PackageAccess>,
    ) -> (Target, Needs<'static>) {
        let path = Path::parse(raw).unwrap();
        let rules = PathRules::default();
        let route = route(method, &path, &rules).or_of_package(method, &path, &rules, |_| access);
        let needs = match route.needs {
            Permission("nodes.read") => Permission("nodes.read"),
            Permission("flows.write") => Permission("flows.write"),
            Permission("http.read") => Permission("http.read"),
            Permission(_) => Permission("another"),
            Nothing => Nothing,
            Anyone => Anyone,
            Needs::SomeFlow(_) => Needs::SomeFlow(""),
        };
        (route.target, needs)
    }

    #[test]
    fn a_route_of_a_package_needs_a_caller_whatever_the_package_asks_for() {
        use PackageAccess::{Gateway, Package};
        let admin = Target::PackageAdmin;
        for (method, path, access, expected) in [
            (Method::GET, "/ports", Gateway, Permission("nodes.read")),
            (Method::POST, "/ports", Gateway, Permission("flows.write")),
            (
                Method::OPTIONS,
                "/ports",
                Gateway,
                Permission("flows.write"),
            ),
            (Method::GET, "/ports", Package, Anyone),
            (Method::GET, "/UI_base/css/a.css", Gateway, Nothing),
            (
                Method::POST,
                "/ui_base/css/a.css",
                Gateway,
                Permission("flows.write"),
            ),
            (Method::GET, "/ui_base/x", Package, Anyone),
        ] {
            assert_eq!(
                needs(&method, path, Some(access)),
                (admin, expected),
                "{method} {path}"
            );
        }
    }

    #[test]
    fn packages_take_no_path_of_the_admin_api_and_other_paths_stay_endpoints() {
        let all = Some(PackageAccess::Package);
        assert_eq!(needs(&Method::GET, "/flows", all).0, Target::Flows);
        assert_ne!(
            needs(&Method::GET, "/nodes/x/y/z", all).0,
            Target::PackageAdmin
        );
        assert_eq!(
            needs(&Method::GET, "/ports", None),
            (Target::Endpoint, Permission("http.read"))
        );
    }
}
