//! Upstreams, one or several, and where clients find them.

use super::{bad, good};
use crate::config::Authorization;

const TWO: &str = "[[upstream]]\nurl = \"http://127.0.0.1:1880\"\n[[upstream]]\nurl = \"http://127.0.0.1:1881\"\n";
const ANN: &str = "[[auth.user]]\nname = \"ann\"\npermissions = [\"read\"]\n\
    password_hash = \"$2b$08$W99V1mAwhUg5M9.hX6kjY.qtLHyvMOmTvm/hfRdpVY8u2XJsIHwFC\"\n";

#[test]
fn a_single_upstream_serves_all_hosts_and_paths() {
    for table in ["[upstream]", "[[upstream]]"] {
        let config = good(&format!("{table}\nurl = \"https://[::1]\""));
        let [only] = &config.upstreams[..] else {
            panic!("one upstream")
        };
        assert_eq!(only.mount.name, "[::1]:443");
        assert!(only.mount.hosts.is_empty() && only.mount.prefix.is_empty());
        assert_eq!(
            (only.mount.path.as_str(), only.mount.admin_root.as_str()),
            ("", "")
        );
        assert_eq!(only.root, "");
    }
    assert!(good("").upstreams.is_empty());
}

#[test]
fn as_many_connections_are_kept_as_requests_may_use_at_a_time() {
    for (lines, kept) in [
        ("", 256),
        ("max_in_flight = 10", 3),
        ("max_in_flight = 1000000", 10_000),
        ("pool = 5", 5),
    ] {
        let upstream = format!("[upstream]\nurl = \"http://[::1]\"\n{lines}");
        let config = good(&format!("server.workers = 4\n{upstream}"));
        assert_eq!(config.upstreams[0].pool, kept, "{lines}");
    }
}

#[test]
fn several_upstreams_have_separate_mounts() {
    let config = good(&format!(
        "{TWO}name = \"plant\"\nhost = [\"Flows.example.org\"]\npath = \"/Plant1/\"\nstrip = false\n\
         admin_root = \"/Admin\"\npermissions = {{ ann = [\"*\"] }}\n[auth]\n{ANN}"
    ));
    let plant = &config.upstreams[1];
    assert_eq!(plant.mount.hosts, ["flows.example.org"]);
    assert_eq!(
        (plant.mount.path.as_str(), plant.mount.admin_root.as_str()),
        ("/plant1", "/admin")
    );
    assert_eq!(plant.root, "/Plant1/Admin");
    assert_eq!(
        plant.mount.permissions,
        [("ann".to_owned(), vec!["*".to_owned()])]
    );
    assert_eq!(plant.mount.prefix, "");
}

#[test]
fn a_stripped_prefix_keeps_the_configured_spelling() {
    let config =
        good("[upstream]\nurl = \"http://x\"\npath = \"/Plant1/\"\nadmin_root = \"/Admin\"");
    let only = &config.upstreams[0];
    assert_eq!(
        (only.mount.path.as_str(), only.mount.prefix.as_str()),
        ("/plant1", "/Plant1")
    );
    assert_eq!(only.root, "/Admin");
}

#[test]
fn upstreams_that_match_the_same_request_are_an_error_at_the_second() {
    let message = bad(TWO);
    assert!(
        message.starts_with("test.toml:3:1: upstream: the upstream \"127.0.0.1:1880\" answers"),
        "{message}"
    );
    for (lines, sentence) in [
        ("path = \"/\"", "answers for the same host and path"),
        ("url = 1", "not valid TOML"),
        (
            "name = \"127.0.0.1:1880\"\npath = \"/p\"",
            "another upstream has the name",
        ),
        (
            "name = \"a b\"",
            "upstream.name: expected a name of letters",
        ),
        (
            "host = [\"*.example.org\"]",
            "upstream.host: expected a host name",
        ),
        ("path = \"/a//b\"", "upstream.path: expected a path such as"),
        ("path = \"/Flows/x\"", "none of the admin API"),
        (
            "admin_root = \"admin\"",
            "upstream.admin_root: expected a path",
        ),
        ("strip = 1", "upstream.strip: expected true or false"),
        ("permissions = [\"read\"]", "upstream.permissions: expected"),
        ("permissions = { ann = \"read\" }", "expected"),
        (
            "permissions = { ann = [\"read\"] }",
            "without an [auth] table there is no sign-in",
        ),
        (
            "permissions = { bob = [\"read\"] }\n[auth]\n",
            "no [[auth.user]] named \"bob\"",
        ),
        (
            "pathh = \"/p\"",
            "upstream.pathh: there is no such key; did you mean `path`?",
        ),
    ] {
        let message = bad(&format!("{TWO}{lines}"));
        assert!(message.contains(sentence), "{lines}: {message}");
    }
    assert!(bad("[[upstream]]\npath = \"/p\"").contains("1:1: upstream: an upstream needs a url"));
    assert!(bad("upstream = 1").contains("expected a table [upstream], or several [[upstream]]"));
}

