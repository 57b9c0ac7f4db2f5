//! The profiler: adds each call of a node, each message that it sends and each of its errors to the
//! profiles that are being taken.

use crate::Error;
use crate::instance::Instance;
use crate::node_info::NodeInfo;
use crate::profile::{Profile, Used};
use flows::FlowSet;
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Profiles that are taken at a time, at most. Our choice: some operators and a monitoring system.
/// To read the clock twice for a message takes 50 ns (measured), and each profile adds some ten.
const MAX_PROFILES: usize = 4;

/// The receiver of a profile; gone: the profile ends.
pub(crate) type Answer = oneshot::Sender<Result<Profile, Error>>;

/// The profiles that are being taken.
#[derive(Default)]
pub(crate) struct Profiler(Vec<Taking>);

/// A profile that is being taken.
struct Taking {
    began: Instant,
    ends: Instant,
    /// [`busy`] when it began.
    busy: Duration,
    /// By epoch: an instance of a node has one of its own.
    nodes: FxHashMap<u32, Used>,
    answer: Answer,
}

impl Profiler {
    /// Begins a profile, unless there are too many.
    pub(crate) fn begin(&mut self, duration: Duration, now: Instant, answer: Answer) {
        if self.0.len() >= MAX_PROFILES {
            // The client may be gone.
            let _ = answer.send(Err(Error::TooManyProfiles));
            return;
        }
        self.0.push(Taking {
            began: now,
            ends: now + duration,
            busy: busy(),
            nodes: FxHashMap::default(),
            answer,
        });
    }

    /// Returns whether a profile is being taken.
    pub(crate) fn is_active(&self) -> bool {
        !self.0.is_empty()
    }

    /// Adds a call of a node.
    pub(crate) fn add(
        &mut self,
        instance: Instance,
        info: &Rc<NodeInfo>,
        messages: u64,
        time: Duration,
    ) {
        for used in self.used(instance, info) {
            used.messages += messages;
            used.time += time;
        }
    }

    /// Counts a message that a node sends. Without a profile it costs the comparison of a length.
    pub(crate) fn sent(&mut self, instance: Instance, info: &Rc<NodeInfo>, output: usize) {
        for used in self.used(instance, info) {
            used.sent(output, 1);
        }
    }

    /// Counts an error that a node reports.
    pub(crate) fn failed(&mut self, instance: Instance, info: &Rc<NodeInfo>) {
        for used in self.used(instance, info) {
            used.errors += 1;
        }
    }

    /// A node in each profile.
    fn used<'a>(
        &'a mut self,
        instance: Instance,
        info: &'a Rc<NodeInfo>,
    ) -> impl Iterator<Item = &'a mut Used> {
        let entry = move |taking: &'a mut Taking| {
            let nodes = taking.nodes.entry(instance.epoch);
            nodes.or_insert_with(|| Used::new(info))
        };
        self.0.iter_mut().map(entry)
    }

    /// When the next one ends.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.0.iter().map(|taking| taking.ends).min()
    }

    /// Ends those that are due, and those that no client waits for.
    pub(crate) fn finish(&mut self, now: Instant, waiting: usize, flows: &FlowSet) {
        let ended = |taking: &mut Taking| taking.ends <= now || taking.answer.is_closed();
        for Taking {
            began,
            busy: before,
            nodes,
            answer,
            ..
        } in self.0.extract_if(.., ended)
        {
            if !answer.is_closed() {
                let busy = busy().saturating_sub(before);
                let profile = Profile::of(now - began, busy, waiting, nodes.into_values(), flows);
                let _ = answer.send(Ok(profile));
            }
        }
    }
}

/// The time that this thread's runtime has not waited, up to its last wait: with the tasks of
/// nodes, which no node's call contains.
fn busy() -> Duration {
    let runtime = Handle::try_current();
    runtime.map_or(Duration::ZERO, |runtime| {
        runtime.metrics().worker_total_busy_duration(0)
    })
}
