//! Handles a request by its route: what is the gateway's own, else with flowgate's engine or at the
//! upstream.

use super::error::Error;
use super::path::Path;
use super::request_context::RequestContext;
use super::response_body::Body;
#[cfg(feature = "engine")]
use super::route;
use super::route::{Own, Target};
use super::{
    accounts, audit_log, forward, passkeys, proposals, provider_sign_in, response, sessions,
    settings, sign_in_page, step_up, verify,
};
#[cfg(feature = "engine")]
use super::{
    admin, auth, check, comms, endpoint, flows, history, openapi, packages, visible_flows,
};
use super::{console, now};
use crate::gateway::Runtime;
use hyper::Response;

type Result = std::result::Result<Response<Body>, Error>;

/// Boxed, so that a connection does not keep room for the largest of them.
pub(super) async fn act(ctx: &mut RequestContext<'_>, path: &Path<'_>, target: Target) -> Result {
    if let Target::Own(own) = target {
        return Box::pin(by_gateway(ctx, path, own)).await;
    }
    match &ctx.backend.runtime {
        #[cfg(feature = "engine")]
        Runtime::Own(_) => Box::pin(by_engine(ctx, path, target)).await,
        Runtime::Upstream(upstream) => Box::pin(forward::act(ctx, path, target, upstream)).await,
    }
}

/// Handles a request by its route, with flowgate's engine.
#[cfg(feature = "engine")]
async fn by_engine(ctx: &mut RequestContext<'_>, path: &Path<'_>, target: Target) -> Result {
    match target {
        Target::Login => Ok(auth::login(ctx)),
        Target::Token => auth::token(ctx).await,
        Target::Revoke => auth::revoke(ctx).await,
        Target::Flows => flows::read(ctx),
        Target::Deploy => flows::deploy(ctx).await,
        Target::Check => check::check(ctx).await,
        Target::Openapi => Ok(openapi::document()),
        Target::State => Ok(visible_flows::state(ctx, |_| true)),
        Target::SetState => flows::set_state(ctx).await,
        Target::Flow => flows::read_one(ctx, path),
        Target::AddFlow => flows::add(ctx).await,
        Target::ReplaceFlow => flows::replace(ctx, path).await,
        Target::RemoveFlow => flows::remove(ctx, path).await,
        Target::Admin(admin) => admin::act(ctx, path, admin).await,
        Target::History(history) => history::act(ctx, path, history).await,
        Target::Comms => comms::open(ctx, None),
        Target::Endpoint => endpoint::call(ctx, path).await,
        Target::PackageAdmin => packages::admin(ctx, path).await,
        // The same for every runtime, and handled before.
        Target::Absent | Target::Unassigned | Target::Own(_) => Err(Error::NotFound),
        Target::OtherMethod(offers) => {
            response::other_method(&ctx.head.method, route::allow(offers))
        }
    }
}

/// What is the same for every runtime.
async fn by_gateway(ctx: &mut RequestContext<'_>, path: &Path<'_>, own: Own) -> Result {
    match own {
        Own::Proposals(action) => proposals::act(ctx, path, action).await,
        Own::Accounts(action) => accounts::act(ctx, path, action).await,
        Own::Sessions(action) => sessions::act(ctx, path, action).await,
        Own::Passkeys(action) => passkeys::act(ctx, path, action).await,
        Own::StepUp(action) => step_up::act(ctx, action).await,
        Own::SignInPage(action) => sign_in_page::act(ctx, action).await,
        Own::Provider(action) => provider_sign_in::act(ctx, path, action).await,
        Own::AuditLog(action) => audit_log::act(ctx, action).await,
        Own::GatewaySettings => settings::read(ctx).await,
        Own::Verify => verify::verify(ctx),
        Own::ConsolePage => console::page(ctx),
        Own::ConsoleFile => console::file(ctx, path),
        Own::Now => now::read(ctx).await,
        Own::Jwks => Ok(response::jwks(ctx.gateway.identity.load().jwks())),
    }
}
