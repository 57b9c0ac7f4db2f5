//! The table of endpoints (docs/reference/node-red-admin-api.md §2).

use super::entry::Entry;
use super::gateway_table::GATEWAY;
use super::*;
use crate::config::AdminPaths;
use crate::http::openapi;
use Verb::{Delete, Get, Post, Put};
use serde_json::Value as Json;
use std::collections::BTreeSet;

static NO_RULES: PathRules = PathRules {
    endpoints: Vec::new(),
    admin: Vec::new(),
    admin_paths: AdminPaths::Listed,
};

/// A `[[route]]` or `[[admin_route]]` for all methods; without a permission it is public.
fn rule(path: &str, prefix: bool, permission: Option<&str>) -> config::Route {
    config::Route {
        path: path.into(),
        upstream: None,
        prefix,
        methods: Vec::new(),
        permission: permission.map(Into::into),
        authorization: Authorization::None,
        ambient: AmbientCredentials::default(),
        networks: None,
        rate_limit: None,
        same_origin: false,
    }
}

/// The rules of a runtime.
fn rules(
    admin_paths: AdminPaths,
    endpoints: &[config::Route],
    admin: &[config::Route],
) -> PathRules {
    PathRules {
        endpoints: endpoints.to_vec(),
        admin: admin.to_vec(),
        admin_paths,
    }
}

fn find(method: &str, path: &str) -> (Target, Needs<'static>) {
    let path = Path::parse(path).unwrap();

    let route = route(&method.parse().unwrap(), &path, &NO_RULES);
    (route.target, route.needs)
}

#[test]
fn the_specified_endpoints_need_the_specified_permissions() {
    for (method, path, target, needs) in [
        ("GET", "/auth/login", Target::Login, Nothing),
        ("HEAD", "/AUTH/Login/", Target::Login, Nothing),
        ("POST", "/auth/token", Target::Token, Nothing),
        ("POST", "/auth/revoke", Target::Revoke, Anyone),
        ("GET", "/flows", Target::Flows, SomeFlow("flows.read")),
        ("HEAD", "/flows", Target::Flows, SomeFlow("flows.read")),
        ("POST", "/FlOwS/", Target::Deploy, SomeFlow("flows.write")),
        ("POST", "/%66lows", Target::Deploy, SomeFlow("flows.write")),
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
            SomeFlow("flows.write"),
        ),
    ] {
        assert_eq!(find(method, path), (target, needs), "{method} {path}");
    }
}

