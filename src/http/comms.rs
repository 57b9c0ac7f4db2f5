//! `GET /comms`: the handshake of an editor's channel; `comms` serves the channel afterwards.
//!
//! The path is open, because a browser cannot send a token with the handshake: the first frame
//! brings it.

use super::clock::unix_time;
use super::error::Error;
use super::forwarding::forwarded_request;
use super::host_policy;
use super::origin::{self, Page};
use super::request_context::RequestContext;
use super::response_body::Body;
use super::upgrade::{Opening, with_first_protocol};
use crate::auth::AuthWatch;
use crate::comms::{FindSight, PendingEditor, Seen, Source};
#[cfg(feature = "engine")]
use crate::gateway::Shards;
use crate::upstream::Upstream;
use hyper::Response;
use hyper::http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use std::sync::Arc;

/// Shakes hands; the editor is then served on this thread, until it is gone.
pub(super) fn open(
    ctx: &mut RequestContext<'_>,
    upstream: Option<&Upstream>,
) -> Result<Response<Body>, Error> {
    let opening = Opening::check(ctx)?;
    let page = origin::page(ctx, &ctx.gateway.comms.config.origins);
    if page == Page::Foreign {
        return Err(Error::Origin);
    }
    if ctx.gateway.auth.is_none() {
        host_policy::check_own(ctx)?;
    }
    let own = host_policy::is_own(ctx);
    // An editor reports a lost connection to its user after several refused handshakes
    // (docs/reference/node-red-admin-api.md §5): a channel that opens and closes again would
    // prevent that for as long as the upstream is away.
    if let Some(upstream) = upstream.filter(|upstream| upstream.is_away()) {
        return Err(Error::Upstream(upstream.away()));
    }
    let place = ctx.gateway.comms.enter(ctx.peer.address.ip());
    let place = place.map_err(|_| Error::TooManyWaiting)?;
    let source = match upstream {
        None => Source::Own,
        Some(upstream) => {
            let target = PathAndQuery::from_static("/");
            let link = |upstream: &Upstream| {
                let head = upstream.link_head(&forwarded_request(ctx, &target, Some(upstream)));
                (upstream.clone(), Box::new(head))
            };
            #[cfg(feature = "engine")]
            let shards = ctx.backend.shards.iter().flat_map(Shards::all);
            #[cfg(feature = "engine")]
            let shards = shards.map(|(_, upstream)| link(upstream)).collect();
            #[cfg(not(feature = "engine"))]
            let shards = Vec::new();
            Source::Upstream(link(upstream), shards)
        }
    };
    let guest = PendingEditor {
        actor: ctx.actor(),
        place: Some(place),
        without_token: own,
        certificate: (page.is_ours() && own)
            .then(|| ctx.peer.certificate.clone())
            .flatten(),
        clock: unix_time,
        here: {
            let backend = Arc::clone(ctx.backend);
            Arc::new(move |caller| backend.rules.load().here(caller))
        },
        sight: find_sight(ctx),
        source,
    };
    let comms = Arc::clone(&ctx.gateway.comms);
    let response = opening.accept(|upgraded| comms.serve(TokioIo::new(upgraded), guest));
    Ok(with_first_protocol(&ctx.head.headers, response))
}

/// Finds what callers see of the backend's flows: where deployments run, so that a large flow set
/// does not stall a worker.
fn find_sight(ctx: &RequestContext<'_>) -> FindSight {
    let (backend, control) = (Arc::clone(ctx.backend), ctx.gateway.control.clone());
    Arc::new(move |permissions, announced| {
        let backend = Arc::clone(&backend);
        let found = control.spawn(async move {
            // The channel gives up waiting when the authorization lapses.
            let mut watch = AuthWatch::unlimited();
            let deployments = &backend.deployments;
            let active = deployments
                .announced(announced.as_deref(), &mut watch)
                .await;
            let active = active.inspect_err(|error| tracing::debug!("comms: {error}"));
            active.ok().map(|active| Seen {
                rev: active.rev.clone(),
                sight: active.sight(&permissions),
            })
        });
        Box::pin(async move { found.await.ok().flatten() })
    })
}
