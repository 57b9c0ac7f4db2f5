//! Forwards requests to an upstream, exactly as they were authorized.
//!
//! Most are passed on unchanged. A change of flows is read whole, checked and sent under the
//! deployment lock.

#[cfg(feature = "engine")]
use super::admin;
use super::dialect::{self, Version};
use super::error::Error;
use super::forward_change::{answer, run, whole_flow_set};
use super::forwarding::forwarded_request;
use super::message::message;
#[cfg(feature = "engine")]
use super::pass::exchange;
use super::pass::{check_version, pass, streamed};
use super::path::Path;
#[cfg(feature = "engine")]
use super::query::parameter;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use super::route::{self, Admin, Editor, Offer, Target};
use super::visible_flows::nodes_seen;
use super::{amended, auth, check, comms, history, openapi, redact, trace, tunnel};
use crate::deployment::{Forward, Purpose, Request, name};
#[cfg(feature = "engine")]
use crate::gateway::Shards;
use crate::metrics::{Phase, RouteClass};
use crate::policy;
use crate::upstream::{Outgoing, Upstream};
use crate::websocket;
use bytes::Bytes;
use flows::{DeploymentType, check_flow};
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Instant;

type Result<T = Response<Body>> = std::result::Result<T, Error>;

/// Handles a request by its route, at the upstream.
pub(super) async fn act(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    target: Target,
    upstream: &Upstream,
) -> Result {
    ctx.redacted = redact::head(ctx, ctx.authorization);
    #[cfg(feature = "engine")]
    let upstream = of_shard(ctx, path, target)?.unwrap_or(upstream);
    // Rare futures are boxed, so that frequent ones reserve no memory for them.
    match target {
        Target::Login => Ok(auth::login(ctx)),
        Target::Admin(Admin::Editor(Editor::Page)) => Box::pin(page(ctx, path, upstream)).await,
        Target::Token => Box::pin(auth::token(ctx)).await,
        Target::Revoke => Box::pin(auth::revoke(ctx)).await,
        Target::Deploy => Box::pin(deploy(ctx, path, upstream)).await,
        Target::Check => Box::pin(check::check(ctx)).await,
        Target::Openapi => Ok(openapi::document()),
        Target::AddFlow | Target::ReplaceFlow | Target::RemoveFlow | Target::SetState => {
            Box::pin(change(ctx, path, target, upstream)).await
        }
        Target::Admin(Admin::Settings) => Box::pin(amended::settings(ctx, path, upstream)).await,
        Target::State => Box::pin(amended::state(ctx, path, upstream)).await,
        Target::Comms => comms::open(ctx, Some(upstream)),
        // Callers sign in at the gateway; the upstream's own sign-in would let them bypass it.
        Target::Absent if ctx.class == RouteClass::Auth => Err(Error::NotFound),
        // The same for every runtime, and handled before.
        Target::Unassigned
        | Target::Own(_)
        // The engine's.
        | Target::PackageAdmin => Err(Error::NotFound),
        // On a socket there may be an engine that runs apart.
        Target::Admin(admin) if admin.is_of_engine() && !upstream.is_on_socket() => {
            Err(Error::NoEngine)
        }
        Target::History(history) => Box::pin(history::act(ctx, path, history)).await,
        Target::Endpoint if websocket::is_wanted(ctx.head) => {
            Box::pin(tunnel::open(ctx, path, upstream)).await
        }
        // The engine of a cluster runs at another member next.
        #[cfg(feature = "engine")]
        Target::Admin(asked @ (Admin::UserSettings | Admin::SaveUserSettings))
            if ctx.gateway.config.cluster.is_some() =>
        {
            Box::pin(admin::act(ctx, path, asked)).await
        }
        Target::Admin(admin) if admin.may_have_json() => {
            Box::pin(pass_json(ctx, path, target, upstream)).await
        }
        Target::Flows
        | Target::Flow
        | Target::Admin(_)
        | Target::Absent
        | Target::Endpoint => {
            let body = streamed(ctx);
            pass(ctx, path, body, upstream).await
        }
        Target::OtherMethod(offers) => other_method(ctx, offers),
    }
}

/// The engine that has what a request is about, if that is not the main one of a cluster. What each
/// engine has for itself is that of the one that the request names.
#[cfg(feature = "engine")]
fn of_shard<'a>(
    ctx: &RequestContext<'a>,
    path: &Path<'_>,
    target: Target,
) -> Result<Option<&'a Upstream>> {
    let Some(shards) = &ctx.backend.shards else {
        return Ok(None);
    };
    match target {
        Target::Endpoint => Ok(shards.of_endpoint(&ctx.head.method, path.below())),
        Target::Admin(Admin::Inject | Admin::DebugNode(_)) => {
            Ok(shards.of_element(&path.parameter(1)))
        }
        Target::Admin(Admin::Context | Admin::ForgetContext) if path.parameter(1) != "global" => {
            Ok(shards.of_element(&path.parameter(2)))
        }
        Target::Admin(
            Admin::Context | Admin::ForgetContext | Admin::Diagnostics | Admin::Profile,
        ) => match parameter(ctx.head, "shard") {
            None => Ok(None),
            Some(name) => {
                let unknown = Error::Parameter("shard must be a name in cluster.place");
                shards.of(&name).map(Some).ok_or(unknown)
            }
        },
        _ => Ok(None),
    }
}

fn other_method(ctx: &RequestContext<'_>, offers: &[Offer]) -> Result {
    response::other_method(&ctx.head.method, route::allow(offers))
}

/// The editor's page: at one path only, to which its own are relative.
async fn page(ctx: &mut RequestContext<'_>, path: &Path<'_>, upstream: &Upstream) -> Result {
    if let Some(location) = path.editor(&ctx.head.uri) {
        return Ok(response::moved(&location));
    }
    let body = streamed(ctx);
    pass(ctx, path, body, upstream).await
}

