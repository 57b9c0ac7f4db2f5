//! The palette folder `parser`.

pub(super) mod csv;
mod csv_read;
mod csv_write;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub(super) mod html;
pub(super) mod json;
pub(super) mod xml;
mod xml_options;
mod xml_read;
mod xml_write;
pub(super) mod yaml;
mod yaml_write;
