//! The errors of the admin endpoints that the engine has.

use crate::palette;
use std::io;

/// Why an admin endpoint refuses or fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdminError {
    /// The gateway drains, so it does not wait any longer.
    #[error("the gateway is being stopped")]
    Draining,
    /// The requested state of the flows is neither start nor stop.
    #[error("the state must be start or stop")]
    RunState,
    /// The palette has no such module or set to be switched.
    #[error("there are no such nodes")]
    NoSuchNodes,
    /// A part of the palette is to be disabled.
    #[error("the nodes are part of the engine: they cannot be disabled")]
    BuiltIn,
    /// The palette could not be changed.
    #[error(transparent)]
    Palette(#[from] palette::Error),
    /// The library has no such part.
    #[error("there is no such library: {0}")]
    NoSuchLibrary(String),
    /// A name in the library could lead out of it, or there is none.
    #[error(
        "names in the library have no control characters, do not begin with a dot, and are neither empty nor too long"
    )]
    LibraryName,
    /// A text is to be kept under the name of a folder, or in a folder that is a text.
    #[error("the library has a folder of that name, or a text where a folder is needed")]
    LibraryTaken,
    /// Something of the editor's is to be kept that is too large.
    #[error("the settings of a user have at most {limit} bytes")]
    SettingsTooLarge {
        /// The limit.
        limit: usize,
    },
    /// A file of the editor's cannot be read.
    #[error("the editor's files: {0}")]
    EditorFile(#[from] io::Error),
}
