//! Configs as operators write them, right and wrong.
#![allow(clippy::unwrap_used, reason = "tests")]

mod acme;
#[cfg(feature = "engine")]
mod cluster;
mod federated;
mod page_sandbox;
mod secrets;
mod upstreams;

use super::*;

fn parse(text: &str) -> Result<Config, Error> {
    Config::parse(text, "test.toml", Path::new("/etc/flowgate"))
}

fn good(text: &str) -> Config {
    parse(text).unwrap()
}

/// The message of a text that must be refused.
fn bad(text: &str) -> String {
    parse(text)
        .map(|config| format!("{config:?} from {text}"))
        .unwrap_err()
        .to_string()
}

#[test]
fn an_error_names_position_key_found_value_and_allowed_values() {
    assert_eq!(
        bad("# top\n[limits]\n  hashing = 0 # few\n"),
        "test.toml:3:13: limits.hashing: expected a whole number from 1 to 64, found 0\n\
         3 |   hashing = 0\n  |             ^"
    );
}

#[test]
fn an_unknown_key_is_shown_with_the_nearest_known_one() {
    let message = bad("[server]\nlisen = []");
    assert!(message.starts_with("test.toml:2:1: server.lisen: there is no such key; did you mean `listen`? (known here: listen, plain, workers, drain, watch, trusted_proxies, trusted_proxy_headers, proxy_protocol, hosts, endpoint_hosts)"), "{message}");
    assert!(
        bad("[servre]\n")
            .contains("test.toml:1:2: servre: there is no such key; did you mean `server`?")
    );
    assert!(
        bad("[auth]\n[auth.throttle]\nwindov = \"1s\"")
            .contains("auth.throttle.windov: there is no such key; did you mean `window`?")
    );
    let message = bad("[auth]\n[[auth.user]]\ncolour = 1");
    assert!(
        message.contains("3:1: auth.user.colour: there is no such key (known here: name, "),
        "{message}"
    );
}

#[test]
fn invalid_toml_is_reported_with_its_position() {
    assert!(
        bad("[server\n").starts_with("test.toml:1:8: not valid TOML: "),
        "{}",
        bad("[server\n")
    );
    assert!(
        bad("a = 1\na = 2\n").starts_with("test.toml:2:1: not valid TOML: "),
        "{}",
        bad("a = 1\na = 2\n")
    );
}

#[test]
fn a_table_in_place_of_a_value_and_the_reverse_are_reported() {
    assert!(
        bad("server = 1").contains("server: expected a table [server], found 1"),
        "{}",
        bad("server = 1")
    );
    assert!(
        bad("[server]\nlisten = \"x\"").contains("server.listen: expected a list, found \"x\"")
    );
    assert!(
        bad("[limits.hashing]").contains("limits.hashing: expected a whole number from 1 to 64")
    );
    assert!(bad("auth = true").contains("auth: expected \"off\" or a table [auth], found true"));
    assert!(
        bad("auth = \"on\"").contains("auth: expected \"off\" or a table [auth], found \"on\"")
    );
}

#[test]
fn impossible_values_are_refused() {
    let values = [
        ("server", "workers = 0"),
        ("server", "workers = \"many\""),
        ("server", "drain = \"0s\""),
        ("server", "drain = 30"),
        ("server", "listen = [\"localhost\"]"),
        ("server", "listen = [1]"),
        ("server", "listen = []"),
        ("server", "listen = [\"127.0.0.1:1\", \"127.0.0.1:1\"]"),
        ("server", "plain = \"127.0.0.1:8443\""),
        ("server", "plain = \"127.0.0.1:9090\""),
        ("server", "listen = [\"127.0.0.1:9090\"]"),
        ("server", "plain = \"0.0.0.0:80\""),
        ("server", "trusted_proxies = \"10.0.0.1\""),
        ("server", "trusted_proxies = [\"localhost\"]"),
        ("server", "trusted_proxies = [\"10.0.0.1/8\"]"),
        ("server", "proxy_protocol = \"v2\""),
        ("server", "proxy_protocol = true"),
        ("tls", "tls12 = \"yes\""),
        ("tls", "directory = \"\""),
        ("tls", "certificate = [{cert = \"a\"}]"),
        ("tls", "client_crl = \"a\""),
        ("tls", "client_certificates = \"optional\""),
        ("tls", "client_ca = \"a\"\nclient_certificates = \"on\""),
        ("timeouts", "handshake = \"0ms\""),
        ("timeouts", "header = \"2h\""),
        ("timeouts", "body_idle = \"0s\""),
        ("timeouts", "keep_alive = \"1 m\""),
        ("timeouts", "endpoint = \"0s\""),
        ("limits", "connections = 0"),
        ("limits", "connections = -1"),
        ("limits", "connections = 1.5"),
        ("limits", "connections = 10\nconnections_per_address = 11"),
        ("limits", "header_bytes = \"8191B\""),
        ("limits", "headers = 0"),
        ("limits", "body = \"1025MiB\""),
        ("limits", "body = \"5MB\""),
        ("limits", "body = 0"),
        ("limits", "h2_window = 65534"),
        ("limits", "h2_window = \"2GiB\""),
        ("limits", "h2_streams = 0"),
        ("auth", "lifetime = \"0s\""),
        ("auth", "lifetime = \"1h\"\nidle = \"2h\""),
        ("auth", "idle = \"0s\""),
        ("auth", "anonymous = [\"a b\"]"),
        ("auth", "anonymous = [\"\"]"),
        ("auth.throttle", "per_address = 0"),
        ("auth.throttle", "per_user = 0"),
        ("engine", "http_node_root = \"/flows\""),
        ("engine", "http_node_root = \"api\""),
        ("engine", "debug_length = 0"),
        ("engine", "threads = 0"),
        ("engine", "threads = 65"),
        ("engine", "threads = 2\nscript_memory = \"15MiB\""),
        ("storage", "history = 100001"),
        ("storage", "history_age = \"1h\""),
        ("storage", "history_bytes = \"1KiB\""),
        ("storage", "credential_secret = \"\""),
        ("log", "level = \"loud\""),
        ("log", "format = \"xml\""),
        ("log", "access = 1"),
    ];
    for (table, line) in values {
        let message = bad(&format!("[{table}]\n{line}\n"));
        let key = line
            .lines()
            .last()
            .and_then(|line| line.split(' ').next())
            .unwrap();
        assert!(
            message.contains(&format!(": {table}.{key}: ")),
            "{line}: {message}"
        );
    }
    assert!(
        bad("operations = \"on\"").contains(":1:14: operations: expected an IP address and a port")
    );
}

