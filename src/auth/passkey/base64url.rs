//! Bytes as base64url without padding, as browsers write them in JSON (W3C Web Authentication Level
//! 3 §3).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Bytes, read from base64url.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Base64Url(pub(super) Vec<u8>);

impl<'de> Deserialize<'de> for Base64Url {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD.decode(text);
        bytes
            .map(Self)
            .map_err(|_| D::Error::custom("not base64url"))
    }
}

/// Writes bytes as base64url.
pub(super) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
