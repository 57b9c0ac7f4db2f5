//! The mount of an upstream: host names, path, admin root; and its users' permissions there.
//!
//! Knows when two upstreams would answer for the same request.

use super::error::SpannedError;
use super::path_key::{leading, path_key};
use super::raw;
use super::route::{self, spelled};
use super::setting::{Source, flag};
use super::{Auth, Mount, Policy};
use std::net::Ipv6Addr;

const NAME: &str = "a name of letters, digits and \"-._:\"";
const HOST: &str = "a host name or an address, without scheme and port";
const PATH: &str =
    "a path such as \"/plant1\", without query, \"//\", \".\" or \"..\", and none of the admin API";
const ROOT: &str = "a path such as \"/admin\", without query, \"//\", \".\" or \"..\"";

/// The user who is there when the config has none.
const GENERATED: &str = "admin";

impl Mount {
    /// Returns whether requests for this host are for it.
    pub fn is_of(&self, host: Option<&str>) -> bool {
        let this = |host: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        self.hosts.is_empty() || host.is_some_and(this)
    }

    /// Returns whether a path, in lower case, leads to it.
    pub fn leads(&self, path: &str) -> bool {
        leading(path, &self.path).is_some()
    }

    /// Returns whether clients find it where they find the other one.
    pub fn is_where(&self, other: &Self) -> bool {
        let place = |mount: &Self| {
            (
                mount.path.clone(),
                mount.prefix.clone(),
                mount.admin_root.clone(),
            )
        };
        self.hosts == other.hosts && place(self) == place(other)
    }
}

/// The site of an upstream, and where that itself has its admin API.
pub(super) fn mount(
    raw: &raw::Upstream,
    usual_name: String,
    auth: Option<&Auth>,
    source: &Source<'_>,
) -> Result<(Mount, String), SpannedError> {
    let given = |entry: &raw::Entry, expected, parse: fn(&str) -> Option<String>| {
        let entry = entry.as_ref();
        entry
            .map(|entry| source.parsed(entry, expected, parse))
            .transpose()
    };
    let path = given(&raw.path, PATH, path)?.unwrap_or_default();
    let admin_root = given(&raw.admin_root, ROOT, prefix)?.unwrap_or_default();
    let (prefix, root) = if flag(raw.strip.clone(), true)? {
        (path.clone(), admin_root.clone())
    } else {
        (String::new(), format!("{path}{admin_root}"))
    };
    let mount = Mount {
        name: given(&raw.name, NAME, name)?.unwrap_or(usual_name),
        hosts: source
            .list(raw.host.clone(), HOST, host)?
            .unwrap_or_default(),
        path: path.to_ascii_lowercase(),
        prefix,
        admin_root: admin_root.to_ascii_lowercase(),
        permissions: permissions(&raw.permissions, auth, source)?,
        policy: Policy::default(),
    };
    Ok((mount, root))
}

/// Whether this one is known by its name, and its requests are for none of the others; if not, why.
pub(super) fn alone<'s>(
    mount: &Mount,
    mut others: impl Iterator<Item = &'s Mount>,
) -> Result<(), String> {
    others.try_for_each(|other| {
        if other.name == mount.name {
            return Err(format!("another upstream has the name \"{}\"", mount.name));
        }
        let all = mount.hosts.is_empty() && other.hosts.is_empty();
        let shared = mount.hosts.iter().any(|host| other.hosts.contains(host));
        if path_key(&other.path) == path_key(&mount.path) && (all || shared) {
            let sentence = "answers for the same host and path; give one of them a `host` or a `path` of its own";
            return Err(format!("the upstream \"{}\" {sentence}", other.name));
        }
        Ok(())
    })
}

