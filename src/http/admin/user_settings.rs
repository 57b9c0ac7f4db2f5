//! `/settings/user`: the editor's settings of each user: the view, the sidebar's order, the
//! keyboard.
//!
//! Knows how a change is joined with what is there (as Node-RED's `api/settings.js`); not what the
//! editor keeps.

use crate::http::admin_error::AdminError;
use crate::http::error::Error;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use hyper::{Response, StatusCode};
use serde_json::{Map, Value as Json};

/// Bytes that are kept for a user. Our choice: the stock editor keeps a few KiB.
const LIMIT: usize = 256 << 10;

/// `GET /settings/user`
pub(super) async fn read(ctx: &RequestContext<'_>) -> Result<Response<Body>, Error> {
    let kept = ctx.gateway.store.user_settings(ctx.user()).await?;
    let kept = kept.unwrap_or_else(|| "{}".to_owned());
    Ok(response::uncached(response::json(StatusCode::OK, kept)))
}

/// `POST /settings/user`
pub(super) async fn save(ctx: &mut RequestContext<'_>) -> Result<Response<Body>, Error> {
    let Some(Json::Object(changes)) = ctx.read_json_value().await? else {
        return Err(Error::Body("the body must be a JSON object".into()));
    };
    let store = ctx.gateway.store.clone();
    let user = ctx.user().to_owned();
    let task = async move {
        let change = |kept: Option<String>| changed(kept.as_deref(), changes);
        store.change_user_settings(&user, change).await
    };
    if ctx.control(task).await?? {
        Ok(response::empty(StatusCode::NO_CONTENT))
    } else {
        Err(AdminError::SettingsTooLarge { limit: LIMIT }.into())
    }
}

/// The merged settings; `None` if they would be too large.
fn changed(kept: Option<&str>, changes: Map<String, Json>) -> Option<String> {
    let mut settings = kept
        .and_then(|kept| serde_json::from_str(kept).ok())
        .unwrap_or_default();
    join(&mut settings, changes);
    let settings = Json::Object(settings).to_string();
    (settings.len() <= LIMIT).then_some(settings)
}

/// Objects are joined key by key, null removes, everything else replaces.
fn join(settings: &mut Map<String, Json>, changes: Map<String, Json>) {
    for (key, value) in changes {
        match (settings.get_mut(&key), value) {
            (_, Json::Null) => drop(settings.shift_remove(&key)),
            (Some(Json::Object(kept)), Json::Object(changes)) => join(kept, changes),
            (_, value) => drop(settings.insert(key, value)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    fn change(kept: Option<&Json>, changes: Json) -> Option<Json> {
        let Json::Object(changes) = changes else {
            panic!()
        };
        let kept = kept.map(Json::to_string);
        changed(kept.as_deref(), changes).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn a_change_is_merged_into_the_stored_settings() {
        let kept = json!({ "a": 1, "b": { "c": [1, 2], "d": "d" }, "e": "e" });
        let changes = json!({ "b": { "c": [3], "d": null, "f": {} }, "e": { "g": 1 }, "n": null });
        let joined = json!({ "a": 1, "b": { "c": [3], "f": {} }, "e": { "g": 1 } });
        assert_eq!(change(Some(&kept), changes), Some(joined));
        assert_eq!(change(None, json!({ "a": 1 })), Some(json!({ "a": 1 })));
    }

    #[test]
    fn a_change_that_would_become_too_large_is_not_stored() {
        assert_eq!(change(None, json!({ "a": "a".repeat(LIMIT) })), None);
    }
}
