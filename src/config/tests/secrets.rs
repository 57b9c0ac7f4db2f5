//! Users and secrets: their sources, and that no message shows them.

use super::{bad, good, parse};
use crate::config::setting;
use crate::config::{Account, Config, error, raw, tables};
use std::cell::RefCell;
use std::path::Path;

const HASH: &str = "$2b$08$W99V1mAwhUg5M9.hX6kjY.qtLHyvMOmTvm/hfRdpVY8u2XJsIHwFC";

fn user(lines: &str) -> String {
    format!("[auth]\n[[auth.user]]\n{lines}\n")
}

#[test]
fn users_have_a_unique_name_a_hash_and_permissions() {
    let config = good(&user(&format!(
        "name = \"Ann\"\npassword_hash = '{HASH}'\npermissions = [\"*\"]"
    )));
    let users = config.auth.unwrap().users;
    assert_eq!(
        (
            users[0].name.as_str(),
            users[0].password_hash.as_ref().unwrap().reveal()
        ),
        ("Ann", HASH)
    );
    let hash = format!("password_hash = '{HASH}'");
    let twice = format!(
        "name = \"a\"\n{hash}\npermissions = []\n[[auth.user]]\nname = \"a\"\n{hash}\npermissions = []"
    );
    assert!(
        bad(&user(&twice)).contains(":6:1: auth.user: there are two users named \"a\""),
        "{}",
        bad(&user(&twice))
    );
    assert!(bad(&user(&hash)).contains("a user needs a name"));
    assert!(
        bad(&user("name = \"a\"\npermissions = []")).contains("user \"a\" needs a password_hash")
    );
    assert!(bad(&user(&format!("name = \"a\"\n{hash}"))).contains("user \"a\" needs permissions"));
    assert!(
        bad(&user(&format!(
            "name = \"a\"\n{hash}\npermissions = [\"flows write\"]"
        )))
        .contains("without spaces")
    );
    assert!(
        bad(&user(&format!("name = \"\"\n{hash}\npermissions = []")))
            .contains("auth.user.name: expected a name")
    );
}

#[test]
fn no_error_and_no_debug_output_shows_a_secret() {
    let texts = [
        user("name = \"ann\"\npassword_hash = \"hunter2\"\npermissions = []"),
        user("name = \"ann\"\npassword_hash = 4711\npermissions = []")
            .replace("4711", "[\"hunter2\"]"),
        user("name = \"ann\"\npasword_hash = \"hunter2\""),
        user("name = \"ann\"\npwd = \"hunter2\""),
        user("name = \"ann\"\npassword_hash = \"hunter2"),
        user("name = \"ann\"\npassword_hash = \"hunter2\\q\""),
        "[auth]\nuser = \"ann:hunter2\"".into(),
        "[auth]\nuser = [\"ann:hunter2\"]".into(),
        "[auth]\nuser = [{name = \"ann\", password_hash = \"hunter2\", permissions = 1}]".into(),
        "[auth]\nuser = [{name = \"ann\", password_hash = \"hunter2\", colour = 1}]".into(),
        "[auth]\nuser = [{colour = 1, pwd = \"hunter2\"}]".into(),
        "[auth]\nuser = [{pwd = \"hunter2\", colour = 1}]".into(),
        "[auth]\nuser = [{\npwd = \"hunter2\", colour = 1}]".into(),
        "[storage]\ncredential_secret = \"hunter2${\"".into(),
        "[storage]\ncredential_secret = \"hunter2\"\ncredential_secret_file = \"x\"".into(),
        "[storage]\ncredential_secret = {value = \"hunter2\"}".into(),
        "storage = {credential_secret = \"hunter2\", history = -1}".into(),
    ];
    for text in texts {
        assert!(!bad(&text).contains("hunter2"), "{}", bad(&text));
        assert!(
            !format!("{:?}", parse(&text)).contains("hunter2"),
            "{:?}",
            parse(&text)
        );
    }
    let named = bad(&user(
        "name = \"ann\"\npassword_hash = \"hunter2\"\npermissions = []",
    ));
    assert!(
        named.contains(
            "auth.user.password_hash: the password hash of user \"ann\" is not an argon2id hash"
        ),
        "{named}"
    );
    let config = good("[storage]\ncredential_secret = \"hunter2\"");
    assert!(!format!("{config:?}").contains("hunter2"));
    assert_eq!(
        config.storage.credential_secret.unwrap().reveal(),
        "hunter2"
    );
}

#[test]
fn secrets_come_from_files_without_the_last_newline() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("ann.hash"), format!("{HASH}\r\n")).unwrap();
    std::fs::write(directory.path().join("empty"), "\n").unwrap();
    let text = user("name = \"ann\"\npassword_hash_file = \"ann.hash\"\npermissions = [\"read\"]");
    let config = Config::parse(&text, "test.toml", directory.path()).unwrap();
    assert_eq!(
        config.auth.unwrap().users[0]
            .password_hash
            .as_ref()
            .unwrap()
            .reveal(),
        HASH
    );
    let message = Config::parse(
        "[storage]\ncredential_secret_file = \"empty\"",
        "t",
        directory.path(),
    )
    .unwrap_err();
    assert!(message.to_string().contains("the secret is empty"));
    assert!(
        bad("[storage]\ncredential_secret_file = \"gone\"")
            .contains("cannot read /etc/flowgate/gone: ")
    );
}

