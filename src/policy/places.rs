//! The places of flows in a cluster: what belongs together is not run apart, and what runs does not
//! move with a deployment.

use super::{Deployment, Rule, Violation};
use crate::config::Policy;
use engine::shards::Shards;
use flows::FlowSet;
use std::sync::Arc;

/// What the flows violate that the ones before do not.
pub(super) fn check(policy: &Policy, deployment: &Deployment<'_>) -> Vec<Violation> {
    let Some(places) = &policy.places else {
        return Vec::new();
    };
    let shards = |flows: &FlowSet| Shards::of(&Arc::new(flows.clone()), places);
    let (before, after) = (shards(deployment.before), shards(deployment.after));
    let refused = after.refused(&before).into_iter();
    let violations = refused.map(|misplaced| Violation {
        rule: Rule::Place,
        nodes: misplaced.tabs,
        message: misplaced.message,
    });
    violations.collect()
}
