//! `[[route]]`: permissions of endpoints made by flows, and the matching of routes. Paths become
//! canonical; none may cover an admin path.

use super::error::SpannedError;
use super::packages::is_package_path;
use super::path_key::{path_key, percent_decoded};
use super::rate_limit::rate_limit;
use super::raw;
use super::setting::{Source, flag};
use super::{Mount, Networks, RateLimit, Upstream, networks};
use crypto::hex_digit;
use std::sync::Arc;
use toml::{Spanned, Value};

/// First path segments of the runtime's admin API and editor (docs/reference/node-red-admin-api.md
/// §2), and `gateway`, the gateway's own: no `[[route]]` and no endpoint may stand there, or a line
/// in the config could open what needs a permission there. `http` has the table of the endpoints
/// themselves; this is only the fence.
pub const RESERVED: [&str; 24] = [
    "auth",
    "comms",
    "context",
    "credentials",
    "debug",
    "diagnostics",
    "favicon.ico",
    "flow",
    "flows",
    "gateway",
    "icons",
    "inject",
    "library",
    "locales",
    "nodes",
    "plugins",
    "projects",
    "red",
    "resources",
    "settings",
    "theme",
    "types",
    "udp-ports",
    "vendor",
];

/// The methods that an http-in node or a browser may use.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// The source of the `Authorization` sent to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authorization {
    /// The gateway's account: the caller is authorized for what is done with it.
    Ours,
    /// No credentials.
    None,
    /// The client's own, which the operator lets pass.
    Client,
}

/// The credentials that a route accepts beside bearer tokens and certificates. A browser adds them
/// to requests by itself (ambient credentials), so other pages must not be able to use them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AmbientCredentials {
    /// The cookie of the sign-in page; browsers without it are led there.
    pub page: bool,
    /// User and password with each request (RFC 7617).
    pub basic: bool,
}

/// One `[[route]]` or `[[admin_route]]`: the requirements of requests for a path.
#[derive(Debug, Clone)]
pub struct Route {
    /// [As it is compared](super::path_key()), without a trailing slash; of a `[[route]]` below the
    /// path that leads to the runtime, of an `[[admin_route]]` below its admin root.
    pub path: String,
    /// The name of the upstream that it is for; `None`: all runtimes.
    pub upstream: Option<String>,
    /// True if everything below `path` is meant too.
    pub prefix: bool,
    /// Methods, upper-case; empty: all.
    pub methods: Vec<String>,
    /// The permission needed; `None`: public.
    pub permission: Option<String>,
    /// The source of the upstream's `Authorization`; the account only where a permission is needed.
    pub authorization: Authorization,
    /// The credentials that it accepts beside bearer tokens and certificates.
    pub ambient: AmbientCredentials,
    /// The networks that its requests must come from; `None`: all.
    pub networks: Option<Arc<Networks>>,
    /// The limit of the requests of each caller; `None`: none.
    pub rate_limit: Option<RateLimit>,
    /// True if its pages keep the origin of console and editor where those of other endpoints are
    /// sandboxed.
    pub same_origin: bool,
}

impl Route {
    /// Returns whether a [path as it is compared](super::path_key()) is meant.
    pub fn covers(&self, path: &str) -> bool {
        let above = if self.path == "/" && self.prefix {
            ""
        } else {
            &self.path
        };
        path.strip_prefix(above)
            .is_some_and(|rest| rest.is_empty() || (self.prefix && rest.starts_with('/')))
    }

    /// Returns whether a method is meant; `HEAD` is wherever `GET` is.
    pub fn has(&self, method: &str) -> bool {
        let named = |name: &str| self.methods.iter().any(|m| m == name);
        self.methods.is_empty() || named(method) || (method == "HEAD" && named("GET"))
    }
}

