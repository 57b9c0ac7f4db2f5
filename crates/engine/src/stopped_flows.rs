//! Flows that the engine itself has stopped, because their queue or the memory of the program would
//! grow without end.

use crate::instance::Instance;
use crate::overload::Size;
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::fmt::{self, Display};

/// Why flows were stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The queue did not get shorter although its sources paused.
    Queue,
    /// The program needs more memory than it may have, and their queue was the largest.
    Memory,
}

impl Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::Memory => "memory",
        })
    }
}

/// A flow that was stopped.
#[derive(Debug, Clone)]
pub struct StoppedFlow {
    /// The id of its tab.
    pub id: SmolStr,
    /// The label of its tab.
    pub label: SmolStr,
    /// Why it was stopped.
    pub reason: Reason,
}

impl StoppedFlow {
    /// The flow as the admin API and editors' channels list it.
    pub fn to_json(&self) -> Json {
        json!({ "id": self.id, "label": self.label, "reason": self.reason.to_string() })
    }
}

/// The nodes and flows of a group that is to stop.
pub(super) struct Halt {
    pub nodes: Vec<Instance>,
    pub flows: Vec<StoppedFlow>,
    pub reason: Reason,
    /// The size of their queue.
    pub size: Size,
}
