//! The requests that the runtime itself answers, named for the table of endpoints.

/// The requests that the runtime itself answers: settings, node types, running nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Admin {
    /// `GET /settings`
    Settings,
    /// `GET /nodes`
    Nodes,
    /// `GET /nodes/:module`
    Module,
    /// `GET /nodes/:module/:set`
    NodeSet,
    /// `PUT /nodes/:module`
    SwitchModule,
    /// `PUT /nodes/:module/:set`
    SwitchNodeSet,
    /// `GET /credentials/:type/:id`
    Credentials,
    /// `GET /context/(global|flow/:id|node/:id)[/:key]`
    Context,
    /// `DELETE /context/(global|flow/:id|node/:id)/:key`
    ForgetContext,
    /// `GET /diagnostics`
    Diagnostics,
    /// `GET /gateway/profile`
    Profile,
    /// `POST /inject/:id`
    Inject,
    /// `POST /debug/:id/(enable|disable)`
    DebugNode(bool),
    /// `POST /debug/(enable|disable)`
    DebugNodes(bool),
    /// `GET /udp-ports/:id`
    UdpPorts,
    /// `GET /settings/user`
    UserSettings,
    /// `POST /settings/user`
    SaveUserSettings,
    /// `GET /library/:library/:type/…`
    Library,
    /// `POST /library/:library/:type/…`
    SaveInLibrary,
    /// `GET /plugins`
    Plugins,
    /// `GET /nodes/messages`, `GET /plugins/messages`, `GET /nodes/:module/:set/messages`
    Messages,
    /// `POST /nodes`
    InstallModule,
    /// `DELETE /nodes/:module`
    RemoveModule,
    /// `GET /icons`
    Icons,
    /// A part of the editor that is loaded before sign-in.
    Editor(Editor),
}

/// The parts of the editor that are loaded before sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Editor {
    /// `GET /`
    Page,
    /// `GET /red/…` and the like
    File,
    /// `GET /theme`
    Theme,
    /// `GET /locales/…`
    Locale,
    /// `GET /icons/…`
    Icon,
    /// `GET /debug/view/…`
    DebugView,
    /// `GET /resources/…`
    Resource,
}

/// The requests about proposals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum ProposalAction {
    /// `GET /gateway/proposals`
    List,
    /// `GET /gateway/proposals/:id`
    Read,
    /// `POST /gateway/proposals/:id/approve`
    Approve,
    /// `POST /gateway/proposals/:id/reject`
    Reject,
    /// `POST /gateway/proposals/:id/rebase`
    Rebase,
    /// `DELETE /gateway/proposals/:id`
    Withdraw,
}

impl Admin {
    /// Returns whether only flowgate's own engine has it, and no upstream.
    pub(in crate::http) fn is_of_engine(self) -> bool {
        matches!(self, Self::Profile)
    }

    /// Returns whether it reads JSON, if there is a body.
    pub(in crate::http) fn may_have_json(self) -> bool {
        matches!(
            self,
            Self::SwitchModule
                | Self::SwitchNodeSet
                | Self::Inject
                | Self::DebugNode(_)
                | Self::DebugNodes(_)
                | Self::SaveUserSettings
                | Self::SaveInLibrary
        )
    }
}
