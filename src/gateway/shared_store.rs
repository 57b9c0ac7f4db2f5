//! Follows the store that several gateways share, until the gateway is dropped.

use super::{Gateway, freeze};
use crate::store::{Error, FREEZE, Follower, SharedChange, freeze_of};
use std::sync::Weak;
use std::time::Duration;

/// The interval at which everything is compared, and which sessions are used is reported to others,
/// in seconds. Our choice: what the log of changes may have missed is found soon, and a thousand
/// sessions are read in a few milliseconds.
const REVIEW: u64 = 15;

/// What is known of the store.
#[derive(Default)]
struct Known {
    /// When everything was compared last, seconds since 1970.
    reviewed: u64,
    is_unreachable: bool,
}

/// Takes over what other gateways change.
pub(super) async fn follow(gateway: Weak<Gateway>, clock: fn() -> Duration) {
    let follower = gateway.upgrade().and_then(|gateway| gateway.store.follow());
    let Some(mut follower) = follower else {
        return;
    };
    let mut known = Known::default();
    loop {
        follower.wait().await;
        let Some(gateway) = gateway.upgrade() else {
            return;
        };
        // Before anything is read: sessions are known as they were then, or later.
        let now = clock().as_secs();
        let taken_over = take_over(&gateway, &mut follower, &mut known, now).await;
        gateway.metrics.shared_store_reached(taken_over.is_ok());
        match taken_over {
            Ok(()) => {
                if let Some(auth) = &gateway.auth {
                    auth.has_seen_store(now);
                }
                if std::mem::take(&mut known.is_unreachable) {
                    tracing::info!("the shared database is reached again");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut known.is_unreachable, true) {
                    tracing::error!(
                        %error,
                        "the shared database cannot be followed: no user can sign in and no flow can be deployed, and \
                         after storage.grace no request is answered"
                    );
                }
            }
        }
    }
}

/// Takes over what has changed, and compares everything if it is time, or if something was missed.
async fn take_over(
    gateway: &Gateway,
    follower: &mut Follower,
    known: &mut Known,
    now: u64,
) -> Result<(), Error> {
    let mut has_missed = false;
    for change in follower.changes().await? {
        match change {
            SharedChange::Missed => has_missed = true,
            SharedChange::Fact { name, value } if name == FREEZE => {
                freeze::take_over(&gateway.backends, freeze_of(&value));
            }
            change => {
                if let Some(auth) = &gateway.auth {
                    auth.take_over(change, now);
                }
            }
        }
    }
    if has_missed {
        freeze::go_on(&gateway.backends, &gateway.store).await?;
        compare(gateway, follower, true, now).await?;
    }
    if has_missed || now.saturating_sub(known.reviewed) >= REVIEW {
        if let Some(auth) = &gateway.auth {
            let uses = auth.uses_since(known.reviewed);
            gateway.store.save_uses(uses).await?;
        }
        compare(gateway, follower, false, now).await?;
        gateway.store.forget_changes().await?;
        known.reviewed = now;
    }
    Ok(())
}

/// Compares the sessions here with those of the store; `all`: begins those that are missing here
/// too.
async fn compare(
    gateway: &Gateway,
    follower: &mut Follower,
    all: bool,
    now: u64,
) -> Result<(), Error> {
    let Some(auth) = &gateway.auth else {
        return Ok(());
    };
    let before = auth.stored_keys();
    let stored = follower.sessions().await?;
    auth.compare(&before, &stored, all, now);
    gateway.metrics.sessions(auth.active());
    Ok(())
}
