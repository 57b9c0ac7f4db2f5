//! What packagers use: the bill of materials has what is linked and nothing else, and a build for
//! packages leaves no path of its machine in the program.

use super::repository;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a script of deploy/; its standard output.
fn run(command: &mut Command) -> String {
    let output = command.current_dir(repository()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn texts<'j>(value: &'j Json, name: &str) -> &'j str {
    value[name].as_str().unwrap_or_default()
}

/// The digests of the crates of the registry, by name and version.
fn locked() -> BTreeMap<String, String> {
    let lock: toml::Table = fs::read_to_string(repository().join("Cargo.lock"))
        .unwrap()
        .parse()
        .unwrap();
    let packages = lock["package"].as_array().unwrap().iter();
    let text = |package: &toml::Value, name: &str| Some(package.get(name)?.as_str()?.to_owned());
    packages
        .filter_map(|package| {
            let (name, version) = (text(package, "name")?, text(package, "version")?);
            Some((format!("{name}@{version}"), text(package, "checksum")?))
        })
        .collect()
}

#[test]
fn the_bill_of_materials_has_the_crates_that_are_linked_with_their_digests_and_licences() {
    let mut script = Command::new("node");
    script.args(["deploy/sbom.mjs", "x86_64-unknown-linux-gnu"]);
    script.env("SOURCE_DATE_EPOCH", "1700000000");
    let bom: Json = serde_json::from_str(&run(&mut script)).unwrap();
    assert_eq!(
        (texts(&bom, "bomFormat"), texts(&bom, "specVersion")),
        ("CycloneDX", "1.6")
    );
    let program = &bom["metadata"]["component"];
    assert_eq!(texts(program, "type"), "application");
    assert_eq!(
        texts(&bom["metadata"], "timestamp"),
        "2023-11-14T22:13:20.000Z"
    );
    let locked = locked();
    let mut known = BTreeSet::from([texts(program, "bom-ref")]);
    for component in bom["components"].as_array().unwrap() {
        let id = texts(component, "bom-ref");
        assert!(known.insert(id), "{id} is there twice");
        let digest = component["hashes"][0]["content"].as_str();
        assert_eq!(digest, locked.get(id).map(String::as_str), "{id}");
        assert_eq!(digest.is_some(), component["purl"].is_string(), "{id}");
        assert!(
            !texts(&component["licenses"][0], "expression").is_empty(),
            "{id}"
        );
    }
    let has = |name: &str| known.iter().any(|id| id.starts_with(&format!("{name}@")));
    for linked in [
        "rustls",
        "aws-lc-sys",
        "rquickjs-sys",
        "libsqlite3-sys",
        "engine",
        "tokio",
    ] {
        assert!(has(linked), "{linked}");
    }
    for other in [
        "proptest",
        "shuttle",
        "tempfile",
        "syn",
        "cc",
        "serde_derive",
    ] {
        assert!(!has(other), "{other} is not linked");
    }
    for entry in bom["dependencies"].as_array().unwrap() {
        let on = entry["dependsOn"].as_array().unwrap().iter();
        let mut named = on.filter_map(Json::as_str).chain([texts(entry, "ref")]);
        assert!(named.all(|id| known.contains(id)), "{entry}");
    }
}

/// Packages are built with it.
#[test]
fn there_is_a_profile_for_the_compiler_that_cargo_toml_names() {
    let manifest = fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \""))
        .and_then(|rest| rest.strip_suffix('"'));
    let release = format!("{}.0", version.unwrap());
    let profile = profile(&release);
    let text = fs::read(&profile).unwrap();
    // The first bytes of an indexed profile (LLVM, InstrProfData.inc).
    assert!(text.starts_with(b"\xfflprofi\x81"), "{profile:?}");
    let order = fs::read_to_string(order(&release, "x86_64-unknown-linux-gnu")).unwrap();
    // Of the gateway, and of the libraries in C.
    for name in ["flowgate", "mi_free", "sqlite3_step"] {
        assert!(order.lines().any(|line| line.contains(name)), "{name}");
    }
}

/// What the compiler says of itself: `release`, `host`.
fn compiler(what: &str) -> String {
    let printed = run(Command::new("rustc").arg("-vV"));
    let said = printed
        .lines()
        .find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
    said.unwrap().to_owned()
}

fn profile(release: &str) -> PathBuf {
    let own = repository().canonicalize().unwrap();
    own.join(format!("deploy/profile/rustc-{release}.profdata"))
}