/// The users' permissions there. Unknown users are refused: a misspelt name would leave a user more
/// than was meant.
fn permissions(
    raw: &raw::Lists,
    auth: Option<&Auth>,
    source: &Source<'_>,
) -> Result<Vec<(String, Vec<String>)>, SpannedError> {
    let Some(table) = raw else {
        return Ok(Vec::new());
    };
    let Some(auth) = auth else {
        let sentence =
            "without an [auth] table there is no sign-in, and every client has all permissions";
        return Err(SpannedError::rule(table.span(), sentence));
    };
    let known = |name: &String| match &auth.users[..] {
        [] => name == GENERATED,
        users => users.iter().any(|user| user.name == *name),
    };
    let mut permissions = Vec::new();
    for (name, list) in table.get_ref() {
        if !known(name.get_ref()) {
            let sentence = format!("there is no [[auth.user]] named \"{}\"", name.get_ref());
            return Err(SpannedError::rule(name.span(), sentence));
        }
        let list = source.list(Some(list.clone()), route::PERMISSION, route::permission)?;
        permissions.push((name.get_ref().clone(), list.unwrap_or_default()));
    }
    Ok(permissions)
}

fn name(text: &str) -> Option<String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:".contains(&b);
    (!text.is_empty() && text.bytes().all(plain)).then(|| text.to_owned())
}

/// As a request's host is compared: an IPv6 address stands in brackets (RFC 3986 §3.2.2).
fn host(text: &str) -> Option<String> {
    let address = text
        .strip_prefix('[')
        .map_or(Some(text), |rest| rest.strip_suffix(']'))?;
    if let Ok(address) = address.parse::<Ipv6Addr>() {
        return Some(format!("[{address}]"));
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    let fine = !text.is_empty() && !text.ends_with('.') && text.bytes().all(plain);
    fine.then(|| text.to_ascii_lowercase())
}

/// A [`prefix`] under which the admin API's own names stay reachable where another upstream has the
/// root.
fn path(text: &str) -> Option<String> {
    prefix(text).filter(|path| !route::is_reserved(&path.to_ascii_lowercase()))
}

/// Returns a path as the prefix of others: empty for the root.
fn prefix(text: &str) -> Option<String> {
    spelled(text).map(|path| if path == "/" { String::new() } else { path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, hosts: &[&str], path: &str) -> Mount {
        Mount {
            name: name.to_owned(),
            hosts: hosts.iter().map(ToString::to_string).collect(),
            path: path.to_owned(),
            ..Mount::default()
        }
    }

    #[test]
    fn two_mounts_never_match_the_same_request() {
        let a = at("a", &["x", "y"], "/p");
        for (other, fine) in [
            (at("b", &["z"], "/p"), true),
            (at("b", &[], "/p"), true),
            (at("b", &["y"], ""), true),
            (at("b", &["y"], "/p/q"), true),
            (at("b", &["z", "y"], "/p"), false),
            (at("a", &["z"], "/p"), false),
        ] {
            assert_eq!(alone(&other, [&a].into_iter()).is_ok(), fine, "{other:?}");
        }
        let (one, two) = (at("one", &[], ""), at("two", &[], ""));
        assert!(alone(&two, [&one].into_iter()).is_err());
    }

    #[test]
    fn a_mount_matches_paths_at_or_below_its_own() {
        let mount = at("a", &["x.org"], "/p");
        assert!(
            mount.leads("/p") && mount.leads("/p/q") && !mount.leads("/pq") && !mount.leads("/")
        );
        assert!(at("b", &[], "").leads("/") && at("b", &[], "").leads("/p"));
        assert!(mount.is_of(Some("X.org")) && !mount.is_of(Some("y.org")) && !mount.is_of(None));
        assert!(at("b", &[], "").is_of(None));
    }

    #[test]
    fn hosts_are_names_or_addresses_without_a_port() {
        for (text, found) in [
            ("Flows.Example.org", Some("flows.example.org")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("::1", Some("[::1]")),
            ("[0:0::1]", Some("[::1]")),
            ("", None),
            ("*.example.org", None),
            ("example.org:443", None),
            ("example.org.", None),
            ("[::1", None),
            ("https://example.org", None),
        ] {
            assert_eq!(host(text).as_deref(), found, "{text}");
        }
    }

    #[test]
    fn a_mount_path_cannot_shadow_the_admin_api() {
        assert_eq!(path("/Plant1/").as_deref(), Some("/Plant1"));
        assert_eq!(path("/").as_deref(), Some(""));
        assert_eq!(path("/FLOWS"), None);
        assert_eq!(path("/a/../b"), None);
        assert_eq!(prefix("/flows").as_deref(), Some("/flows"));
    }
}
