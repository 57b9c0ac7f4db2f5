//! The permissions that endpoints need, and hints for those that none needs: a misspelt name gives
//! nothing, and is no error, because flows, packages and applications next to flowgate can ask for
//! names of their own.

use super::error::nearest;

/// The permissions that endpoints and policies need; docs/users.md says which.
pub const PERMISSIONS: [&str; 34] = [
    "admin.read",
    "admin.write",
    "context.read",
    "context.write",
    "credentials.read",
    "debug.read",
    "debug.write",
    "diagnostics.read",
    "flows.approve",
    "flows.read",
    "flows.unlock",
    "flows.write",
    "gateway.audit",
    "gateway.settings",
    "gateway.tokens",
    "gateway.users",
    "http.read",
    "http.write",
    "inject.write",
    "library.read",
    "library.write",
    "nodes.read",
    "nodes.write",
    "plugins.read",
    "plugins.write",
    "projects.read",
    "projects.write",
    "read",
    "settings.read",
    "settings.write",
    "status.read",
    "udp-ports.read",
    "udp-ports.write",
    "write",
];

/// Permissions that are limited to something, up to the colon.
const LIMITED: [&str; 3] = ["flows.read:", "flows.write:", "node-types:"];

/// Why a permission may be a mistake; `None`: something needs it. `of_routes`: those that a
/// `[[route]]` or `[[admin_route]]` names.
pub fn permission_hint(name: &str, of_routes: &[&str]) -> Option<String> {
    if LIMITED.contains(&name) {
        return Some(format!(
            "the permission \"{name}\" gives nothing: nothing follows the colon"
        ));
    }
    let is_limited = LIMITED.iter().any(|limited| name.starts_with(limited));
    let is_any = matches!(name, "*" | "*.read" | "*.write");
    if is_any || is_limited || PERMISSIONS.contains(&name) || of_routes.contains(&name) {
        return None;
    }
    let known = PERMISSIONS.iter().chain(of_routes);
    let known: Vec<String> = known.map(|name| (*name).to_owned()).collect();
    let meant = nearest(name, &known);
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"));
    Some(format!(
        "no endpoint and no [[route]] needs the permission \"{name}\", only flows, packages and /gateway/verify can ask for it{meant}"
    ))
}

/// Returns whether a list of permissions is for changes of some flows, and not of all.
pub fn writes_some_flows_only<S: AsRef<str>>(names: &[S]) -> bool {
    let mut all = names.iter().map(AsRef::as_ref);
    let mut some = names.iter().map(AsRef::as_ref);
    some.any(|name| name.starts_with("flows.write:"))
        && !all.any(|name| matches!(name, "*" | "write" | "*.write" | "flows.write"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_permission_has_a_hint() {
        for (name, hint) in [
            ("flow.read", Some("did you mean \"flows.read\"?")),
            ("flows.wirte", Some("did you mean \"flows.write\"?")),
            ("Read", Some("did you mean \"read\"?")),
            ("report.read", Some("did you mean \"reports.read\"?")),
            ("flows.*", Some("did you mean")),
            ("plant.view", Some("can ask for it")),
            ("*", None),
            ("*.read", None),
            ("flows.read", None),
            ("flows.write:Line*", None),
            ("node-types:exec", None),
            ("flows.write:", Some("nothing follows the colon")),
            ("reports.read", None),
        ] {
            let found = permission_hint(name, &["reports.read"]);
            match hint {
                None => assert_eq!(found, None, "{name}"),
                Some(hint) => assert!(found.is_some_and(|found| found.contains(hint)), "{name}"),
            }
        }
    }
}
