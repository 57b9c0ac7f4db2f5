//! The frames that the node host sends, as they are read: one struct with the fields of all of them.

use crate::package_state::ReportedRoute;
use serde::Deserialize;
use serde_json::value::RawValue;
use smol_str::SmolStr;

/// What a frame is about.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// The runtime and its packages are loaded: `sets`, `version` (of the runtime), `node` (version of Node.js).
    Ready,
    /// The host loads this `package`; none: it has loaded all.
    Loading,
    /// The host ends for this `error`, perhaps because of this `package`.
    Failed,
    /// Deployment `number` is done, perhaps with an `error`.
    Deployed,
    /// A `message` of `node` for the nodes `to`.
    Message,
    /// An error of `node`: `content` is `{value, message}`.
    Error,
    /// The status of `node`: `content` is `{value}`.
    Status,
    /// `node` has finished with a message: `content` is `{message}`.
    Complete,
    /// A line of the log, of `node` if it is one's own: `content` is `{value}`.
    Log,
    /// A message of a package for its part of the editor: `topic`, `data` and whether to `retain` it.
    Published,
    /// A question about a context, whose answer the host waits for: `act`, `scope`, `key`, `store`, `value`.
    Context,
    /// The host has handed so many `bytes` of frames to its nodes.
    Taken,
    /// It no longer uses these values of the engine: `ids`.
    Release,
    /// The `routes` that packages have added to the admin API, all of them.
    Routes,
    /// It lives, and its resident memory is `rss` bytes.
    Pong,
}

/// A frame of the node host.
#[derive(Deserialize)]
pub(super) struct Received<'a> {
    pub t: Kind,
    #[serde(default)]
    pub node: Option<SmolStr>,
    #[serde(default)]
    pub to: Vec<SmolStr>,
    #[serde(borrow, default)]
    pub message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub content: Option<&'a RawValue>,
    #[serde(default)]
    pub topic: SmolStr,
    #[serde(borrow, default)]
    pub data: Option<&'a RawValue>,
    #[serde(default)]
    pub retain: bool,
    #[serde(default)]
    pub escaped: bool,
    #[serde(default)]
    pub number: u32,
    #[serde(default)]
    pub error: Option<String>,
    #[serde(default)]
    pub level: u32,
    #[serde(default)]
    pub package: Option<SmolStr>,
    #[serde(default)]
    pub bytes: usize,
    #[serde(default)]
    pub rss: u64,
    #[serde(default)]
    pub ids: Vec<u32>,
    #[serde(default)]
    pub sets: Vec<NodeSet>,
    #[serde(default)]
    pub routes: Vec<ReportedRoute>,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub act: String,
    #[serde(default)]
    pub scope: SmolStr,
    #[serde(default)]
    pub key: String,
    #[serde(default)]
    pub store: Option<String>,
    #[serde(borrow, default)]
    pub value: Option<&'a RawValue>,
}

/// A node set of a package.
#[derive(Deserialize, Debug, Clone)]
pub(crate) struct NodeSet {
    /// Its id: package and name.
    pub id: String,
    /// The version of the package.
    #[serde(default)]
    pub version: String,
    /// The types that were loaded.
    pub types: Vec<SmolStr>,
    /// The edit forms of a packaged subflow, which the runtime makes; others have files.
    #[serde(default)]
    pub html: Option<String>,
    /// The reason why it was not loaded.
    #[serde(default)]
    pub error: Option<String>,
}
