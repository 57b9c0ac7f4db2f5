//! Files of a package: found by the parts of a path, never outside of the package, wherever links
//! lead.
//!
//! Knows names, kinds and dates of files; nothing of what is in them.

use chrono::{DateTime, Utc};
use engine::beneath;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file that was found and opened.
#[derive(Debug)]
pub struct File {
    /// Its content.
    pub content: fs::File,
    /// Its size in bytes.
    pub size: u64,
    /// Its media type.
    pub kind: &'static str,
    /// An entity tag (RFC 9110 §8.8.3): another one when the file has changed.
    pub tag: String,
    /// When it was changed, as HTTP writes dates (RFC 9110 §5.6.7).
    pub modified: String,
}

/// The longest text that is read: help, words, a page. Our choice: those of the stock editor have
/// up to 100 KiB.
const LARGEST_TEXT: u64 = 16 << 20;

/// A folder with all that is below it, by a path that was canonical when it was found.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

/// The names in a folder, sorted.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) folders: Vec<String>,
    pub(super) files: Vec<String>,
}

impl Folder {
    /// A folder that is there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        if !path.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self(path))
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// A folder in it; files found there are not outside of that one either.
    pub(super) fn below(&self, path: &str) -> Option<Self> {
        let below = Self::open(&self.0.join(path)).ok()?;
        below.0.starts_with(&self.0).then_some(below)
    }

    /// Opens a file below.
    pub(super) fn file<S: AsRef<str>>(&self, parts: &[S]) -> Option<File> {
        let path = below(parts).ok()?;
        let content = beneath::open(&self.0, &path).ok()?;
        let facts = content.metadata().ok()?;
        let modified: DateTime<Utc> = facts.modified().ok()?.into();
        Some(File {
            size: facts.len(),
            kind: kind(&path),
            tag: format!("W/\"{:x}-{:x}\"", facts.len(), modified.timestamp_millis()),
            modified: modified.format("%a, %d %b %Y %H:%M:%S GMT").to_string(),
            content,
        })
    }

    /// Reads a text below.
    pub(super) fn text<S: AsRef<str>>(&self, parts: &[S]) -> io::Result<String> {
        let bytes = beneath::read(&self.0, &below(parts)?, LARGEST_TEXT)?;
        String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// The names in a folder below, without those that begin with a dot.
    pub(super) fn list<S: AsRef<str>>(&self, parts: &[S]) -> io::Result<Names> {
        let mut names = Names::default();
        let entries = beneath::list(&self.0, &below(parts)?)?.into_iter();
        for entry in entries.filter(|entry| !entry.name.starts_with('.')) {
            if entry.is_directory {
                names.folders.push(entry.name);
            } else {
                names.files.push(entry.name);
            }
        }
        names.folders.sort();
        names.files.sort();
        Ok(names)
    }
}

/// The path of something below a folder.
fn below<S: AsRef<str>>(parts: &[S]) -> io::Result<PathBuf> {
    let mut path = PathBuf::new();
    for part in parts {
        let part = part.as_ref();
        if part.is_empty() || part.starts_with('.') || part.contains(['/', '\\', '\0']) {
            return Err(io::ErrorKind::NotFound.into());
        }
        path.push(part);
    }
    Ok(path)
}

/// The media type of a file, by its name.
fn kind(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension.unwrap_or_default() {
        "css" => "text/css; charset=utf-8",
        "gif" => "image/gif",
        "htm" | "html" => "text/html; charset=utf-8",
        "ico" => "image/x-icon",
        "jpeg" | "jpg" => "image/jpeg",
        // RFC 9239 §6
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" | "map" => "application/json; charset=utf-8",
        "md" | "ts" | "txt" => "text/plain; charset=utf-8",
        "otf" => "font/otf",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "ttf" => "font/ttf",
        "webp" => "image/webp",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn package() -> (tempfile::TempDir, Folder) {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("package");
        fs::create_dir_all(inside.join("deep/.hidden")).unwrap();
        for file in ["a.js", "deep/b.css", "deep/.hidden/c", ".env"] {
            fs::write(inside.join(file), file).unwrap();
        }
        fs::write(directory.path().join("secret"), "secret").unwrap();
        symlink("../secret", inside.join("out")).unwrap();
        symlink("../..", inside.join("deep/up")).unwrap();
        symlink("deep/b.css", inside.join("in.css")).unwrap();
        let folder = Folder::open(&inside).unwrap();
        (directory, folder)
    }

    #[test]
    fn a_file_is_found_with_its_kind_size_and_date() {
        let (_directory, folder) = package();
        for (path, kind) in [
            (&["a.js"][..], "text/javascript; charset=utf-8"),
            (&["deep", "b.css"], "text/css; charset=utf-8"),
            (&["in.css"], "text/css; charset=utf-8"),
        ] {
            let mut file = folder.file(path).unwrap();
            let mut content = String::new();
            file.content.read_to_string(&mut content).unwrap();
            assert_eq!((file.kind, file.size), (kind, content.len() as u64));
            assert!(file.modified.ends_with(" GMT") && file.tag.starts_with("W/\""));
        }
    }

    #[test]
    fn files_outside_the_folder_and_hidden_ones_are_not_found() {
        let (_directory, folder) = package();
        for path in [
            &["..", "secret"][..],
            &["out"],
            &["deep", "up", "secret"],
            &["deep", "up"],
            &["../secret"],
            &["deep/b.css"],
            &["deep", ".hidden", "c"],
            &[".env"],
            &[""],
            &[],
            &["deep"],
            &["no.js"],
            &["a.js\0"],
            &["a.js", "b"],
        ] {
            assert!(folder.file(path).is_none(), "{path:?}");
        }
        assert!(folder.below("..").is_none());
        let names = folder.list::<&str>(&[]).unwrap();
        assert_eq!(
            (names.folders, names.files),
            (vec!["deep".to_owned()], vec!["a.js".to_owned()])
        );
    }
}
