//! `GET /gateway/users`: who has an account, with which permissions, and how each signs in. Never a
//! password, hash or secret.

use crate::auth::{Auth, UserInfo};
use crate::gateway::Gateway;
use crate::http::error::Error;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};

/// `GET /gateway/users`
pub(super) async fn list(ctx: &RequestContext<'_>, auth: Auth) -> Result<Response<Body>, Error> {
    let task = async move { auth.user_list().await };
    let users = ctx.control(task).await??;
    let users: Vec<Json> = users.iter().map(|user| entry(ctx.gateway, user)).collect();
    let list = json!({ "users": users }).to_string();
    Ok(response::uncached(response::json(StatusCode::OK, list)))
}

fn entry(gateway: &Gateway, user: &UserInfo) -> Json {
    let backends = gateway.backends.all().iter();
    let here = backends.filter_map(|backend| {
        let rules = backend.rules.load();
        let permissions = rules.permissions(&user.name)?;
        Some(json!({ "upstream": &*backend.mount.name, "permissions": &permissions[..] }))
    });
    json!({
        "name": user.name,
        "source": user.source,
        "provider": user.provider,
        "permissions": user.permissions,
        "at": here.collect::<Vec<_>>(),
        "password": user.has_password,
        "codes": user.has_codes,
        "passkeys": user.passkeys,
        "sessions": user.sessions,
        "networks": user.networks,
    })
}
