//! Basic authentication (RFC 7617) for routes with `basic = true`: the sign-in of a device's first
//! request. Further ones are found by [`super::identify`].

use super::access_error::AccessError;
use super::error::Error;
use super::establish;
use super::request_context::RequestContext;
use crate::auth::{BASIC, SignIn, SignInError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto::Secret;
use hyper::header::{AUTHORIZATION, HeaderMap};

/// Checks the password of the request, if it has one that was not checked before.
pub(super) async fn sign_in(ctx: &RequestContext<'_>) -> Result<(), Error> {
    let Some(auth) = &ctx.gateway.auth else {
        return Ok(());
    };
    let Some((user, password)) = credentials(&ctx.head.headers)? else {
        return Ok(());
    };
    let known = auth.identify_basic(&user, password.reveal(), ctx.now);
    if known.is_some() {
        return Ok(());
    }
    let asked = SignIn {
        user,
        password,
        scope: Vec::new(),
        here: None,
        code: None,
        client: BASIC.to_owned(),
        agent: String::new(),
        address: ctx.peer.address.ip(),
    };
    match establish::by_password(ctx, auth.clone(), asked).await {
        Ok(_) => Ok(()),
        Err(Error::SignIn(SignInError::BadCredentials { .. })) => {
            Err(AccessError::BasicNeeded.into())
        }
        Err(other) => Err(other),
    }
}

/// User and password; `None`: there are none, or another scheme has them.
pub(super) fn credentials(headers: &HeaderMap) -> Result<Option<(String, Secret)>, Error> {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return Ok(None);
    };
    let Some((scheme, encoded)) = field.to_str().ok().and_then(|text| text.split_once(' ')) else {
        return Ok(None);
    };
    if !scheme.eq_ignore_ascii_case("basic") {
        return Ok(None);
    }
    let pair = STANDARD.decode(encoded).ok();
    let pair = pair.and_then(|pair| String::from_utf8(pair).ok());
    // RFC 7617 §2 forbids control characters in both; users have names that are not empty.
    let pair = pair.filter(|pair| !pair.contains(char::is_control));
    let (user, password) = pair
        .as_deref()
        .and_then(|pair| pair.split_once(':'))
        .filter(|(user, password)| !user.is_empty() && !password.is_empty())
        .ok_or(Error::Authorization)?;
    Ok(Some((user.to_owned(), Secret::new(password.to_owned()))))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn read(values: &[&str]) -> Result<Option<(String, String)>, Error> {
        let values = values
            .iter()
            .map(|value| (AUTHORIZATION, HeaderValue::from_str(value).unwrap()));
        let found = credentials(&values.collect())?;
        Ok(found.map(|(user, password)| (user, password.reveal().to_owned())))
    }

    #[test]
    fn user_and_password_are_read_as_utf_8_and_a_password_may_have_a_colon() {
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        let encoded = |text: &str| format!("basic {}", STANDARD.encode(text));
        assert_eq!(read(&[&encoded("ann:a:b")]).unwrap(), pair("ann", "a:b"));
        assert_eq!(
            read(&[&encoded("\u{e4}:\u{20ac}")]).unwrap(),
            pair("\u{e4}", "\u{20ac}")
        );
        for other in [
            &["Bearer x"][..],
            &[],
            &["Basic"],
            &["Basic YTpi", "Basic YTpi"],
        ] {
            assert_eq!(read(other).unwrap(), None, "{other:?}");
        }
        for text in ["ann", ":b", "ann:", "a\u{0}:b", "a:b\n", ""] {
            assert!(
                matches!(read(&[&encoded(text)]), Err(Error::Authorization)),
                "{text:?}"
            );
        }
        for value in ["Basic !", "Basic YTpi YTpi", "Basic /w=="] {
            assert!(
                matches!(read(&[value]), Err(Error::Authorization)),
                "{value}"
            );
        }
    }
}
