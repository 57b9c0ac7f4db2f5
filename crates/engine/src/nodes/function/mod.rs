//! The palette folder `function`.

pub(super) mod change;
mod change_apply;
mod change_rules;
pub(super) mod delay;
mod delay_each;
mod delay_queue;
mod delay_rate;
mod delay_topics;
pub(super) mod exec;
mod exec_command;
mod exec_process;
#[allow(
    clippy::module_inception,
    reason = "the folder and the node have the names of Node-RED's palette"
)]
pub(super) mod function;
pub(super) mod range;
pub(super) mod rbe;
pub(super) mod switch;
mod switch_rules;
mod switch_sequence;
pub(super) mod template;
pub(super) mod trigger;
mod trigger_output;
