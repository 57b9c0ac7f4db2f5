//! The program's commands as an operator runs them: what they print, and with which code they end.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the program in `directory`, with nothing on standard input.
fn flowgate(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowgate"));
    command
        .current_dir(directory)
        .args(arguments)
        .stdin(Stdio::null());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn check_takes_the_file_of_the_working_directory_and_else_the_built_in_one() {
    let directory = tempfile::tempdir().unwrap();
    let built_in = flowgate(directory.path(), &["check"]);
    assert_eq!(
        (built_in.status.code(), text(&built_in.stdout)),
        (Some(0), "built-in gateway.toml: ok\n")
    );

    std::fs::write(directory.path().join("gateway.toml"), "[auth]\n").unwrap();
    let own = flowgate(directory.path(), &["check"]);
    assert_eq!(
        (own.status.code(), text(&own.stdout)),
        (Some(0), "gateway.toml: ok\n")
    );
    assert_eq!(text(&own.stderr), "");
}

#[test]
fn check_reads_the_certificates_and_makes_none() {
    let directory = tempfile::tempdir().unwrap();
    let config = "[auth]\n[[tls.certificate]]\ncert = \"own.pem\"\nkey = \"own.key\"\n";
    std::fs::write(directory.path().join("gateway.toml"), config).unwrap();
    let gone = flowgate(directory.path(), &["check"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).contains("own.pem"));

    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(directory.path().join("own.pem"), own.cert.pem()).unwrap();
    let key = own.signing_key.serialize_pem();
    std::fs::write(directory.path().join("own.key"), key).unwrap();
    let there = flowgate(directory.path(), &["check"]);
    assert_eq!(there.status.code(), Some(0), "{}", text(&there.stderr));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
}

#[test]
fn check_exits_with_1_and_reports_the_position_of_the_error() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("gateway.toml"),
        "[limits]\nbody = \"5MB\"\n",
    )
    .unwrap();
    for arguments in [&["check"][..], &["run"], &[]] {
        let output = flowgate(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            text(&output.stderr).contains("gateway.toml:2:8: limits.body: expected a size from")
        );
        assert_eq!(text(&output.stdout), "");
    }
    let gone = flowgate(directory.path(), &["--config", "gone.toml", "check"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).contains("cannot read gone.toml: "));
}

#[test]
fn check_warns_about_disabled_authentication() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("open.toml"), "auth = \"off\"\n").unwrap();
    let output = flowgate(directory.path(), &["check", "--config", "open.toml"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).starts_with("warning: authentication is off"));
}

#[test]
fn a_file_that_sets_nothing_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.toml");
    for content in ["", "\n\n", "# [auth]\n# listen = [\"127.0.0.1:8443\"]\n"] {
        std::fs::write(&file, content).unwrap();
        for arguments in [&["check"][..], &["run"], &["reload"], &[]] {
            let output = flowgate(directory.path(), arguments);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}");
            let errors = text(&output.stderr);
            assert!(errors.contains("gateway.toml has no settings"), "{errors}");
            assert!(errors.contains("remove the file") && errors.contains("auth = \"off\""));
        }
        assert!(!directory.path().join("data").exists());
    }
    std::fs::write(&file, "[server]\ndrain = \"1s\"\n").unwrap();
    let output = flowgate(directory.path(), &["check"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).starts_with("warning: authentication is off"));
}

