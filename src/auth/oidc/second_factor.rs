//! The second factor that a user has given at a provider: what the gateway asks for, and what the
//! ID token says of it (OpenID Connect Core 1.0 §2: `auth_time`, `acr`, `amr`). Pure.

use crate::auth::jwt::verify::Claims;
use crate::config::{Conditions, Oidc};
use serde_json::Value as Json;

/// The parameters of a sign-in (§3.1.2.1): where permissions need a recent second factor, and the
/// provider's users can have one, an authentication as recent as that, which the ID token then has
/// the time of.
pub(super) fn asked(provider: &Oidc, conditions: &Conditions) -> Vec<(&'static str, String)> {
    if provider.second_factor.is_empty() || conditions.step_up.is_empty() {
        return Vec::new();
    }
    let mut asked = vec![("max_age", conditions.step_up_after.as_secs().to_string())];
    if !provider.acr_values.is_empty() {
        asked.push(("acr_values", provider.acr_values.join(" ")));
    }
    asked
}

/// When the user gave a second factor, seconds since 1970. `None`: the ID token has neither a value
/// of the configuration in `amr` or `acr`, nor a time.
pub(super) fn given(provider: &Oidc, claims: &Claims, now: u64) -> Option<u64> {
    let is_one = |value: &Json| {
        let value = value.as_str();
        value.is_some_and(|value| provider.second_factor.iter().any(|known| known == value))
    };
    let methods = claims.get("amr").and_then(Json::as_array);
    let has_method = methods.is_some_and(|methods| methods.iter().any(is_one));
    let shows = has_method || claims.get("acr").is_some_and(is_one);
    let at = claims.get("auth_time").and_then(Json::as_u64);
    // A clock that is ahead makes no factor last longer.
    at.filter(|_| shows).map(|at| at.min(now))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;
    use crate::config::Config;
    use serde_json::json;
    use std::path::Path;

    fn provider(lines: &str) -> (Oidc, Conditions) {
        let text = format!(
            "[auth]\nstep_up = [\"flows.write\"]\n[[auth.oidc]]\nname = \"corp\"\nissuer = \"https://id.example\"\n\
             client_id = \"flowgate\"\n{lines}\n[[auth.oidc.grant]]\nclaims = {{ a = [\"b\"] }}\npermissions = [\"*\"]\n"
        );
        let config = Config::parse(&text, "test.toml", Path::new("")).unwrap();
        let auth = config.auth.unwrap();
        (auth.oidc[0].clone(), auth.conditions)
    }

    #[test]
    fn an_id_token_shows_a_second_factor_by_its_method_or_class_and_its_time() {
        let (known, _) = provider("second_factor = [\"mfa\", \"urn:two\"]");
        let (unknown, _) = provider("");
        for (claims, at) in [
            (
                json!({ "amr": ["pwd", "mfa"], "auth_time": 900 }),
                Some(900),
            ),
            (json!({ "acr": "urn:two", "auth_time": 900 }), Some(900)),
            (json!({ "amr": ["mfa"], "auth_time": 2000 }), Some(1000)),
            (json!({ "amr": ["mfa"] }), None),
            (
                json!({ "amr": ["pwd"], "acr": "1", "auth_time": 900 }),
                None,
            ),
            (json!({ "amr": "mfa", "auth_time": 900 }), None),
            (
                json!({ "amr": ["MFA", ["mfa"], 1], "auth_time": 900 }),
                None,
            ),
            (json!({ "amr": ["mfa"], "auth_time": "900" }), None),
            (json!({ "acr": ["urn:two"], "auth_time": 900 }), None),
            (json!({ "amr": ["mfa"], "auth_time": -1 }), None),
        ] {
            let Json::Object(claims) = claims else {
                panic!("claims are an object")
            };
            assert_eq!(given(&known, &claims, 1000), at, "{claims:?}");
            assert_eq!(given(&unknown, &claims, 1000), None);
        }
    }

    #[test]
    fn a_recent_authentication_is_asked_for_where_it_is_needed() {
        let (oidc, conditions) =
            provider("second_factor = [\"mfa\"]\nacr_values = [\"urn:two\", \"urn:three\"]");
        assert_eq!(
            asked(&oidc, &conditions),
            [
                ("max_age", "900".to_owned()),
                ("acr_values", "urn:two urn:three".to_owned())
            ]
        );
        assert_eq!(asked(&oidc, &Conditions::default()), []);
        let (oidc, conditions) = provider("acr_values = [\"urn:two\"]");
        assert_eq!(asked(&oidc, &conditions), []);
    }
}