#[test]
fn permissions_may_name_the_generated_admin() {
    let upstream = "[upstream]\nurl = \"http://x\"\npermissions";
    assert!(
        !good(&format!("{upstream} = {{ admin = [] }}\n[auth]")).upstreams[0]
            .mount
            .permissions
            .is_empty()
    );
    assert!(
        bad(&format!("{upstream} = {{ admin = [] }}\n[auth]\n{ANN}")).contains("named \"admin\"")
    );
}

#[test]
fn a_route_applies_to_one_or_all_upstreams_but_never_admin_paths() {
    let places = format!("{TWO}name = \"b\"\npath = \"/b\"\nadmin_root = \"/admin\"\n");
    let route = |path: &str, upstream: &str| {
        format!("{places}[[route]]\npath = \"{path}\"\npublic = true\n{upstream}")
    };
    let b = "upstream = \"b\"";
    assert_eq!(
        good(&route("/x", b)).routes[0].upstream.as_deref(),
        Some("b")
    );
    for path in ["/", "/flows", "/red/x", "/administrator", "/serialports"] {
        assert!(good(&route(path, b)).routes.len() == 1, "{path}");
    }
    for (path, upstream) in [
        ("/admin", b),
        ("/Admin/Flows", b),
        ("/admin/red/x", b),
        ("/admin/x", b),
        ("/admin/flows", ""),
        ("/serialports", ""),
        ("/dashboard/api/v1", "upstream = \"127.0.0.1:1880\""),
        ("/flows", ""),
        ("/flows", "upstream = \"127.0.0.1:1880\""),
        ("/", ""),
    ] {
        let message = bad(&route(path, upstream));
        assert!(
            message.contains("belongs to the admin API"),
            "{path}: {message}"
        );
    }
    let message = bad(&route("/x", "upstream = \"c\""));
    assert!(
        message.contains("route.upstream: expected the name of an upstream, found \"c\""),
        "{message}"
    );
    let twice = format!(
        "{}\n[[route]]\npath = \"/x\"\npublic = true",
        route("/x", b)
    );
    assert_eq!(good(&twice).routes.len(), 2);
}

#[test]
fn the_editor_table_is_only_for_the_engine() {
    let editor = "[editor]\nmodules = \"here\"\n";
    let modules = good(editor).editor.modules.unwrap();
    assert!(modules.ends_with("here"));
    assert!(good("").editor.modules.is_none());
    let wrong = bad(&format!("{editor}[upstream]\nurl = \"http://x\""));
    assert!(
        wrong.contains("editor.modules: an upstream brings its own editor"),
        "{wrong}"
    );
}

/// An upstream with an admin root of its own, and one without.
fn two_roots(lines: &str) -> String {
    format!("{TWO}name = \"b\"\npath = \"/b\"\nadmin_root = \"/admin\"\n{lines}")
}

