//! `GET /gateway/profile`: the nodes that use most of the engine's time, as JSON of our own or of
//! speedscope.

use super::speedscope;
use crate::gateway::Runtime;
use crate::http::admin_error::AdminError;
use crate::http::error::Error;
use crate::http::query::parameter;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use engine::profile::Profile;
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
    /// A file for <https://www.speedscope.app>, which draws flame graphs.
    Speedscope,
}

/// `GET /gateway/profile?seconds=…&format=…`; ends early when the client disconnects, when the
/// authorization lapses, and when the gateway drains.
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
    let text = match format {
        Format::Json => serde_json::to_vec(profile),
        Format::Speedscope => serde_json::to_vec(&speedscope::file(profile)),
    };
    response::json(StatusCode::OK, text.unwrap_or_default())
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

fn format(head: &Parts) -> Result<Format, Error> {
    match parameter(head, "format").as_deref() {
        None | Some("json") => Ok(Format::Json),
        Some("speedscope") => Ok(Format::Speedscope),
        Some(_) => Err(Error::Parameter("format must be json or speedscope")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use hyper::Request;

    fn head(query: &str) -> Parts {
        let request = Request::get(format!("/gateway/profile{query}"));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_profile_takes_ten_seconds_or_a_whole_number_up_to_sixty() {
        for (query, seconds) in [("", 10), ("?seconds=1", 1), ("?format=json&seconds=60", 60)] {
            let found = duration(&head(query)).unwrap();
            assert_eq!(found, Duration::from_secs(seconds), "{query}");
        }
        for seconds in ["0", "61", "-1", "1.5", "", "ten", "99999999999999999999"] {
            let found = duration(&head(&format!("?seconds={seconds}")));
            assert!(matches!(found, Err(Error::Parameter(_))), "{seconds}");
        }
    }
}
