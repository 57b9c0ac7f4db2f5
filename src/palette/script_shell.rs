//! The shell that install scripts run in, and the programs of packages that they may run: their
//! own, and those of packages that they list as dependencies. The system's come first.

use crate::config::NodeHost;
use engine::beneath;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

const SHELL: &str = include_str!("script_shell.sh");

/// The directory of the shell, in that of the state, while scripts run.
const DIRECTORY: &str = "install-scripts";

/// Bytes of a package.json that are read. Our choice: ten times the largest that is known.
const MAX_PACKAGE: u64 = 1 << 20;

/// The place of the shell and of links to programs.
#[derive(Debug)]
pub(super) struct ScriptShell(PathBuf);

/// The parts of a package.json that name programs.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Package {
    bin: Json,
    dependencies: BTreeMap<String, Json>,
    optional_dependencies: BTreeMap<String, Json>,
}

/// A path that holds in every directory.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl ScriptShell {
    pub(super) fn new(host: &NodeHost) -> Self {
        Self(absolute(&host.state).join(DIRECTORY))
    }

    /// The program that npm runs scripts with.
    pub(super) fn program(&self) -> PathBuf {
        self.0.join("shell")
    }

    /// The directory with the programs of packages. It has no name that npm gives to one.
    pub(super) fn programs(&self) -> PathBuf {
        self.0.join("programs")
    }

    /// Makes both for a package below a directory.
    pub(super) fn make(&self, directory: &Path, package: &str) -> io::Result<()> {
        self.remove()?;
        fs::create_dir_all(self.programs())?;
        fs::write(self.program(), SHELL)?;
        fs::set_permissions(self.program(), fs::Permissions::from_mode(0o700))?;
        for (name, file) in programs(&directory.canonicalize()?, Path::new(package)) {
            symlink(file, self.programs().join(name))?;
        }
        Ok(())
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The programs of a package below a directory, and of those that it depends on, by their names.
fn programs(directory: &Path, package: &Path) -> BTreeMap<String, PathBuf> {
    let Some(facts) = read(directory, package) else {
        return BTreeMap::new();
    };
    let name = package.file_name().and_then(|name| name.to_str());
    let mut found = own(directory, package, name.unwrap_or_default(), &facts.bin);
    let listed = [&facts.dependencies, &facts.optional_dependencies];
    for name in listed.into_iter().flat_map(BTreeMap::keys) {
        let places = package.ancestors();
        let places = places.filter(|place| !place.ends_with("node_modules"));
        let mut places = places.map(|place| place.join("node_modules").join(name));
        let nearest = places.find_map(|place| Some((read(directory, &place)?, place)));
        if let Some((facts, place)) = nearest {
            let name = name.rsplit('/').next().unwrap_or_default();
            for (name, file) in own(directory, &place, name, &facts.bin) {
                found.entry(name).or_insert(file);
            }
        }
    }
    found
}

/// The programs of one package: files of its own.
fn own(directory: &Path, package: &Path, name: &str, bin: &Json) -> BTreeMap<String, PathBuf> {
    let listed = match bin {
        Json::String(file) => vec![(name, file.as_str())],
        Json::Object(listed) => {
            let listed = listed.iter();
            listed
                .filter_map(|(name, file)| Some((name.as_str(), file.as_str()?)))
                .collect()
        }
        _ => Vec::new(),
    };
    let place = directory.join(package);
    let is_plain = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains('/');
    let listed = listed.into_iter().filter(|(name, _)| is_plain(name));
    let is_below = |file: &str| {
        let mut parts = Path::new(file).components();
        parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    };
    let runs = |file: &str| make_executable(directory, &package.join(file)).is_ok();
    let own = listed.filter(|(_, file)| is_below(file) && runs(file));
    own.map(|(name, file)| (name.to_owned(), place.join(file)))
        .collect()
}

/// Lets a file below a directory be run: npm does so with those that it links, and only with the
/// first of several of one name.
fn make_executable(directory: &Path, file: &Path) -> io::Result<()> {
    let file = beneath::open(directory, file)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o111 == 0o111 {
        return Ok(());
    }
    file.set_permissions(fs::Permissions::from_mode(mode | 0o111))
}

fn read(directory: &Path, package: &Path) -> Option<Package> {
    let file = package.join("package.json");
    let text = beneath::read(directory, &file, MAX_PACKAGE).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn programs_are_those_of_a_package_and_of_its_dependencies_alone() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().canonicalize().unwrap();
        let write = |package: &str, facts: &str| {
            let place = own.join("node_modules").join(package);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("package.json"), facts).unwrap();
            fs::write(place.join("run"), "").unwrap();
        };
        write(
            "good",
            r#"{"bin":"run","dependencies":{"@s/builder":"1","near":"1","gone":"1"},"optionalDependencies":{"far":"1"}}"#,
        );
        write("@s/builder", r#"{"bin":"./run"}"#);
        write("near", r#"{"bin":{"wrong":"run"}}"#);
        write("good/node_modules/near", r#"{"bin":{"near-it":"run"}}"#);
        write(
            "far",
            r#"{"bin":{"a":"run","../b":"run","/c":"run",".":"run","":"run","d":"../near/run","e":"none","f":3}}"#,
        );
        write("evil", r#"{"bin":{"sh":"run"}}"#);
        let found = programs(&own, Path::new("node_modules/good"));
        let places = found.iter().map(|(name, file)| {
            let file = file.strip_prefix(own.join("node_modules")).unwrap();
            (name.as_str(), file.to_str().unwrap())
        });
        let expected = [
            ("a", "far/run"),
            ("builder", "@s/builder/./run"),
            ("good", "good/run"),
            ("near-it", "good/node_modules/near/run"),
        ];
        assert_eq!(places.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn scripts_have_no_programs_of_packages_in_their_path() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("shell");
        fs::write(&file, SHELL).unwrap();
        let path = "/a/node_modules/.bin:/node_modules/.bin:b/node_modules/x::.:/npm/node-gyp-bin:/usr/bin";
        let mut shell = Command::new("/bin/sh");
        shell.arg(file).args(["-c", "echo \"$PATH\" \"$0\"", "x y"]);
        let output = shell.env("PATH", path).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output, "/npm/node-gyp-bin:/usr/bin x y\n");
    }
}
