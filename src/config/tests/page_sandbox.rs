//! Which configurations sandbox the pages of endpoints, and hosts of endpoints.

use super::{bad, good};

const ANN: &str = "[[auth.user]]\nname = \"ann\"\npassword_hash = \"$2a$08$AAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"\n";

fn user(permissions: &str) -> String {
    format!("{ANN}permissions = {permissions}\n")
}

fn reasons(text: &str) -> String {
    good(text).sandbox_reasons().join("; ")
}

#[test]
fn every_source_of_rights_to_some_flows_is_a_reason_for_the_sandbox() {
    let grant = "[[auth.jwt.grant]]\nclaims = { groups = [\"a\"] }\npermissions = [\"flows.write:Line1*\"]\n";
    let jwt = "[[auth.jwt]]\nname = \"ci\"\nissuer = \"https://ci.example.org\"\naudience = [\"a\"]\njwks_url = \"https://ci.example.org/keys\"\n";
    let oidc =
        "[[auth.oidc]]\nname = \"corp\"\nissuer = \"https://id.example.org\"\nclient_id = \"a\"\n";
    let upstream = "[upstream]\nurl = \"http://127.0.0.1:1\"\n";
    for (text, words) in [
        (
            user(r#"["read", "flows.write:Line1*"]"#),
            "the user \"ann\"",
        ),
        (
            "[auth]\nanonymous = [\"flows.write:a\"]\n".to_owned(),
            "auth.anonymous",
        ),
        (format!("{jwt}{grant}"), "a grant of \"ci\""),
        (
            format!("{oidc}{}", grant.replace("jwt", "oidc")),
            "a grant of \"corp\"",
        ),
        (
            format!(
                "{}{upstream}name = \"u\"\npermissions = {{ ann = [\"flows.write:a\"] }}\n",
                user(r#"["*"]"#)
            ),
            "the user \"ann\" at the upstream \"u\"",
        ),
        (
            format!("{}[policy]\napprove = [\"*\"]\n", user(r#"["*"]"#)),
            "policy.approve",
        ),
        (
            format!(
                "{}{upstream}[upstream.policy]\napprove = [\"a\"]\n",
                user(r#"["*"]"#)
            ),
            "policy.approve",
        ),
    ] {
        let found = reasons(&text);
        assert!(found.contains(words), "{words}: {found}");
        let hosts = format!("server.endpoint_hosts = [\"flows.example.org\"]\n{text}");
        assert_eq!(reasons(&hosts), "", "{words}");
    }
    for all in [
        r#"["*"]"#,
        r#"["write", "flows.write:a"]"#,
        r#"["flows.write", "flows.write:a"]"#,
        r#"["read", "flows.read:a"]"#,
    ] {
        assert_eq!(reasons(&user(all)), "", "{all}");
    }
}

#[test]
fn each_route_that_is_not_sandboxed_is_named() {
    let route = "[[route]]\npath = \"/Ui\"\npublic = true\nsame_origin = true\n";
    let text = user(r#"["flows.write:a"]"#) + route;
    let warned = |text: &str| good(text).warnings().collect::<Vec<_>>().join("\n");
    let warnings = warned(&text);
    assert!(
        warnings.contains("the [[route]] /ui has same_origin = true: a user who"),
        "{warnings}"
    );
    let hosts = format!("server.endpoint_hosts = [\"flows.example.org\"]\n{text}");
    assert!(warned(&hosts).contains("without effect"));
    assert!(!warned(&text.replace("same_origin = true", "")).contains("same_origin"));
}

#[test]
fn hosts_of_endpoints_leave_others_for_everything_else() {
    for (lines, words) in [
        ("endpoint_hosts = []", "no endpoint would be answered"),
        ("endpoint_hosts = [\"*\"]", "leave no host"),
        ("endpoint_hosts = [\"*:8443\"]", "leave no host"),
        (
            "endpoint_hosts = [\"https://a.example\"]",
            "expected a host without scheme",
        ),
        (
            "endpoint_hosts = [\"a.example\"]\nhosts = [\"b.example\", \"A.example\"]",
            "has the same host",
        ),
        (
            "endpoint_hosts = [\"a.example\"]\n[[route]]\npath = \"/a\"\npermission = \"http.read\"\nsign_in = \"page\"",
            "the [[route]] /a has sign_in",
        ),
    ] {
        let error = bad(&format!("[server]\n{lines}\n"));
        assert!(
            error.contains("server.endpoint_hosts") && error.contains(words),
            "{error}"
        );
    }
}