/// The unlisted paths of a runtime that belong to its admin API. `http` has the table of the listed
/// ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdminPaths {
    /// None: our own engine has no others.
    #[default]
    Listed,
    /// Those of known packages and of `[[admin_route]]`: editor, admin API and endpoints share a
    /// root.
    Known,
    /// All below the admin root.
    Root,
}

/// The rules for the paths of one runtime.
#[derive(Debug, Clone, Default)]
pub struct PathRules {
    /// `[[route]]`: endpoints made by flows.
    pub endpoints: Vec<Route>,
    /// `[[admin_route]]`: paths of the admin API that packages add.
    pub admin: Vec<Route>,
    /// The unlisted paths that belong to the admin API.
    pub admin_paths: AdminPaths,
}

impl PathRules {
    /// The rules of one runtime: those for all, and its own.
    pub fn of(mount: &Mount, admin_paths: AdminPaths, routes: &[Route], admin: &[Route]) -> Self {
        let here = |routes: &[Route]| {
            let named = |route: &&Route| {
                let name = route.upstream.as_ref();
                name.is_none_or(|name| *name == mount.name)
            };
            routes.iter().filter(named).cloned().collect()
        };
        Self {
            endpoints: here(routes),
            admin: here(admin),
            admin_paths,
        }
    }

    /// Returns whether an unlisted [path as it is compared](super::path_key()), from the admin
    /// root, belongs to the admin API.
    pub fn is_admin(&self, path: &str) -> bool {
        match self.admin_paths {
            AdminPaths::Listed => false,
            AdminPaths::Known => {
                is_package_path(path) || self.admin.iter().any(|route| route.covers(path))
            }
            AdminPaths::Root => true,
        }
    }
}

impl Mount {
    /// The unlisted paths of an upstream that belong to its admin API.
    pub fn admin_paths(&self) -> AdminPaths {
        if self.admin_root.is_empty() {
            AdminPaths::Known
        } else {
            AdminPaths::Root
        }
    }
}

/// Converts all `[[route]]` tables; two that answer for the same request are an error.
pub(super) fn routes(
    raw: Vec<Spanned<raw::Route>>,
    upstreams: &[Upstream],
    admin: &[Route],
    source: &Source<'_>,
) -> Result<Vec<Route>, SpannedError> {
    let mut routes: Vec<Route> = Vec::new();
    for table in raw {
        let span = table.span();
        let route = route(table, upstreams, admin, source)?;
        alone(&routes, &route).map_err(|found| {
            let sentence = format!("another [[route]] has the path {found} and the same methods");
            SpannedError::rule(span, sentence)
        })?;
        routes.push(route);
    }
    Ok(routes)
}

fn route(
    table: Spanned<raw::Route>,
    upstreams: &[Upstream],
    admin: &[Route],
    source: &Source<'_>,
) -> Result<Route, SpannedError> {
    let span = table.span();
    let raw = table.into_inner();
    let Some(path) = raw.path else {
        return Err(SpannedError::rule(span, "a [[route]] needs a path"));
    };
    let place = path.span();
    let path = compared(&path, source)?;
    let upstream = upstream(raw.upstream.as_ref(), upstreams, source)?;
    if is_fenced(&path, upstream.as_deref(), upstreams, admin) {
        let sentence = "this path belongs to the admin API and the editor, whose permissions are fixed; a [[route]] is for endpoints made by flows, an [[admin_route]] for what packages add to the admin API";
        return Err(SpannedError::rule(place, sentence));
    }
    let permission = match (flag(raw.public, false)?, raw.permission) {
        (true, None) => None,
        (false, Some(entry)) => Some(source.parsed(&entry, PERMISSION, permission)?),
        _ => {
            return Err(SpannedError::rule(
                span,
                "a [[route]] needs either public = true or permission = \"…\", and not both",
            ));
        }
    };
    let authorization = authorization(raw.pass_authorization, raw.account, permission.is_none())?;
    let ambient = ambient(raw.sign_in, raw.basic, permission.is_none(), source)?;
    Ok(Route {
        path,
        upstream,
        prefix: flag(raw.prefix, false)?,
        methods: methods(raw.methods, source)?,
        permission,
        authorization,
        ambient,
        networks: networks::allowed(raw.networks, source)?,
        rate_limit: rate_limit(raw.rate_limit, source)?,
        same_origin: flag(raw.same_origin, false)?,
    })
}

