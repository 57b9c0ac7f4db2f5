//! The library of flows, functions and templates that editors save for later: `lib/` in the data
//! directory, as Node-RED lays it out: a folder for each kind, in each file first its facts
//! (`// name: value`), then the text.
//!
//! Never leaves `lib/`: names that could are refused, and links are not followed.

use super::Error;
use super::directory::{Directory, failed, write_new};
use super::failpoint;
use std::fmt::Write;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Folders within folders. Our choice.
const DEPTH: usize = 16;

/// The folder of the library.
const FOLDER: &str = "lib";

/// The kinds of what is in it, each a folder.
pub const KINDS: [&str; 3] = ["flows", "functions", "templates"];

/// Bytes of a name: file systems have 255, and a new file has a longer name while it is written.
const NAME: usize = 200;

/// A place in the library: which kind, and the names that lead to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryPath {
    kind: &'static str,
    names: Vec<String>,
}

/// The entry at a library path.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// A folder.
    Folder {
        /// The folders in it.
        folders: Vec<String>,
        /// The files in it.
        items: Vec<Item>,
    },
    /// A text.
    Text(String),
}

/// A file of a folder.
#[derive(Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// The facts in its first lines.
    pub facts: Vec<(String, String)>,
}

impl LibraryPath {
    /// The place that names lead to; `None`: they could lead elsewhere.
    pub fn new(kind: &'static str, names: Vec<String>) -> Option<Self> {
        let fine = |name: &String| {
            let hidden = name.is_empty() || name.starts_with('.');
            let long = name.len() > NAME;
            !hidden && !long && !name.contains(|c: char| matches!(c, '/' | '\\') || c.is_control())
        };
        let fine = names.len() <= DEPTH && names.iter().all(fine);
        fine.then_some(Self { kind, names })
    }

    /// The place of a file of this path below the data directory; `None`: it is none of the
    /// library's.
    pub(super) fn of_file(path: &str) -> Option<Self> {
        let mut names = path.strip_prefix(FOLDER)?.strip_prefix('/')?.split('/');
        let kind = names.next()?;
        let kind = KINDS.into_iter().find(|known| *known == kind)?;
        Self::new(kind, names.map(str::to_owned).collect())
    }

    /// Below the data directory; the flows' files have `.json` at the end.
    fn path(&self, directory: &Directory) -> PathBuf {
        let mut path = directory.path(FOLDER).join(self.kind);
        path.extend(&self.names);
        path
    }

    fn file(&self, directory: &Directory) -> PathBuf {
        let path = self.path(directory);
        if self.kind != "flows" || path.extension().is_some_and(|end| end == "json") {
            return path;
        }
        let mut path = path.into_os_string();
        path.push(".json");
        path.into()
    }
}

impl Directory {
    /// Returns the entry at a path of the library; a kind of which nothing was saved is an empty
    /// folder.
    pub(super) fn library(&self, place: &LibraryPath) -> Result<Option<Entry>, Error> {
        let path = place.path(self);
        match self.kind_of(&path)? {
            Some(kind) if kind.is_dir() => Ok(Some(folder(&path)?)),
            Some(kind) if kind.is_file() => Ok(Some(Entry::Text(read(&path)?.1))),
            None if place.names.is_empty() => Ok(Some(Entry::Folder {
                folders: Vec::new(),
                items: Vec::new(),
            })),
            Some(_) => Ok(None),
            None => {
                let file = place.file(self);
                let there = self.kind_of(&file)?.is_some_and(|kind| kind.is_file());
                there
                    .then(|| read(&file).map(|(_, text)| Entry::Text(text)))
                    .transpose()
            }
        }
    }

    /// Keeps a text, over what was there.
    pub(super) fn save_in_library(
        &self,
        place: &LibraryPath,
        facts: &[(String, String)],
        text: &str,
    ) -> Result<(), Error> {
        let path = place.file(self);
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        let content = library_file(facts, text);
        self.make_folder(folder)?;
        let staged = folder.join(format!(".{}.new", name.display()));
        write_new(&staged, content.as_bytes())
            .and_then(|()| failpoint::rename(&staged, &path))
            .and_then(|()| failpoint::sync_directory(folder))
            .map_err(|source| {
                let _ = failpoint::remove(&staged);
                failed(&path, source)
            })
    }

