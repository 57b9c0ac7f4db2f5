//! Tables of flow + message in → messages out, one file a node, over a running engine.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

mod bench;
mod change;
mod debug;
mod delivery;
mod http;
mod inject;
mod link;
mod parser;
mod storage;
mod switch;
mod template;
