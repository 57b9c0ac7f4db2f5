//! Checks of what the `package.json` of a module may export, for any content.

use super::package::Manifest;

/// Each export is a path from the package on.
pub(crate) fn manifest(data: &[u8]) {
    let Ok(manifest) = serde_json::from_slice::<Manifest>(data) else {
        return;
    };
    for subpath in [".", "./lib/a.js", "./a/b", "./../../out", "./*"] {
        let exported = manifest.exported(subpath);
        assert!(exported.is_none_or(|path| path.starts_with("./")));
    }
}
