//! The history of deployments: what was deployed, what differs, and back to it.

mod deployments;
mod diff;
mod error;
mod nodes;
#[cfg(feature = "engine")]
mod rollback;

pub(super) use error::HistoryError;

use super::error::Error;
use super::path::Path;
use super::request_context::RequestContext;
use super::response_body::Body;
use super::route::History;
use crate::store::ENGINE;
use crate::upstream::Upstream;
use hyper::Response;

/// Handles a request by its route.
pub(super) async fn act(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    history: History,
) -> Result<Response<Body>, Error> {
    match history {
        History::List => deployments::list(ctx).await,
        History::Entry => deployments::one(ctx, &path.parameter(2)).await,
        #[cfg(feature = "engine")]
        History::Rollback => rollback::deploy(ctx, &path.parameter(2)).await,
        #[cfg(not(feature = "engine"))]
        History::Rollback => Err(Error::NoEngine),
        History::Diff => diff::read(ctx).await,
        History::Node => nodes::read(ctx, path.parameter(2)).await,
    }
}

/// The name under which the history has the runtime of a request.
fn runtime<'c>(ctx: &'c RequestContext<'_>) -> &'c str {
    ctx.backend
        .runtime
        .upstream()
        .map_or(ENGINE, Upstream::name)
}
