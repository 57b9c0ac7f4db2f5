//! Deploys a flow set that the gateway has, not the client: an ordinary deployment to the engine or
//! to the upstream.

use crate::deployment;
use crate::gateway::Runtime;
use crate::http::dialect;
use crate::http::error::Error;
use crate::http::forward_change::{answer, deploy_set};
use crate::http::request_context::RequestContext;
use crate::http::response_body::Body;
use crate::upstream::{Outcome, Upstream};
use flows::{Credentials, DeploymentType, FlowSet, Submission};
use hyper::Response;

/// What became of it.
pub(super) enum Deployed {
    /// It is active under this revision.
    Active(String),
    /// The upstream has not accepted it; its response.
    Refused(Box<Response<Body>>),
}

/// The deployment type asked for.
pub(super) fn kind(ctx: &RequestContext<'_>) -> Result<DeploymentType, Error> {
    match dialect::deployment_type(&ctx.head.headers)? {
        DeploymentType::Reload => Err(Error::Body(
            "this is no reload: the type must be full, nodes or flows".to_owned(),
        )),
        kind => Ok(kind),
    }
}

/// Deploys what `make` makes of the active flow set and its credentials, if `rev` is the active
/// revision. `message` is for the entry.
pub(super) async fn deploy(
    ctx: &RequestContext<'_>,
    rev: String,
    message: String,
    make: impl FnOnce(&FlowSet, &Credentials) -> Result<Submission, deployment::Error> + Send + 'static,
) -> Result<Deployed, Error> {
    let kind = kind(ctx)?;
    match &ctx.backend.runtime {
        #[cfg(feature = "engine")]
        Runtime::Own(_) => to_engine(ctx, rev, kind, message, make).await,
        Runtime::Upstream(upstream) => to_upstream(ctx, upstream, rev, kind, message, make).await,
    }
}

#[cfg(feature = "engine")]
async fn to_engine(
    ctx: &RequestContext<'_>,
    rev: String,
    kind: DeploymentType,
    message: String,
    make: impl FnOnce(&FlowSet, &Credentials) -> Result<Submission, deployment::Error> + Send + 'static,
) -> Result<Deployed, Error> {
    let backend = std::sync::Arc::clone(ctx.backend);
    let request = move || {
        // If another flow set is active by then, the deployment is refused for its revision.
        let active = backend.deployments.active();
        let submission = Submission {
            rev: Some(rev),
            ..make(&active.flows, &active.credentials)?
        };
        Ok(deployment::Request::Flows { submission, kind })
    };
    let version = dialect::Version::V2;
    let deployed = crate::http::flows::run(ctx, version, kind, message, None, request).await?;
    Ok(Deployed::Active(deployed.rev))
}

async fn to_upstream(
    ctx: &RequestContext<'_>,
    upstream: &Upstream,
    rev: String,
    kind: DeploymentType,
    message: String,
    make: impl FnOnce(&FlowSet, &Credentials) -> Result<Submission, deployment::Error> + Send + 'static,
) -> Result<Deployed, Error> {
    let active = super::current(ctx).await?;
    if active.rev != rev {
        let active = active.rev.clone();
        return Err(deployment::Error::Stale { active }.into());
    }
    let submission = ctx.blocking(move || make(&active.flows, &active.credentials));
    let submission = submission.await??;
    let submission = Submission {
        rev: Some(rev),
        ..submission
    };
    let changed = deploy_set(ctx, upstream, submission, kind, message, None).await?;
    match &changed.outcome {
        Outcome::Done(Some(rev)) => Ok(Deployed::Active(rev.clone())),
        Outcome::Done(None) | Outcome::Stale | Outcome::Refused => {
            let response = answer(ctx, upstream, changed)?;
            Ok(Deployed::Refused(Box::new(response)))
        }
    }
}
