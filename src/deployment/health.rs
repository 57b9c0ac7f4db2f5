//! Checks the flows after a deployment, and deploys those before it again if they are not well.
//!
//! `gateway::health_watch` decides when.

#[cfg(feature = "engine")]
use super::engine_health::endpoint;
use super::{Active, Authorized, Deployments, Error, Runtime};
use crate::audit::{Actor, Event};
use crate::config::Health;
use crate::upstream::{Outcome, probe};
use flows::{Credentials, FlowSet, Submission};
use serde_json::json;
use smol_str::SmolStr;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// The time-out of one check. Our choice: what a user waits for a page.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// The least messages by which errors are judged. Our choice: one error is no rate.
const MIN_MESSAGES: f64 = 10.0;

/// A deployment that users made, and that is to be watched.
#[derive(Debug)]
pub struct Change {
    /// The user who made it, or whose service token did; empty: an anonymous one.
    pub user: String,
    /// What was active before it; of an upstream without credentials.
    pub before: Arc<Active>,
    /// The tabs on which it changes what runs.
    pub flows: HashSet<SmolStr>,
    /// Its revision.
    pub rev: String,
    /// How its flows are to be watched.
    pub health: Health,
}

/// The counts by which the engine is judged.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Messages that nodes received.
    pub messages: f64,
    /// Errors that nodes reported.
    pub errors: f64,
    /// Timers that fired.
    pub timers: f64,
    /// The seconds that they were late, together.
    pub late: f64,
}

impl Counts {
    /// What is wrong since `before`, if something is.
    pub fn judge(&self, before: &Self, health: &Health) -> Result<(), String> {
        let messages = (self.messages - before.messages).max(self.errors - before.errors);
        let errors = self.errors - before.errors;
        if let Some(most) = health.max_error_rate
            && messages >= MIN_MESSAGES
            && errors / messages > most
        {
            let rate = errors / messages;
            return Err(format!(
                "nodes reported {errors} errors for {messages} messages: {rate:.3} each, and at most {most} are allowed"
            ));
        }
        let timers = self.timers - before.timers;
        let late = (self.late - before.late) / timers.max(1.0);
        match health.max_lateness {
            Some(most) if late > most.as_secs_f64() => Err(format!(
                "timers are {late:.3} s late on average, and at most {most:?} are allowed"
            )),
            Some(_) | None => Ok(()),
        }
    }
}

impl Deployments {
    /// Tells of each deployment that users have made; `None`: it is not watched.
    pub fn changes(&self) -> watch::Receiver<Option<Arc<Change>>> {
        self.changes.subscribe()
    }

    /// What was active before is kept only if the deployment is watched.
    pub(super) fn tell_change(
        &self,
        before: Arc<Active>,
        rev: &str,
        flows: impl FnOnce(&FlowSet) -> HashSet<SmolStr>,
        by: &Authorized<'_>,
    ) {
        let change = self.health().map(|health| {
            Arc::new(Change {
                user: by.owner().to_owned(),
                flows: flows(&before.flows),
                before,
                rev: rev.to_owned(),
                health,
            })
        });
        self.changes.send_replace(change);
    }

    /// The same of a deployment to an upstream, which is asked for its revision if its answer has
    /// not named it.
    pub(super) async fn tell_change_there(
        &self,
        before: Option<Arc<Active>>,
        rev: Option<&str>,
        by: &Authorized<'_>,
    ) {
        let before = before.filter(|_| self.health().is_some());
        let Some((upstream, before)) = self.runtime.upstream().zip(before) else {
            return;
        };
        let asked = match rev {
            Some(rev) => Ok(rev.to_owned()),
            None => self.found_there(upstream).await.map(|found| found.rev),
        };
        match asked {
            Ok(rev) => self.tell_change(before, &rev, |_| HashSet::new(), by),
            Err(error) => tracing::warn!(%error, "the deployment is not watched"),
        }
    }

    /// How the flows are to be watched; `None`: they are not.
    pub(super) fn health(&self) -> Option<Health> {
        self.policy.load().health.clone()
    }

