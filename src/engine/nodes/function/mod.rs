//! The palette folder `function`.

pub(super) mod change;
mod change_apply;
mod change_rules;
pub(super) mod range;
pub(super) mod switch;
mod switch_rules;
mod switch_sequence;
pub(super) mod template;
