//! Packages of npm in the directory of the node host: the node sets that they add to the palette,
//! with help, words and icons, and their plugins, resources and examples.
//!
//! Reads their files as Node-RED's registry does, and runs nothing of them: the palette has them
//! while the host is down too. Found at start, and after each change that the gateway makes.

use super::catalog;
use super::files::{File, Folder};
use super::palette::{help_languages, types};
use arc_swap::ArcSwap;
use engine::package_state::PackagedSubflow;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Node sets and plugins of one package, at most, and types of all of its sets. Our choice: ten
/// times the most that is known. Each is in the list of all nodes, with name and version.
const MAX_SETS: usize = 500;
const MAX_TYPES: usize = 5000;

/// Bytes of a name of a package, a set or a type, at most (npm, package.json), and of a version
/// (node-semver).
const MAX_NAME: usize = 214;
const MAX_VERSION: usize = 256;

/// Packages that are looked at, at most.
const MAX_PACKAGES: usize = 10_000;

/// The node sets whose HTML the runtime makes, by `package/set`.
pub type PackagedSubflows = BTreeMap<String, PackagedSubflow>;

/// The packages that have nodes or plugins.
#[derive(Debug, Default)]
pub struct Packages(Vec<Package>);

/// The packages of a node host, which may change while the gateway runs.
#[derive(Debug)]
pub struct InstalledPackages {
    directory: PathBuf,
    found: ArcSwap<Packages>,
}

#[derive(Debug)]
struct Package {
    name: String,
    version: String,
    folder: Folder,
    sets: Vec<PackageSet>,
    plugins: Vec<PackageSet>,
}

/// A node set, or a plugin, of a package.
#[derive(Debug)]
pub struct PackageSet {
    /// Its name: the key in `package.json`.
    pub name: String,
    /// The types whose templates are in its HTML; a plugin and a packaged subflow have none.
    pub types: Vec<String>,
    /// The folder of its files.
    folder: Folder,
    /// The name of its files, without an extension.
    stem: String,
}

impl InstalledPackages {
    /// Those in the `node_modules` of a directory.
    pub fn find(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            found: ArcSwap::from_pointee(Packages::find(directory)),
        }
    }

    /// Looks again. Waits for the disk.
    pub fn refresh(&self) {
        self.found.store(Arc::new(Packages::find(&self.directory)));
    }

    /// Those that were there when they were last looked for.
    pub fn now(&self) -> Arc<Packages> {
        self.found.load_full()
    }
}

impl Packages {
    /// The packages in the `node_modules` of a directory, by name; those of scopes too. One that
    /// cannot be read is left out: the host's log says why.
    pub(super) fn find(directory: &Path) -> Self {
        let folders = package_folders(&directory.join("node_modules")).into_iter();
        let mut packages: Vec<Package> = folders.filter_map(|path| package(&path)).collect();
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Self(packages)
    }

    /// The version of a package; `None`: it is not there.
    pub fn version(&self, name: &str) -> Option<String> {
        let package = self.0.iter().find(|package| package.name == name)?;
        Some(package.version.clone())
    }

    /// The plugins of a package, as the editor lists them. Their ids are known to the runtime only:
    /// the editor learns them as it runs their HTML.
    pub fn plugins_of(&self, name: &str) -> Vec<Json> {
        let own = self.plugins().filter(|(module, ..)| *module == name);
        own.map(|(module, version, plugin)| listed_plugin(module, version, plugin))
            .collect()
    }

    /// The plugins of all packages, as the editor lists them.
    pub fn listed_plugins(&self) -> Vec<Json> {
        self.plugins()
            .map(|(module, version, plugin)| listed_plugin(module, version, plugin))
            .collect()
    }

    /// All node sets, each with the name and version of its package.
    pub fn sets(&self) -> impl Iterator<Item = (&str, &str, &PackageSet)> {
        self.0.iter().flat_map(|package| {
            let (name, version) = (package.name.as_str(), package.version.as_str());
            package.sets.iter().map(move |set| (name, version, set))
        })
    }

