//! Why a module cannot be had.

use super::installed::LARGEST_MIB;

/// The names are the code's own, or those of files from the data directory on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// No directory of modules has it.
    #[error("'{0}' is not installed")]
    NotInstalled(String),
    /// A file, or the entry of a package.
    #[error("'{0}' is not there")]
    NotThere(String),
    /// The package keeps this to itself.
    #[error("'{package}' does not export '{subpath}' to CommonJS")]
    NotExported {
        /// Its name.
        package: String,
        /// `.` is the package as a whole.
        subpath: String,
    },
    /// It leads out of the directories of modules.
    #[error("'{0}' lies outside node_modules")]
    Outside(String),
    /// A module of Node.js for what code cannot reach.
    #[error("'{0}' needs files, the network or other processes, and functions reach none of them")]
    Unreachable(String),
    /// Another module of Node.js.
    #[error("'{0}' of Node.js is not offered here")]
    NotOffered(String),
    /// `import` and `export`.
    #[error("'{0}' is an ES module, and only CommonJS can be loaded")]
    EsModule(String),
    /// A library of machine code.
    #[error("'{0}' is machine code, and only JavaScript can be loaded")]
    Native(String),
    /// More bytes than are read.
    #[error("'{0}' is larger than {LARGEST_MIB} MiB")]
    TooLarge(String),
    /// No text, or the system does not give it.
    #[error("'{0}' cannot be read")]
    Unreadable(String),
}

impl Refusal {
    /// The error's `code`: that of Node.js, where it has one.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::NotInstalled(_) | Self::NotThere(_) | Self::Outside(_) => "MODULE_NOT_FOUND",
            Self::NotExported { .. } => "ERR_PACKAGE_PATH_NOT_EXPORTED",
            Self::Unreachable(_) | Self::NotOffered(_) => "ERR_UNKNOWN_BUILTIN_MODULE",
            Self::EsModule(_) => "ERR_REQUIRE_ESM",
            Self::Native(_) => "ERR_DLOPEN_FAILED",
            Self::TooLarge(_) => "ERR_FS_FILE_TOO_LARGE",
            Self::Unreadable(_) => "ERR_INVALID_FILE",
        }
    }
}