    /// The counts of now, with the errors on such tabs; of an upstream none.
    #[cfg_attr(
        not(feature = "engine"),
        allow(unused_variables, reason = "an upstream has no counts")
    )]
    pub fn counts(&self, flows: &HashSet<SmolStr>) -> Counts {
        match &self.runtime {
            #[cfg(feature = "engine")]
            Runtime::Own(_) => {
                let lateness = self.metrics.lateness();
                let timers = lateness.buckets.iter().sum::<u64>();
                Counts {
                    messages: self.metrics.total("flowgate_node_messages_total"),
                    errors: self.metrics.errors_on(flows),
                    timers: timers as f64,
                    late: lateness.sum.as_secs_f64(),
                }
            }
            Runtime::Upstream(_) => Counts::default(),
        }
    }

    /// What is wrong with the flows after a change, if something is. `before`: the counts at the
    /// last check.
    #[cfg_attr(
        not(feature = "engine"),
        allow(unused_variables, reason = "an upstream has no counts")
    )]
    pub async fn check_health(
        &self,
        health: &Health,
        flows: &HashSet<SmolStr>,
        before: &Counts,
    ) -> Result<(), String> {
        if let Some(url) = &health.url {
            let status = match timeout(CHECK_TIMEOUT, probe(url)).await {
                Err(_) => return Err(format!("{url} gave no answer within {CHECK_TIMEOUT:?}")),
                Ok(Err(error)) => return Err(format!("{url} gave no answer: {error}")),
                Ok(Ok(status)) => status,
            };
            if !status.is_success() {
                return Err(format!("{url} answered {}", status.as_u16()));
            }
        }
        match &self.runtime {
            #[cfg(feature = "engine")]
            Runtime::Own(engine) => {
                if let Some(path) = &health.endpoint {
                    endpoint(engine, path, CHECK_TIMEOUT).await?;
                }
                self.counts(flows).judge(before, health)
            }
            Runtime::Upstream(_) => Ok(()),
        }
    }

    /// Deploys flows that were well again, unless another revision than the unhealthy one is active
    /// by now. `now`: seconds since 1970. Answers the new revision.
    pub async fn fall_back(
        &self,
        bad: &str,
        healthy: &Active,
        reason: &str,
        now: u64,
    ) -> Result<Option<String>, Error> {
        let mut known = self.turn().await?;
        let rev = match &self.runtime {
            #[cfg(feature = "engine")]
            Runtime::Own(_) => self.fall_back_here(bad, healthy, now).await?,
            Runtime::Upstream(_) => self.fall_back_there(bad, healthy, &mut known, now).await?,
        };
        let Some(rev) = rev else {
            return Ok(None);
        };
        tracing::error!(
            unhealthy = bad,
            rev,
            reason,
            "FALLEN BACK: the flows deployed last are not well, and those before them are deployed again"
        );
        let mut facts = json!({ "set_aside": bad, "rev": rev, "reason": reason });
        self.name_upstream(&mut facts);
        let program = Actor::program();
        self.audit.record(Event::Fallback, &program, now, facts);
        self.metrics.fallback();
        Ok(Some(rev))
    }

    /// The upstream has the credentials of the elements that it still has.
    async fn fall_back_there(
        &self,
        bad: &str,
        healthy: &Active,
        known: &mut Option<String>,
        now: u64,
    ) -> Result<Option<String>, Error> {
        let Some(upstream) = self.runtime.upstream() else {
            return Ok(None);
        };
        let active = self.found_there(upstream).await?.rev;
        if active != bad {
            return Ok(None);
        }
        let submission = Submission {
            flows: FlowSet::new(healthy.flows.nodes().to_vec())?,
            credentials: Credentials::default(),
            replacing: Credentials::default(),
            rev: Some(active),
        };
        *known = None;
        let changed = upstream.deploy(submission.to_json().into()).await?;
        match changed.outcome {
            Outcome::Done(rev) => {
                known.clone_from(&rev);
                let rev = rev.unwrap_or_default();
                self.keep_fallback(upstream, &rev, healthy, now).await;
                Ok(Some(rev))
            }
            Outcome::Stale | Outcome::Refused => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEALTH: Health = Health {
        url: None,
        endpoint: None,
        max_error_rate: Some(0.1),
        max_lateness: Some(Duration::from_millis(50)),
        watch: Duration::from_mins(1),
    };

    fn judged(messages: f64, errors: f64, timers: f64, late: f64) -> bool {
        let before = Counts {
            messages: 1000.0,
            errors: 500.0,
            timers: 100.0,
            late: 60.0,
        };
        let now = Counts {
            messages: before.messages + messages,
            errors: before.errors + errors,
            timers: before.timers + timers,
            late: before.late + late,
        };
        now.judge(&before, &HEALTH).is_ok()
    }

    #[test]
    fn errors_are_judged_by_the_messages_since_the_last_check_if_there_are_enough() {
        assert!(judged(0.0, 0.0, 0.0, 0.0));
        assert!(judged(9.0, 9.0, 0.0, 0.0), "too few");
        assert!(judged(100.0, 10.0, 0.0, 0.0));
        assert!(!judged(100.0, 11.0, 0.0, 0.0));
        // Sources report errors and receive no message.
        assert!(!judged(0.0, 10.0, 0.0, 0.0));
    }

    #[test]
    fn timers_are_judged_by_their_average() {
        assert!(judged(0.0, 0.0, 10.0, 0.5));
        assert!(!judged(0.0, 0.0, 10.0, 0.6));
    }
}
