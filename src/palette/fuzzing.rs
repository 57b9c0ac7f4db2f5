//! Checks of the invariants of a `package-lock.json`, for any content.
#![allow(clippy::missing_panics_doc, reason = "a check: it may panic")]

use super::lock_file::{LockFile, Origin};

/// A package of the file is known, of a registry of ours with a hash, or from elsewhere; and only
/// one that is new under its own name has scripts.
pub fn lock_file(data: &[u8]) {
    let Ok(lock) = serde_json::from_slice::<LockFile>(data) else {
        return;
    };
    let none = LockFile::default();
    let registries: Vec<Origin> = Origin::of("https://npm.example/").into_iter().collect();
    assert_eq!(lock.foreign_package([&lock, &none], &[]), None);
    let names = ["a", "@s/b"].map(str::to_owned);
    assert!(lock.changed(&names, &lock).is_empty());
    let changed = lock.changed(&names, &none);
    for path in &changed {
        assert!(names.iter().any(|name| path.ends_with(name.as_str())));
    }
    if let Some(foreign) = lock.foreign_package([&none, &none], &registries) {
        assert!(!foreign.path.is_empty() && !foreign.from.is_empty());
    }
}
