//! The flow set to be active after a deployment, made of the submission and of the one active before it.

use super::{Active, Error, Request};
use crate::store::{self, Store};
use flows::{Credentials, FlowSet, add_flow, remove_flow, replace_flow};
use smol_str::SmolStr;
use std::collections::HashSet;

/// The flow set to be active next.
pub(super) struct Next {
    pub(super) flows: FlowSet,
    /// All credentials, those sent merged into those kept.
    pub(super) credentials: Credentials,
    /// The nodes whose credentials were sent.
    pub(super) sent: HashSet<SmolStr>,
    /// The id of the flow added or replaced, for `/flow`.
    pub(super) flow: Option<String>,
}

/// Makes it: read again from storage, or of what was sent and of what was active before.
pub(super) async fn next(request: Request, before: &Active, store: &Store) -> Result<Next, Error> {
    match proposed(request, &before.flows, &before.credentials)? {
        Some(next) => Ok(next),
        None => stored(store).await,
    }
}

/// Makes it of what was sent and of the flow set before; `None`: it is the one in storage.
pub(super) fn proposed(
    request: Request,
    before: &FlowSet,
    kept: &Credentials,
) -> Result<Option<Next>, Error> {
    Ok(Some(match request {
        Request::Reload => return Ok(None),
        Request::Flows { submission, .. } => Next {
            credentials: submission.merged(kept),
            sent: submission.credential_ids(),
            flows: submission.flows,
            flow: None,
        },
        Request::AddFlow(body) => {
            // 16 hexadecimal digits, as editors make them.
            let id = crypto::hex(&crypto::random::<8>());
            let (flows, sent) = add_flow(before, &body, &id)?;
            single(flows, &sent, kept, Some(id))
        }
        Request::ReplaceFlow(id, body) => {
            let (flows, sent) = replace_flow(before, &id, &body)?;
            single(flows, &sent, kept, Some(id))
        }
        Request::RemoveFlow(id) => {
            let flows = remove_flow(before, &id)?;
            single(flows, &Credentials::default(), kept, None)
        }
    }))
}

async fn stored(store: &Store) -> Result<Next, Error> {
    let loaded = store.load().await.map_err(|error| match error {
        store::Error::Invalid { .. } => Error::StorageInvalid(error),
        store::Error::Io { .. }
        | store::Error::Database(_)
        | store::Error::Damaged { .. }
        | store::Error::InUse { .. } => Error::Store(error),
    })?;
    Ok(Next {
        flows: loaded.flows,
        credentials: loaded.credentials,
        sent: HashSet::new(),
        flow: None,
    })
}

fn single(flows: FlowSet, sent: &Credentials, kept: &Credentials, flow: Option<String>) -> Next {
    Next {
        credentials: kept.merge(sent, &flows),
        sent: sent.nodes.keys().cloned().collect(),
        flows,
        flow,
    }
}
