//! The palette folder `parser`.

pub(super) mod csv;
mod csv_legacy;
mod csv_part;
mod csv_rfc;
mod csv_write;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub(super) mod html;
mod html_select;
pub(super) mod json;
mod json_schema;
mod json_schema_nested;
mod json_schema_strict;
pub(super) mod xml;
mod xml_element;
mod xml_options;
mod xml_read;
mod xml_spaces;
mod xml_write;
pub(super) mod yaml;
mod yaml_block;
mod yaml_error;
mod yaml_flow;
mod yaml_map;
mod yaml_names;
pub(super) mod yaml_read;
mod yaml_scalar;
mod yaml_scan;
mod yaml_time;
mod yaml_types;
mod yaml_write;
