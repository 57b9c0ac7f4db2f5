//! The process of an engine that is isolated from the gateway (`[engine] isolation`):
//! [`mod@prepare`] makes way for it, [`mod@supervisor`] starts it, starts it again when it ends,
//! and ends it; [`mod@log`] logs what it writes; [`mod@handed`] is its own beginning.

mod handed;
mod lease;
mod link;
mod log;
mod message;
mod prepare;
mod supervisor;

pub use handed::Handed;
pub(super) use link::Member;
pub(super) use prepare::{check, prepare};
pub(super) use supervisor::{First, Plan, Supervised, start, supervise, wanted};