    /// The path of a place's file below the data directory.
    pub(super) fn library_name(&self, place: &LibraryPath) -> String {
        let path = place.file(self);
        let below = path.strip_prefix(self.path("")).unwrap_or(&path);
        below.to_string_lossy().into_owned()
    }

    /// All files of the library with their contents, by their paths below the data directory.
    pub(super) fn whole_library(&self) -> Result<Vec<(String, String)>, Error> {
        let mut files = Vec::new();
        let kinds = KINDS.into_iter();
        let mut places: Vec<_> = kinds
            .filter_map(|kind| LibraryPath::new(kind, Vec::new()))
            .collect();
        while let Some(place) = places.pop() {
            let Some(Entry::Folder { folders, items }) = self.library(&place)? else {
                continue;
            };
            let names = items.into_iter().map(|item| item.name);
            let below = |name| {
                let names = place.names.iter().cloned().chain([name]);
                LibraryPath::new(place.kind, names.collect())
            };
            for file in names.filter_map(below) {
                let path = file.path(self);
                let content = fs::read_to_string(&path).map_err(|source| failed(&path, source))?;
                files.push((self.library_name(&file), content));
            }
            places.extend(folders.into_iter().filter_map(below));
        }
        Ok(files)
    }

    /// Makes a folder of the library with those above it.
    fn make_folder(&self, folder: &Path) -> Result<(), Error> {
        match self.kind_of(folder)? {
            Some(kind) if kind.is_dir() => Ok(()),
            Some(_) => Err(failed(folder, ErrorKind::NotADirectory.into())),
            None => {
                if let Some(above) = folder.parent() {
                    self.make_folder(above)?;
                }
                failpoint::make_directory(folder)
                    .and_then(|()| folder.parent().map_or(Ok(()), failpoint::sync_directory))
                    .map_err(|source| failed(folder, source))
            }
        }
    }

    /// The file type at a path below the data directory: a link, if one is on the way.
    fn kind_of(&self, path: &Path) -> Result<Option<fs::FileType>, Error> {
        let root = self.path("");
        let below = path.strip_prefix(&root).unwrap_or(path);
        let mut place = root;
        let mut kind = None;
        for part in below {
            place.push(part);
            kind = match fs::symlink_metadata(&place) {
                Ok(facts) if facts.is_symlink() => return Ok(Some(facts.file_type())),
                Ok(facts) => Some(facts.file_type()),
                Err(error) if is_absent(&error) => return Ok(None),
                Err(source) => return Err(failed(&place, source)),
            };
        }
        Ok(kind)
    }
}

/// The content of a file with these facts and this text.
pub(super) fn library_file(facts: &[(String, String)], text: &str) -> String {
    let mut content = String::new();
    for (name, value) in facts {
        let _ = writeln!(content, "// {name}: {}", on_one_line(value));
    }
    content.push_str(text);
    content
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn folder(path: &Path) -> Result<Entry, Error> {
    let (mut folders, mut items) = (Vec::new(), Vec::new());
    let failed = |source| failed(path, source);
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name.starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            folders.push(name);
        } else if kind.is_file() {
            let (facts, _) = read(&entry.path())?;
            items.push(Item { name, facts });
        }
    }
    folders.sort();
    items.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Entry::Folder { folders, items })
}

/// The facts in a file's first lines, and its text.
fn read(path: &Path) -> Result<(Vec<(String, String)>, String), Error> {
    let content = fs::read_to_string(path).map_err(|source| failed(path, source))?;
    let mut facts = Vec::new();
    let mut rest = content.as_str();
    while let Some((fact, after)) = fact(rest) {
        facts.push(fact);
        rest = after;
    }
    Ok((facts, rest.to_owned()))
}

fn fact(text: &str) -> Option<((String, String), &str)> {
    let (line, rest) = text.split_once('\n')?;
    let (name, value) = line.strip_prefix("// ")?.split_once(": ")?;
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = !name.is_empty() && name.chars().all(word);
    is_name.then(|| ((name.to_owned(), on_its_lines(value)), rest))
}

