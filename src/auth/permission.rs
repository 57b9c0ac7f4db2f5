//! Permissions: whether a scope covers what an endpoint needs (docs/reference/node-red-admin-api.md
//! §1.4), and what a token and its user allow together. Knows names only: no endpoint, no user.

use super::glob::{glob_covers, globs_overlap};
use super::{Withheld, WithheldReason};
use serde::{Serialize, Serializer};
use smol_str::SmolStr;
use std::sync::Arc;

/// Returns whether one of the scope's entries covers `need`: `*`, the same name, `read`/`*.read`,
/// `write`/`*.write`.
///
/// An empty need is always covered; nothing else is a wildcard, and case counts
/// (docs/reference/node-red-admin-api.md §1.4).
pub fn covers(scope: &[SmolStr], need: &str) -> bool {
    need.is_empty() || scope.iter().any(|entry| entry_covers(entry, need))
}

fn entry_covers(entry: &str, need: &str) -> bool {
    match entry {
        "*" => true,
        "read" | "*.read" => entry == need || is_or_ends_in(whole(need), "read"),
        "write" | "*.write" => entry == need || is_or_ends_in(whole(need), "write"),
        _ => entry == need || entry == whole(need) || part_covers(entry, need),
    }
}

/// The permission to read all flows; with a colon and a pattern, some.
pub const FLOWS_READ: &str = "flows.read";
/// The permission to change all flows; with a colon and a pattern, some.
pub const FLOWS_WRITE: &str = "flows.write";

/// The permissions that can be limited to flows.
const LIMITED: [&str; 2] = [FLOWS_READ, FLOWS_WRITE];

/// The permission for all flows, of one for some of them; any other is its own.
fn whole(need: &str) -> &str {
    let mut limited = LIMITED.into_iter();
    let whole = limited.find(|name| part_of(need, name).is_some());
    whole.unwrap_or(need)
}

/// The part of the flows that a permission is limited to.
pub(super) fn part_of<'e>(entry: &'e str, name: &str) -> Option<&'e str> {
    entry.strip_prefix(name)?.strip_prefix(':')
}

/// The part of the flows for which an entry gives this permission: who may change some may read
/// them.
fn part_given<'e>(entry: &'e str, name: &str) -> Option<&'e str> {
    let reads = || part_of(entry, FLOWS_WRITE).filter(|_| name == FLOWS_READ);
    part_of(entry, name).or_else(reads)
}

/// A pattern covers the narrower ones that it fits.
fn part_covers(entry: &str, need: &str) -> bool {
    LIMITED.iter().any(|name| {
        let parts = part_given(entry, name).zip(part_of(need, name));
        parts.is_some_and(|(pattern, part)| glob_covers(pattern, part))
    })
}

/// Returns whether two permissions for some flows have flows in common.
pub(super) fn parts_overlap(one: &str, other: &str) -> bool {
    LIMITED.iter().any(|name| {
        let parts = part_of(one, name).zip(part_of(other, name));
        parts.is_some_and(|(one, other)| globs_overlap(one, other))
    })
}

/// Returns whether `need` is `verb`, or something, a dot and `verb`.
fn is_or_ends_in(need: &str, verb: &str) -> bool {
    need.strip_suffix(verb)
        .is_some_and(|before| before.is_empty() || (before.len() > 1 && before.ends_with('.')))
}

/// The effective permissions of a caller: every permission needed must be covered by the scope
/// *and* by the user's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Permissions {
    /// The token's scope; empty: all that the user has.
    pub scope: Arc<[SmolStr]>,
    /// The user's permissions now.
    pub user: Arc<[SmolStr]>,
    /// Those of them that may not be used at the moment.
    pub withheld: Arc<[Withheld]>,
}

impl Permissions {
    /// All permissions, for callers where the API is open.
    pub fn all() -> Self {
        Self::of(Arc::from([SmolStr::new_static("*")]))
    }

    /// All permissions of a user, without a narrower scope.
    pub fn of(user: Arc<[SmolStr]>) -> Self {
        Self::new(Arc::default(), user)
    }

    /// All permissions that the scope and the user cover.
    pub fn new(scope: Arc<[SmolStr]>, user: Arc<[SmolStr]>) -> Self {
        Self {
            scope,
            user,
            // Unlike that of `[]`, this takes no memory.
            withheld: Arc::default(),
        }
    }

