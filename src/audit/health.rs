//! Whether the log can be written, for monitoring and for acts that must not happen unrecorded.

use super::follow::{Follower, Followers};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The state of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It is written.
    Well,
    /// It has nearly reached its size, and none of its files is old enough to be removed.
    Filling,
    /// Only its reserve is left: security-relevant records are written, and those of users with
    /// `*`.
    Reserve,
    /// It has reached its size: only the program's own records are written.
    Full,
    /// The last record could not be written.
    Failing,
}

impl Health {
    const ALL: [Self; 5] = [
        Self::Well,
        Self::Filling,
        Self::Reserve,
        Self::Full,
        Self::Failing,
    ];

    /// The problem that monitoring reports; `None`: the log is healthy.
    pub fn problem(self) -> Option<&'static str> {
        match self {
            Self::Well => None,
            Self::Filling => Some(
                "filling: four fifths of audit.max_size are used, and no file is older than audit.keep_for",
            ),
            Self::Reserve => Some(
                "reserve: nine tenths of audit.max_size are used; only security-relevant records and those of users with * are written; archive old files or raise max_size",
            ),
            Self::Full => Some(
                "full: audit.max_size is reached, and no file is older than audit.keep_for; archive old files or raise max_size",
            ),
            Self::Failing => Some("failing: records cannot be written, see the log"),
        }
    }
}

/// The health as the writer saw it last, and the sinks; outlives the log.
#[derive(Debug, Default)]
pub struct Monitor {
    health: AtomicU8,
    /// True if this start has found a log that was cut or changed.
    damaged: AtomicBool,
    followers: Followers,
}

impl Monitor {
    pub(super) fn new(followers: Followers) -> Self {
        Self {
            health: AtomicU8::default(),
            damaged: AtomicBool::default(),
            followers,
        }
    }

    pub(super) fn followers(&self) -> &[Arc<Follower>] {
        self.followers.all()
    }

    /// Returns whether a sink lags by more than it may.
    pub fn sinks_lag(&self) -> bool {
        self.followers.lag()
    }

    /// The problem that monitoring reports; `None`: log and sinks are healthy.
    pub fn problem(&self) -> Option<&'static str> {
        let lag = "lagging: a sink has not taken records for longer than its max_lag, see the log";
        let problem = self.health().problem();
        let damaged = "damaged: at the last start the log was cut or changed, see audit.repaired in it and flowgate audit verify";
        let is_damaged = self.damaged.load(Ordering::Relaxed);
        problem
            .or_else(|| self.sinks_lag().then_some(lag))
            .or_else(|| is_damaged.then_some(damaged))
    }

    /// The health of the log now.
    pub fn health(&self) -> Health {
        let now = self.health.load(Ordering::Relaxed);
        let known = Health::ALL.into_iter().find(|health| *health as u8 == now);
        known.unwrap_or(Health::Failing)
    }

    /// Sets whether this start has found a log that was cut or changed.
    pub(super) fn set_damaged(&self, damaged: bool) {
        self.damaged.store(damaged, Ordering::Relaxed);
    }

    /// Sets it; gives the one before.
    pub(super) fn set(&self, health: Health) -> Health {
        let before = self.health();
        self.health.store(health as u8, Ordering::Relaxed);
        before
    }
}
