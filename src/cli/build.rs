//! The part of the build script for `flowgate --version`: the version, and the commit that is
//! built.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Hexadecimal digits of a commit. As GitHub shows them, and five more, so that they stay
/// unambiguous for long.
const DIGITS: usize = 12;

/// Lets the program know its version.
pub(super) fn name_version() {
    println!("cargo::rustc-env=FLOWGATE_VERSION={}", version());
}

/// `0.1.0 (3f9a1c02d7be, engine)`: the version, the commit if it is known, and whether the engine
/// is built in.
fn version() -> String {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let engine = env::var_os("CARGO_FEATURE_ENGINE").map(|_| "engine".to_owned());
    let details: Vec<String> = commit().into_iter().chain(engine).collect();
    if details.is_empty() {
        return version;
    }
    format!("{version} ({})", details.join(", "))
}

/// `FLOWGATE_COMMIT`, for builds without a repository or without git. Otherwise the commit of an
/// optimised build in a repository of its own, with `-dirty` after it if files differ from it; a
/// package archive has none. An unoptimised build has none either, so that a commit does not
/// compile everything again.
fn commit() -> Option<String> {
    println!("cargo::rerun-if-env-changed=FLOWGATE_COMMIT");
    if let Some(given) = env::var("FLOWGATE_COMMIT").ok().filter(|it| !it.is_empty()) {
        return Some(given.chars().take(DIGITS).collect());
    }
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    if env::var("PROFILE").ok()? != "release" || !root.join(".git").exists() {
        return None;
    }
    for path in ["src", "crates", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={path}");
    }
    for name in ["HEAD", "logs/HEAD"] {
        let file = git(&root, &["rev-parse", "--git-path", name])?;
        if root.join(&file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    let digits = format!("--abbrev={DIGITS}");
    // No tag: the version says the same.
    git(
        &root,
        &["describe", "--always", "--dirty", "--exclude=*", &digits],
    )
}

/// What git prints; `None`: there is no git, or it fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let run = Command::new("git")
        .current_dir(root)
        .args(arguments)
        .output();
    let output = run.ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
