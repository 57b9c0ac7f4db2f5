//! `[headers]`: the response headers that restrict browsers.
//!
//! Defines the headers' names and defaults; `http` selects the responses that have them.

use super::comms::{ORIGIN, Origin};
use super::error::SpannedError;
use super::setting::{Source, flag};
use super::{Headers, raw};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use std::time::Duration;
use toml::{Spanned, Value};

const DAY: Duration = Duration::from_hours(24);
/// `Cross-Origin-Resource-Policy` (Fetch Standard §3.7).
pub const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The whole table.
pub(super) fn headers(raw: raw::Headers, source: &Source<'_>) -> Result<Headers, SpannedError> {
    // Only the author of a page can know the resources that it loads and the pages that load it.
    let own = [
        (
            CONTENT_SECURITY_POLICY,
            raw.content_security_policy,
            NOTHING,
        ),
        (RESOURCE_POLICY, raw.resource_policy, "same-origin"),
    ];
    let every = [
        (REFERRER_POLICY, raw.referrer_policy, "no-referrer"),
        (X_FRAME_OPTIONS, raw.frame_options, "DENY"),
    ];
    let mut own = values(own, source)?;
    let resource_policy = own.iter().find(|(name, _)| *name == RESOURCE_POLICY);
    let resource_policy = resource_policy.map(|(_, value)| value.clone());
    own.push((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    let mut others = values(every, source)?;
    others.push((X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")));
    own.extend(others.iter().cloned());
    let everywhere = flag(raw.everywhere, false)?;
    if !everywhere {
        others.clear();
    }
    Ok(Headers {
        hsts: hsts(raw.hsts, source)?,
        own,
        others,
        resource_policy,
        everywhere,
        cors_origins: source
            .list(raw.cors_origins, ORIGIN, Origin::parse)?
            .unwrap_or_default(),
    })
}

const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

type Fields = Vec<(HeaderName, HeaderValue)>;

/// Headers with their values; without those that are `"off"`.
fn values(
    headers: impl IntoIterator<Item = (HeaderName, raw::Entry, &'static str)>,
    source: &Source<'_>,
) -> Result<Fields, SpannedError> {
    let mut values = Vec::new();
    for (name, entry, default) in headers {
        let value = match entry {
            None => Some(HeaderValue::from_static(default)),
            Some(entry) if is_off(&entry) => None,
            Some(entry) => Some(source.parsed(&entry, "\"off\" or a header's value", value)?),
        };
        values.extend(value.map(|value| (name, value)));
    }
    Ok(values)
}

/// Printable ASCII.
fn value(text: &str) -> Option<HeaderValue> {
    let plain = text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    let value = HeaderValue::from_str(text).ok();
    value.filter(|_| plain && !text.trim().is_empty())
}

fn is_off(entry: &Spanned<Value>) -> bool {
    entry.get_ref().as_str() == Some("off")
}

/// RFC 6797 §6.1.
fn hsts(entry: raw::Entry, source: &Source<'_>) -> Result<Option<HeaderValue>, SpannedError> {
    if entry.as_ref().is_some_and(is_off) {
        return Ok(None);
    }
    let age = source.duration(entry, 365 * DAY, Duration::from_secs(1)..=3650 * DAY)?;
    Ok(HeaderValue::try_from(format!("max-age={}", age.as_secs())).ok())
}
