//! `/gateway/users` and `/gateway/tokens`: the accounts of people and of machines.

mod tokens;
mod users;

use super::error::Error;
use super::path::Path;
use super::request_context::RequestContext;
use super::response_body::Body;
use super::route::AccountAction;
use hyper::Response;

/// Handles a request by its route.
pub(super) async fn act(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
    action: AccountAction,
) -> Result<Response<Body>, Error> {
    let auth = ctx.gateway.auth.clone().ok_or(Error::NotFound)?;
    match action {
        AccountAction::Users => users::list(ctx, auth).await,
        AccountAction::Tokens => Ok(tokens::list(ctx, &auth)),
        AccountAction::CreateToken => tokens::create(ctx, auth).await,
        AccountAction::RevokeToken => tokens::revoke(ctx, auth, path.parameter(2)).await,
    }
}