    /// Writes the HTML of the sets that are wanted: that of their files, or of a packaged subflow.
    pub(super) fn write(
        &self,
        language: &str,
        packaged: &PackagedSubflows,
        out: &mut String,
        wanted: impl Fn(&str, &PackageSet) -> bool,
    ) {
        for (module, _, set) in self.sets().filter(|(module, _, set)| wanted(module, set)) {
            let id = format!("{module}/{}", set.name);
            let html = set.folder.text(&[format!("{}.html", set.stem)]).ok();
            let html = html.or_else(|| Some(packaged.get(&id)?.html.clone()));
            let Some(html) = html else { continue };
            let _ = writeln!(out, "\n<!-- --- [red-module:{id}] --- -->");
            out.push_str(&html);
            let file = format!("{}.html", set.stem);
            let help = help_languages(language)
                .into_iter()
                .find_map(|language| set.folder.text(&["locales", language, &file]).ok());
            out.push_str(&help.unwrap_or_default());
        }
    }

    /// All plugins, each with the name and version of its package.
    pub fn plugins(&self) -> impl Iterator<Item = (&str, &str, &PackageSet)> {
        self.0.iter().flat_map(|package| {
            let (name, version) = (package.name.as_str(), package.version.as_str());
            package.plugins.iter().map(move |set| (name, version, set))
        })
    }

    /// Writes the HTML of the plugins, each after the comment by which the editor finds it.
    pub(super) fn write_plugins(&self, out: &mut String) {
        for (module, _, plugin) in self.plugins() {
            if let Ok(html) = plugin.folder.text(&[format!("{}.html", plugin.stem)]) {
                let _ = writeln!(
                    out,
                    "\n<!-- --- [red-plugin:{module}/{}] --- -->",
                    plugin.name
                );
                out.push_str(&html);
            }
        }
    }

    /// A file of a package for the editor; the path begins with the name of the package.
    pub(super) fn resource(&self, path: &[String]) -> Option<File> {
        let (package, path) = self.named(path)?;
        package.folder.below("resources")?.file(path)
    }

    /// The names of the packages that have example flows.
    pub(super) fn with_examples(&self) -> Vec<String> {
        let packages = self.0.iter();
        packages
            .filter(|package| package.folder.below("examples").is_some())
            .map(|package| package.name.clone())
            .collect()
    }

    /// The examples of a package, and the rest of a path that begins with its name.
    pub(super) fn examples<'p>(&self, path: &'p [String]) -> Option<(Folder, &'p [String])> {
        let (package, path) = self.named(path)?;
        Some((package.folder.below("examples")?, path))
    }

    /// The package whose name a path begins with, and the rest of the path. A name with a scope is
    /// two segments.
    fn named<'p>(&self, path: &'p [String]) -> Option<(&Package, &'p [String])> {
        let is_scoped = path.first().is_some_and(|first| first.starts_with('@'));
        let (name, rest) = path.split_at_checked(if is_scoped { 2 } else { 1 })?;
        let name = name.join("/");
        let package = self.0.iter().find(|package| package.name == name)?;
        Some((package, rest))
    }

    /// The words of all sets and plugins in a language, by package and set.
    pub(super) fn words(&self, language: &str) -> Json {
        let words = self
            .sets()
            .chain(self.plugins())
            .filter_map(|(module, _, set)| {
                let words = catalog::read(&set.folder, &format!("{}.json", set.stem), language)
                    .or_else(|| {
                        catalog::read(&set.folder, &format!("{}.json", set.stem), "en-US")
                    })?;
                Some((format!("{module}/{}", set.name), words))
            });
        Json::Object(words.collect())
    }

    /// An icon of a package.
    pub(super) fn icon(&self, module: &str, name: &str) -> Option<File> {
        let mut sets = self.sets().filter(|(of, _, _)| *of == module);
        sets.find_map(|(_, _, set)| set.folder.below("icons")?.file(&[name]))
    }

    /// The names of the icons of each package.
    pub(super) fn icons(&self) -> Map<String, Json> {
        let mut icons: Map<String, Json> = Map::new();
        for (module, _, set) in self.sets() {
            let Ok(names) = set.folder.list(&["icons"]) else {
                continue;
            };
            let all = icons
                .entry(module)
                .or_insert_with(|| Json::Array(Vec::new()));
            if let Some(all) = all.as_array_mut() {
                let new: Vec<Json> = names.files.into_iter().map(Json::String).collect();
                all.extend(new);
                all.dedup();
            }
        }
        icons
    }
}

fn listed_plugin(module: &str, version: &str, plugin: &PackageSet) -> Json {
    json!({
        "id": format!("{module}/{}", plugin.name),
        "name": plugin.name,
        "plugins": [],
        "enabled": true,
        "local": true,
        "user": true,
        "module": module,
        "version": version,
    })
}

