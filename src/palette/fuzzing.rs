//! What must always hold for a `package-lock.json`, whatever is in it.
#![allow(clippy::missing_panics_doc, reason = "a check: it may panic")]

use super::lock_file::{LockFile, Origin};

/// A package of the file is known, of a registry of ours with a hash, or a stranger; and only one that is new under its own
/// name has scripts.
pub fn lock_file(data: &[u8]) {
    let Ok(lock) = serde_json::from_slice::<LockFile>(data) else {
        return;
    };
    let none = LockFile::default();
    let registries: Vec<Origin> = Origin::of("https://npm.example/").into_iter().collect();
    assert_eq!(lock.stranger([&lock, &none], &[]), None);
    let names = ["a", "@s/b"].map(str::to_owned);
    assert!(lock.changed(&names, &lock).is_empty());
    let changed = lock.changed(&names, &none);
    for path in &changed {
        assert!(names.iter().any(|name| path.ends_with(name.as_str())));
    }
    if let Some(stranger) = lock.stranger([&none, &none], &registries) {
        assert!(!stranger.path.is_empty() && !stranger.from.is_empty());
    }
}
