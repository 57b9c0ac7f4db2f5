//! The runtime's admin endpoints when the engine is the runtime
//! (docs/reference/node-red-admin-api.md §2), and those that only flowgate has.

mod context;
mod credentials;
mod diagnostics;
mod editor;
mod library;
mod modules;
mod node_actions;
mod node_sets;
mod nodes;
mod profile;
mod settings;
mod speedscope;
mod user_settings;

use super::error::Error;
use super::path::Path;
use super::route::Admin;
use crate::http::request_context::RequestContext;
use crate::http::response_body::Body;
use hyper::Response;

/// Handles a request by its route.
pub(super) async fn act(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    admin: Admin,
) -> Result<Response<Body>, Error> {
    match admin {
        Admin::Settings => Ok(settings::read(ctx)),
        Admin::Nodes => nodes::all(ctx).await,
        Admin::Module => nodes::module(ctx, path),
        Admin::NodeSet => nodes::set(ctx, path).await,
        Admin::InstallModule => modules::install(ctx).await,
        Admin::RemoveModule => modules::remove(ctx, path).await,
        Admin::SwitchModule => modules::switch_module(ctx, path).await,
        Admin::SwitchNodeSet => modules::switch_set(ctx, path).await,
        Admin::Context => context::read(ctx, path).await,
        Admin::ForgetContext => context::forget(ctx, path).await,
        Admin::Credentials => Ok(credentials::read(ctx, path)),
        Admin::Diagnostics => Ok(diagnostics::read(ctx)),
        Admin::Profile => profile::take(ctx).await,
        Admin::Inject => node_actions::inject(ctx, path).await,
        Admin::DebugNode(active) => node_actions::debug_node(ctx, path, active).await,
        Admin::DebugNodes(active) => node_actions::debug_nodes(ctx, active).await,
        Admin::UdpPorts => Ok(node_actions::udp_ports(ctx)),
        Admin::UserSettings => user_settings::read(ctx).await,
        Admin::SaveUserSettings => user_settings::save(ctx).await,
        Admin::Library => library::read(ctx, path).await,
        Admin::SaveInLibrary => library::save(ctx, path).await,
        Admin::Plugins => editor::plugins(ctx).await,
        Admin::Messages => editor::messages(ctx).await,
        Admin::Icons => editor::icons(ctx).await,
        Admin::Editor(part) => editor::load(ctx, path, part).await,
    }
}
