//! The table of endpoints, as the specification has it.

use super::*;

fn find(method: &str, path: &str) -> (Target, Needs<'static>) {
    let path = Path::parse(path).unwrap();
    let route = route(&method.parse().unwrap(), &path, &[]);
    (route.target, route.needs)
}

#[test]
fn the_specified_endpoints_need_what_is_specified() {
    for (method, path, target, needs) in [
        ("GET", "/auth/login", Target::Login, Nothing),
        ("HEAD", "/AUTH/Login/", Target::Login, Nothing),
        ("POST", "/auth/token", Target::Token, Nothing),
        ("POST", "/auth/revoke", Target::Revoke, Anyone),
        ("GET", "/flows", Target::Flows, Permission("flows.read")),
        ("HEAD", "/flows", Target::Flows, Permission("flows.read")),
        ("POST", "/FlOwS/", Target::Deploy, Permission("flows.write")),
        (
            "POST",
            "/%66lows",
            Target::Deploy,
            Permission("flows.write"),
        ),
        (
            "POST",
            "/flows/state",
            Target::SetState,
            Permission("flows.write"),
        ),
        (
            "PUT",
            "/flow/T1",
            Target::ReplaceFlow,
            Permission("flows.write"),
        ),
    ] {
        assert_eq!(find(method, path), (target, needs), "{method} {path}");
    }
}

#[test]
fn what_the_runtime_knows_best_needs_its_own_permission() {
    for (method, path, target, needs) in [
        (
            "GET",
            "/settings",
            Target::Admin(Admin::Settings),
            Permission("settings.read"),
        ),
        (
            "POST",
            "/inject/x",
            Target::Admin(Admin::Inject),
            Permission("inject.write"),
        ),
        (
            "POST",
            "/debug/x/disable",
            Target::Admin(Admin::DebugNode(false)),
            Permission("debug.write"),
        ),
        (
            "GET",
            "/debug/view/enable",
            Target::Admin(Admin::Editor(Editor::DebugView)),
            Nothing,
        ),
        (
            "GET",
            "/nodes/@s/mod",
            Target::Admin(Admin::Module),
            Permission("nodes.read"),
        ),
        (
            "GET",
            "/nodes/mod/set",
            Target::Admin(Admin::NodeSet),
            Permission("nodes.read"),
        ),
        (
            "GET",
            "/nodes/%40s/mod/set",
            Target::Admin(Admin::NodeSet),
            Permission("nodes.read"),
        ),
    ] {
        assert_eq!(find(method, path), (target, needs), "{method} {path}");
    }
}

#[test]
fn what_the_editor_loads_first_is_open_and_the_list_of_icons_is_not() {
    for path in [
        "/",
        "/red/a.js",
        "/vendor/v/w.js",
        "/types/x",
        "/favicon.ico",
        "/theme",
        "/theme/a.css",
        "/locales/editor",
        "/icons/m/i.svg",
        "/resources/m/p",
        "/debug/view/view.html",
        "/comms",
    ] {
        assert_eq!(find("GET", path).1, Nothing, "{path}");
    }
    assert_eq!(find("GET", "/icons").1, Permission("nodes.read"));
}

#[test]
fn names_of_the_admin_api_never_fall_through_to_a_flow() {
    for name in config::RESERVED {
        for path in [format!("/{name}"), format!("/{name}/a/b/c/d/e/f/g/h/i/j")] {
            for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS"] {
                assert_ne!(find(method, &path).0, Target::Endpoint, "{method} {path}");
            }
        }
    }
}

#[test]
fn nothing_that_writes_is_open_but_the_sign_in() {
    for path in [
        "/",
        "/red/x",
        "/comms",
        "/flows",
        "/settings/user",
        "/projects/p",
        "/auth/x",
        "/context/global/k",
    ] {
        for method in ["POST", "PUT", "DELETE"] {
            let (target, needs) = find(method, path);
            assert!(
                matches!(target, Target::OtherMethod(_)) || needs != Nothing,
                "{method} {path}"
            );
        }
    }
}

#[test]
fn another_method_of_a_listed_path_is_told_to_whoever_is_known() {
    let (target, needs) = find("PATCH", "/flows");
    let Target::OtherMethod(offers) = target else {
        panic!("{target:?}")
    };
    assert_eq!(
        (allow(offers).as_str(), needs),
        ("GET, HEAD, POST, OPTIONS", Anyone)
    );
    assert_eq!(find("GET", "/auth/token").1, Nothing);
}

#[test]
fn unlisted_paths_are_closed() {
    assert_eq!(
        find("GET", "/hello"),
        (Target::Endpoint, Permission("http.read"))
    );
    assert_eq!(
        find("OPTIONS", "/hello"),
        (Target::Endpoint, Permission("http.read"))
    );
    assert_eq!(
        find("POST", "/flowsheet"),
        (Target::Endpoint, Permission("http.write"))
    );
    assert_eq!(
        find("BREW", "/hello"),
        (Target::Endpoint, Permission("http.write"))
    );
}

