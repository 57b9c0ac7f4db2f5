//! Whether the flows of an engine that runs apart run, and which of them it has stopped by itself:
//! for the gateway's own pages.

use super::{Error, Upstream};
use serde::Deserialize;
use serde_json::Value as Json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The longest wait for an answer. Our choice: the page that shows it is asked for again every few
/// seconds.
const LONGEST: Duration = Duration::from_secs(1);

/// `GET /flows/state` of an engine.
#[derive(Debug, Deserialize)]
pub struct FlowsState {
    /// `start`, `stop` or `safe`.
    pub state: String,
    /// The flows that the engine has stopped by itself.
    #[serde(default)]
    pub stopped: Vec<Json>,
    /// The revision that it has set aside because it did not start, while the flow set before it is
    /// active.
    pub set_aside: Option<String>,
}

impl Upstream {
    /// Asks an engine for the state of its flows.
    pub async fn flows_state(&self) -> Result<FlowsState, Error> {
        let unread = "its state of the flows cannot be read";
        let asked = self.ask_json("/flows/state", unread);
        timeout(LONGEST, asked).await.map_err(|_| Error::Timeout)?
    }

    /// The same as the last health check found it; `None`: it is no engine that runs apart, or does
    /// not answer.
    pub fn known_flows_state(&self) -> Option<Arc<FlowsState>> {
        self.0.flows_state.load_full()
    }

    /// Asks for it, for [`Self::known_flows_state`], if it may be an engine.
    pub(super) async fn learn_flows_state(&self, is_well: bool) {
        let found = if self.is_on_socket() && is_well {
            self.flows_state().await.ok()
        } else {
            None
        };
        self.0.flows_state.store(found.map(Arc::new));
    }
}