    /// Why the caller may not use a permission that it has, for some flows at least; `None`: it
    /// may, or does not have it.
    pub fn withheld(&self, need: &str) -> Option<WithheldReason> {
        let whole = Withheld::find(&self.withheld, need);
        let reason = whole.or_else(|| Withheld::find_part(&self.withheld, need, |_| true))?;
        let has = Self::new(Arc::clone(&self.scope), Arc::clone(&self.user)).cover_some(need);
        has.then_some(reason)
    }

    fn withholds(&self, need: &str) -> bool {
        Withheld::find(&self.withheld, need).is_some()
    }

    /// Returns whether a permission is withheld for the flows that fit.
    pub fn withholds_part(&self, need: &str, fits: impl Fn(&str) -> bool) -> bool {
        Withheld::find_part(&self.withheld, need, fits).is_some()
    }

    /// Returns whether the caller may do what needs this permission; for all flows, if it can be
    /// limited to some.
    pub fn cover(&self, need: &str) -> bool {
        let has = self.scope_covers(need) && covers(&self.user, need);
        has && !self.withholds(need) && !self.withholds_part(need, |_| true)
    }

    /// Returns whether the caller has every permission there is.
    pub fn cover_all(&self) -> bool {
        let has_all = |list: &[SmolStr]| list.iter().any(|name| name == "*");
        let scope = self.scope.is_empty() || has_all(&self.scope);
        scope && has_all(&self.user) && self.withheld.is_empty()
    }

    /// Returns whether the caller has this permission for all flows, or for some whose part, after
    /// the colon, fits.
    pub fn cover_part(&self, need: &str, fits: impl Fn(&str) -> bool) -> bool {
        self.has_part(need, &fits) && !self.withholds_part(need, fits)
    }

    /// The same, whether or not it is withheld for the flows that fit.
    fn has_part(&self, need: &str, fits: impl Fn(&str) -> bool) -> bool {
        let any = |list: &[SmolStr]| {
            covers(list, need)
                || list
                    .iter()
                    .any(|entry| part_given(entry, need).is_some_and(&fits))
        };
        (self.scope.is_empty() || any(&self.scope)) && any(&self.user) && !self.withholds(need)
    }

    /// Returns whether the caller has this permission for some flow at least.
    pub fn cover_some(&self, need: &str) -> bool {
        self.has_part(need, |_| true)
    }

    /// Returns whether the caller reads some flows only: a permission for some is there, and none
    /// for all.
    pub fn reads_some_flows(&self) -> bool {
        let is_limited =
            |entry: &SmolStr| LIMITED.iter().any(|name| part_of(entry, name).is_some());
        let lists = || self.scope.iter().chain(self.user.iter());
        lists().any(is_limited) && !self.cover(FLOWS_READ)
    }

    /// The names of the effective permissions, for `GET /settings`: those of the scope that the
    /// user has, and those of the user that the scope covers.
    pub fn shown(&self) -> Shown {
        let asked = self.scope.iter().filter(|entry| covers(&self.user, entry));
        let had = self.user.iter().filter(|entry| self.scope_covers(entry));
        let mut names: Vec<SmolStr> = Vec::new();
        for name in asked.chain(had) {
            if name == "*" {
                return Shown::All;
            }
            if !name.is_empty() && !names.contains(name) && !self.withholds(name) {
                names.push(name.clone());
            }
        }
        Shown::Only(names)
    }

    fn scope_covers(&self, need: &str) -> bool {
        self.scope.is_empty() || covers(&self.scope, need)
    }
}

/// Effective permissions as the editor reads them: `"*"`, `"read"` or a list of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// `"*"`.
    All,
    /// These only.
    Only(Vec<SmolStr>),
}

impl Shown {
    /// With the name by which the stock editor offers its Deploy button, also to a user of some
    /// flows only.
    #[must_use]
    pub fn for_editor(mut self) -> Self {
        if let Self::Only(names) = &mut self
            && names
                .iter()
                .any(|name| part_of(name, FLOWS_WRITE).is_some())
            && !covers(names, FLOWS_WRITE)
        {
            names.push(SmolStr::new_static(FLOWS_WRITE));
        }
        self
    }