#[test]
fn omitted_settings_have_the_defaults_of_the_documented_file() {
    let written = Config::parse(DEFAULT, "test.toml", Path::new("/etc/flowgate")).unwrap();
    // The text is another one, and so is its hash and what is written there.
    let left_out = Config {
        sha256: written.sha256.clone(),
        written: written.written.clone(),
        ..good("[auth]")
    };
    assert_eq!(format!("{left_out:#?}"), format!("{written:#?}"));
    assert_eq!(written.storage.directory, Path::new("/etc/flowgate/data"));
    assert!(written.auth.is_some_and(|auth| auth.users.is_empty()
        && auth.anonymous.is_none()
        && auth.idle.is_none()));
}

#[test]
fn written_settings_are_applied() {
    let config = good(
        "operations = \"off\"\n[server]\nlisten = [\"[::]:0\", \"0.0.0.0:0\"]\nplain = \"[::1]:80\"\nworkers = 3\ndrain = \"1m\"\n\
         [tls]\ntls12 = false\ncertificate = [{cert = \"a.pem\", key = \"/b.key\"}]\n[timeouts]\nheader = \"250ms\"\n\
         [limits]\nconnections = 20\nbody = \"64KiB\"\nsign_in_body = 2000\n[auth]\nidle = \"5m\"\nanonymous = [\"read\"]\n\
         [engine]\nhttp_node_root = \"/Api/\"\n[log]\nlevel = \"debug\"\nformat = \"json\"\naccess = false\n",
    );
    assert_eq!(config.operations, None);
    assert_eq!(config.server.listen.len(), 2);
    assert_eq!(config.server.plain, Some("[::1]:80".parse().unwrap()));
    assert_eq!(
        (config.server.workers, config.server.drain),
        (3, Duration::from_mins(1))
    );
    assert!(!config.tls.tls12);
    let [certificate] = &config.tls.certificates[..] else {
        panic!("one certificate")
    };
    assert_eq!(certificate.cert, Path::new("/etc/flowgate/a.pem"));
    assert_eq!(certificate.key, Path::new("/b.key"));
    assert_eq!(config.timeouts.header, Duration::from_millis(250));
    assert_eq!(
        (config.limits.body, config.limits.sign_in_body),
        (65_536, 2000)
    );
    assert_eq!(config.limits.connections_per_address, 20);
    let auth = config.auth.unwrap();
    assert_eq!(
        (auth.idle, auth.anonymous),
        (Some(Duration::from_mins(5)), Some(vec!["read".to_owned()]))
    );
    assert_eq!(config.engine.http_node_root, "/api");
    assert_eq!(
        (config.log.level, config.log.json, config.log.access),
        (tracing::Level::DEBUG, true, false)
    );
}

#[test]
fn without_auth_only_loopback_may_be_bound() {
    let open = good("[server]\nlisten = [\"127.0.0.1:0\", \"[::1]:0\"]");
    assert!(open.auth.is_none());
    assert!(
        open.open_warning()
            .unwrap()
            .contains("everyone who reaches 127.0.0.1:0, [::1]:0")
    );
    let message = bad("[server]\nlisten = [\"127.0.0.1:0\", \"0.0.0.0:8443\"]");
    assert!(
        message.contains(":2:26: server.listen: without an [auth] table"),
        "{message}"
    );
}

