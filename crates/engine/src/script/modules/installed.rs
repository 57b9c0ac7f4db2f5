//! The modules that the operator has installed: names become files as in Node.js, and files are
//! read.
//!
//! A file's name begins with `/`, which stands for the data directory. Only files below its
//! `node_modules` directories are ever read, links followed; so no name leads anywhere else.

use super::Refusal;
use super::package::Manifest;
use crate::beneath;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The directories in which Node-RED keeps the modules of function nodes: that of current versions,
/// and that of older ones.
const ROOTS: [&str; 2] = ["/node_modules", "/externalModules/node_modules"];

/// The largest file that is read. Our choice: lodash in one file has half a MiB.
pub(super) const LARGEST_MIB: u64 = 8;
const LARGEST: u64 = LARGEST_MIB << 20;

/// The directories of modules that there are: their names, and where they really lie.
pub(super) struct Installed(Vec<(&'static str, PathBuf)>);

impl Installed {
    /// Those of a data directory.
    pub(super) fn in_directory(data: &Path) -> Self {
        let real = |name: &'static str| {
            let path = data.join(&name[1..]).canonicalize().ok()?;
            Some((name, path))
        };
        Self(ROOTS.into_iter().filter_map(real).collect())
    }

    /// The file that `require(name)` means in a directory.
    pub(super) fn find(&self, name: &str, directory: &str) -> Result<String, Refusal> {
        let not_there = || Refusal::NotThere(name.into());
        if !name.starts_with(['.', '/']) {
            return self.package(name, directory);
        }
        let path = join(directory, name).ok_or_else(|| Refusal::Outside(name.into()))?;
        if self.place(&path).is_none() && !ROOTS.contains(&path.as_str()) {
            return Err(Refusal::Outside(name.into()));
        }
        self.file_or_directory(&path)?.ok_or_else(not_there)
    }

    /// The text of a file that was found.
    pub(super) fn read(&self, file: &str) -> Result<String, Refusal> {
        match extension(file) {
            Some("node") => return Err(Refusal::Native(file.into())),
            Some("mjs") => return Err(Refusal::EsModule(file.into())),
            _ => {}
        }
        let not_there = || Refusal::NotThere(file.into());
        let file = self.file(file)?.ok_or_else(not_there)?;
        let path = self.split(&file).ok_or_else(not_there)?;
        let unreadable = || Refusal::Unreadable(file.clone());
        let (root, below) = path;
        match beneath::read(root, Path::new(&below), LARGEST) {
            Ok(text) => String::from_utf8(text).map_err(|_| unreadable()),
            Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(Refusal::TooLarge(file)),
            Err(_) => Err(unreadable()),
        }
    }

    /// Returns whether a file belongs to a package of ES modules.
    pub(super) fn is_es_module(&self, file: &str) -> bool {
        let nearest = above(file)
            .skip(1)
            .find_map(|directory| self.manifest(directory).ok().flatten());
        extension(file) == Some("js") && nearest.is_some_and(|manifest| manifest.is_es())
    }

    /// A module by its name, in the nearest `node_modules` that has it; from the top, each of ours
    /// is asked.
    fn package(&self, name: &str, directory: &str) -> Result<String, Refusal> {
        let scope = if name.starts_with('@') { 2 } else { 1 };
        let end = name.match_indices('/').nth(scope - 1);
        let (package, rest) = name.split_at(end.map_or(name.len(), |(at, _)| at));
        let starts: &[&str] = match directory {
            "/" => &["/", "/externalModules"],
            _ => &[directory],
        };
        for directory in starts.iter().flat_map(|start| above(start)) {
            let home = join(directory, &format!("node_modules/{package}"));
            let Some(home) = home.filter(|home| self.place(home).is_some_and(|p| p.is_dir()))
            else {
                continue;
            };
            let manifest = self.manifest(&home)?.unwrap_or_default();
            let found = if manifest.exports.is_null() {
                let path = join(&home, &format!(".{rest}"));
                self.file_or_directory(&path.ok_or_else(|| Refusal::Outside(name.into()))?)?
            } else {
                let exported = manifest.exported(&format!(".{rest}"));
                let target = exported.and_then(|target| join(&home, &target));
                self.file(&target.ok_or_else(|| Refusal::NotExported {
                    package: package.into(),
                    subpath: format!(".{rest}"),
                })?)?
            };
            return found.ok_or_else(|| Refusal::NotThere(name.into()));
        }
        Err(Refusal::NotInstalled(name.into()))
    }

    /// The file that a path without an extension means.
    fn file_or_directory(&self, path: &str) -> Result<Option<String>, Refusal> {
        if let Some(file) = self.file_or_with_extension(path)? {
            return Ok(Some(file));
        }
        let main = self.manifest(path)?.unwrap_or_default();
        if let Some(main) = main.main().and_then(|main| join(path, main)) {
            if let Some(file) = self.file_or_with_extension(&main)? {
                return Ok(Some(file));
            }
            if let Some(file) = self.file_or_with_extension(&format!("{main}/index"))? {
                return Ok(Some(file));
            }
        }
        self.file_or_with_extension(&format!("{path}/index"))
    }

    fn file_or_with_extension(&self, path: &str) -> Result<Option<String>, Refusal> {
        for extension in ["", ".js", ".json", ".node"] {
            if let Some(file) = self.file(&format!("{path}{extension}"))? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    fn manifest(&self, directory: &str) -> Result<Option<Manifest>, Refusal> {
        let Some(file) = self.file(&format!("{directory}/package.json"))? else {
            return Ok(None);
        };
        let text = self.read(&file)?;
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|_| Refusal::Unreadable(file))
    }

    /// The name of a file after links were followed, if there is such a file.
    fn file(&self, path: &str) -> Result<Option<String>, Refusal> {
        let Some(real) = self.place(path).and_then(|place| place.canonicalize().ok()) else {
            return Ok(None);
        };
        let inside = self.0.iter().find_map(|(name, root)| {
            let rest = real.strip_prefix(root).ok()?.to_str()?;
            Some(format!("{name}/{rest}"))
        });
        match inside {
            Some(file) => Ok(real.is_file().then_some(file)),
            None => Err(Refusal::Outside(path.into())),
        }
    }

    /// The path in the file system for a name; only for names below a directory of modules.
    fn place(&self, path: &str) -> Option<PathBuf> {
        let (root, rest) = self.split(path)?;
        Some(root.join(rest))
    }

    /// The directory of modules of a name, and the path below it.
    fn split<'p>(&self, path: &'p str) -> Option<(&Path, &'p str)> {
        self.0.iter().find_map(|(name, root)| {
            let rest = path.strip_prefix(name)?.strip_prefix('/')?;
            Some((root.as_path(), rest))
        })
    }
}

fn extension(file: &str) -> Option<&str> {
    Path::new(file).extension()?.to_str()
}

/// A path from a directory on, without `.` and `..`; `None` if it leads above the top.
fn join(directory: &str, path: &str) -> Option<String> {
    let from = if path.starts_with('/') { "" } else { directory };
    let mut joined = Vec::new();
    for part in from.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                joined.pop()?;
            }
            part => joined.push(part),
        }
    }
    Some(format!("/{}", joined.join("/")))
}

/// A path and the directories above it, up to `/`; those named `node_modules` are left out, as none
/// is searched within another.
fn above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rsplit_once('/') {
        Some(("", "")) | None => None,
        Some(("", _)) => Some("/"),
        Some((above, _)) => Some(above),
    })
    .filter(|path| !path.ends_with("/node_modules"))
}
