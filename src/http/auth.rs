//! Signing in and out: `/auth/login`, `/auth/token`, `/auth/revoke` (docs/reference/admin-api.md
//! §2.1, §2.2, §4.1, §4.2, §4.3).
//!
//! Knows the forms; users, passwords and the throttle are `auth`'s.

use super::error::Error;
use super::establish;
use super::form;
use super::host_policy;
use super::origin;
use super::provider_sign_out;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use crate::audit::Event;
use crate::auth::{Auth, Caller, Issued, RevokeError, SignIn};
use crate::metrics::Login;
use crypto::Secret;
use hyper::{Response, StatusCode};
use serde_json::json;
use smol_str::SmolStr;
use std::net::IpAddr;

/// The programs that may sign in, in both dialects (docs/reference/admin-api.md §4.2).
const CLIENTS: [&str; 4] = [
    "service-admin",
    "service-editor",
    "node-red-admin",
    "node-red-editor",
];

/// The prompts that a client shows to its user; the labels are keys of the stock editor's
/// translations (docs/reference/node-red-admin-api.md §1.1).
const PROMPTS: &str = concat!(
    r#"{"type":"credentials","prompts":["#,
    r#"{"id":"username","type":"text","label":"user.username"},"#,
    r#"{"id":"password","type":"password","label":"user.password"}]}"#
);

/// What the stock editor shows where there are providers or passkeys: one button that leads to the
/// sign-in page, relative to the editor. It would lead from each of several buttons to where the
/// last one does.
const BUTTON: &str = r#"{"type":"button","label":"Sign in","url":"gateway/sign-in?editor=true"}"#;

/// `GET /auth/login`: the sign-in prompts; `{}` where no sign-in is required. Programs have no page
/// to be led to: they always get those for a password.
pub(super) fn login(ctx: &RequestContext<'_>) -> Response<Body> {
    let Some(auth) = &ctx.gateway.auth else {
        return response::json(StatusCode::OK, "{}");
    };
    let (providers, passkeys) = (auth.has_providers(), auth.has_passkeys());
    if !(providers || passkeys) || !origin::is_of_browser(&ctx.head.headers) {
        return response::json(StatusCode::OK, PROMPTS);
    }
    // The console reads which of them there are.
    let body = format!(
        r#"{{"type":"strategy","providers":{providers},"passkeys":{passkeys},"prompts":[{BUTTON}]}}"#
    );
    response::json(StatusCode::OK, body)
}

/// `POST /auth/token`: a password becomes a token.
pub(super) async fn token(ctx: &mut RequestContext<'_>) -> Result<Response<Body>, Error> {
    let gateway = ctx.gateway;
    let Some(auth) = gateway.auth.clone() else {
        return Err(Error::NotFound);
    };
    let content = ctx.read_sign_in().await?;
    let asked = form::fields(&ctx.head.headers, &content, FIELDS)
        .and_then(|fields| sign_in(fields, ctx.peer.address.ip()))
        .inspect_err(|_| {
            gateway.metrics.login(Login::Invalid);
            ctx.audit(Event::LoginInvalid, ctx.actor(), json!({}));
        })?;
    let here = ctx.backend.rules.load().permissions(&asked.user).cloned();
    let issued = establish::by_password(ctx, auth, SignIn { here, ..asked }).await?;
    Ok(granted(&issued))
}

/// `POST /auth/revoke`: a token ends.
pub(super) async fn revoke(ctx: &mut RequestContext<'_>) -> Result<Response<Body>, Error> {
    let gateway = ctx.gateway;
    let Some(auth) = gateway.auth.clone() else {
        return Err(Error::NotFound);
    };
    let limit = gateway.config.limits.sign_in_body;
    let content = ctx.read(limit).await?;
    // With the permissions of now, after the body.
    let Some(caller) = ctx.caller.clone() else {
        return Err(Error::NotFound);
    };
    let [token] = form::fields(&ctx.head.headers, &content, ["token"])?;
    let token = Secret::new(filled(token, "token")?);
    let at_provider = at_provider(ctx, &auth, &caller, &token).await?;
    let result = ctx.control(revocation(auth, caller, token)).await?;
    match &result {
        Ok(Some(of)) => ctx.audit(Event::Revoke, ctx.actor(), json!({ "of": of })),
        Ok(None) => ctx.audit(
            Event::RevokeFail,
            ctx.actor(),
            json!({ "reason": "unknown" }),
        ),
        Err(error) => {
            let reason = match error {
                RevokeError::NotYours => "not_yours",
                RevokeError::Store(_) => "store",
            };
            let facts = json!({ "reason": reason });
            ctx.audit(Event::RevokeFail, ctx.actor(), facts);
        }
    }
    if let Some(auth) = &gateway.auth {
        gateway.metrics.sessions(auth.active());
    }
    result.map_err(Error::Revoke)?;
    let response = match at_provider {
        // The stock editor goes there.
        Some(redirect) => {
            response::json(StatusCode::OK, json!({ "redirect": redirect }).to_string())
        }
        None => response::empty(StatusCode::OK),
    };
    Ok(response::uncached(response))
}

