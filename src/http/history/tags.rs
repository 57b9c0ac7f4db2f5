//! Tags of the history: `GET /gateway/tags`, `POST` and `DELETE /gateway/tags/:name`.

use super::deployments::entry;
use super::rev_of;
use crate::http::error::Error;
use crate::http::history_error::HistoryError;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use crate::store::Tagged;
use hyper::{Response, StatusCode};
use serde_json::{Map, json};

/// Characters of a tag. Our choice: that of a revision.
const MAX_LENGTH: usize = 64;

/// The tags, each with its entry.
pub(super) async fn list(ctx: &RequestContext<'_>) -> Result<Response<Body>, Error> {
    let tags = ctx.gateway.store.tags(super::runtime(ctx)).await?;
    let tags = tags.into_iter().map(|(name, of)| (name, entry(&of)));
    let tags = json!({ "tags": tags.collect::<Map<_, _>>() });
    Ok(response::json(StatusCode::OK, tags.to_string()))
}

/// Gives the entry of `{"rev"}` a tag, which it takes from any other one.
pub(super) async fn set(
    ctx: &mut RequestContext<'_>,
    name: String,
) -> Result<Response<Body>, Error> {
    check(&name)?;
    let rev = rev_of(
        &ctx.read_json().await?,
        "the body must be {\"rev\": …} with a revision or tag of the history",
    )?;
    let (store, runtime) = (ctx.gateway.store.clone(), super::runtime(ctx).to_owned());
    let task = async move {
        store
            .tag(&runtime, &name, &rev)
            .await
            .map(|done| (name, done))
    };
    let (name, tagged) = ctx.control(task).await??;
    match tagged {
        Tagged::Done(rev, number) => {
            let shown = json!({ "name": name, "rev": rev, "number": number });
            Ok(response::json(StatusCode::OK, shown.to_string()))
        }
        Tagged::NoSuchRevision => Err(HistoryError::NoSuchRevision.into()),
        Tagged::TooMany => Err(HistoryError::TooManyTags.into()),
    }
}

/// Takes a tag away.
pub(super) async fn remove(
    ctx: &RequestContext<'_>,
    name: String,
) -> Result<Response<Body>, Error> {
    check(&name)?;
    let (store, runtime) = (ctx.gateway.store.clone(), super::runtime(ctx).to_owned());
    let task = async move { store.remove_tag(&runtime, &name).await };
    if ctx.control(task).await?? {
        Ok(response::empty(StatusCode::NO_CONTENT))
    } else {
        Err(HistoryError::NoSuchTag.into())
    }
}

fn check(name: &str) -> Result<(), HistoryError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = (1..=MAX_LENGTH).contains(&name.len()) && name.bytes().all(is_plain);
    fits.then_some(()).ok_or(HistoryError::TagName)
}
