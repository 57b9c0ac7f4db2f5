//! `GET /gateway/profile`: the nodes that use most of the engine's time, as JSON or as a flame graph.

use super::flame_graph;
use crate::gateway::Runtime;
use crate::http::admin_error::AdminError;
use crate::http::error::Error;
use crate::http::query::parameter;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use engine::profile::Profile;
use hyper::header::ACCEPT;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use std::pin::pin;
use std::time::Duration;

/// The duration of a profile without `seconds`. Our choice: longer than most flows pause.
const DEFAULT_SECONDS: u64 = 10;
/// The longest. Our choice: proxies give up on a response after a minute.
const MAX_SECONDS: u64 = 60;

/// The form of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Svg,
}

/// `GET /gateway/profile?seconds=…&format=…`; ends early when the client disconnects, when the authorization lapses, and
/// when the gateway drains.
pub(super) async fn take(ctx: &mut RequestContext<'_>) -> Result<Response<Body>, Error> {
    let (duration, format) = (duration(ctx.head)?, format(ctx.head)?);
    let Runtime::Own(engine) = &ctx.backend.runtime else {
        return Err(Error::NoEngine);
    };
    let drain = ctx.gateway.left();
    let taken = pin!(async {
        tokio::select! {
            profile = engine.profile(duration) => profile.map_err(Error::from),
            () = drain => Err(AdminError::Draining.into()),
        }
    });
    let profile = ctx.during(taken).await??;
    ctx.check()?;
    Ok(shown(&profile, format))
}

fn shown(profile: &Profile, format: Format) -> Response<Body> {
    match format {
        Format::Json => {
            let text = serde_json::to_vec(profile).unwrap_or_default();
            response::json(StatusCode::OK, text)
        }
        Format::Svg => response::svg(flame_graph::draw(profile)),
    }
}

fn duration(head: &Parts) -> Result<Duration, Error> {
    let Some(seconds) = parameter(head, "seconds") else {
        return Ok(Duration::from_secs(DEFAULT_SECONDS));
    };
    let seconds = seconds.parse().ok();
    let seconds = seconds.filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
    let refused = Error::Parameter("seconds must be a whole number from 1 to 60");
    seconds.map(Duration::from_secs).ok_or(refused)
}

/// `format` decides; without it, whether the client asks for SVG.
fn format(head: &Parts) -> Result<Format, Error> {
    match parameter(head, "format").as_deref() {
        Some("json") => Ok(Format::Json),
        Some("svg") => Ok(Format::Svg),
        Some(_) => Err(Error::Parameter("format must be json or svg")),
        None if accepts_svg(head) => Ok(Format::Svg),
        None => Ok(Format::Json),
    }
}

fn accepts_svg(head: &Parts) -> bool {
    let accepted = head
        .headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|accept| accept.to_str().ok());
    let mut ranges = accepted.flat_map(|accept| accept.split([',', ';']));
    ranges.any(|range| range.trim().eq_ignore_ascii_case("image/svg+xml"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use hyper::Request;

    fn head(query: &str, accept: &str) -> Parts {
        let request = Request::get(format!("/gateway/profile{query}"));
        request
            .header(ACCEPT, accept)
            .body(())
            .unwrap()
            .into_parts()
            .0
    }

    #[test]
    fn a_profile_takes_ten_seconds_or_a_whole_number_up_to_sixty() {
        for (query, seconds) in [("", 10), ("?seconds=1", 1), ("?format=svg&seconds=60", 60)] {
            let found = duration(&head(query, "*/*")).unwrap();
            assert_eq!(found, Duration::from_secs(seconds), "{query}");
        }
        for seconds in ["0", "61", "-1", "1.5", "", "ten", "99999999999999999999"] {
            let found = duration(&head(&format!("?seconds={seconds}"), "*/*"));
            assert!(matches!(found, Err(Error::Parameter(_))), "{seconds}");
        }
    }

    #[test]
    fn a_flame_graph_is_asked_for_by_parameter_or_accept() {
        for (query, accept, expected) in [
            ("", "*/*", Format::Json),
            ("", "application/json", Format::Json),
            ("", "text/html, Image/SVG+XML;q=0.9", Format::Svg),
            ("?format=json", "image/svg+xml", Format::Json),
            ("?format=svg", "*/*", Format::Svg),
        ] {
            assert_eq!(
                format(&head(query, accept)).unwrap(),
                expected,
                "{query} {accept}"
            );
        }
        assert!(matches!(
            format(&head("?format=png", "*/*")),
            Err(Error::Parameter(_))
        ));
    }
}