/// The folders of all packages in a `node_modules`, those of scopes too.
pub fn package_folders(modules: &Path) -> Vec<PathBuf> {
    let is_scope = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with('@'))
    };
    let all = children(modules).into_iter().flat_map(|path| {
        if is_scope(&path) {
            children(&path)
        } else {
            vec![path]
        }
    });
    all.take(MAX_PACKAGES).collect()
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let entries = entries.take(MAX_PACKAGES);
    entries.map(|entry| entry.path()).collect()
}

/// A package with nodes or plugins; `None`: it has neither, or more than it may.
fn package(directory: &Path) -> Option<Package> {
    let folder = Folder::open(directory).ok()?;
    let text = folder.text(&["package.json"]).ok()?;
    let facts: Json = serde_json::from_str(&text).ok()?;
    let listed = facts.get("node-red")?;
    let sets = |key: &str| listed.get(key).and_then(Json::as_object);
    let (nodes, plugins) = (sets("nodes"), sets("plugins"));
    let text = |key: &str| facts.get(key).and_then(Json::as_str);
    let (name, version) = (text("name")?, text("version").unwrap_or_default());
    let count = nodes.map_or(0, Map::len) + plugins.map_or(0, Map::len);
    if count > MAX_SETS || name.len() > MAX_NAME || version.len() > MAX_VERSION {
        return left_out(directory);
    }
    let found = |sets: Option<&Map<String, Json>>| -> Vec<PackageSet> {
        let sets = sets.into_iter().flatten();
        sets.filter_map(|(name, file)| set(&folder, name, file.as_str()?))
            .collect()
    };
    let (sets, plugins) = (found(nodes), found(plugins));
    if sets.is_empty() && plugins.is_empty() {
        return None;
    }
    let mut names = sets.iter().chain(&plugins).map(|set| &set.name);
    let mut types = sets.iter().flat_map(|set| &set.types);
    if types.clone().nth(MAX_TYPES).is_some()
        || names.any(|name| name.len() > MAX_NAME)
        || types.any(|kind| kind.len() > MAX_NAME)
    {
        return left_out(directory);
    }
    Some(Package {
        name: name.to_owned(),
        version: version.to_owned(),
        sets,
        plugins,
        folder,
    })
}

fn left_out(directory: &Path) -> Option<Package> {
    tracing::error!(
        package = %directory.display(),
        "a package is left out of the palette: it has more than {MAX_SETS} node sets and plugins or {MAX_TYPES} types, a name of more than {MAX_NAME} bytes, or a version of more than {MAX_VERSION}"
    );
    None
}

