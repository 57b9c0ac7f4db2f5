//! The palette folder `parser`.

pub(super) mod csv;
mod csv_part;
pub(super) mod html;
pub(super) mod json;
pub(super) mod xml;
pub(super) mod yaml;
