//! `[[auth.jwt]]` and `[[auth.oidc]]`, right and wrong.

use super::{bad, good};

const GRANT: &str = "claims = { groups = [\"a\"] }\npermissions = [\"read\"]";

fn jwt(lines: &str) -> String {
    format!(
        "[auth]\n[[auth.jwt]]\nname = \"ci\"\nissuer = \"https://ci.example.org\"\naudience = [\"flowgate\"]\n{lines}\n"
    )
}

fn oidc(lines: &str) -> String {
    format!(
        "[auth]\n[[auth.oidc]]\nname = \"corp\"\nclient_id = \"flowgate\"\n{lines}\n[[auth.oidc.grant]]\n{GRANT}\n"
    )
}

#[test]
fn an_issuer_of_jwts_has_safe_defaults() {
    let text = jwt("jwks_url = \"https://ci.example.org/keys\"") + "[[auth.jwt.grant]]\n" + GRANT;
    let auth = good(&text).auth.unwrap();
    let issuer = &auth.jwt[0];
    assert_eq!(issuer.clock_skew.as_secs(), 30);
    assert_eq!(issuer.max_lifetime.as_secs(), 86_400);
    let names: Vec<String> = issuer.algorithms.iter().map(|a| format!("{a:?}")).collect();
    assert!(
        !names.iter().any(|name| name.starts_with("HS")),
        "{names:?}"
    );
    assert!(!auth.sign_in_page);
}

#[test]
fn an_issuer_of_jwts_that_could_let_others_in_is_refused() {
    let url = "jwks_url = \"https://ci.example.org/keys\"";
    let with = |lines: &str| jwt(lines) + "[[auth.jwt.grant]]\n" + GRANT;
    for (text, words) in [
        (jwt(url), "it needs a grant"),
        (
            jwt(url) + "[[auth.jwt.grant]]\npermissions = [\"*\"]",
            "a grant needs claims",
        ),
        (
            jwt(url) + "[[auth.jwt.grant]]\nclaims = { a = [] }\npermissions = [\"*\"]",
            "no token could have this claim",
        ),
        (
            jwt(url) + "[[auth.jwt.grant]]\nclaims = { a = [\"b\"] }",
            "a grant needs permissions",
        ),
        (with(""), "either a jwks_url or a jwks_file"),
        (
            with("jwks_url = \"http://ci.example.org/keys\""),
            "an https URL",
        ),
        (
            with(&format!("{url}\nalgorithms = [\"HS256\"]")),
            "expected \"RS256\"",
        ),
        (
            with(&format!("{url}\nalgorithms = [\"none\"]")),
            "expected \"RS256\"",
        ),
        (
            with(&format!("{url}\nalgorithms = []")),
            "no token could be signed",
        ),
        (
            with(&format!("{url}\nclock_skew = \"1h\"")),
            "\"0\" to \"5m\"",
        ),
        (
            with(&format!("{url}\nname2 = \"a\"")),
            "there is no such key",
        ),
        (with(url).replace("\"ci\"", "\"c i\""), "expected a name"),
        (
            with(url).replace("[\"flowgate\"]", "[]"),
            "needs an audience",
        ),
        (
            with("jwks_file = \"/nowhere/keys.json\""),
            "cannot read /nowhere/keys.json",
        ),
        (
            with(url) + "\n" + &with(url).replace("[auth]\n", ""),
            "two [[auth.jwt]] named \"ci\"",
        ),
    ] {
        let message = bad(&text);
        assert!(message.contains(words), "{words}: {message}");
    }
}

#[test]
fn a_provider_brings_the_sign_in_page_and_must_be_safe_to_ask() {
    let issuer = "issuer = \"https://id.example.org/realms/a/\"";
    let auth = good(&oidc(issuer)).auth.unwrap();
    assert!(auth.sign_in_page);
    let provider = &auth.oidc[0];
    assert_eq!(
        provider.metadata.to_string(),
        "https://id.example.org/realms/a/.well-known/openid-configuration"
    );
    assert_eq!(
        (provider.label.as_str(), provider.issuer.as_str()),
        ("corp", "https://id.example.org/realms/a/")
    );
    for (text, words) in [
        (oidc(""), "needs its issuer"),
        (oidc("issuer = \"http://id.example.org\""), "an https URL"),
        (
            oidc("issuer = \"https://id.example.org/?a=b\""),
            "an https URL",
        ),
        (
            oidc(&format!("{issuer}\nscopes = [\"groups\"]")),
            "without the scope \"openid\"",
        ),
        (
            oidc(&format!("{issuer}\nclient_secret = \"\"")),
            "the secret is empty",
        ),
        (
            oidc(&format!("{issuer}\nrefresh = \"2h\"")),
            "\"1s\" to \"1h\"",
        ),
    ] {
        let message = bad(&text);
        assert!(message.contains(words), "{words}: {message}");
    }
}

#[test]
fn a_grant_for_an_upstream_that_is_not_there_is_reported() {
    let text = jwt("jwks_url = \"https://ci.example.org/keys\"")
        + "[[auth.jwt.grant]]\nupstream = \"line9\"\n"
        + GRANT;
    let warnings: Vec<String> = good(&text).warnings().collect();
    assert!(
        warnings.iter().any(|warning| warning.contains("line9")),
        "{warnings:?}"
    );
}

#[test]
fn no_local_user_has_the_name_of_another_kind_of_caller() {
    for name in ["jwt:ci:a", "oidc:corp:ann", "token:ci"] {
        let text = format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"x\"\npermissions = [\"*\"]"
        );
        assert!(bad(&text).contains("expected a name"), "{name}");
    }
}