#[test]
fn endpoints_of_the_runtime_need_their_own_permissions() {
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
fn initial_resources_of_the_editor_are_public_except_the_icon_list() {
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
fn no_write_is_public_except_the_sign_in() {
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
fn allowed_methods_of_a_listed_path_are_shown_to_authenticated_callers() {
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
    let get = |rule: config::Route| config::Route {
        methods: vec!["GET".to_owned()],
        ..rule
    };
    let rules = rules(
        AdminPaths::Listed,
        &[
            rule("/a", true, None),
            get(rule("/a/b", true, Some("below"))),
            get(rule("/a/b", false, Some("exact"))),
        ],
        &[],
    );
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
    let open = rule("/", true, None);
    let rules = rules(AdminPaths::Known, &[open], &[]);
    let path = Path::parse("/flows").unwrap();
    let found = route(&Method::POST, &path, &rules);
    assert_eq!(found.needs, SomeFlow("flows.write"));
    assert_eq!(found.authorization, Authorization::Ours);
}

#[test]
fn the_account_serves_the_admin_api_and_routes_that_request_it() {
    let whose = |authorization, rule| config::Route {
        authorization,
        ..rule
    };
    let rules = rules(
        AdminPaths::Known,
        &[
            whose(Authorization::Client, rule("/own", false, None)),
            rule("/public", false, None),
            rule("/known", false, Some("x")),
            whose(Authorization::Ours, rule("/lent", false, Some("x"))),
        ],
        &[
            whose(Authorization::Ours, rule("/mine", true, Some("x"))),
            rule("/ui_base", true, None),
        ],
    );
    for (path, authorization) in [
        ("/flows", Authorization::Ours),
        ("/debug/other", Authorization::Ours),
        ("/serialports", Authorization::Ours),
        ("/mine/x", Authorization::Ours),
        ("/lent", Authorization::Ours),
        ("/own", Authorization::Client),
        ("/unlisted", Authorization::None),
        ("/known", Authorization::None),
        ("/own/below", Authorization::None),
        ("/public", Authorization::None),
        ("/ui_base/x.js", Authorization::None),
        ("/", Authorization::None),
        ("/icons/a/b.svg", Authorization::None),
    ] {
        let path = Path::parse(path).unwrap();
        let found = route(&Method::GET, &path, &rules);
        assert_eq!(found.authorization, authorization, "{}", path.as_str());
    }
}

/// The need of a request at a site with its admin API below `/admin`.
fn beside<'a>(method: &str, path: &str, rules: &'a PathRules) -> (RouteClass, Needs<'a>) {
    let backend = config::Mount {
        admin_root: "/admin".to_owned(),
        ..config::Mount::default()
    };
    let mut path = Path::parse(path).unwrap();
    path.enter(&backend);
    let route = route(&method.parse().unwrap(), &path, rules);
    (route.class, route.needs)
}

#[test]
fn the_table_applies_to_paths_below_the_admin_root() {
    use RouteClass::{Admin, Auth, Editor, Endpoint, Flows};
    let rules = rules(AdminPaths::Root, &[rule("/", true, None)], &[]);
    for (method, path, class, needs) in [
        ("GET", "/flows", Endpoint, Nothing),
        ("GET", "/auth/login", Endpoint, Nothing),
        ("GET", "/administrator", Endpoint, Nothing),
        ("GET", "/serialports", Endpoint, Nothing),
        ("GET", "/admin/x", Admin, Permission("admin.read")),
        ("HEAD", "/Admin/X/", Admin, Permission("admin.read")),
        ("OPTIONS", "/admin/x", Admin, Permission("admin.read")),
        ("PATCH", "/admin/x/y", Admin, Permission("admin.write")),
        ("BREW", "/admin/x", Admin, Permission("admin.write")),
        ("GET", "/Admin/Flows/", Flows, SomeFlow("flows.read")),
        ("GET", "/admin/settings", Admin, Permission("settings.read")),
        ("GET", "/admin/auth/login", Auth, Nothing),
        ("GET", "/admin", Editor, Nothing),
        ("GET", "/admin/comms", Editor, Nothing),
    ] {
        assert_eq!(beside(method, path, &rules), (class, needs), "{path}");
    }
}

#[test]
fn with_a_shared_root_the_paths_of_packages_are_admin_paths() {
    use RouteClass::{Admin, Endpoint};
    let dashboard = rule("/dashboard", true, None);
    let mut mine = rule("/mine", true, Some("mine.use"));
    mine.methods = vec!["GET".to_owned()];
    let rules = rules(AdminPaths::Known, &[dashboard], &[mine]);
    for (method, path, class, needs) in [
        ("GET", "/dashboard/page", Endpoint, Nothing),
        ("GET", "/Dashboard/API/v1", Admin, Permission("admin.read")),
        (
            "PATCH",
            "/dashboard/api/v1/d/flows",
            Admin,
            Permission("admin.write"),
        ),
        ("GET", "/serialports", Admin, Permission("admin.read")),
        ("GET", "/mine/x", Admin, Permission("mine.use")),
        // It names an admin path, whatever the method.
        ("POST", "/mine/x", Admin, Permission("admin.write")),
        ("POST", "/minefield", Endpoint, Permission("http.write")),
    ] {
        let path = Path::parse(path).unwrap();
        let found = route(&method.parse().unwrap(), &path, &rules);
        assert_eq!(
            (found.class, found.needs),
            (class, needs),
            "{method} {path:?}"
        );
    }
    // Our own engine has no packages.
    assert_eq!(
        find("GET", "/serialports"),
        (Target::Endpoint, Permission("http.read"))
    );
}

#[test]
fn a_rule_may_cover_all_endpoints_and_upstream_rules_come_first() {
    let own = config::Route {
        upstream: Some("a".to_owned()),
        ..rule("/", true, Some("own"))
    };
    let all = rule("/", true, Some("all"));
    let rules = rules(AdminPaths::Root, &[own, all], &[]);
    let needs = |path| beside("GET", path, &rules).1;
    assert_eq!(needs("/flows/x"), Permission("own"));
    assert_eq!(needs("/"), Permission("own"));
    assert_eq!(needs("/admin/flows"), SomeFlow("flows.read"));
}

#[test]
fn the_table_is_sorted_and_every_name_has_a_catch_all_entry() {
    let names: Vec<&str> = table::TABLE.iter().map(Entry::name).collect();
    assert!(names.is_sorted());
    let names = table::entries().map(Entry::name);
    let mut names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(
        names,
        config::RESERVED,
        "the fence around it has the same names"
    );
    for name in names {
        let deep = [name, "a", "b", "c", "d", "e", "f", "g"];
        for count in 1..=deep.len() {
            assert!(table::listed(&deep[..count]).is_some(), "{name} {count}");
        }
    }
}

/// Every method of every path of the table, as `tests/data/authorization-matrix.json` has them.
#[test]
fn offers_and_rows_of_the_authority_table_match_one_to_one() {
    #[derive(serde::Deserialize, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Row {
        entry: String,
        method: String,
        target: String,
        needs: String,
    }
    #[derive(serde::Deserialize)]
    struct File {
        table: Vec<Row>,
    }
    let text = include_str!("../../../tests/data/authorization-matrix.json");
    let mut rows = serde_json::from_str::<File>(text).unwrap().table;
    let row = |entry: &Entry, (verb, target, needs): &Offer| Row {
        entry: format!("/{}", entry.path.join("/")),
        method: format!("{verb:?}").to_ascii_uppercase(),
        target: format!("{target:?}"),
        needs: match needs {
            Nothing => "nothing".to_owned(),
            Needs::Anyone => "anyone".to_owned(),
            Permission(name) | SomeFlow(name) => (*name).to_owned(),
        },
    };
    let mut offers: Vec<Row> = table::entries()
        .flat_map(|entry| entry.offers.iter().map(move |offer| row(entry, offer)))
        .collect();
    rows.sort();
    offers.sort();
    let without = |these: &[Row], those: &[Row]| -> Vec<String> {
        let mut missing: Vec<String> = Vec::new();
        for one in these {
            if !those.contains(one) {
                missing.push(format!("{one:?}"));
            }
        }
        missing
    };
    assert!(
        without(&offers, &rows).is_empty(),
        "no row for {:#?}",
        without(&offers, &rows)
    );
    assert!(
        without(&rows, &offers).is_empty(),
        "no offer for {:#?}",
        without(&rows, &offers)
    );
    assert_eq!(offers.len(), rows.len(), "a row stands twice");
}

/// In front of an upstream some offers need more.
#[test]
fn permissions_in_front_of_an_upstream_match_the_authority_table() {
    #[derive(serde::Deserialize)]
    struct Row {
        method: String,
        send: String,
        needs: String,
        upstream_needs: Option<String>,
    }
    #[derive(serde::Deserialize)]
    struct File {
        table: Vec<Row>,
    }
    let text = include_str!("../../../tests/data/authorization-matrix.json");
    for row in serde_json::from_str::<File>(text).unwrap().table {
        let path = Path::parse(&row.send).unwrap();
        let route = route(&row.method.parse().unwrap(), &path, &NO_RULES).forwarded();
        let needs = match route.needs {
            Nothing => "nothing",
            Needs::Anyone => "anyone",
            Permission(name) | SomeFlow(name) => name,
        };
        let wanted = row.upstream_needs.as_ref().unwrap_or(&row.needs);
        assert_eq!(needs, wanted, "{} {}", row.method, row.send);
    }
}

/// Every offer of the table, and what an upstream has beside it.
#[test]
fn every_write_of_the_admin_api_and_every_secret_has_an_audit_record() {
    let own = [
        Target::Token,
        Target::Revoke,
        Target::Deploy,
        Target::SetState,
        Target::AddFlow,
        Target::ReplaceFlow,
        Target::RemoveFlow,
        Target::History(History::Rollback),
        Target::History(History::Import),
        Target::Own(Own::Proposals(ProposalAction::Approve)),
        Target::Own(Own::Proposals(ProposalAction::Reject)),
        Target::Own(Own::Proposals(ProposalAction::Rebase)),
        Target::Own(Own::Proposals(ProposalAction::Withdraw)),
        Target::Own(Own::Sessions(SessionAction::End)),
        Target::Own(Own::Sessions(SessionAction::EndSeveral)),
        Target::Own(Own::SignInPage(PageAction::SignIn)),
        Target::Own(Own::SignInPage(PageAction::SignOut)),
        Target::Own(Own::Provider(ProviderAction::BackChannelLogout)),
    ];
    let listed = table::entries().flat_map(|entry| {
        let offers = entry.offers.iter();
        offers.map(|(verb, target, needs)| (entry.class, *verb, *target, *needs))
    });
    let verbs = [Get, Post, Put, Delete];
    let unlisted = verbs.map(|verb| (RouteClass::Admin, verb, Target::Absent, Anyone));
    let (mut writes, mut secrets) = (0, 0);
    for (class, verb, target, needs) in listed.chain(unlisted) {
        let route = Route {
            target,
            needs,
            class,
            authorization: Authorization::Ours,
            ambient: AmbientCredentials::default(),
            networks: None,
            limited: None,
            same_origin: false,
            may_be_admin: false,
        };
        let expected = match (verb, target) {
            (_, Target::Comms) => Recorded::Own,
            (Get, Target::Admin(Admin::Credentials)) => Recorded::Secret,
            (Get, _) | (_, Target::Check) => Recorded::Nothing,
            (_, Target::Own(Own::Passkeys(_) | Own::StepUp(_) | Own::Accounts(_))) => Recorded::Own,
            (_, target) if own.contains(&target) => Recorded::Own,
            _ => Recorded::Write,
        };
        let method = verb.names().split(',').next().unwrap().parse().unwrap();
        let recorded = route.recorded(&method);
        assert_eq!(recorded, expected, "{method} {target:?}");
        let reads_secret = needs == Permission("credentials.read");
        assert_eq!(recorded == Recorded::Secret, reads_secret);
        writes += usize::from(recorded == Recorded::Write);
        secrets += usize::from(recorded == Recorded::Secret);
    }
    assert!(writes > 40 && secrets == 1, "{writes} {secrets}");
}

#[test]
fn writes_to_unlisted_paths_that_may_be_those_of_a_package_have_an_audit_record() {
    // A path that a `[[route]]` names is an endpoint.
    let endpoint = Path::parse("/hello").unwrap();
    let unnamed = rules(AdminPaths::Known, &[], &[]);
    let named = rules(AdminPaths::Known, &[rule("/hello", false, None)], &[]);
    for method in [Method::GET, Method::POST, Method::PATCH, Method::DELETE] {
        let recorded = |rules| route(&method, &endpoint, rules).recorded(&method);
        assert_eq!(recorded(&NO_RULES), Recorded::Nothing);
        assert_eq!(recorded(&named), Recorded::Nothing);
        let expected = if method == Method::GET {
            Recorded::Nothing
        } else {
            Recorded::Write
        };
        assert_eq!(recorded(&unnamed), expected);
    }
}

#[test]
fn the_openapi_document_has_every_endpoint_of_the_gateway_with_its_permission() {
    let mut listed = BTreeSet::new();
    for entry in GATEWAY {
        let path = entry.path.join("/");
        for &(verb, target, needs) in entry.offers {
            let role = match needs {
                Permission(role) | SomeFlow(role) => role,
                Nothing | Anyone => "",
            };
            if target != Target::Unassigned {
                listed.insert((path.clone(), format!("{verb:?}").to_lowercase(), role));
            }
        }
    }
    let document: Json = serde_json::from_str(openapi::DOCUMENT).unwrap();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let mut described = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let segments = path.split('/').skip(1);
        let segments = segments.map(|one| if one.starts_with('{') { "*" } else { one });
        let path = segments.collect::<Vec<_>>().join("/");
        let operations = operations.as_object().unwrap().iter();
        for (method, operation) in operations.filter(|(name, _)| *name != "parameters") {
            let role = operation["security"][0]["token"][0].as_str();
            described.insert((path.clone(), method.clone(), role.unwrap_or_default()));
        }
    }
    assert_eq!(described, listed);
}