#[test]
fn check_warns_about_permissions_that_nothing_needs_and_users_who_cannot_deploy() {
    let directory = tempfile::tempdir().unwrap();
    let hash = "$2b$08$W99V1mAwhUg5M9.hX6kjY.qtLHyvMOmTvm/hfRdpVY8u2XJsIHwFC";
    let user = format!(
        "[[auth.user]]\nname = \"ann\"\npassword_hash = \"{hash}\"\npermissions = [\"flow.read\", \"flows.read\", \"office.read\"]\n\
         [[route]]\npath = \"/office\"\npermission = \"office.read\"\n"
    );
    std::fs::write(directory.path().join("gateway.toml"), user).unwrap();
    let output = flowgate(directory.path(), &["check"]);
    assert_eq!(output.status.code(), Some(0));
    let warnings = text(&output.stderr);
    assert!(
        warnings.contains("no user may deploy, for want of flows.write (ann)"),
        "{warnings}"
    );
    assert!(
        warnings.contains("the user \"ann\": no endpoint")
            && warnings.contains("did you mean \"flows.read\"?"),
        "{warnings}"
    );
    assert!(!warnings.contains("office.read"), "{warnings}");
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(flowgate(directory.path(), &["fly"]).status.code(), Some(2));
    assert_eq!(
        flowgate(directory.path(), &["--confg", "x"]).status.code(),
        Some(2)
    );
    for arguments in [
        &["--help"][..],
        &["run", "--help"],
        &["check", "--help"],
        &["hash-password", "--help"],
        &["audit", "verify", "--help"],
        &["token", "create", "--help"],
        &["token", "list", "--help"],
        &["token", "revoke", "--help"],
        &["session", "list", "--help"],
        &["session", "revoke", "--help"],
        &["reload", "--help"],
    ] {
        let help = flowgate(directory.path(), arguments);
        assert_eq!(help.status.code(), Some(0));
        assert!(text(&help.stdout).contains("Example"), "{arguments:?}");
    }
    let version = flowgate(directory.path(), &["--version"]);
    let engine = if cfg!(feature = "engine") {
        " (engine)"
    } else {
        ""
    };
    let expected = format!("flowgate {}{engine}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        text(&version.stdout),
        expected,
        "an unoptimised build names no commit"
    );
}

