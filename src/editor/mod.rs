//! The stock editor, as npm has installed it: its page, its files, and what its palette offers on
//! our engine.
//!
//! Knows how `@node-red/editor-client` and `@node-red/nodes` are laid out, 4.1 and 5.0. Runs
//! nothing of them, keeps none of their files in memory, and never reads outside of them.
//! Everything here may wait for the disk.

mod archive;
mod catalog;
mod examples;
mod files;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod install;
mod packages;
mod page;
mod palette;

pub use archive::ArchiveError;
pub use examples::Example;
pub use files::File;
pub use install::{InstallError, PACKAGES, PinnedPackage, install};
pub use packages::{InstalledPackages, PackageSet, PackagedSubflows, Packages, package_folders};

use files::Folder;
use limits::quota::{Grant, Quota};
use palette::Set;
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The module that the core palette belongs to.
pub const CORE: &str = "node-red";

/// The packages that are needed.
const CLIENT: &str = "@node-red/editor-client";
const NODES: &str = "@node-red/nodes";

/// The icon of a node whose own is not there (docs/reference/node-red-admin-api.md §2).
const ANY_ICON: [&str; 5] = ["public", "red", "images", "icons", "arrow-in.svg"];

/// Answers at a time with parts of the editor, which need no sign-in. Our choice: a browser loads
/// some sixty, and each takes an open file and up to 64 KiB.
const ANSWERS: usize = 256;
/// The same for one address. Our choice: half, so that no address takes all; a browser requests
/// some sixty at once.
const ANSWERS_PER_ADDRESS: usize = ANSWERS / 2;

/// A place among those answers, until dropped.
pub type FilePermit = Grant;

/// Errors that keep the editor from being served. Every message includes the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A package is not there.
    #[error(
        "{} has no {package}: {source}; install it with `flowgate editor install`, or name the \
         node_modules of a Node-RED that is installed",
        modules.display()
    )]
    NotInstalled {
        /// The directory searched.
        modules: PathBuf,
        /// The package's name.
        package: &'static str,
        /// Why it is not found.
        source: io::Error,
    },
    /// A package is there, and is not what it should be.
    #[error("{}: {reason}; install it anew", package.display())]
    Broken {
        /// Its path.
        package: PathBuf,
        /// The fault found.
        reason: String,
    },
}

/// The editor.
#[derive(Debug)]
pub struct Editor {
    client: Folder,
    nodes: Folder,
    version: String,
    languages: Vec<String>,
    sets: Vec<Set>,
    packages: Option<Arc<InstalledPackages>>,
    places: Arc<Quota>,
}

impl Editor {
    /// Looks for the packages in a `node_modules`. Offered are the node sets of which all types are
    /// `known`.
    pub fn open(modules: &Path, known: impl Fn(&str) -> bool) -> Result<Self, Error> {
        let client = package(modules, CLIENT)?;
        let nodes = package(modules, NODES)?;
        let broken = |folder: &Folder, reason: String| Error::Broken {
            package: folder.path().to_owned(),
            reason,
        };
        let version = version(&client).ok_or_else(|| {
            broken(
                &client,
                "its package.json says no version 4 or 5".to_owned(),
            )
        })?;
        let languages = client
            .list(&["locales"])
            .map_err(|error| broken(&client, format!("no locales: {error}")))?;
        let mut sets = palette::sets(&nodes)
            .map_err(|error| broken(&nodes, format!("no core nodes: {error}")))?;
        sets.retain(|set| set.types.iter().all(|kind| known(kind)));
        Ok(Self {
            client,
            nodes,
            version,
            languages: languages.folders,
            sets,
            packages: None,
            places: Quota::new(ANSWERS, ANSWERS_PER_ADDRESS),
        })
    }

    /// The same with the node sets of these packages.
    #[must_use]
    pub fn with_packages(self, packages: &Arc<InstalledPackages>) -> Self {
        Self {
            packages: Some(Arc::clone(packages)),
            ..self
        }
    }

    /// The packages that are there now.
    pub fn packages(&self) -> Arc<Packages> {
        let packages = self.packages.as_ref();
        packages.map(|packages| packages.now()).unwrap_or_default()
    }

    /// Waits until this address has a place for one more answer with a part of the editor, which it
    /// keeps until its end.
    pub async fn place(&self, address: IpAddr) -> FilePermit {
        let mut place = self.places.grant(address);
        place.grow(1).await;
        place
    }

    /// The version of the editor.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The languages available.
    pub fn languages(&self) -> &[String] {
        &self.languages
    }

    /// The node sets that are offered: their names and types.
    pub fn sets(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.sets
            .iter()
            .map(|set| (set.name.as_str(), set.types.as_slice()))
    }