#[test]
fn a_rule_for_one_value_is_for_every_spelling_of_it() {
    let office = |path: &str| rule(path, false, Some("office.read"));
    let endpoints = [
        rule("/app", true, None),
        office("/app/files/a@b"),
        office("/app/übersicht"),
        office("/app/r&d"),
        office("/app/kanal"),
        office("/app/a%40b"),
        rule("/shop", true, Some("shop.read")),
        rule("/shop/new@home", false, None),
    ];
    let rules = rules(AdminPaths::Listed, &endpoints, &[]);
    let needs = |raw: &str| {
        let path = Path::parse(raw).unwrap();
        match route(&Method::GET, &path, &rules).needs {
            Permission(name) => name.to_owned(),
            needs => format!("{needs:?}"),
        }
    };
    for (path, expected) in [
        ("/app/files/a@b", "office.read"),
        ("/app/files/a%40b", "office.read"),
        ("/app/files/%61%40%62/", "office.read"),
        ("/App/FILES/A%40B", "office.read"),
        ("/app/files/a%2540b", "Nothing"),
        ("/app/files/a@bc", "Nothing"),
        ("/app/a%2540b", "office.read"),
        ("/app/a%40b", "Nothing"),
        ("/app/übersicht", "office.read"),
        ("/app/%C3%BCbersicht", "office.read"),
        ("/app/%c3%9cBERSICHT", "office.read"),
        ("/app/r&d", "office.read"),
        ("/app/r%26d", "office.read"),
        ("/app/%72%26%64", "office.read"),
        ("/app/%E2%84%AAanal", "office.read"),
        ("/shop/new@home", "Nothing"),
        ("/shop/new%40home", "Nothing"),
        ("/shop/new%2540home", "shop.read"),
    ] {
        assert_eq!(needs(path), expected, "{path}");
    }
}