#[test]
fn an_admin_route_has_a_permission_or_is_public_for_reads() {
    let config = good(&two_roots(
        "[[admin_route]]\npath = \"/Ports/\"\nprefix = true\npermission = \"serial.read\"\n\
         [[admin_route]]\nupstream = \"b\"\npath = \"/\"\nprefix = true\npublic = true\n",
    ));
    let [ports, scripts] = &config.admin_routes[..] else {
        panic!("{:?}", config.admin_routes)
    };
    assert_eq!((ports.path.as_str(), ports.prefix), ("/ports", true));
    assert_eq!(ports.permission.as_deref(), Some("serial.read"));
    assert_eq!(ports.authorization, Authorization::Ours);
    assert_eq!(scripts.upstream.as_deref(), Some("b"));
    assert_eq!(scripts.methods, ["GET"]);
    assert_eq!(scripts.authorization, Authorization::None);
}

#[test]
fn an_admin_route_that_would_expose_or_shadow_paths_is_refused() {
    for (lines, sentence) in [
        ("permission = \"x\"", "an [[admin_route]] needs a path"),
        ("path = \"/x\"", "needs either permission"),
        (
            "path = \"/x\"\npublic = true\npermission = \"x\"",
            "and not both",
        ),
        (
            "path = \"/x\"\npublic = true\nmethods = [\"POST\"]",
            "only GET and HEAD",
        ),
        (
            "path = \"/flows\"\npermission = \"x\"",
            "permissions are fixed",
        ),
        ("path = \"/\"\npermission = \"x\"", "permissions are fixed"),
        (
            "path = \"/\"\nprefix = true\npermission = \"x\"",
            "every endpoint of a flow too",
        ),
        (
            "path = \"/x\"\nupstream = \"c\"\npermission = \"x\"",
            "the name of an upstream",
        ),
        (
            "path = \"/x\"\npermission = \"x\"\n[[admin_route]]\npath = \"/X\"\npermission = \"y\"",
            "another [[admin_route]] has the path /x",
        ),
        (
            "path = \"/x\"\npermission = \"x\"\n[[route]]\npath = \"/x\"\npublic = true",
            "belongs to the admin API",
        ),
    ] {
        let message = bad(&two_roots(&format!("[[admin_route]]\n{lines}")));
        assert!(message.contains(sentence), "{lines}: {message}");
    }
    let alone = bad("[[admin_route]]\npath = \"/x\"\npermission = \"x\"");
    assert!(alone.contains("is for an [upstream]"), "{alone}");
}

#[test]
fn the_account_is_used_on_request_and_never_for_public_routes() {
    let route = |lines: &str| format!("[[route]]\npath = \"/x\"\n{lines}");
    let lent = good(&route("permission = \"x\"\naccount = true"));
    assert_eq!(lent.routes[0].authorization, Authorization::Ours);
    let kept = good(&route("permission = \"x\""));
    assert_eq!(kept.routes[0].authorization, Authorization::None);
    let message = bad(&route("public = true\naccount = true"));
    assert!(
        message.contains("account is for a route with a permission"),
        "{message}"
    );
}

#[test]
fn an_account_without_an_admin_root_gives_a_warning() {
    let warned = |lines: &str| {
        let upstream = format!("[upstream]\nurl = \"http://x\"\n{lines}\n[auth]");
        let warnings = good(&upstream).warnings().collect::<Vec<_>>().concat();
        warnings.contains("has an account and no admin_root")
    };
    let account = "user = \"u\"\npassword = \"p\"";
    assert!(warned(account));
    assert!(!warned(""));
    assert!(!warned(&format!("{account}\nadmin_root = \"/admin\"")));
}

#[test]
fn header_fields_of_trusted_proxies_need_trusted_proxies() {
    let server = |lines: &str| format!("[server]\n{lines}");
    let config = good(&server(
        "trusted_proxies = [\"10.0.0.1\"]\ntrusted_proxy_headers = [\"Remote-User\"]",
    ));
    assert_eq!(config.server.trusted_proxy_headers, ["remote-user"]);
    assert!(good("").server.trusted_proxy_headers.is_empty());
    let message = bad(&server("trusted_proxy_headers = [\"Remote-User\"]"));
    assert!(message.contains("trusted_proxies is empty"), "{message}");
    let message = bad(&server(
        "trusted_proxies = [\"10.0.0.1\"]\ntrusted_proxy_headers = [\"Authorization\"]",
    ));
    assert!(
        message.contains("expected the name of a header field"),
        "{message}"
    );
}
