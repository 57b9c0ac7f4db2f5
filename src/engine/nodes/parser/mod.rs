//! The palette folder `parser`.

pub(super) mod csv;
mod csv_legacy;
mod csv_rfc;
mod csv_write;
pub(super) mod html;
pub(super) mod json;
mod json_schema;
mod json_schema_strict;
pub(super) mod xml;
mod xml_options;
mod xml_read;
mod xml_write;
pub(super) mod yaml;
mod yaml_write;
