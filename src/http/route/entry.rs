//! An entry of the table: a path with its methods, and the permissions that several entries need.

use super::Needs::{self, Permission, SomeFlow};
use super::Offer;
use super::offers::RESERVED;
use crate::metrics::RouteClass;

/// A path with its methods.
pub(super) struct Entry {
    /// Segments in lower case. `*` is any one, `@*` any scope of a module's name, `+` one or more
    /// to the end, `**` any number to the end.
    pub(super) path: &'static [&'static str],
    pub(super) class: RouteClass,
    pub(super) offers: &'static [Offer],
}

impl Entry {
    /// The first segment; empty for the root.
    pub(super) fn name(&self) -> &'static str {
        self.path.first().copied().unwrap_or_default()
    }
}

const fn entry(
    path: &'static [&'static str],
    class: RouteClass,
    offers: &'static [Offer],
) -> Entry {
    Entry {
        path,
        class,
        offers,
    }
}

/// Signing in and out.
pub(super) const fn auth(path: &'static [&'static str], offers: &'static [Offer]) -> Entry {
    entry(path, RouteClass::Auth, offers)
}

/// The flow set, single flows, and whether they run.
pub(super) const fn flows(path: &'static [&'static str], offers: &'static [Offer]) -> Entry {
    entry(path, RouteClass::Flows, offers)
}

/// The resources that the editor loads before it has a token (docs/reference/node-red-admin-api.md
/// §8.11), and its channel.
pub(super) const fn editor(path: &'static [&'static str], offers: &'static [Offer]) -> Entry {
    entry(path, RouteClass::Editor, offers)
}

/// Everything else: settings, node types, libraries, running nodes.
pub(super) const fn admin(path: &'static [&'static str], offers: &'static [Offer]) -> Entry {
    entry(path, RouteClass::Admin, offers)
}

/// Under a name of the admin API, but no endpoint of it.
pub(super) const fn reserved(path: &'static [&'static str]) -> Entry {
    admin(path, &RESERVED)
}

pub(super) const READ_FLOWS: Needs<'static> = SomeFlow("flows.read");
pub(super) const WRITE_FLOWS: Needs<'static> = SomeFlow("flows.write");
/// All flows start and stop together, and a tag is for all.
pub(super) const ALL_FLOWS: Needs<'static> = Permission("flows.write");