#[test]
fn the_admin_api_begins_where_its_root_is_in_any_spelling() {
    let mount = config::Mount {
        path: "/plant@1".to_owned(),
        prefix: "/plant@1".to_owned(),
        admin_root: "/ad&min".to_owned(),
        ..config::Mount::default()
    };
    let admin = [rule("/tool/a@b", false, Some("tool.use"))];
    let open = [rule("/", true, None)];
    let rules = rules(AdminPaths::Root, &open, &admin);
    for (raw, needs) in [
        ("/plant@1/ad&min/flows", SomeFlow("flows.read")),
        ("/plant%401/ad%26min/flows", SomeFlow("flows.read")),
        ("/PLANT%401/AD%26MIN/tool/a%40b", Permission("tool.use")),
        ("/plant@1/ad%26min/other", Permission("admin.read")),
        ("/plant%401/adxmin/flows", Nothing),
    ] {
        let mut path = Path::parse(raw).unwrap();
        assert!(mount.leads(path.lower()), "{raw}");
        path.enter(&mount);
        assert_eq!(route(&Method::GET, &path, &rules).needs, needs, "{raw}");
        let uri = raw.parse().unwrap();
        let target = path.target(&uri).unwrap();
        assert!(
            !target.as_str().to_lowercase().contains("plant"),
            "{target}"
        );
    }
}
