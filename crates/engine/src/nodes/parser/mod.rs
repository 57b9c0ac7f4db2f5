//! The palette folder `parser`.

pub(super) mod csv;
mod csv_part;
pub(super) mod html;
pub(super) mod json;
pub(super) mod xml;
pub(super) mod yaml;

use smol_str::SmolStr;

/// The property of the message that a node converts: the payload, unless the node names another
/// one.
fn converted_property(named: Option<SmolStr>) -> SmolStr {
    let named = named.filter(|name| !name.is_empty());
    named.unwrap_or(SmolStr::new_static("payload"))
}
