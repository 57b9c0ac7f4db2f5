//! The freeze that an operator commands: for all runtimes, and beyond a restart.

use super::{Backends, Gateway};
use crate::policy::Freeze;
use crate::store::{Error, Store};

impl Gateway {
    /// Begins a freeze in the place of the one that there may be, or ends it. On an error the one
    /// before stays.
    pub async fn freeze(&self, freeze: Option<Freeze>) -> Result<(), Error> {
        let kept = freeze.clone().map(|freeze| (freeze.until, freeze.reason));
        self.store.save_freeze(kept).await?;
        begin(&self.backends, freeze.as_ref());
        Ok(())
    }
}

/// Goes on with the freeze that was commanded before the start, if there is one.
pub(super) async fn go_on(backends: &Backends, store: &Store) -> Result<(), Error> {
    let kept = store.freeze().await?;
    let freeze = kept.map(|(until, reason)| Freeze { until, reason });
    begin(backends, freeze.as_ref());
    Ok(())
}

/// Takes over the freeze that was commanded at another gateway, or its end.
pub(super) fn take_over(backends: &Backends, kept: Option<(u64, String)>) {
    let freeze = kept.map(|(until, reason)| Freeze { until, reason });
    begin(backends, freeze.as_ref());
}

fn begin(backends: &Backends, freeze: Option<&Freeze>) {
    for backend in backends.all() {
        backend.deployments.set_freeze(freeze.cloned());
    }
}
