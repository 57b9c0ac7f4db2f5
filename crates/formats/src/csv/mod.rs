//! CSV as values, in the two dialects of Node-RED's csv node: by RFC 4180 (`rfc`), and as it was
//! read before (`legacy`).

pub mod legacy;
pub mod rfc;
pub mod write;
