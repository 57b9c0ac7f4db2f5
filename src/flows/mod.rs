//! The flow set, what changed in it, and what to stop, start and rewire. Pure: no input or output, no clock.

pub mod credentials;
mod diff;
mod env_secrets;
mod expansion;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod known;
mod model;
mod order;
mod parse;
mod plan;
mod references;
mod same;
mod single;
mod submission;

pub use credentials::Credentials;
pub use diff::{Diff, diff};
pub use expansion::DEPTH;
pub use model::{FlowSet, Malformed, Node, Part};
pub use plan::{DeploymentType, Plan, Stop, plan};
pub use single::{Error as FlowError, add_flow, check_flow, flow_json, remove_flow, replace_flow};
pub use submission::Submission;