#[test]
fn the_longest_rule_wins_and_the_exact_one_before_the_prefix() {
    let rule = |path: &str, prefix, methods: &[&str], permission: Option<&str>| config::Route {
        path: path.into(),
        upstream: None,
        prefix,
        methods: methods.iter().map(|&m| m.into()).collect(),
        permission: permission.map(Into::into),
        pass_authorization: false,
    };
    let rules = [
        rule("/a", true, &[], None),
        rule("/a/b", true, &["GET"], Some("below")),
        rule("/a/b", false, &["GET"], Some("exact")),
    ];
    for (method, path, needs) in [
        ("GET", "/A/", Nothing),
        ("POST", "/a/x", Nothing),
        ("GET", "/a/b", Permission("exact")),
        ("HEAD", "/a/b", Permission("exact")),
        ("GET", "/a/b/c", Permission("below")),
        ("POST", "/a/b", Nothing),
        ("GET", "/ab", Permission("http.read")),
    ] {
        let path = Path::parse(path).unwrap();
        let route = route(&method.parse().unwrap(), &path, &rules);
        assert_eq!(route.needs, needs, "{method} {path:?}");
    }
}

#[test]
fn a_rule_never_opens_a_listed_path() {
    let open = config::Route {
        path: "/".to_owned(),
        upstream: None,
        prefix: true,
        methods: Vec::new(),
        permission: None,
        pass_authorization: true,
    };
    let rules = [open];
    let path = Path::parse("/flows").unwrap();
    let found = route(&Method::POST, &path, &rules);
    assert_eq!(found.needs, Permission("flows.write"));
    assert_eq!(found.authorization, Authorization::Ours);
}

#[test]
fn we_answer_only_for_callers_whom_we_have_asked_who_they_are() {
    let rule = |path: &str, permission: Option<&str>, pass_authorization| config::Route {
        upstream: None,
        path: path.into(),
        prefix: false,
        methods: Vec::new(),
        permission: permission.map(Into::into),
        pass_authorization,
    };
    let rules = [
        rule("/own", None, true),
        rule("/public", None, false),
        rule("/known", Some("x"), false),
    ];
    for (path, whose) in [
        ("/flows", Authorization::Ours),
        ("/unlisted", Authorization::Ours),
        ("/known", Authorization::Ours),
        ("/own", Authorization::Client),
        ("/own/below", Authorization::Ours),
        ("/public", Authorization::Nobody),
        ("/", Authorization::Nobody),
        ("/icons/a/b.svg", Authorization::Nobody),
    ] {
        let path = Path::parse(path).unwrap();
        let found = route(&Method::GET, &path, &rules);
        assert_eq!(found.authorization, whose, "{}", path.as_str());
    }
}

/// The need of `GET path` at a site with its admin API below `/admin`.
fn beside<'a>(path: &str, rules: &'a [config::Route]) -> (RouteClass, Needs<'a>) {
    let site = config::Site {
        admin_root: "/admin".to_owned(),
        ..config::Site::default()
    };
    let mut path = Path::parse(path).unwrap();
    path.enter(&site);
    let route = route(&Method::GET, &path, rules);
    (route.class, route.needs)
}

#[test]
fn the_table_is_that_of_paths_below_the_admin_root() {
    use RouteClass::{Admin, Auth, Editor, Endpoint, Flows};
    for (path, class, needs) in [
        ("/flows", Endpoint, Permission("http.read")),
        ("/auth/login", Endpoint, Permission("http.read")),
        ("/red/main.js", Endpoint, Permission("http.read")),
        ("/administrator", Endpoint, Permission("http.read")),
        ("/admin/x", Endpoint, Permission("http.read")),
        ("/Admin/Flows/", Flows, Permission("flows.read")),
        ("/admin/settings", Admin, Permission("settings.read")),
        ("/admin/auth/login", Auth, Nothing),
        ("/admin", Editor, Nothing),
        ("/admin/comms", Editor, Nothing),
    ] {
        assert_eq!(beside(path, &[]), (class, needs), "{path}");
    }
}

#[test]
fn a_rule_may_be_for_all_that_is_outside_and_one_runtime_s_own_comes_first() {
    let rule = |upstream: Option<&str>, permission: &str| config::Route {
        pass_authorization: false,
        path: "/".to_owned(),
        upstream: upstream.map(Into::into),
        prefix: true,
        methods: Vec::new(),
        permission: Some(permission.to_owned()),
    };
    let rules = [rule(Some("a"), "own"), rule(None, "all")];
    let needs = |path| beside(path, &rules).1;
    assert_eq!(needs("/flows/x"), Permission("own"));
    assert_eq!(needs("/"), Permission("own"));
    assert_eq!(needs("/admin/flows"), Permission("flows.read"));
}
