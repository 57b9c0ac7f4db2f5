//! Follows the flows of a cluster whose flows have places: each gateway needs them to know where
//! requests go, and the engines of the shards run by them.

use crate::gateway::Gateway;
use crate::store::{EngineState, Error, KeptState, flows_of};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// The time between two looks. Our choice: an editor that has deployed shows what runs, and rarely
/// waits for it.
const LOOK: Duration = Duration::from_millis(250);

/// Follows them until the gateway is dropped.
pub(super) async fn follow(
    gateway: Weak<Gateway>,
    mut kept: KeptState,
    follows: watch::Sender<Option<Arc<EngineState>>>,
) {
    let mut known = String::new();
    let mut is_unseen = false;
    loop {
        let found = newer(&mut kept, &known).await;
        let Some(gateway) = gateway.upgrade() else {
            return;
        };
        match found {
            Ok(found) => {
                is_unseen = false;
                if let Some((mark, state)) = found {
                    known = mark;
                    take_over(&gateway, &state);
                    follows.send_replace(Some(Arc::new(state)));
                }
            }
            Err(error) if !is_unseen => {
                is_unseen = true;
                tracing::error!(%error, "it is not known which flows run where");
            }
            Err(_) => {}
        }
        drop(gateway);
        sleep(LOOK).await;
    }
}

/// The flows, if they are others than those of the mark.
async fn newer(kept: &mut KeptState, known: &str) -> Result<Option<(String, EngineState)>, Error> {
    // Before the flows: those may be newer, and are then read once more.
    let mark = kept.mark().await?;
    if mark == known {
        return Ok(None);
    }
    Ok(Some((mark, kept.flows().await?)))
}

fn take_over(gateway: &Gateway, state: &EngineState) {
    let shards = gateway.backends.first().shards.as_ref();
    if let (Some(shards), Some(flows)) = (shards, flows_of(state))
        && let Err(error) = shards.take_over(flows)
    {
        tracing::error!(%error, "requests go where they went: the flows cannot be read");
    }
}