/// Reads a configuration with these environment variables; besides, the names of those that secrets
/// are made of.
fn with_variables(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> (Result<Config, error::SpannedError>, Vec<String>) {
    let read = RefCell::default();
    let secret_variables = RefCell::default();
    let source = setting::Source {
        read: &read,
        secret_variables: &secret_variables,
        base: Path::new(""),
        variable,
    };
    let config = raw::parse(text).and_then(|root| tables::config(root, &source));
    (config, secret_variables.take())
}

#[test]
fn a_variable_is_substituted_and_its_value_never_shown() {
    let variable = |name: &str| (name == "LEVEL").then(|| "loud".to_owned());
    let text = "[log]\nlevel = \"${LEVEL}\"";
    let fault = with_variables(text, &variable).0.unwrap_err();
    let message = error::locate(fault, text, "t").to_string();
    assert!(
        message.contains("found \"${LEVEL}\"") && !message.contains("loud"),
        "{message}"
    );
    let (config, _) = with_variables("[storage]\ndirectory = \"/x/${LEVEL}\"", &variable);
    assert_eq!(config.unwrap().storage.directory, Path::new("/x/loud"));
    assert!(
        bad("[log]\nlevel = \"${FLOWGATE_IS_NOT_SET}\"")
            .contains("log.level: the environment variable FLOWGATE_IS_NOT_SET is not set")
    );
}

#[test]
fn an_upstream_has_a_token_or_a_user_and_not_both() {
    let with = |lines: &str| format!("[upstream]\nurl = \"http://127.0.0.1:1880\"\n{lines}\n");
    let account = |lines: &str| good(&with(lines)).upstreams[0].account.clone();
    assert!(account("").is_none());
    let Some(Account::User(user)) = account("user = \"gate\"\npassword = \"x\"") else {
        panic!("a user signs in");
    };
    let asked = (
        user.user.as_str(),
        user.client_id.as_str(),
        user.scope.as_str(),
    );
    assert_eq!(
        (asked, user.password.reveal()),
        (("gate", "node-red-admin", "*"), "x")
    );
    let other = "dialect = \"service\"\nuser = \"gate\"\npassword = \"x\"\nscope = \"read\"";
    let Some(Account::User(user)) = account(other) else {
        panic!("a user signs in");
    };
    assert_eq!(
        (user.client_id.as_str(), user.scope.as_str()),
        ("service-admin", "read")
    );

    for (lines, sentence) in [
        ("user = \"gate\"", "needs a password or a password_file"),
        ("password = \"x\"", "which needs a user"),
        ("client_id = \"x\"", "which needs a user"),
        ("user = \"\"\npassword = \"x\"", "not empty"),
        ("user = \"gate\"\npassword = \"\"", "the secret is empty"),
        (
            "user = \"gate\"\npassword = \"x\"\npassword_file = \"y\"",
            "not both",
        ),
        (
            "user = \"gate\"\npassword = \"hidden\"\ntoken_file = \"y\"",
            "either a token_file or a user with a password, not both",
        ),
    ] {
        let message = bad(&with(lines));
        assert!(message.contains(sentence), "{message}");
        assert!(!message.contains("hidden"), "{message}");
    }
}

#[test]
fn only_a_public_route_passes_authorization_on() {
    let route =
        |lines: &str| format!("[[route]]\npath = \"/x\"\n{lines}\npass_authorization = true\n");
    assert!(matches!(
        good(&route("public = true")).routes[0].authorization,
        crate::config::Authorization::Client
    ));
    let message = bad(&route("permission = \"read\""));
    assert!(
        message.contains("pass_authorization is for public = true"),
        "{message}"
    );
}

#[test]
fn variables_that_make_up_secrets_are_hidden_from_flows() {
    let text = "[storage]\ncredential_secret = \"${ONE}${TWO}\"\ndirectory = \"${PLACE}\"";
    let (config, secret) = with_variables(text, &|name| Some(format!("value of {name}")));
    assert!(config.is_ok());
    assert_eq!(secret, ["ONE", "TWO"]);
}

#[test]
fn hidden_variables_are_names_or_name_prefixes() {
    let hidden = |list: &str| {
        good(&format!("[engine]\nhide_env = {list}"))
            .engine
            .hide_env
    };
    let some = hidden(r#"["A", "CLOUD_*"]"#);
    for (name, hides) in [
        ("A", true),
        ("AB", false),
        ("a", false),
        ("CLOUD_", true),
        ("CLOUD_KEY", true),
        ("CLOUD", false),
    ] {
        assert_eq!(some.hides(name), hides, "{name}");
    }
    assert!(!hidden("[]").hides("A"));
    for list in [r#"["A B"]"#, r#"["*"]"#, r#"["A*B"]"#, r#"[""]"#, "[1]"] {
        let message = bad(&format!("[engine]\nhide_env = {list}"));
        assert!(
            message.contains("the name of an environment variable"),
            "{message}"
        );
    }
}