fn on_one_line(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn on_its_lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, rest.as_str().chars().next()) {
            ('\\', Some('n')) => lines.push('\n'),
            ('\\', Some('\\')) => lines.push('\\'),
            _ => {
                lines.push(c);
                continue;
            }
        }
        rest.next();
    }
    lines
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn place(kind: &'static str, path: &str) -> Option<LibraryPath> {
        let names = path.split('/').filter(|name| !name.is_empty());
        LibraryPath::new(kind, names.map(str::to_owned).collect())
    }

    fn at(kind: &'static str, path: &str) -> LibraryPath {
        place(kind, path).unwrap()
    }

    fn facts(facts: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        facts.iter().map(owned).collect()
    }

    #[test]
    fn saved_entries_are_listed_with_metadata_and_read_without() {
        let directory = tempfile::tempdir().unwrap();
        let library = Directory::open(directory.path()).unwrap();
        let known = facts(&[("name", "a b"), ("initialize", "one\ntwo \\n three\\")]);
        let text = "// a comment\nreturn msg;\n";
        library
            .save_in_library(&at("functions", "deep/down/f.js"), &known, text)
            .unwrap();
        let read = |path| library.library(&at("functions", path)).unwrap();
        assert_eq!(read("deep/down/f.js"), Some(Entry::Text(text.to_owned())));
        let Some(Entry::Folder { folders, items }) = read("deep/down") else {
            panic!()
        };
        assert!(folders.is_empty());
        assert_eq!(
            items,
            [Item {
                name: "f.js".to_owned(),
                facts: known
            }]
        );
        let Some(Entry::Folder { folders, items }) = read("") else {
            panic!()
        };
        assert_eq!((folders, items.len()), (vec!["deep".to_owned()], 0));
        assert_eq!(read("deep/up"), None);
        // over what was there
        library
            .save_in_library(&at("functions", "deep/down/f.js"), &[], "x")
            .unwrap();
        assert_eq!(read("deep/down/f.js"), Some(Entry::Text("x".to_owned())));
    }

    #[test]
    fn flows_are_json_files_with_and_without_their_ending() {
        let directory = tempfile::tempdir().unwrap();
        let library = Directory::open(directory.path()).unwrap();
        library
            .save_in_library(&at("flows", "mine"), &[], "[]")
            .unwrap();
        assert!(directory.path().join("lib/flows/mine.json").exists());
        for path in ["mine", "mine.json"] {
            let found = library.library(&at("flows", path)).unwrap();
            assert_eq!(found, Some(Entry::Text("[]".to_owned())), "{path}");
        }
    }

    #[test]
    fn names_that_escape_the_library_are_refused() {
        for path in ["..", "a/../b", ".hidden", "a/.b", "a\\b", "a\0", "a\nb"] {
            assert_eq!(place("flows", path), None, "{path:?}");
        }
        assert_eq!(place("flows", &"a/".repeat(DEPTH + 1)), None);
        assert_eq!(place("flows", &"a".repeat(NAME + 1)), None);
        assert!(LibraryPath::new("flows", vec![String::new()]).is_none());
    }

    #[test]
    fn links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let library = Directory::open(directory.path()).unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret.json"), "secret").unwrap();
        fs::create_dir_all(directory.path().join("lib/flows")).unwrap();
        symlink(outside.path(), directory.path().join("lib/flows/out")).unwrap();
        symlink(
            outside.path().join("secret.json"),
            directory.path().join("lib/flows/link.json"),
        )
        .unwrap();
        for path in ["out", "out/secret", "link", "link.json"] {
            assert_eq!(library.library(&at("flows", path)).unwrap(), None, "{path}");
        }
        let saved = library.save_in_library(&at("flows", "out/new"), &[], "x");
        assert!(saved.is_err() && !outside.path().join("new.json").exists());
        // A link is replaced, what it leads to is not.
        library
            .save_in_library(&at("flows", "link"), &[], "mine")
            .unwrap();
        let kept = fs::read_to_string(outside.path().join("secret.json")).unwrap();
        assert_eq!(kept, "secret");
    }
}
