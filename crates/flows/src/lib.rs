//! The flow set, what changed in it, and what to stop, start and rewire. Pure: no input or output,
//! no clock.

mod comparison;
pub mod credentials;
mod diff;
mod env_secrets;
mod expansion;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod hidden_variables;
pub mod ids;
pub mod json;
mod json_eq;
mod lint;
mod model;
mod parse;
mod patch;
mod places;
mod plan;
mod rebase;
mod references;
mod reuse;
pub mod running;
mod single_flow;
mod start_order;
mod submission;
mod take_back;
mod touched;

pub use comparison::{Compared, Difference, Property, compare, differing_properties, flow_of};
pub use credentials::Credentials;
pub use diff::{Diff, diff};
pub use expansion::DEPTH;
pub use hidden_variables::HiddenVariables;
pub use lint::{Finding, Lint, lint, type_is_known};
pub use model::{ElementKind, FlowSet, Malformed, Node};
pub use patch::{Counts, Patch, element, patched};
pub use places::Places;
pub use plan::{DeploymentType, Plan, Stop, plan};
pub use rebase::{RebaseError, Side, rebase};
pub use single_flow::{
    Error as FlowError, add_flow, check_flow, flow_json, remove_flow, replace_flow,
};
pub use submission::{Submission, submission_json};
pub use take_back::take_back;
pub use touched::{Touched, touched};
