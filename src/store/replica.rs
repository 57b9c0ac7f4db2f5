//! What keeps the state of an engine elsewhere too.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The parts of the state by name: a flow file, the revision of its flows, a file of the library,
/// whether flows run, a shared context.
pub type EngineState = BTreeMap<String, String>;

/// Keeps a part of the state elsewhere, or says why not. It may take a while; the caller waits.
pub type Replica = Arc<dyn Fn(EngineState) -> Result<(), String> + Send + Sync>;
