//! What the engine says and comms hears: the vocabulary of everything an editor is told while flows run.

use serde_json::Value as Json;
use smol_str::SmolStr;

/// One thing that happened in the runtime, in the words of the editor's topics (facts §4 of the admin API).
#[derive(Debug, Clone)]
pub enum Event {
    /// Topic `notification/runtime-state`: flows started, stopped, or cannot start.
    RuntimeState(Json),
    /// Topic `notification/runtime-deploy`: a deployment is live.
    RuntimeDeploy {
        /// The new revision.
        revision: String,
    },
    /// Topic `status/<id>`: a node's badge; `None` clears it.
    Status {
        /// The node's id.
        id: SmolStr,
        /// `{fill, shape, text}` as the node gave it.
        status: Option<Json>,
    },
    /// Topic `debug`: a debug node's message, or a warning or error of any node.
    Debug(Json),
}
