//! The formats of the palette's parser nodes and their relatives: each turns texts into
//! [`value::Value`]s and back, as the libraries behind Node-RED's nodes do. No input or output, no
//! engine.

pub mod csv;
pub mod encoding;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod html;
pub mod json_schema;
pub mod mustache;
pub mod qs;
pub mod xml;
pub mod yaml;
