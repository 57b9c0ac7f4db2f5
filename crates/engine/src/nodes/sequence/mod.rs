//! The palette folder `sequence`.

pub(super) mod batch;
pub(super) mod join;
mod join_group;
mod join_piece;
mod join_reduce;
pub(super) mod sort;
mod sort_order;
pub(super) mod split;
mod split_cut;
