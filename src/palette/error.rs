//! Why the palette does not change.

use std::io;
use std::path::PathBuf;

/// Why the palette does not change. It is as it was before, unless the files could not be put back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing is installed or removed here.
    #[error(
        "no packages are installed or removed here: [engine.node_host.install] allow names those that may be"
    )]
    Off,
    /// It is not the name of a package.
    #[error("module must be the name of an npm package, and nothing else")]
    Name,
    /// It is not a version.
    #[error("version must be exact, such as 1.2.3, or a tag such as latest")]
    Version,
    /// No pattern allows the package, or one denies it.
    #[error("[engine.node_host.install] does not allow this package")]
    NotAllowed,
    /// The package is there, in this version.
    #[error("the package is installed already")]
    AlreadyInstalled,
    /// The package is not there.
    #[error("the package is not installed")]
    NotInstalled,
    /// The registry has no such package, or not this version.
    #[error("the registry has no such package or version")]
    Unpublished,
    /// The package, or one that it needs, would come from elsewhere.
    #[error(
        "{package} would come from {from}: only archives of the registries of npm are installed, with hashes of SHA-256, SHA-384 or SHA-512"
    )]
    Foreign {
        /// Its path, or what it is.
        package: String,
        /// The place that it would come from.
        from: String,
    },
    /// The package has nothing for Node-RED.
    #[error("the package has neither nodes nor plugins of Node-RED")]
    NoNodes,
    /// Another package depends on it.
    #[error("another package needs it")]
    Needed,
    /// npm would remove the runtime.
    #[error(
        "npm would remove @node-red/runtime, which package.json of the node host's directory does not list: add it there"
    )]
    Runtime,
    /// The package has ended the node host several times in a row.
    #[error("the package ends the node host: the log has the reason")]
    EndsHost,
    /// Flows have nodes of these types.
    #[error("flows use these types: {0}")]
    InUse(String),
    /// The node host did not start with the change.
    #[error("the node host does not start with this change: the log has the reason")]
    NotStarted,
    /// npm failed, with this code.
    #[error("npm has failed ({0}): the log has its output")]
    Npm(String),
    /// npm took longer than it may.
    #[error("npm took longer than [engine.node_host.install] timeout")]
    Timeout,
    /// Another change took longer than one may.
    #[error("another change of the palette is under way, try again later")]
    Busy,
    /// npm cannot be run.
    #[error("{}: {source}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The files of the packages cannot be read or written.
    #[error("the files of the packages: {0}")]
    Files(#[source] io::Error),
}
