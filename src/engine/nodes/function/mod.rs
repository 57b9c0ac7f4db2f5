//! The palette folder `function`.

#[allow(clippy::module_inception, reason = "the folder and the node have the names of Node-RED's palette")]
pub(super) mod function;
