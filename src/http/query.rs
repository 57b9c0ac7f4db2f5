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

/// Whether a parameter is `true`; without it, no.
pub(super) fn flag(head: &Parts, name: &str, refusal: &'static str) -> Result<bool, Error> {
    match parameter(head, name).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Error::Parameter(refusal)),
    }
}