/// Where a user who revokes their own token signs out at their provider.
async fn at_provider(
    ctx: &RequestContext<'_>,
    auth: &Auth,
    caller: &Caller,
    token: &Secret,
) -> Result<Option<String>, Error> {
    let own = auth.identify(token.reveal(), ctx.now);
    let Some(own) = own.filter(|own| own.user == caller.user) else {
        return Ok(None);
    };
    let mount = &ctx.backend.mount;
    let host = origin::own(ctx).filter(|_| host_policy::is_named(ctx));
    let back = host.map(|host| format!("https://{host}{}{}/", mount.path, mount.admin_root));
    provider_sign_out::at_provider(ctx, auth, &own, back).await
}

async fn revocation(
    auth: Auth,
    caller: Caller,
    token: Secret,
) -> Result<Option<SmolStr>, RevokeError> {
    auth.revoke(&caller, token.reveal()).await
}

/// The fields of a sign-in (docs/reference/admin-api.md §4.2).
const FIELDS: [&str; 5] = ["client_id", "grant_type", "scope", "username", "password"];

/// Checks the fields of a sign-in. All must be there, and none but `scope` may be empty, which then
/// means all that the user has (docs/reference/admin-api.md §4.2).
fn sign_in(fields: [Option<String>; 5], address: IpAddr) -> Result<SignIn, Error> {
    let [client, grant_type, scope, user, password] = fields;
    let client = filled(client, "client_id")?;
    let grant_type = filled(grant_type, "grant_type")?;
    let scope = scope.ok_or_else(|| missing("scope"))?;
    let user = filled(user, "username")?;
    let password = Secret::new(filled(password, "password")?);
    if !CLIENTS.contains(&client.as_str()) {
        return Err(Error::Client);
    }
    if grant_type != "password" {
        return Err(Error::GrantType);
    }
    Ok(SignIn {
        user,
        password,
        scope: scope
            .split(' ')
            .filter(|s| !s.is_empty())
            .map(SmolStr::new)
            .collect(),
        here: None,
        code: None,
        client,
        agent: String::new(),
        address,
    })
}

/// A field that must be there; one without a value counts as omitted (RFC 6749 §3.1).
pub(super) fn filled(field: Option<String>, name: &str) -> Result<String, Error> {
    field
        .filter(|value| !value.is_empty())
        .ok_or_else(|| missing(name))
}

fn missing(name: &str) -> Error {
    Error::Form(format!("{name} is missing"))
}

/// RFC 6749 §5.1.
pub(super) fn granted(issued: &Issued) -> Response<Body> {
    let body = json!({
        "access_token": issued.token.reveal(),
        "expires_in": issued.expires_in.as_secs(),
        "token_type": "Bearer",
    });
    response::uncached(response::json(StatusCode::OK, body.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const GOOD: [&str; 5] = ["service-admin", "password", "*", "admin", "secret"];

    /// A sign-in with one field replaced; `None` leaves it out.
    fn with(name: &str, value: Option<&str>) -> Result<SignIn, Error> {
        let mut fields = GOOD.map(|v| Some(v.to_owned()));
        let i = FIELDS.iter().position(|n| *n == name).unwrap();
        fields[i] = value.map(str::to_owned);
        sign_in(fields, Ipv4Addr::LOCALHOST.into())
    }

    #[test]
    fn all_four_clients_may_sign_in() {
        for client in CLIENTS {
            assert_eq!(with("client_id", Some(client)).unwrap().client, client);
        }
        for client in ["Service-Admin", "other"] {
            assert!(matches!(
                with("client_id", Some(client)),
                Err(Error::Client)
            ));
        }
    }

    #[test]
    fn every_field_is_required_and_only_the_scope_may_be_empty() {
        for name in FIELDS {
            assert!(matches!(with(name, None), Err(Error::Form(_))), "{name}");
            let empty = with(name, Some(""));
            assert_eq!(empty.is_ok(), name == "scope", "{name}");
        }
    }

    #[test]
    fn a_scope_is_split_at_spaces_and_an_empty_one_means_all() {
        assert_eq!(
            with("scope", Some("read  flows.write")).unwrap().scope,
            ["read", "flows.write"]
        );
        assert!(with("scope", Some("")).unwrap().scope.is_empty());
        assert_eq!(
            with("scope", Some("read,write")).unwrap().scope,
            ["read,write"]
        );
    }

    #[test]
    fn only_the_password_grant_is_supported() {
        for grant in ["Password", "client_credentials", "refresh_token"] {
            assert!(matches!(
                with("grant_type", Some(grant)),
                Err(Error::GrantType)
            ));
        }
    }

    #[test]
    fn the_prompts_are_the_username_and_then_the_password() {
        let prompts: serde_json::Value = serde_json::from_str(PROMPTS).unwrap();
        assert_eq!(prompts["type"], "credentials");
        assert_eq!(prompts["prompts"][0]["id"], "username");
        assert_eq!(prompts["prompts"][1]["type"], "password");
    }
}