#[test]
fn auth_off_allows_any_address_with_a_warning() {
    let off = good("auth = \"off\"\n[server]\nlisten = [\"0.0.0.0:8443\"]");
    assert!(off.auth.is_none() && off.open_warning().is_some());
    assert!(
        good("[auth]\n[server]\nlisten = [\"0.0.0.0:8443\"]")
            .open_warning()
            .is_none()
    );
}

#[test]
fn trusting_every_address_as_a_proxy_gives_a_warning() {
    let warned = |network: &str| {
        let text = format!("[auth]\n[server]\ntrusted_proxies = [\"10.0.0.0/8\", \"{network}\"]");
        good(&text).warnings().next()
    };
    assert_eq!(warned("::1"), None);
    for everybody in ["0.0.0.0/0", "::/0"] {
        let warning = warned(everybody).unwrap();
        assert!(
            warning.contains("trusted_proxies") && warning.contains(everybody),
            "{warning}"
        );
    }
}

#[test]
fn routes_are_canonical_and_either_public_or_not() {
    let config = good(
        "[[route]]\npath = \"/Hello/\"\npublic = true\n[[route]]\npath = \"/hello\"\nprefix = true\nmethods = [\"get\"]\npermission = \"x\"",
    );
    let [public, closed] = &config.routes[..] else {
        panic!("two routes")
    };
    assert_eq!(
        (
            public.path.as_str(),
            public.prefix,
            public.permission.as_deref()
        ),
        ("/hello", false, None)
    );
    assert_eq!(
        (closed.prefix, closed.permission.as_deref()),
        (true, Some("x"))
    );
    assert_eq!(closed.methods, ["GET"]);
    let wrong = [
        ("public = true", "needs a path"),
        ("path = \"/a\"", "needs either public = true or permission"),
        (
            "path = \"/a\"\npublic = true\npermission = \"x\"",
            "needs either public = true or permission",
        ),
        (
            "path = \"/a\"\npublic = false",
            "needs either public = true or permission",
        ),
        (
            "path = \"/a\"\npermission = \"\"",
            "expected the name of a permission",
        ),
        (
            "path = \"/a/../flows\"\npublic = true",
            "expected a path such as",
        ),
        (
            "path = \"/Flows/\"\npublic = true",
            "belongs to the admin API",
        ),
        (
            "path = \"/auth/token\"\npublic = true",
            "belongs to the admin API",
        ),
        (
            "path = \"/%66lows\"\npublic = true",
            "belongs to the admin API",
        ),
        (
            "path = \"/\"\nprefix = true\npublic = true",
            "belongs to the admin API",
        ),
        (
            "path = \"/a\"\npublic = true\nmethods = [\"BREW\"]",
            "expected one of GET, HEAD",
        ),
        (
            "path = \"/a\"\npublic = true\n[[route]]\npath = \"/A\"\nmethods = [\"GET\"]\npermission = \"x\"",
            "another [[route]] has the path /a",
        ),
    ];
    for (lines, sentence) in wrong {
        let message = bad(&format!("[[route]]\n{lines}"));
        assert!(message.contains(sentence), "{lines}: {message}");
    }
}

#[test]
fn a_named_file_must_exist_and_paths_start_at_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("my.toml");
    let message = Config::load(Some(&file)).unwrap_err().to_string();
    assert!(
        message.starts_with(&format!("cannot read {}: ", file.display())),
        "{message}"
    );
    std::fs::write(&file, "[auth]\n").unwrap();
    let config = Config::load(Some(&file)).unwrap();
    assert_eq!(config.tls.directory, directory.path().join("certs"));
    assert_eq!(config.file, Some(file));
}

#[test]
fn a_host_list_must_not_be_empty_nor_have_invalid_entries() {
    for (list, words) in [
        ("[]", "no request would be answered"),
        ("[\"https://a.example\"]", "expected a host without scheme"),
        ("[\"10.0.0\"]", "expected a host without scheme"),
        ("[1]", "expected a host without scheme"),
    ] {
        let error = bad(&format!("[server]\nhosts = {list}\n"));
        assert!(
            error.contains("server.hosts") && error.contains(words),
            "{error}"
        );
    }
    let open = "auth = \"off\"\n[server]\nhosts = [\"*\"]\n";
    let warned = |text: &str| {
        let warnings: Vec<_> = good(text).warnings().collect();
        warnings
            .iter()
            .any(|warning| warning.contains("DNS rebinding"))
    };
    assert!(warned(open));
    assert!(warned(
        &open.replace("auth = \"off\"", "auth.anonymous = [\"read\"]")
    ));
    assert!(!warned(
        &open.replace("auth = \"off\"", "auth.lifetime = \"1d\"")
    ));
    assert!(!warned(&open.replace('*', "a.example")));
}