/// Passes a request on with its JSON, which names only nodes that the caller sees.
async fn pass_json(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    target: Target,
    upstream: &Upstream,
) -> Result {
    let mut body = ctx.read_json_if_any().await?;
    if let Target::Admin(Admin::DebugNodes(_)) = target {
        body = nodes_seen(ctx, body).await?;
        // Each engine passes over the nodes that it does not have.
        #[cfg(feature = "engine")]
        for (_, shard) in ctx.backend.shards.iter().flat_map(Shards::all) {
            exchange(ctx, path, Outgoing::Whole(body.clone()), shard).await?;
        }
    }
    pass(ctx, path, Outgoing::Whole(body), upstream).await
}

/// `POST /flows`: checked and sent in its turn.
async fn deploy(ctx: &mut RequestContext<'_>, path: &Path<'_>, upstream: &Upstream) -> Result {
    let version = dialect::version(&ctx.head.headers)?;
    let message = message(&ctx.head.headers)?;
    let mut kind = dialect::deployment_type(&ctx.head.headers)?;
    if let Some(caller) = &ctx.caller {
        kind = policy::deployment_type(&caller.permissions, kind);
    }
    let target = path.target(&ctx.outgoing().uri)?;
    let reload = kind == DeploymentType::Reload;
    trace::begin_call(ctx);
    // The body is then made of the submission and of what the caller does not see.
    let merges = !reload && ctx.reads_some_flows();
    if reload && !upstream.reloads() {
        return Err(Error::DeploymentType);
    }
    let (spelled, nothing) = spelling(version);
    let body = if reload {
        // Whatever was sent counts for nothing; the upstream gets what it surely understands.
        let limit = ctx.gateway.config.limits.body;
        ctx.read(limit).await?;
        Bytes::from_static(nothing)
    } else {
        ctx.read_json().await?
    };
    let change = if merges {
        whole_flow_set(ctx, upstream, kind, Bytes::new())
    } else {
        let front = forwarded_request(ctx, &target, Some(upstream));
        upstream.deployment(&front, spelled, name(kind), body.clone())
    };
    let metrics = Arc::clone(&ctx.gateway.metrics);
    let backend = Arc::clone(ctx.backend);
    let recorded = ctx.recorded_trace().cloned();
    let prepare = move || {
        let request = if reload {
            Request::Reload
        } else {
            let started = Instant::now();
            let submission = version.submission(&backend.deployments.known(), &body);
            metrics.phase(name(kind), Phase::Parse, started.elapsed());
            trace::parsed(recorded.as_ref(), started);
            let submission = submission?;
            Request::Flows { submission, kind }
        };
        Ok(Forward {
            change,
            purpose: Purpose::Flows(request),
            merges,
        })
    };
    let forwarded = run(ctx, version, kind, message, None, prepare).await?;
    let response = answer(ctx, upstream, forwarded.changed)?;
    Ok(match version {
        Version::V1 if merges && response.status().is_success() => {
            response::empty(StatusCode::NO_CONTENT)
        }
        Version::V1 | Version::V2 => response,
    })
}

/// A version as its header field has it, and its body without flows.
fn spelling(version: Version) -> (&'static str, &'static [u8]) {
    match version {
        Version::V1 => ("v1", b"[]"),
        Version::V2 => ("v2", b"{\"flows\":[]}"),
    }
}

/// Other changes of flows: sent under the deployment lock, without a revision
/// (docs/reference/node-red-admin-api.md §3).
async fn change(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    target: Target,
    upstream: &Upstream,
) -> Result {
    check_version(ctx)?;
    let message = message(&ctx.head.headers)?;
    let (body, purpose) = match target {
        Target::SetState => {
            let (body, state) = ctx.read_state().await?;
            (body, Purpose::State(Json::from(state)))
        }
        Target::RemoveFlow => {
            let request = Request::RemoveFlow(path.parameter(1));
            (Bytes::new(), Purpose::Flows(request))
        }
        Target::ReplaceFlow => {
            let body = ctx.read_json().await?;
            let request = Request::ReplaceFlow(path.parameter(1), body.clone());
            (body, Purpose::Flows(request))
        }
        _ => {
            let body = ctx.read_json().await?;
            (body.clone(), Purpose::Flows(Request::AddFlow(body)))
        }
    };
    trace::begin_call(ctx);
    let kind = DeploymentType::Flows;
    let merges = target != Target::SetState && ctx.reads_some_flows();
    let change = if merges {
        // The whole is sent, and the upstream has no deployment of a single flow with a revision.
        whole_flow_set(ctx, upstream, kind, Bytes::new())
    } else {
        let url = path.target(&ctx.outgoing().uri)?;
        upstream.change(&forwarded_request(ctx, &url, Some(upstream)), body)
    };
    let prepare = move || {
        match &purpose {
            Purpose::Flows(Request::AddFlow(body)) => check_flow(body, None)?,
            Purpose::Flows(Request::ReplaceFlow(id, body)) => check_flow(body, Some(id))?,
            Purpose::Flows(_) | Purpose::State(_) => {}
        }
        Ok(Forward {
            change,
            purpose,
            merges,
        })
    };
    let forwarded = run(ctx, Version::V1, kind, message, None, prepare).await?;
    let response = answer(ctx, upstream, forwarded.changed)?;
    if !merges || !response.status().is_success() {
        return Ok(response);
    }
    Ok(match forwarded.flow {
        Some(id) => response::json(StatusCode::OK, json!({ "id": id }).to_string()),
        None => response::empty(StatusCode::NO_CONTENT),
    })
}