#[test]
fn hash_password_refuses_an_empty_password() {
    let output = flowgate(Path::new("."), &["hash-password"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    assert_eq!(text(&output.stderr), "flowgate: the password is empty\n");
}

#[test]
fn a_low_soft_limit_of_open_files_is_raised() {
    let directory = tempfile::tempdir().unwrap();
    let config = "operations = \"off\"\n[server]\nlisten = [\"127.0.0.1:0\"]\n[limits]\nconnections = 500\n[auth]\n";
    std::fs::write(directory.path().join("gateway.toml"), config).unwrap();
    let mut program = Command::new("sh")
        .args(["-c", "ulimit -Sn 256; exec \"$0\""])
        .arg(env!("CARGO_BIN_EXE_flowgate"))
        .current_dir(directory.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once it listens, the limit is what it will be.
    let mut log = BufReader::new(program.stderr.take().unwrap()).lines();
    let listening = log.any(|line| line.unwrap().contains("listening on"));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", program.id())).unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(listening);
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft: u64 = files
        .unwrap()
        .split_whitespace()
        .nth(3)
        .unwrap()
        .parse()
        .unwrap();
    assert!(soft >= 564, "{soft}");
}

/// A directory with a policy, and flows with an exec and an inject node.
fn flows_and_policy() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write(
        "gateway.toml",
        "[policy]\nforbid_types = [\"exec\"]\nrestrict_types = [\"inject\"]\n",
    );
    write(
        "flows.json",
        "[{\"id\": \"t\", \"type\": \"tab\"},\n {\"id\": \"e\", \"type\": \"exec\", \"z\": \"t\", \"x\": 1, \"y\": 1},\n\
         {\"type\": \"inject\",\n  \"id\": \"i\", \"z\": \"t\", \"x\": 1, \"y\": 1, \"wires\": [[\"gone\"]]}]",
    );
    directory
}

/// Runs `check-flows`; gives its exit code and output.
fn check_flows(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let all: Vec<&str> = [&["check-flows"], arguments].concat();
    let output = flowgate(directory, &all);
    (output.status.code(), text(&output.stdout).to_owned())
}

#[test]
fn check_flows_names_violations_and_findings_with_their_lines_and_ends_with_1() {
    let directory = flows_and_policy();
    let check = |arguments: &[&str]| check_flows(directory.path(), arguments);
    let (code, shown) = check(&["flows.json"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        shown,
        "refused: nodes of these types must not be added or changed here: exec e [forbid_types]\n\
         warning: inject i has wires to nodes that do not exist: gone [dangling_wire]\n\
         1 violations of the policy, 1 findings\n"
    );

    let (code, shown) = check(&[
        "flows.json",
        "--permission",
        "flows.write",
        "--format",
        "sarif",
    ]);
    assert_eq!(code, Some(1));
    let sarif: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap().iter();
    let results: Vec<_> = results
        .map(|found| {
            let line = &found["locations"][0]["physicalLocation"]["region"]["startLine"];
            let text = |key: &str| found[key].as_str().unwrap().to_owned();
            (text("level"), text("ruleId"), line.as_u64().unwrap())
        })
        .collect();
    let expected = [
        ("error", "forbid_types", 2),
        ("error", "restrict_types", 4),
        ("warning", "dangling_wire", 4),
    ];
    let expected = expected.map(|(level, rule, line)| (level.to_owned(), rule.to_owned(), line));
    assert_eq!(results, expected);
}

#[test]
fn check_flows_compares_with_a_base_and_refuses_what_it_cannot_read() {
    let directory = flows_and_policy();
    let check = |arguments: &[&str]| check_flows(directory.path(), arguments);
    // Nothing differs from the base, so nothing is refused.
    let (code, shown) = check(&["flows.json", "--base", "flows.json", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (code, &json["allowed"]),
        (Some(0), &serde_json::Value::Bool(true))
    );
    assert_eq!(json["findings"].as_array().unwrap().len(), 1);
    assert_eq!(
        check(&["flows.json", "--base", "flows.json", "--strict"]).0,
        Some(1)
    );

    std::fs::write(directory.path().join("broken.json"), "[{\"id\": \"a\"}]").unwrap();
    let broken = flowgate(directory.path(), &["check-flows", "broken.json"]);
    assert_eq!(broken.status.code(), Some(1));
    assert_eq!(
        text(&broken.stderr),
        "flowgate: broken.json: element 0 (\"a\"): \"type\" must be a non-empty string\n"
    );
}

/// A directory with users, a rule of four eyes, and two tabs that are active.
fn flows_of_two_teams() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    let hash = "$2b$08$ZKWbzA4jAWHC1wSYOmQjBuJLCsZKTkjSQWC5qSVKzSW0pX6ckWmBO";
    let user = |name: &str, permission: &str| {
        format!(
            "[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = [\"{permission}\"]\n"
        )
    };
    let users = [
        user("ann", "flows.write:Mine"),
        user("bob", "flows.write"),
        user("eve", "flows.read"),
    ];
    write(
        "gateway.toml",
        &format!("[policy]\napprove = [\"Mine\"]\n{}", users.concat()),
    );
    let flows = |mine: &str, theirs: &str| {
        format!(
            "[{{\"id\":\"m\",\"type\":\"tab\",\"label\":\"Mine\"}},\n{{\"id\":\"o\",\"type\":\"tab\",\"label\":\"Other\"}},\n\
             {{\"id\":\"m1\",\"type\":\"comment\",\"z\":\"m\",\"x\":1,\"y\":1,\"name\":\"{mine}\"}},\n\
             {{\"id\":\"o1\",\"type\":\"comment\",\"z\":\"o\",\"x\":1,\"y\":1,\"name\":\"{theirs}\"}}]"
        )
    };
    write("active.json", &flows("old", "old"));
    write("mine.json", &flows("new", "old"));
    write("theirs.json", &flows("old", "new"));
    write(
        "seen.json",
        "[{\"id\":\"m\",\"type\":\"tab\",\"label\":\"Mine\"},\n{\"id\":\"n\",\"type\":\"comment\",\"z\":\"m\",\"x\":1,\"y\":1}]",
    );
    directory
}

#[test]
fn check_flows_ends_with_3_for_changes_that_would_wait_for_approval() {
    let directory = flows_of_two_teams();
    let check = |arguments: &[&str]| {
        let all = [arguments, &["--base", "active.json"]].concat();
        check_flows(directory.path(), &all)
    };
    let (code, shown) = check(&["mine.json", "--user", "bob"]);
    assert_eq!(code, Some(3), "{shown}");
    assert_eq!(
        shown,
        "would wait as a proposal: these changes need the approval of another user: comment m1 (\"new\") [approve]\n\
         0 violations of the policy, 0 findings\n"
    );
    let (code, shown) = check(&["mine.json", "--user", "bob", "--format", "sarif"]);
    let sarif: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(
        (code, &result["level"], &result["ruleId"]),
        (Some(3), &"note".into(), &"approve".into())
    );
    let line = &result["locations"][0]["physicalLocation"]["region"]["startLine"];
    assert_eq!(*line, 3);
    let (_, shown) = check(&["mine.json", "--user", "bob", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(json["approval"]["nodes"], serde_json::json!(["m1"]));
    assert_eq!(json["allowed"], true);
    // Who may approve, and who changes another flow, need none.
    assert_eq!(check(&["mine.json"]).0, Some(0));
    let approver = [
        "--permission",
        "flows.write",
        "--permission",
        "flows.approve",
    ];
    assert_eq!(check(&[&["mine.json"], &approver[..]].concat()).0, Some(0));
    assert_eq!(check(&["theirs.json", "--user", "bob"]).0, Some(0));
}

#[test]
fn check_flows_merges_what_a_user_of_some_flows_does_not_see() {
    let directory = flows_of_two_teams();
    let check = |arguments: &[&str]| {
        let all = [arguments, &["--base", "active.json", "--format", "json"]].concat();
        let (code, shown) = check_flows(directory.path(), &all);
        let json: serde_json::Value = serde_json::from_str(&shown).unwrap();
        (code, json)
    };
    // Of the whole, and of what the user sees alone: the tab of others stays.
    for file in ["mine.json", "seen.json"] {
        let (code, json) = check(&[file, "--user", "ann"]);
        assert_eq!(
            (code, &json["violations"]),
            (Some(3), &serde_json::json!([])),
            "{file}"
        );
    }
    let (code, json) = check(&["theirs.json", "--user", "ann"]);
    assert_eq!(code, Some(1));
    assert_eq!(json["violations"][0]["rule"], "flows");
    let (code, json) = check(&["theirs.json", "--user", "eve"]);
    assert_eq!(code, Some(1));
    assert_eq!(json["violations"][0]["rule"], "permission");

    let unknown = flowgate(
        directory.path(),
        &["check-flows", "mine.json", "--user", "zoe"],
    );
    assert_eq!(unknown.status.code(), Some(1));
    assert_eq!(
        text(&unknown.stderr),
        "flowgate: the configuration has no user named zoe; of a service token, name the permissions\n"
    );
    let both = [
        "check-flows",
        "mine.json",
        "--user",
        "ann",
        "--permission",
        "*",
    ];
    assert_eq!(flowgate(directory.path(), &both).status.code(), Some(2));
}

/// What the build script makes of a package in this directory, with optimisation.
fn built_version(script: &Path, package: &Path, commit: &str) -> String {
    let run = Command::new(script)
        .env("FLOWGATE_COMMIT", commit)
        .env("CARGO_MANIFEST_DIR", package)
        .env("CARGO_PKG_VERSION", "1.2.3")
        .env("PROFILE", "release")
        .env("CARGO_FEATURE_ENGINE", "1")
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", text(&run.stderr));
    let lines = text(&run.stdout).lines();
    let mut versions =
        lines.filter_map(|line| line.strip_prefix("cargo::rustc-env=FLOWGATE_VERSION="));
    versions.next().unwrap().to_owned()
}

#[test]
fn an_optimised_build_names_the_commit_of_its_own_repository_only() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("build-script");
    let source = directory.path().join("main.rs");
    let part = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/build.rs");
    let main = format!("#[path = {part:?}] mod cli; fn main() {{ cli::name_version() }}");
    std::fs::write(&source, main).unwrap();
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(compiler);
    compile
        .args(["--edition", "2024"])
        .arg(source)
        .arg("-o")
        .arg(&script);
    assert!(compile.status().unwrap().success());

    let (repository, archive) = ("repository", "repository/archive");
    let [repository, archive] = [repository, archive].map(|name| directory.path().join(name));
    std::fs::create_dir_all(&archive).unwrap();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
        let run = git
            .current_dir(&repository)
            .args(arguments)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", text(&run.stderr));
        text(&run.stdout).trim().to_owned()
    };
    git(&["init", "--quiet"]);
    std::fs::write(repository.join("a"), "1").unwrap();
    git(&["add", "a"]);
    git(&["commit", "--quiet", "--message", "one"]);
    git(&["tag", "v1"]);
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    assert_eq!(
        built_version(&script, &repository, ""),
        format!("1.2.3 ({commit}, engine)")
    );
    std::fs::write(repository.join("a"), "2").unwrap();
    let changed = built_version(&script, &repository, "");
    assert_eq!(changed, format!("1.2.3 ({commit}-dirty, engine)"));
    assert_eq!(built_version(&script, &archive, ""), "1.2.3 (engine)");
    // A package is built of an archive, without git.
    let named = built_version(&script, &archive, "0123456789abcdef");
    assert_eq!(named, "1.2.3 (0123456789ab, engine)");
}
