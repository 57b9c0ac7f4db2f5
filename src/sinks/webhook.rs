//! Records for a webhook: a POST of JSON, signed with HMAC-SHA256 over time and body.

use super::Origin;
use crate::audit::Batch;
use bytes::Bytes;
use crypto::{Secret, hex, hmac_sha256};
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;

/// When the request was signed, seconds since 1970: a receiver refuses old ones.
const TIMESTAMP: HeaderName = HeaderName::from_static("flowgate-timestamp");
/// `sha256=` and the tag in hexadecimal, of the timestamp, a dot and the body.
const SIGNATURE: HeaderName = HeaderName::from_static("flowgate-signature");
/// The same for the same records of the same log.
const ID: HeaderName = HeaderName::from_static("idempotency-key");

/// The head and the body of the request for a batch, at this time.
pub(super) fn request(
    from: &Origin<'_>,
    secret: &Secret,
    batch: &Batch,
    now: u64,
) -> (HeaderMap, Bytes) {
    // The lines as they are: their bytes are what the chain of hashes is made of.
    let lines: Vec<&str> = batch
        .records
        .iter()
        .map(|record| record.line.as_str())
        .collect();
    let name = Value::from(from.host);
    let (log_name, lines) = (Value::from(from.log), lines.join(","));
    let body = format!("{{\"gateway\":{name},\"log\":{log_name},\"records\":[{lines}]}}");
    let tag = hmac_sha256(
        secret.reveal().as_bytes(),
        format!("{now}.{body}").as_bytes(),
    );
    let first = batch.records.first().map_or(0, |record| record.seq);
    let last = batch.records.last().map_or(0, |record| record.seq);
    let plain = from.host.chars().filter(char::is_ascii_graphic);
    let id = format!("{}:{}:{first}-{last}", plain.collect::<String>(), from.log);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(TIMESTAMP, HeaderValue::from(now));
    for (name, text) in [(SIGNATURE, format!("sha256={}", hex(&tag))), (ID, id)] {
        headers.extend(HeaderValue::try_from(text).map(|value| (name, value)));
    }
    (headers, body.into())
}