/// The credentials that a route with a permission accepts.
fn ambient(
    sign_in: raw::Entry,
    basic: raw::Entry,
    public: bool,
    source: &Source<'_>,
) -> Result<AmbientCredentials, SpannedError> {
    if let Some(entry) = sign_in.as_ref().or(basic.as_ref())
        && public
    {
        let sentence = "sign_in and basic are for a route with a permission: a public one asks nobody to sign in";
        return Err(SpannedError::rule(entry.span(), sentence));
    }
    let is_page = |text: &str| (text == "page").then_some(true);
    let page = sign_in.map(|entry| source.parsed(&entry, "\"page\"", is_page));
    Ok(AmbientCredentials {
        page: page.transpose()?.unwrap_or(false),
        basic: flag(basic, false)?,
    })
}

/// The `Authorization` to send: the client's own on a public route, the account's on one with a
/// permission.
fn authorization(
    pass: raw::Entry,
    account: raw::Entry,
    public: bool,
) -> Result<Authorization, SpannedError> {
    if let Some(entry) = &pass
        && !public
    {
        let sentence = "pass_authorization is for public = true: elsewhere Authorization holds a token of ours";
        return Err(SpannedError::rule(entry.span(), sentence));
    }
    if let Some(entry) = &account
        && public
    {
        let sentence = "account is for a route with a permission: on a public one every client would act as the gateway's account";
        return Err(SpannedError::rule(entry.span(), sentence));
    }
    Ok(if flag(pass, false)? {
        Authorization::Client
    } else if flag(account, false)? {
        Authorization::Ours
    } else {
        Authorization::None
    })
}

/// The expected form of a path, for errors.
pub(super) const PATH: &str = "a path such as \"/hello\", without query, \"//\", \".\" or \"..\"";

/// Characters that are patterns in the URL of an http-in node, as Express 4 reads it.
const PATTERN_CHARACTERS: &str = ":*()+[]{}|^$";

/// The path of a route as requests are compared with it. A pattern is an error: it would be a text
/// that no request has, so that the route protected nothing.
pub(super) fn compared(
    entry: &Spanned<Value>,
    source: &Source<'_>,
) -> Result<String, SpannedError> {
    let text = source.text(entry, PATH)?;
    if let Some(at) = text.find(|c| PATTERN_CHARACTERS.contains(c)) {
        let (above, rest) = text.split_at(at);
        let above = above.rsplit_once('/').map_or("", |(above, _)| above);
        let above = if above.is_empty() { "/…" } else { above };
        let sign = rest.get(..1).unwrap_or_default();
        let encoded = crypto::hex(sign.as_bytes()).to_ascii_uppercase();
        let sentence = format!(
            "a path has no patterns, as the \"{sign}\" in the URL of an http-in node is: for all paths below write path = \"{above}\" and prefix = true, for the character itself %{encoded}"
        );
        return Err(SpannedError::rule(entry.span(), sentence));
    }
    source.parsed(entry, PATH, |text| {
        let path = canonical(text)?;
        // Requests with such a path are refused.
        std::str::from_utf8(&percent_decoded(path.as_bytes())).ok()?;
        Some(path_key(&path).into_owned())
    })
}

/// The upstream that a route names.
pub(super) fn upstream(
    entry: Option<&Spanned<Value>>,
    upstreams: &[Upstream],
    source: &Source<'_>,
) -> Result<Option<String>, SpannedError> {
    let name = |entry| {
        source.parsed(entry, "the name of an upstream", |text| {
            let names = upstreams.iter().map(|upstream| &upstream.mount.name);
            names.into_iter().find(|name| *name == text).cloned()
        })
    };
    entry.map(name).transpose()
}

