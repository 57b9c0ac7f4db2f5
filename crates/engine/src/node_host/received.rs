//! The frames that the node host sends, as they are read: one struct with the fields of all of
//! them.

use super::handles::MAX_LENT;
use crate::package_state::{MAX_REPORTED, ReportedRoute};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use smol_str::SmolStr;
use std::fmt;
use std::marker::PhantomData;

/// What a frame is about.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// The runtime and its packages are loaded: `sets`, `version` (of the runtime), `node` (version
    /// of Node.js).
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
    /// A message of a package for its part of the editor: `topic`, `data` and whether to `retain`
    /// it.
    Published,
    /// A question about a context, whose answer the host waits for: `act`, `scope`, `key`, `store`,
    /// `value`.
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

/// The act that a question about a context asks for.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "lowercase")]
pub(super) enum Act {
    /// The value of a key.
    #[default]
    Get,
    /// To set a key.
    Set,
    /// All keys.
    Keys,
}

/// Nodes that one message is for, at most: a node of Node-RED has some wires.
const MAX_TARGETS: usize = 10_000;

/// Node sets of all packages, at most, and types of one.
const MAX_SETS: usize = 10_000;

/// A list of at most so many elements. A longer one is no frame: its elements would take many times
/// the memory of its text.
fn at_most<'de, const MAX: usize, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Bounded<const MAX: usize, T>(PhantomData<T>);
    impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for Bounded<MAX, T> {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "a list of at most {MAX} elements")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut elements = Vec::new();
            while let Some(element) = list.next_element()? {
                if elements.len() == MAX {
                    return Err(A::Error::invalid_length(MAX + 1, &self));
                }
                elements.push(element);
            }
            Ok(elements)
        }
    }
    deserializer.deserialize_seq(Bounded::<MAX, T>(PhantomData))
}

/// A frame of the node host.
#[derive(Deserialize)]
pub(super) struct Received<'a> {
    pub t: Kind,
    #[serde(default)]
    pub node: Option<SmolStr>,
    #[serde(default, deserialize_with = "at_most::<MAX_TARGETS, _, _>")]
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
    #[serde(default, deserialize_with = "at_most::<MAX_LENT, _, _>")]
    pub ids: Vec<u32>,
    #[serde(default, deserialize_with = "at_most::<MAX_SETS, _, _>")]
    pub sets: Vec<NodeSet>,
    #[serde(default, deserialize_with = "at_most::<MAX_REPORTED, _, _>")]
    pub routes: Vec<ReportedRoute>,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub act: Act,
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
    #[serde(deserialize_with = "at_most::<MAX_SETS, _, _>")]
    pub types: Vec<SmolStr>,
    /// The edit forms of a packaged subflow, which the runtime makes; others have files.
    #[serde(default)]
    pub html: Option<String>,
    /// The reason why it was not loaded.
    #[serde(default)]
    pub error: Option<String>,
}
