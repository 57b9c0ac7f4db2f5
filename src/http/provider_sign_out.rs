//! A user whom a provider vouches for signs out here, and is led to the sign-out there.

use super::error::Error;
use super::request_context::RequestContext;
use crate::auth::{Auth, Caller};

/// Where the user of a session that ends here signs out at the provider. `back`: where that leads
/// afterwards.
pub(super) async fn at_provider(
    ctx: &RequestContext<'_>,
    auth: &Auth,
    caller: &Caller,
    back: Option<String>,
) -> Result<Option<String>, Error> {
    let session = caller
        .session()
        .filter(|session| session.federated.is_some());
    let Some(key) = session.map(|session| session.key) else {
        return Ok(None);
    };
    let (auth, now) = (auth.clone(), ctx.now);
    let task = async move { auth.sign_out_at_provider(key, back, now).await };
    ctx.control(task).await
}
