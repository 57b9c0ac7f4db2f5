//! The palette folder `function`.

pub(super) mod change;
mod change_apply;
mod change_rules;
#[allow(
    clippy::module_inception,
    reason = "the folder and the node have the names of Node-RED's palette"
)]
pub(super) mod function;
pub(super) mod range;
pub(super) mod switch;
mod switch_rules;
mod switch_sequence;
pub(super) mod template;