    /// The plugins of packages: HTML for the editor.
    pub fn plugins_html(&self) -> String {
        let mut html = String::new();
        self.packages().write_plugins(&mut html);
        html
    }

    /// A file of a package for the editor; the path begins with the name of the package.
    pub fn resource(&self, path: &[String]) -> Option<File> {
        self.packages().resource(path)
    }

    /// The words of the node sets and plugins of packages in a language, by package and set.
    pub fn package_words(&self, language: &str) -> Json {
        self.packages().words(language)
    }

    /// The page.
    pub fn page(&self) -> io::Result<String> {
        let template = self.client.text(&["templates", "index.mst"])?;
        Ok(page::fill(&template, &self.version))
    }

    /// The theme of the page (`GET /theme`).
    pub fn theme(&self) -> Json {
        page::theme(&self.version)
    }

    /// A file that the page loads: scripts, styles, images, type definitions.
    pub fn public(&self, path: &[String]) -> Option<File> {
        self.client.below("public")?.file(path)
    }

    /// A file of the window that debug messages can be shown in.
    pub fn debug_view(&self, path: &[String]) -> Option<File> {
        self.nodes.below("core/common/lib/debug")?.file(path)
    }

    /// A node's icon; another one if it is not there.
    pub fn icon(&self, module: &str, name: &str) -> Option<File> {
        let icons = self.nodes.below("icons").filter(|_| module == CORE);
        icons
            .and_then(|icons| icons.file(&[name]))
            .or_else(|| self.packages().icon(module, name))
            .or_else(|| self.client.file(&ANY_ICON))
    }

    /// The names of all icons, by module.
    pub fn icons(&self) -> io::Result<Map<String, Json>> {
        let mut icons = self.packages().icons();
        icons.insert(CORE.to_owned(), self.nodes.list(&["icons"])?.files.into());
        Ok(icons)
    }

    /// The appearance and edit forms of the palette's nodes, with help in a language: HTML for the
    /// editor.
    pub fn palette(&self, language: &str, packaged: &PackagedSubflows) -> io::Result<String> {
        let mut all = String::new();
        for set in &self.sets {
            all.push('\n');
            set.write(&self.nodes, language, &mut all)?;
        }
        let installed = self.packages();
        installed.write(language, packaged, &mut all, |_, _| true);
        Ok(all)
    }

    /// The same for one set; `None`: it is not offered.
    pub fn set(
        &self,
        module: &str,
        name: &str,
        language: &str,
        packaged: &PackagedSubflows,
    ) -> io::Result<Option<String>> {
        if module != CORE {
            let mut html = String::new();
            let wanted = |of: &str, set: &PackageSet| of == module && set.name == name;
            let installed = self.packages();
            installed.write(language, packaged, &mut html, wanted);
            return Ok(Some(html).filter(|html| !html.is_empty()));
        }
        let Some(set) = self.sets.iter().find(|set| set.name == name) else {
            return Ok(None);
        };
        let mut one = String::new();
        set.write(&self.nodes, language, &mut one)?;
        Ok(Some(one))
    }

    /// The words of one part of the editor in a language; `None`: there are none.
    pub fn catalog(&self, part: &str, language: &str) -> Option<Json> {
        let (folder, file) = match part {
            "editor" => (&self.client, "editor.json"),
            "infotips" => (&self.client, "infotips.json"),
            "jsonata" => (&self.client, "jsonata.json"),
            CORE => (&self.nodes, "messages.json"),
            _ => return None,
        };
        catalog::read(folder, file, language)
    }

    /// The entry at a path of the example flows; `None`: nothing.
    pub fn example(&self, path: &[String]) -> Option<Example> {
        examples::find(&self.nodes, &self.packages(), path)
    }
}

/// The types of the packages in the directory of a node host, by their files.
pub fn package_types(directory: &Path) -> BTreeSet<String> {
    let packages = Packages::find(directory);
    let types = packages.sets().flat_map(|(_, _, set)| set.types.iter());
    types.cloned().collect()
}

/// A package by itself, or within `node-red`, where npm puts it if something else needs another
/// version.
fn package(modules: &Path, package: &'static str) -> Result<Folder, Error> {
    let within = modules.join("node-red/node_modules").join(package);
    Folder::open(&modules.join(package)).or_else(|source| {
        Folder::open(&within).map_err(|_| Error::NotInstalled {
            modules: modules.to_owned(),
            package,
            source,
        })
    })
}

/// The version of a package, if it is one whose layout is known.
fn version(package: &Folder) -> Option<String> {
    let text = package.text(&["package.json"]).ok()?;
    let facts: Json = serde_json::from_str(&text).ok()?;
    let version = facts.get("version")?.as_str()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    let known = version.starts_with("4.") || version.starts_with("5.");
    (known && version.chars().all(plain)).then(|| version.to_owned())
}
