//! The part of the flows that an engine of a cluster runs, and the flows that it follows because
//! the main engine has them.

#[cfg(feature = "engine")]
use super::Error;
use super::{Active, Deployments, plan_of};
use crate::config;
#[cfg(feature = "engine")]
use crate::store::EngineState;
#[cfg(feature = "engine")]
use engine::shards::Shards;
use flows::{DeploymentType, FlowSet, Plan};
use smol_str::SmolStr;
use std::collections::HashSet;
use std::sync::Arc;

impl Active {
    /// What the engine runs of it: all, if there are no shards.
    #[cfg(feature = "engine")]
    pub(super) fn part(&self, shard: Option<&config::Shard>) -> &Arc<FlowSet> {
        let Some(shard) = shard else {
            return &self.flows;
        };
        self.part
            .get_or_init(|| Arc::new(Shards::of(&self.flows, &shard.places).part(&shard.name)))
    }

    /// What the engine runs of it: all, as there is none.
    #[cfg(not(feature = "engine"))]
    pub(super) fn part(&self, _: Option<&config::Shard>) -> &Arc<FlowSet> {
        self.part.get().unwrap_or(&self.flows)
    }
}

impl Deployments {
    /// The steps from one flow set to another, as far as the engine runs them.
    pub(super) fn plan(
        &self,
        sets: [&Active; 2],
        sent: &HashSet<SmolStr>,
        kind: DeploymentType,
        restart: HashSet<SmolStr>,
    ) -> Plan {
        let parts = sets.map(|set| &**set.part(self.shard.as_ref()));
        plan_of(parts, sent, kind, restart)
    }

    /// Takes over the flows that the main engine of a cluster has, and whether they run. Must run
    /// as a task of the control runtime.
    #[cfg(feature = "engine")]
    pub async fn follow(&self, state: EngineState, now: u64) -> Result<(), Error> {
        let _lock = self.deploy_lock.lock().await;
        let before = self.active();
        let ran = self.store.running().await.map_err(Error::Store)?;
        let kept = self.store.take_in(state, before.rev.clone(), now).await;
        if let Some(loaded) = kept.map_err(Error::Store)? {
            let active = Active::new(loaded.flows, loaded.credentials, loaded.rev);
            let sent = active.credentials.differing(&before.credentials);
            let plan = self.plan(
                [&before, &active],
                &sent,
                DeploymentType::Nodes,
                HashSet::new(),
            );
            self.make_live(plan, &active).await?;
            self.active.send_replace(Arc::new(active));
        }
        let runs = self.store.running().await.map_err(Error::Store)?;
        if runs != ran {
            self.runtime.set_running(runs).await?;
        }
        Ok(())
    }
}
