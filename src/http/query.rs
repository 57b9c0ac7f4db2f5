//! The parameters of a query.

use super::error::Error;
use hyper::http::request::Parts;
use std::borrow::Cow;

/// The first value of a parameter; `None`: it is not there.
pub(super) fn parameter<'h>(head: &'h Parts, name: &str) -> Option<Cow<'h, str>> {
    let query = head.uri.query().unwrap_or_default();
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    parameters.find_map(|(key, value)| (key == name).then_some(value))
}

/// The entries of a page without `limit`. Our choice: a screen or two.
const DEFAULT_LIMIT: usize = 50;
/// The most entries of a page. Our choice: 60 KB.
const MAX_LIMIT: usize = 200;

/// The entries of a page, as `limit` says.
pub(super) fn page_limit(head: &Parts) -> Result<usize, Error> {
    let limit = match parameter(head, "limit") {
        None => Some(DEFAULT_LIMIT),
        Some(limit) => limit.parse().ok(),
    };
    let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or(Error::Parameter(
        "limit must be a whole number from 1 to 200",
    ))
}

/// Whether a parameter is `true`; without it, no.
pub(super) fn flag(head: &Parts, name: &str, refusal: &'static str) -> Result<bool, Error> {
    match parameter(head, name).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Error::Parameter(refusal)),
    }
}