/// The set of a file of JavaScript, whose HTML is beside it; a packaged subflow has none.
fn set(package: &Folder, name: &str, file: &str) -> Option<PackageSet> {
    let path = Path::new(file.strip_prefix("./").unwrap_or(file));
    let below = path.parent().and_then(Path::to_str).unwrap_or_default();
    let folder = package.below(below)?;
    let stem = path.file_stem()?.to_str()?.to_owned();
    let types = if let Ok(html) = folder.text(&[format!("{stem}.html")]) {
        types(&html)
    } else {
        folder.file(&[path.file_name()?.to_str()?])?;
        Vec::new()
    };
    Some(PackageSet {
        name: name.to_owned(),
        types,
        folder,
        stem,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn packages() -> (tempfile::TempDir, Packages) {
        let directory = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = directory.path().join("node_modules").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let facts = r#"{"name":"@s/p","version":"1.2.3","node-red":{"nodes":{"one":"./src/1.js","out":"../../x.js","none":"src/2.js","packaged":"src/3.js"},"plugins":{"side":"src/side.js"}}}"#;
        write("@s/p/package.json", facts);
        write("@s/p/src/1.html", "<script data-template-name='one'>");
        write("@s/p/src/locales/en-US/1.html", " help");
        write("@s/p/src/locales/en-US/1.json", r#"{"a":"b"}"#);
        write("@s/p/src/icons/i.png", "png");
        write("@s/p/src/3.js", "registerSubflow");
        write("@s/p/src/side.html", "<script>side</script>");
        write("@s/p/src/locales/en-US/side.json", r#"{"c":"d"}"#);
        write("@s/p/resources/deep/r.js", "r");
        write("@s/p/examples/one/e.json", "[]");
        write("@s/p/secret.js", "secret");
        write("plain/package.json", r#"{"name":"plain"}"#);
        write("x.html", "<script data-template-name='outside'>");
        let packages = Packages::find(directory.path());
        (directory, packages)
    }

    #[test]
    fn sets_of_packages_are_found_with_their_types_and_none_outside_of_its_package() {
        let (_directory, packages) = packages();
        let found: Vec<_> = packages
            .sets()
            .map(|(module, version, set)| (module, version, set.name.as_str(), set.types.concat()))
            .collect();
        let expected = [
            ("@s/p", "1.2.3", "one", "one".to_owned()),
            ("@s/p", "1.2.3", "packaged", String::new()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_package_with_more_than_it_may_have_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let found = |name: &str, version: &str, sets: usize, html: &str| {
            let sets = (0..sets).map(|n| (format!("n{n}"), json!("n.js")));
            let sets: Map<String, Json> = sets.collect();
            let facts = json!({ "name": name, "version": version, "node-red": { "nodes": sets } });
            let package = directory.path().join("node_modules/p");
            fs::create_dir_all(&package).unwrap();
            fs::write(package.join("package.json"), facts.to_string()).unwrap();
            fs::write(package.join("n.html"), html).unwrap();
            Packages::find(directory.path()).sets().count()
        };
        let html = "<script data-template-name='one'>";
        assert_eq!(found("p", "1.0.0", MAX_SETS, html), MAX_SETS);
        assert_eq!(found("p", "1.0.0", MAX_SETS + 1, html), 0);
        assert_eq!(found("p", &"1".repeat(5 << 10), 1, html), 0);
        assert_eq!(found(&"p".repeat(215), "1.0.0", 1, html), 0);
        assert_eq!(found("p", "1.0.0", 1, &html.repeat(MAX_TYPES + 1)), 0);
        let long = format!("<script data-template-name='{}'>", "a".repeat(215));
        assert_eq!(found("p", "1.0.0", 1, &long), 0);
    }

    #[test]
    fn a_packaged_subflow_has_the_html_that_the_runtime_makes() {
        let (_directory, packages) = packages();
        let made = PackagedSubflow {
            types: vec!["packaged".into()],
            html: "made".to_owned(),
        };
        let made = PackagedSubflows::from([("@s/p/packaged".to_owned(), made)]);
        let mut html = String::new();
        packages.write("de", &made, &mut html, |_, set| set.name == "packaged");
        let expected = "\n<!-- --- [red-module:@s/p/packaged] --- -->\nmade";
        assert_eq!(html, expected);
    }

    #[test]
    fn html_help_words_and_icons_are_those_of_the_files() {
        let (_directory, packages) = packages();
        let mut html = String::new();
        packages.write("de", &PackagedSubflows::new(), &mut html, |_, _| true);
        let expected =
            "\n<!-- --- [red-module:@s/p/one] --- -->\n<script data-template-name='one'> help";
        assert_eq!(html, expected);
        let words = serde_json::json!({ "@s/p/one": { "a": "b" }, "@s/p/side": { "c": "d" } });
        assert_eq!(packages.words("fr"), words);
        assert!(packages.icon("@s/p", "i.png").is_some());
        assert!(packages.icon("@s/p", "../1.html").is_none());
        assert!(packages.icon("other", "i.png").is_none());
        assert_eq!(packages.icons()["@s/p"], serde_json::json!(["i.png"]));
        let mut plugins = String::new();
        packages.write_plugins(&mut plugins);
        let expected = "\n<!-- --- [red-plugin:@s/p/side] --- -->\n<script>side</script>";
        assert_eq!(plugins, expected);
    }

    #[test]
    fn resources_and_examples_are_found_by_package_and_nothing_else_of_it() {
        let (_directory, packages) = packages();
        let path = |path: &str| -> Vec<String> { path.split('/').map(str::to_owned).collect() };
        assert!(packages.resource(&path("@s/p/deep/r.js")).is_some());
        for other in [
            "@s/p/secret.js",
            "@s/p/../secret.js",
            "@s/p",
            "@s",
            "",
            "plain/package.json",
        ] {
            assert!(packages.resource(&path(other)).is_none(), "{other}");
        }
        assert_eq!(packages.with_examples(), ["@s/p"]);
        let asked = path("@s/p/one/e");
        let (folder, rest) = packages.examples(&asked).unwrap();
        assert!(folder.path().ends_with("@s/p/examples"));
        assert_eq!(rest, ["one", "e"]);
    }
}
