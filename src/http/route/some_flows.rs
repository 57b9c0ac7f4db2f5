//! What a caller who may read some flows only (`flows.read:FLOW`) gets of each target, decided one
//! by one: a new target does not compile without a decision. docs/policies.md has the same as a
//! table.

use super::{Admin, Own, Target};
use crate::http::path::Path;

/// What such a caller gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Access {
    /// The same as all callers: it shows nothing of flows, or what the caller sees is chosen where
    /// it is done.
    Same,
    /// The flow set that the caller sees.
    Flows,
    /// One flow that the caller sees; the segment of the path that has its id.
    Flow(usize),
    /// Whether flows run, with the stopped ones that the caller sees.
    State,
    /// The same as all callers if the caller sees the element; the segment of the path that has its
    /// id.
    Element(usize),
    /// Nothing: it is about all flows.
    Nothing,
}

/// The access to a target, at this path.
///
/// A deployment changes what the caller sees and a dry run shows that; a channel passes on what the
/// caller sees; an endpoint shows what its flow shows, and has a permission of its own. Node
/// packages and upstreams may have anything at a path that is absent here.
pub(in crate::http) fn access(target: Target, path: &Path<'_>) -> Access {
    match target {
        Target::Login
        | Target::Token
        | Target::Revoke
        | Target::Deploy
        | Target::Check
        | Target::AddFlow
        | Target::ReplaceFlow
        | Target::RemoveFlow
        | Target::Comms
        | Target::Endpoint
        | Target::Openapi
        | Target::OtherMethod(_) => Access::Same,
        Target::Own(own) => of_own(own),
        Target::Flows => Access::Flows,
        Target::Flow => Access::Flow(1),
        Target::State => Access::State,
        Target::Admin(admin) => of_admin(admin, path),
        Target::History(_)
        | Target::SetState
        | Target::Absent
        | Target::PackageAdmin
        | Target::Unassigned => Access::Nothing,
    }
}

/// The same of what the gateway itself answers.
fn of_own(own: Own) -> Access {
    match own {
        Own::Accounts(_)
        | Own::Proposals(_)
        | Own::Now
        | Own::AuditLog(_)
        | Own::GatewaySettings => Access::Nothing,
        Own::Sessions(_)
        | Own::Passkeys(_)
        | Own::StepUp(_)
        | Own::SignInPage(_)
        | Own::Provider(_)
        | Own::ConsolePage
        | Own::ConsoleFile
        | Own::Verify
        | Own::Jwks => Access::Same,
    }
}

/// The same of what the runtime itself answers. Of several debug nodes, those that the caller does
/// not see are passed over.
fn of_admin(admin: Admin, path: &Path<'_>) -> Access {
    match admin {
        Admin::Settings
        | Admin::UserSettings
        | Admin::SaveUserSettings
        | Admin::Nodes
        | Admin::Module
        | Admin::NodeSet
        | Admin::Plugins
        | Admin::Messages
        | Admin::Icons
        | Admin::DebugNodes(_)
        | Admin::Editor(_) => Access::Same,
        Admin::Inject | Admin::DebugNode(_) => Access::Element(1),
        Admin::Credentials => Access::Element(2),
        Admin::Context | Admin::ForgetContext => {
            match path.parameter(1).to_ascii_lowercase().as_str() {
                "flow" | "node" => Access::Element(2),
                _ => Access::Nothing,
            }
        }
        // Users of other flows keep parts of them in the library; the examples come with the nodes.
        Admin::Library => match path.parameter(1).as_str() {
            "examples" | "_examples_" => Access::Same,
            _ => Access::Nothing,
        },
        Admin::SaveInLibrary
        | Admin::SwitchModule
        | Admin::SwitchNodeSet
        | Admin::InstallModule
        | Admin::RemoveModule
        | Admin::Diagnostics
        | Admin::Profile
        | Admin::UdpPorts => Access::Nothing,
    }
}
