//! The flow set to be active after a deployment, made of the submission and of the one active
//! before it.

use super::four_eyes::SentCredentials;
use super::{Active, Error, Request};
use crate::auth::Permissions;
use crate::policy::{self, Sight};
use crate::store::{self, Store};
use flows::running::{check_elements, check_forms};
use flows::{
    Credentials, DeploymentType, FlowSet, Submission, add_flow, remove_flow, replace_flow,
};
use smol_str::SmolStr;
use std::collections::HashSet;
use std::sync::Arc;

/// The flow set to be active next.
pub(super) struct Next {
    pub(super) flows: FlowSet,
    /// All credentials, those sent merged into those kept.
    pub(super) credentials: Credentials,
    /// The nodes whose credentials were sent.
    pub(super) sent: HashSet<SmolStr>,
    /// What was sent.
    pub(super) submitted: SentCredentials,
    /// The id of the flow added or replaced, for `/flow`.
    pub(super) flow: Option<String>,
}

impl Request {
    /// The deployment type; a single flow is a `flows` deployment
    /// (docs/reference/node-red-engine.md §1.2).
    pub(super) fn kind(&self) -> DeploymentType {
        match self {
            Self::Flows { kind, .. } => *kind,
            Self::Reload => DeploymentType::Reload,
            Self::AddFlow(_) | Self::ReplaceFlow(..) | Self::RemoveFlow(_) => DeploymentType::Flows,
        }
    }
}

/// Makes it: read again from storage, or of what was sent and of what was active before.
pub(super) async fn next(
    request: Request,
    before: &Active,
    by: &Permissions,
    store: &Store,
) -> Result<Next, Error> {
    match proposed(request, before, by)? {
        Some(next) => Ok(next),
        None => stored(store).await,
    }
}

/// Makes it of what was sent and of the flow set before; `None`: it is the one in storage. What the
/// caller does not see stays as it is.
pub(super) fn proposed(
    request: Request,
    before: &Active,
    by: &Permissions,
) -> Result<Option<Next>, Error> {
    let sight = before.sight(by);
    // A single flow is changed in what the caller sees.
    let shown = || sight.shown();
    let (submission, flow) = match request {
        Request::Reload => return Ok(None),
        Request::Flows { submission, .. } => (submission, None),
        Request::AddFlow(body) => {
            // 16 hexadecimal digits, as editors make them.
            let id = crypto::hex(&crypto::random::<8>());
            let (flows, credentials) = add_flow(&shown(), &body, &id)?;
            (single(flows, credentials), Some(id))
        }
        Request::ReplaceFlow(id, body) => {
            let (flows, credentials) = replace_flow(&shown(), &id, &body)?;
            (single(flows, credentials), Some(id))
        }
        Request::RemoveFlow(id) => {
            let flows = remove_flow(&shown(), &id)?;
            (single(flows, Credentials::default()), None)
        }
    };
    let submission = whole(submission, &sight, by, &before.flows)?;
    Ok(Some(Next {
        credentials: submission.merged(&before.credentials),
        sent: submission.credential_ids(),
        flows: submission.flows,
        flow,
        submitted: SentCredentials {
            merged: submission.credentials,
            replacing: submission.replacing,
        },
    }))
}

/// The submission with all that its caller does not see.
fn whole(
    submission: Submission,
    sight: &Sight,
    by: &Permissions,
    before: &FlowSet,
) -> Result<Submission, Error> {
    if !by.cover_all() {
        check_forms(&submission.flows, before, &submission.credentials)?;
    }
    if sight.is_whole() {
        check_elements(&submission.flows)?;
        // A policy sees no change where the content is the same; the engine could run another order
        // of keys, or `0.0` for `0`, otherwise. So what no policy has seen does not change.
        let flows = if by.cover_all() {
            submission.flows
        } else {
            submission.flows.with_texts_of(before)
        };
        return Ok(Submission {
            flows,
            ..submission
        });
    }
    let sent = submission.credential_ids();
    let foreign: Vec<SmolStr> = sent.into_iter().filter(|id| sight.hides(id)).collect();
    if !foreign.is_empty() {
        return Err(policy::refused(foreign).into());
    }
    let flows = Arc::new(FlowSet::new(policy::merged(sight, &submission.flows)?)?);
    check_elements(&flows)?;
    policy::widened(sight, &Sight::of(by, &flows)).allowed()?;
    Ok(Submission {
        flows: Arc::unwrap_or_clone(flows),
        ..submission
    })
}

async fn stored(store: &Store) -> Result<Next, Error> {
    let loaded = store.load().await.map_err(|error| match error {
        store::Error::Invalid { .. } => Error::StorageInvalid(error),
        store::Error::Io { .. }
        | store::Error::Unreachable(_)
        | store::Error::Busy { .. }
        | store::Error::Database(_)
        | store::Error::OtherSecret
        | store::Error::UnreadableCredentials { .. }
        | store::Error::Damaged { .. }
        | store::Error::InUse { .. } => Error::Store(error),
    })?;
    Ok(Next {
        flows: loaded.flows,
        credentials: loaded.credentials,
        sent: HashSet::new(),
        submitted: SentCredentials::default(),
        flow: None,
    })
}

fn single(flows: FlowSet, credentials: Credentials) -> Submission {
    Submission {
        flows,
        credentials,
        replacing: Credentials::default(),
        rev: None,
    }
}