    /// The names; all is one of them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (all, names): (_, &[SmolStr]) = match self {
            Self::All => (Some("*"), &[]),
            Self::Only(names) => (None, names),
        };
        all.into_iter().chain(names.iter().map(SmolStr::as_str))
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("*"),
            // The stock editor compares with this word, and else offers a reader its Deploy button.
            Self::Only(names) if names == &["read"] => serializer.serialize_str("read"),
            Self::Only(names) => names.serialize(serializer),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::glob::glob;
    use super::*;
    use crate::config::Conditions;
    use std::net::IpAddr;

    fn names(list: &[&str]) -> Arc<[SmolStr]> {
        list.iter().map(SmolStr::new).collect()
    }

    #[test]
    fn scopes_cover_the_permissions_measured_on_node_red() {
        // docs/reference/node-red-admin-api.md §1.4: GET /flows, GET /settings, POST /flow, POST
        // /inject
        let needs = ["flows.read", "settings.read", "flows.write", "inject.write"];
        let measured: [(&[&str], [bool; 4]); 12] = [
            (&["*"], [true; 4]),
            (&["read"], [true, true, false, false]),
            (&["*.read"], [true, true, false, false]),
            (&["write"], [false, false, true, true]),
            (&["*.write"], [false, false, true, true]),
            (
                &["flows.read", "flows.write", "settings.read"],
                [true, true, true, false],
            ),
            (&["read", "flows.write"], [true, true, true, false]),
            (&["flows.write"], [false, false, true, false]),
            (&["flows.*"], [false; 4]),
            (&["FLOWS.WRITE", " read"], [false; 4]),
            (&[""], [false; 4]),
            (&[], [false; 4]),
        ];
        for (scope, expected) in measured {
            let scope = names(scope);
            assert_eq!(
                needs.map(|need| covers(&scope, need)),
                expected,
                "{scope:?}"
            );
        }
    }

    #[test]
    fn a_permission_that_is_withheld_for_some_flows_is_there_for_the_others() {
        let conditions = Conditions {
            step_up: vec!["flows.write:Line1*".to_owned()],
            ..Conditions::default()
        };
        let address = IpAddr::from([192, 0, 2, 1]);
        let had = |names: &[&str]| Permissions {
            withheld: Withheld::of(&conditions, None, address, 1000),
            ..Permissions::of(self::names(names))
        };
        let label = |label: &'static str| move |pattern: &str| glob(pattern, label);
        for all in [
            &["*"][..],
            &["write"],
            &["flows.write"],
            &["flows.write:Line*"],
        ] {
            let had = had(all);
            assert!(!had.cover("flows.write") && had.cover_some("flows.write"));
            assert!(!had.cover_part("flows.write", label("Line1 a")));
            assert!(had.cover_part("flows.write", label("Line2")));
            assert!(had.cover("flows.write:Line2") && !had.cover("flows.write:Line1 a"));
            assert!(!had.cover("flows.write:Line*") && !had.cover("flows.write:*1 a"));
            assert_eq!(
                had.withheld("flows.write"),
                Some(WithheldReason::NoSecondFactor)
            );
        }
        assert!(had(&["*"]).cover("flows.read") && had(&["*"]).cover("context.write"));
        assert_eq!(had(&["read"]).withheld("flows.write"), None);
        assert!(had(&["read", "flows.write:Line1 a"]).cover_some("flows.read"));
    }

    #[test]
    fn read_covers_only_names_that_end_in_dot_read() {
        let read = names(&["read"]);
        for need in ["read", "*.read", "a.b.read", "udp-ports.read"] {
            assert!(covers(&read, need), "{need}");
        }
        for need in [".read", "thread", "read.x", "flows.Read", "*"] {
            assert!(!covers(&read, need), "{need}");
        }
    }

    #[test]
    fn a_permission_for_some_flows_is_covered_by_wider_ones_only() {
        for (entry, covered) in [
            ("*", true),
            ("write", true),
            ("flows.write", true),
            ("flows.write:line-3", true),
            ("flows.write:line-*", true),
            ("flows.write:line-4", false),
            ("flows.write:", false),
            ("flows", false),
            ("read", false),
        ] {
            assert_eq!(
                covers(&names(&[entry]), "flows.write:line-3"),
                covered,
                "{entry}"
            );
        }
        for (entry, covered) in [
            ("read", true),
            ("flows.read", true),
            ("flows.read:line-*", true),
            // Who may change a flow may read it.
            ("flows.write:line-3", true),
            ("flows.write:line-4", false),
            ("flows.write", false),
            ("write", false),
        ] {
            assert_eq!(
                covers(&names(&[entry]), "flows.read:line-3"),
                covered,
                "{entry}"
            );
        }
        assert!(!covers(
            &names(&["flows.read:line-3"]),
            "flows.write:line-3"
        ));
        // Nothing but these can be limited: a name of an operator's own may have a colon.
        assert!(!covers(&names(&["reports"]), "reports:write"));
        assert!(!covers(&names(&["flows.write:*"]), "flows.write"));
    }

    #[test]
    fn a_caller_reads_some_flows_if_the_scope_or_the_user_is_limited_to_them() {
        for (scope, user, some) in [
            (&[][..], &["*"][..], false),
            (&[], &["flows.read", "flows.write:a"], false),
            (&[], &["status.read"], false),
            (&[], &["flows.write"], false),
            (&[], &["flows.read:a"], true),
            (&[], &["flows.write:a"], true),
            (&[], &["flows.write", "flows.read:a"], true),
            (&["flows.read:a"], &["*"], true),
            // A narrower scope leads out of no limit.
            (&["status.read"], &["status.read", "flows.read:a"], true),
        ] {
            let permissions = Permissions::new(names(scope), names(user));
            assert_eq!(permissions.reads_some_flows(), some, "{scope:?} {user:?}");
        }
    }

    #[test]
    fn an_empty_requirement_is_always_covered() {
        assert!(covers(&[], ""));
    }

    #[test]
    fn both_the_scope_and_the_user_must_cover() {
        let both = |scope: &[&str], user: &[&str]| {
            let permissions = Permissions::new(names(scope), names(user));
            ["flows.read", "flows.write"].map(|need| permissions.cover(need))
        };
        assert_eq!(both(&["*"], &["read"]), [true, false]);
        assert_eq!(both(&["read"], &["*"]), [true, false]);
        assert_eq!(both(&["write"], &["read"]), [false, false]);
        assert_eq!(
            both(&[], &["read"]),
            [true, false],
            "an empty scope is all that the user has"
        );
        assert_eq!(
            both(&[""], &["*"]),
            [false, false],
            "an empty name grants nothing"
        );
        assert_eq!(both(&["*"], &[]), [false, false]);
    }

    #[test]
    fn the_shown_permissions_are_common_to_scope_and_user() {
        let shown = |scope: &[&str], user: &[&str]| {
            let permissions = Permissions::new(names(scope), names(user));
            serde_json::to_string(&permissions.shown()).unwrap()
        };
        assert_eq!(shown(&["*"], &["*"]), r#""*""#);
        assert_eq!(shown(&[], &["*"]), r#""*""#);
        assert_eq!(shown(&["*"], &["a", "b"]), r#"["a","b"]"#);
        assert_eq!(shown(&["read"], &["*"]), r#""read""#);
        assert_eq!(
            shown(&["read"], &["flows.read", "flows.write"]),
            r#"["flows.read"]"#
        );
        assert_eq!(
            shown(&["flows.read", "flows.write"], &["read"]),
            r#"["flows.read"]"#
        );
        assert_eq!(shown(&["", "read"], &["read"]), r#""read""#);
        assert_eq!(shown(&["write"], &["read"]), "[]");
        assert_eq!(shown(&[], &["flows.write:a"]), r#"["flows.write:a"]"#);
        let editor = |list: &[&str]| Permissions::of(names(list)).shown().for_editor();
        let both = names(&["flows.write:a", "flows.write"]).to_vec();
        assert_eq!(editor(&["flows.write:a"]), Shown::Only(both));
        let one = names(&["flows.read:a"]).to_vec();
        assert_eq!(editor(&["flows.read:a"]), Shown::Only(one));
        assert_eq!(editor(&["read"]), Shown::Only(names(&["read"]).to_vec()));
    }
}
