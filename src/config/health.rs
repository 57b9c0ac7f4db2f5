//! `[policy.health]`: how the flows are watched after a deployment.

use super::error::SpannedError;
use super::raw;
use super::setting::{Source, number};
use hyper::Uri;
use std::time::Duration;

/// How the flows are watched after a deployment; a check that is `None` is not made.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// An `http` or `https` URL that answers 2xx to a GET.
    pub url: Option<Uri>,
    /// The canonical path of an http in node that answers 2xx to a GET; flowgate's own engine only.
    pub endpoint: Option<String>,
    /// The most errors of nodes for each message that nodes receive; flowgate's own engine only.
    pub max_error_rate: Option<f64>,
    /// The longest that timers may be late on average; flowgate's own engine only.
    pub max_lateness: Option<Duration>,
    /// How long the flows are watched.
    pub watch: Duration,
}

/// A minute. Our choice: a start and the first messages, before users look away.
const SECONDS: u32 = 60;

/// Converts the table.
pub(super) fn health(raw: &raw::Health, source: &Source<'_>) -> Result<Health, SpannedError> {
    const URL: &str = "a URL such as \"http://127.0.0.1:1880/health\", of http or https";
    const PATH: &str = "the path of an http in node, such as \"/health\"";
    const RATE: &str = "a number from 0.0 to 1.0";
    let url = raw.url.as_ref();
    let endpoint = raw.endpoint.as_ref();
    let rate = raw.max_error_rate.as_ref().map(|entry| {
        let value = entry.get_ref();
        let whole = value.as_integer().and_then(|rate| u8::try_from(rate).ok());
        let rate = value.as_float().or(whole.map(f64::from));
        rate.filter(|rate| (0.0..=1.0).contains(rate))
            .ok_or_else(|| SpannedError::value(entry.span(), RATE))
    });
    let lateness = raw.max_lateness.clone().map(|entry| {
        let range = Duration::from_millis(1)..=Duration::from_mins(1);
        source.duration(Some(entry), Duration::ZERO, range)
    });
    let seconds: u32 = number(raw.seconds.clone(), SECONDS, 1..=3600)?;
    Ok(Health {
        url: url
            .map(|entry| source.parsed(entry, URL, web))
            .transpose()?,
        endpoint: endpoint
            .map(|entry| source.parsed(entry, PATH, path))
            .transpose()?,
        max_error_rate: rate.transpose()?,
        max_lateness: lateness.transpose()?,
        watch: Duration::from_secs(seconds.into()),
    })
}

fn web(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let scheme = uri.scheme_str()?;
    let has_user = uri.authority()?.as_str().contains('@');
    (matches!(scheme, "http" | "https") && !has_user).then_some(uri)
}

fn path(text: &str) -> Option<String> {
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'?' | b'#' | b'%' | b'\\');
    let is_path = text.starts_with('/') && text.bytes().all(plain) && !text.contains("//");
    is_path.then(|| text.to_owned())
}