/// The methods of a route; empty: all.
pub(super) fn methods(list: raw::List, source: &Source<'_>) -> Result<Vec<String>, SpannedError> {
    let expected = format!("one of {}", METHODS.join(", "));
    let methods = source.list(list, &expected, method)?;
    Ok(methods.unwrap_or_default())
}

/// Whether no other route answers for the same request; else its path.
pub(super) fn alone<'r>(routes: &'r [Route], route: &Route) -> Result<(), &'r str> {
    match routes.iter().find(|other| same(other, route)) {
        None => Ok(()),
        Some(other) => Err(&other.path),
    }
}

/// The expected form of a permission, for errors.
pub(super) const PERMISSION: &str =
    "the name of a permission, without spaces, such as \"*\", \"read\" or \"flows.write\"";

/// The name of a permission: a scope holds several, separated by spaces, so there is none inside.
pub(super) fn permission(text: &str) -> Option<String> {
    let fine = !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | ','));
    fine.then(|| text.to_owned())
}

/// Returns whether the path is one of the admin API or the editor, in one of the runtimes that the
/// route is for.
fn is_fenced(path: &str, upstream: Option<&str>, upstreams: &[Upstream], admin: &[Route]) -> bool {
    let own = |path: &str| path == "/" || is_reserved(path);
    let meant = upstreams
        .iter()
        .map(|upstream| &upstream.mount)
        .filter(|mount| upstream.is_none_or(|name| name == mount.name));
    let mut fences = meant.map(
        |mount| match path.strip_prefix(&*path_key(&mount.admin_root)) {
            Some("") => true,
            Some(rest) if rest.starts_with('/') => {
                own(rest) || PathRules::of(mount, mount.admin_paths(), &[], admin).is_admin(rest)
            }
            _ => false,
        },
    );
    if upstreams.is_empty() {
        own(path)
    } else {
        fences.any(|fenced| fenced)
    }
}

/// Returns whether the first segment is one of [`RESERVED`].
pub(super) fn is_reserved(path: &str) -> bool {
    path.split('/')
        .nth(1)
        .is_some_and(|first| RESERVED.contains(&first))
}

/// A path as requests are matched: [spelled] in one way, lower-case. `None`: no request can have
/// it.
pub(super) fn canonical(text: &str) -> Option<String> {
    spelled(text).map(|path| path.to_ascii_lowercase())
}

/// A path (RFC 3986 §6.2.2): encoded unreserved characters decoded, what must be encoded encoded,
/// no trailing slash.
pub(super) fn spelled(text: &str) -> Option<String> {
    if text.contains("//") {
        return None;
    }
    let mut bytes = text.strip_prefix('/')?.bytes();
    let mut path = String::from("/");
    while let Some(byte) = bytes.next() {
        let encoded = byte == b'%';
        let byte = if encoded {
            hex_digit(bytes.next()?)? << 4 | hex_digit(bytes.next()?)?
        } else {
            byte
        };
        match byte {
            b'-' | b'.' | b'_' | b'~' => path.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => path.push(char::from(byte)),
            b'/' | b'\\' | 0..=0x1f | 0x7f if encoded => return None,
            b'\\' | b'?' | b'#' | 0..=0x1f | 0x7f => return None,
            b'/' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='
            | b':' | b'@'
                if !encoded =>
            {
                path.push(char::from(byte));
            }
            _ => path.extend(["%", &crypto::hex(&[byte])]),
        }
    }
    let path = if path.len() > 1 {
        path.strip_suffix('/').unwrap_or(&path)
    } else {
        &path
    };
    let bad = |segment: &str| matches!(segment, "" | "." | "..");
    (path == "/" || !path.split('/').skip(1).any(bad)).then(|| path.to_owned())
}

fn method(text: &str) -> Option<String> {
    let upper = text.to_ascii_uppercase();
    METHODS.contains(&upper.as_str()).then_some(upper)
}

