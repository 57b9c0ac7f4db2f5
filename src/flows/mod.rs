//! The flow set, what changed in it, and what to stop, start and rewire. Pure: no input or output, no clock.

pub mod credentials;
mod diff;
mod model;
mod plan;
mod submission;

pub use credentials::Credentials;
pub use diff::{Diff, diff};
pub use model::{FlowSet, Malformed, Node};
pub use plan::{DeploymentType, Plan, Stop, plan};
pub use submission::Submission;
