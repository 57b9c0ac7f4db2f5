//! Frames of the process that name what it was not given: each is refused and counted; of each
//! package, and of the host itself, the first one after a deployment is logged.

use super::NodeHost;
use crate::metrics::RefusedFrame;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;
use std::cell::RefCell;

/// Bytes of a name that are logged.
const MAX_NAME: usize = 80;

/// A frame that is refused.
pub(crate) struct Violation<'a> {
    pub frame: RefusedFrame,
    /// The name that the process may not use: of a node, a context or a topic.
    pub node: &'a str,
    /// The type of the node that the frame is of, if one runs.
    pub kind: Option<&'a str>,
    pub reason: &'static str,
}

/// The packages, with the kinds of frames, whose violation was logged; without a name: the host.
#[derive(Default)]
pub(super) struct Violations(RefCell<FxHashSet<(SmolStr, RefusedFrame)>>);

impl Violations {
    /// A deployment begins: the next violation of each package is logged again.
    pub(super) fn forget(&self) {
        self.0.take();
    }
}

impl NodeHost {
    /// Counts a frame that was refused, and logs the first one of a package.
    pub(crate) fn refuse(&self, violation: &Violation<'_>) {
        let (frame, reason) = (violation.frame, violation.reason);
        self.metrics.refused(frame);
        let packages = self.packages.borrow();
        let package = violation.kind.and_then(|kind| packages.get(kind));
        let package = package.cloned().unwrap_or_default();
        let is_new = self
            .violations
            .0
            .borrow_mut()
            .insert((package.clone(), frame));
        if !is_new {
            return;
        }
        let name = violation.node;
        let end = name.floor_char_boundary(MAX_NAME);
        let name = name.get(..end).unwrap_or_default();
        let frame = frame.label();
        let package = if package.is_empty() {
            "unknown"
        } else {
            package.as_str()
        };
        tracing::error!(target: "node_host", package, frame, name = ?name, reason, "a frame of the node host was refused: a package forges frames, or changes the wires of its nodes; further ones are counted only, in flowgate_node_host_refused_frames_total");
    }
}