/// Returns whether two routes answer for the same path and method.
fn same(a: &Route, b: &Route) -> bool {
    let methods = a.methods.is_empty()
        || b.methods.is_empty()
        || a.methods.iter().any(|m| b.methods.contains(m));
    a.path == b.path && a.upstream == b.upstream && a.prefix == b.prefix && methods
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_canonical() {
        for (text, path) in [
            ("/Hello/", "/hello"),
            ("/", "/"),
            ("/%68i/%C3%A4", "/hi/%c3%a4"),
            ("/ä b", "/%c3%a4%20b"),
            ("/a%3Ab", "/a%3ab"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(path), "{text}");
        }
    }

    #[test]
    fn paths_that_no_request_can_have_are_refused() {
        for text in [
            "",
            "hello",
            "//",
            "/a//b",
            "/a/../b",
            "/%2e%2E/b",
            "/./a",
            "/a%2fb",
            "/a%5cb",
            "/a\\b",
            "/a?b",
            "/a#b",
            "/%",
            "/%zz",
            "/a%00",
            "/a\n",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    #[test]
    fn routes_of_one_value_are_duplicates_in_any_spelling() {
        let table = |path: &str| {
            format!(
                "[auth]\n[[route]]\npath = \"/a@b\"\npublic = true\n[[route]]\npath = \"{path}\"\npublic = true\n"
            )
        };
        let read = |path: &str| {
            let base = std::path::Path::new("/");
            crate::config::Config::parse(&table(path), "gateway.toml", base)
        };
        for path in ["/a%40b", "/A%40B/", "/a@b"] {
            let error = read(path).err().map(|error| error.to_string());
            assert!(
                error.is_some_and(|text| text.contains("another [[route]]")),
                "{path}"
            );
        }
        assert!(read("/a%2540b").is_ok());
    }

    #[test]
    fn a_route_with_a_pattern_is_an_error_that_says_what_to_write() {
        let read = |table: &str, path: &str| {
            let text = format!(
                "[auth]\n[upstream]\nurl = \"http://127.0.0.1:1\"\n[[{table}]]\npath = \"{path}\"\npermission = \"reports.read\"\n"
            );
            let base = std::path::Path::new("/");
            crate::config::Config::parse(&text, "gateway.toml", base)
        };
        for table in ["route", "admin_route"] {
            for (path, advice) in [
                (
                    "/reports/:year",
                    r#"path = "/reports" and prefix = true, for the character itself %3A"#,
                ),
                (
                    "/reports/*",
                    r#"path = "/reports" and prefix = true, for the character itself %2A"#,
                ),
                ("/a/b-:c/d", r#"path = "/a" and prefix"#),
                ("/:all", r#"path = "/…" and prefix"#),
                ("/reports/v(1|2)", "itself %28"),
                ("/reports/v[12]", "itself %5B"),
                ("/re+ports", "itself %2B"),
                ("/reports$", "itself %24"),
            ] {
                let error = read(table, path).err().map(|error| error.to_string());
                let error = error.unwrap_or_default();
                assert!(error.contains(advice), "{table} {path}: {error}");
            }
            for path in ["/reports/%3Ayear", "/a%2bb", "/r&d", "/a@b", "/ü,;=!'~x"] {
                assert!(read(table, path).is_ok(), "{table} {path}");
            }
        }
    }

    #[test]
    fn only_whole_first_segments_are_reserved() {
        assert!(is_reserved("/flows") && is_reserved("/flows/state") && is_reserved("/auth/token"));
        assert!(!is_reserved("/flowsheet") && !is_reserved("/my/flows") && !is_reserved("/"));
    }

    #[test]
    fn a_permission_is_one_word() {
        assert!(permission("*").is_some() && permission("flows.write").is_some());
        assert!(
            permission("").is_none() && permission("a b").is_none() && permission("a\tb").is_none()
        );
    }
}
