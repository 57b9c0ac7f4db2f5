//! Checks of the invariants of a package, for any content of its `package.json`.
#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a check: it may panic"
)]

use super::packages::{PackagedSubflows, Packages};
use std::fs;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

const SECRET: &str = "of no package";

/// No file outside of a package is found by what its `package.json` names.
pub fn package(data: &[u8]) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let root = std::env::temp_dir().join(format!("flowgate-package-{}-{number}", process::id()));
    write(&root, "node_modules/p/package.json", data);
    write(
        &root,
        "node_modules/p/src/1.html",
        b"<script data-template-name='one'>",
    );
    write(&root, "node_modules/p/src/1.js", b"one");
    for outside in [
        "x.html",
        "x.js",
        "node_modules/x.html",
        "node_modules/q/x.js",
    ] {
        write(&root, outside, SECRET.as_bytes());
    }
    let packages = Packages::find(&root);
    let mut shown = packages.words("en-US").to_string();
    packages.write("en-US", &PackagedSubflows::new(), &mut shown, |_, _| true);
    packages.write_plugins(&mut shown);
    assert!(!shown.contains(SECRET), "{shown}");
    for (name, _, set) in packages.sets().chain(packages.plugins()) {
        assert!(!packages.words("de").to_string().contains(SECRET));
        assert!(packages.icon(name, &set.name).is_none());
    }
    fs::remove_dir_all(root).unwrap();
}

fn write(root: &Path, file: &str, content: &[u8]) {
    let file = root.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
}