fn order(release: &str, host: &str) -> PathBuf {
    profile(release).with_file_name(format!("rustc-{release}-{host}.order"))
}

/// `deploy/dist` with a Cargo in this directory that says what it would have done: flags of rustc,
/// of C and of C++, arguments, the time.
fn dist_in(directory: &Path) -> Command {
    let stub = directory.join("cargo");
    let text = "#!/bin/sh\nprintf '%s\\n' \"$CARGO_ENCODED_RUSTFLAGS\" \"$CFLAGS\" \"$CXXFLAGS\" \"$*\" \"$SOURCE_DATE_EPOCH\"\n";
    fs::write(&stub, text).unwrap();
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut script = Command::new("deploy/dist");
    script
        .env("PATH", format!("{}:{path}", directory.display()))
        .env("CFLAGS", "-g")
        .env_remove("SOURCE_DATE_EPOCH");
    script
}

/// What it says for a target that the environment names or the machine's own.
fn dist(arguments: &[&str], target: &str) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let mut script = dist_in(directory.path());
    let script = script
        .args(arguments)
        .env("CARGO_BUILD_TARGET", target)
        .env("CARGO_TARGET_DIR", directory.path());
    run(script).lines().map(str::to_owned).collect()
}

#[test]
fn a_build_says_so_if_the_profile_is_that_of_another_program() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("dist/flowgate");
    fs::create_dir(program.parent().unwrap()).unwrap();
    fs::copy(std::env::current_exe().unwrap(), program).unwrap();
    let mut script = dist_in(directory.path());
    let script = script
        .env("CARGO_BUILD_TARGET", "")
        .env("CARGO_TARGET_DIR", directory.path());
    let said = script.current_dir(repository()).output().unwrap();
    let said = String::from_utf8(said.stderr).unwrap();
    let is_known = order(&compiler("release"), &compiler("host")).exists();
    assert_eq!(
        said.contains("functions of the profile"),
        is_known,
        "{said}"
    );
}

/// The whole comparison of two builds is deploy/reproduce, which takes too long here.
#[test]
fn a_build_for_packages_replaces_the_paths_of_its_machine() {
    let lines = dist(&[], "");
    let own = repository().canonicalize().unwrap();
    let own = format!("{}=/flowgate", own.display());
    let rust: Vec<&str> = lines[0].split('\u{1f}').collect();
    assert!(rust.contains(&format!("--remap-path-prefix={own}").as_str()));
    // A profile of another compiler has other names in it, and says nothing of this one's code.
    let profile = profile(&compiler("release"));
    assert_eq!(
        rust.contains(&format!("-Cprofile-use={}", profile.display()).as_str()),
        profile.exists(),
        "{rust:?}"
    );
    for flags in &lines[1..3] {
        assert!(
            flags.contains(&format!("-ffile-prefix-map={own}")),
            "{flags}"
        );
        assert!(flags.contains("-D__FILE__=__FILE_NAME__"), "{flags}");
    }
    assert!(lines[1].ends_with(" -g"), "{}", lines[1]);
    assert_eq!(lines[3], "build --profile dist --locked --bin flowgate");
    assert!(lines[4].parse::<u64>().is_ok(), "{}", lines[4]);
}

/// What links another target may not know the option.
#[test]
fn a_build_for_this_machine_puts_the_functions_that_run_together() {
    let (release, host) = (compiler("release"), compiler("host"));
    let order = order(&release, &host);
    let flag = format!("-Clink-arg=-Wl,--symbol-ordering-file={}", order.display());
    let sysroot = run(Command::new("rustc").args(["--print", "sysroot"]));
    let linker = format!(
        "{}/lib/rustlib/{host}/bin/gcc-ld/ld.lld",
        sysroot.trim_end()
    );
    let known = order.exists() && fs::exists(linker).unwrap();
    for own in [&[][..], &["--target-dir", "elsewhere"]] {
        assert_eq!(dist(own, "")[0].contains(&flag), known, "{own:?}");
    }
    let musl = "x86_64-unknown-linux-musl";
    let joined = format!("--target={musl}");
    for (arguments, target) in [(&["--target", musl][..], ""), (&[&joined], ""), (&[], musl)] {
        let flags = &dist(arguments, target)[0];
        assert!(!flags.contains("symbol-ordering"), "{arguments:?}");
    }
}
