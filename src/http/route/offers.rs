//! The methods that several paths of the admin API offer, and what each needs.

use super::Needs::{Nothing, Permission};
use super::Verb::{Delete, Get, Post, Put};
use super::{Admin, Editor, Offer, Target};

pub(super) const READ_CONTEXT: Offer = reads(Admin::Context, "context.read");
pub(super) const FORGET_CONTEXT: Offer = (
    Delete,
    Target::Admin(Admin::ForgetContext),
    Permission("context.write"),
);

pub(super) const NODES: [Offer; 3] = [
    reads(Admin::Nodes, "nodes.read"),
    posts(Admin::InstallModule, "nodes.write"),
    (Put, Target::Absent, Permission("nodes.write")),
];

pub(super) const NODE_MESSAGES: [Offer; 4] = listing(Admin::Messages, "nodes.read", "nodes.write");

pub(super) const MODULE: [Offer; 3] = [
    reads(Admin::Module, "nodes.read"),
    (
        Put,
        Target::Admin(Admin::SwitchModule),
        Permission("nodes.write"),
    ),
    (
        Delete,
        Target::Admin(Admin::RemoveModule),
        Permission("nodes.write"),
    ),
];

pub(super) const NODE_SET: [Offer; 3] = [
    reads(Admin::NodeSet, "nodes.read"),
    (
        Put,
        Target::Admin(Admin::SwitchNodeSet),
        Permission("nodes.write"),
    ),
    (Delete, Target::Absent, Permission("nodes.write")),
];

pub(super) const LIBRARY: [Offer; 4] = [
    reads(Admin::Library, "library.read"),
    posts(Admin::SaveInLibrary, "library.write"),
    (Put, Target::Absent, Permission("library.write")),
    (Delete, Target::Absent, Permission("library.write")),
];

pub(super) const USER_SETTINGS: [Offer; 4] = [
    reads(Admin::UserSettings, "settings.read"),
    posts(Admin::SaveUserSettings, "settings.write"),
    (Put, Target::Absent, Permission("settings.write")),
    (Delete, Target::Absent, Permission("settings.write")),
];

pub(super) const OPEN_PAGE: [Offer; 1] = open(Editor::Page);
pub(super) const OPEN_FILE: [Offer; 1] = open(Editor::File);
pub(super) const OPEN_THEME: [Offer; 1] = open(Editor::Theme);
pub(super) const OPEN_LOCALE: [Offer; 1] = open(Editor::Locale);
pub(super) const OPEN_ICON: [Offer; 1] = open(Editor::Icon);
pub(super) const OPEN_RESOURCE: [Offer; 1] = open(Editor::Resource);
pub(super) const OPEN_DEBUG_VIEW: [Offer; 1] = open(Editor::DebugView);
pub(super) const OPEN_ABSENT: [Offer; 1] = [(Get, Target::Absent, Nothing)];

/// Node packages may have put something there; our account may do it, so the caller must be allowed
/// to as well.
pub(super) const RESERVED: [Offer; 4] = absent("admin.read", "admin.write");

/// The gateway's own, for what it may have one day.
pub(super) const UNASSIGNED: [Offer; 4] = [
    (Get, Target::Unassigned, Permission("admin.read")),
    (Post, Target::Unassigned, Permission("admin.write")),
    (Put, Target::Unassigned, Permission("admin.write")),
    (Delete, Target::Unassigned, Permission("admin.write")),
];

pub(super) const fn reads(admin: Admin, permission: &'static str) -> Offer {
    (Get, Target::Admin(admin), Permission(permission))
}

pub(super) const fn posts(admin: Admin, permission: &'static str) -> Offer {
    (Post, Target::Admin(admin), Permission(permission))
}

/// A part of the editor, without sign-in.
pub(super) const fn open(part: Editor) -> [Offer; 1] {
    [(Get, Target::Admin(Admin::Editor(part)), Nothing)]
}

/// Something that is only read.
pub(super) const fn listing(admin: Admin, read: &'static str, write: &'static str) -> [Offer; 4] {
    let [_, post, put, delete] = absent(read, write);
    [reads(admin, read), post, put, delete]
}

pub(super) const fn absent(read: &'static str, write: &'static str) -> [Offer; 4] {
    [
        (Get, Target::Absent, Permission(read)),
        (Post, Target::Absent, Permission(write)),
        (Put, Target::Absent, Permission(write)),
        (Delete, Target::Absent, Permission(write)),
    ]
}
