//! The runtime's admin endpoints when the engine is the runtime (docs/reference/node-red-admin-api.md §2).

mod context;
mod credentials;
mod diagnostics;
mod editor;
mod library;
mod node_actions;
mod nodes;
mod settings;
mod user_settings;

use super::admin_error::AdminError;
use super::error::Error;
use super::path::Path;
use super::route::Admin;
use crate::http::request_context::RequestContext;
use crate::http::response_body::Body;
use hyper::Response;

/// Does what the route says.
pub(super) async fn act(
    call: &mut RequestContext<'_>,
    path: &Path<'_>,
    admin: Admin,
) -> Result<Response<Body>, Error> {
    match admin {
        Admin::Settings => Ok(settings::read(call)),
        Admin::Nodes => nodes::all(call).await,
        Admin::Module => nodes::module(call, &path.parameter(1)),
        Admin::NodeSet => nodes::set(call, &path.parameter(1), &path.parameter(2)).await,
        Admin::ChangeModules => Err(AdminError::NoModules.into()),
        Admin::SwitchModule => nodes::switch_module(call, &path.parameter(1)).await,
        Admin::SwitchNodeSet => {
            nodes::switch_set(call, &path.parameter(1), &path.parameter(2)).await
        }
        Admin::Context => context::read(call, path).await,
        Admin::ForgetContext => context::forget(call, path).await,
        Admin::Credentials => Ok(credentials::read(call, path)),
        Admin::Diagnostics => Ok(diagnostics::read(call)),
        Admin::Inject => node_actions::inject(call, path).await,
        Admin::DebugNode(active) => node_actions::debug_node(call, path, active).await,
        Admin::DebugNodes(active) => node_actions::debug_nodes(call, active).await,
        Admin::UdpPorts => Ok(node_actions::udp_ports(call)),
        Admin::UserSettings => user_settings::read(call).await,
        Admin::SaveUserSettings => user_settings::save(call).await,
        Admin::Library => library::read(call, path).await,
        Admin::SaveInLibrary => library::save(call, path).await,
        Admin::Plugins => Ok(editor::plugins(call)),
        Admin::Messages => Ok(editor::messages()),
        Admin::Icons => editor::icons(call).await,
        Admin::Editor(part) => editor::load(call, path, part).await,
    }
}
