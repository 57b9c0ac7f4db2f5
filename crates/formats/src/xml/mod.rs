//! XML as values, as xml2js reads and writes it.

mod element;
mod namespaces;
mod options;
mod read;
mod write;

pub use options::Options;
pub(crate) use read::MAX_DEPTH;
pub use read::parse;
pub use write::build;
