//! Editors hear what the upstream says, over `/comms`: through us, as it says it, and only when they may.
