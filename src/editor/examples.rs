//! The example flows that come with the core nodes and with packages: folders with JSON files,
//! shown without their `.json`.

use super::CORE;
use super::files::Folder;
use super::packages::Packages;

/// The entry at a path of the examples.
#[derive(Debug, PartialEq, Eq)]
pub enum Example {
    /// A folder.
    Folder {
        /// The folders in it.
        folders: Vec<String>,
        /// The flows in it.
        flows: Vec<String>,
    },
    /// A flow: its JSON.
    Flow(String),
}

/// Returns the entry at a path; the first part names the module.
pub(super) fn find(nodes: &Folder, packages: &Packages, path: &[String]) -> Option<Example> {
    let (examples, path) = match path.split_first() {
        None => {
            let mut folders = packages.with_examples();
            folders.insert(0, CORE.to_owned());
            let flows = Vec::new();
            return Some(Example::Folder { folders, flows });
        }
        Some((module, path)) if module == CORE => (nodes.below("examples")?, path),
        Some(_) => packages.examples(path)?,
    };
    if let Ok(names) = examples.list(path) {
        let flows = names.files.iter();
        return Some(Example::Folder {
            flows: flows
                .filter_map(|file| file.strip_suffix(".json").map(str::to_owned))
                .collect(),
            folders: names.folders,
        });
    }
    let (name, folders) = path.split_last()?;
    let mut place = folders.to_vec();
    place.push(format!("{name}.json"));
    examples.text(&place).ok().map(Example::Flow)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn examples_are_found_by_module_folders_and_name() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("examples/common/link");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("01 - Link.json"), "[]").unwrap();
        fs::write(folder.join("notes.txt"), "no").unwrap();
        fs::write(directory.path().join("secret.json"), "no").unwrap();
        let nodes = Folder::open(directory.path()).unwrap();
        let find = |path: &str| {
            let parts = path.split('/').filter(|part| !part.is_empty());
            find(
                &nodes,
                &Packages::default(),
                &parts.map(str::to_owned).collect::<Vec<_>>(),
            )
        };
        let folder = |folders: &[&str], flows: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
            Some(Example::Folder {
                folders: owned(folders),
                flows: owned(flows),
            })
        };
        assert_eq!(find(""), folder(&["node-red"], &[]));
        assert_eq!(find("node-red"), folder(&["common"], &[]));
        assert_eq!(find("node-red/common/link"), folder(&[], &["01 - Link"]));
        assert_eq!(
            find("node-red/common/link/01 - Link"),
            Some(Example::Flow("[]".to_owned()))
        );
        for path in [
            "other",
            "node-red/nope",
            "node-red/../secret",
            "node-red/common/link/notes",
        ] {
            assert_eq!(find(path), None, "{path}");
        }
    }
}
