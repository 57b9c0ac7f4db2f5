//! Node sets: one HTML file each, which defines the types, their appearance and their edit forms.
//! Their help is beside, in several languages.

use super::CORE;
use super::files::Folder;
use std::fmt::Write;
use std::io;

/// The language of what has no other (as in Node-RED).
const DEFAULT: &str = "en-US";

/// A node set.
#[derive(Debug)]
pub(super) struct Set {
    /// Its name: that of its file, without the number in front.
    pub(super) name: String,
    /// Its types.
    pub(super) types: Vec<String>,
    folder: String,
    file: String,
}

/// All sets, in the palette's order.
pub(super) fn sets(nodes: &Folder) -> io::Result<Vec<Set>> {
    let mut sets = Vec::new();
    for folder in nodes.list(&["core"])?.folders {
        for file in nodes.list(&["core", &folder])?.files {
            let Some(name) = file.strip_suffix(".html") else {
                continue;
            };
            let name = match name.split_once('-') {
                Some((number, name)) if number.bytes().all(|b| b.is_ascii_digit()) => name,
                _ => name,
            };
            let mut types = types(&nodes.text(&["core", &folder, &file])?);
            if types.is_empty() {
                // A junction is not edited.
                types.push(name.to_owned());
            }
            sets.push(Set {
                name: name.to_owned(),
                types,
                folder: folder.clone(),
                file,
            });
        }
    }
    Ok(sets)
}

impl Set {
    /// Writes the set's HTML, after the comment by which the editor finds its beginning.
    pub(super) fn write(&self, nodes: &Folder, language: &str, out: &mut String) -> io::Result<()> {
        let _ = writeln!(out, "<!-- --- [red-module:{CORE}/{}] --- -->", self.name);
        out.push_str(&nodes.text(&["core", &self.folder, &self.file])?);
        let help = help_languages(language)
            .into_iter()
            .find_map(|language| self.help(nodes, language));
        out.push_str(&help.unwrap_or_default());
        Ok(())
    }

    fn help(&self, nodes: &Folder, language: &str) -> Option<String> {
        let place = ["locales", language, &self.folder, &self.file];
        nodes.text(&place).ok()
    }
}

/// The languages in which help is looked for: this one, its base (`fr` for `fr-CA`), English.
pub(super) fn help_languages(language: &str) -> [&str; 3] {
    let base = language.split('-').next().unwrap_or_default();
    [language, base, DEFAULT]
}

/// The types whose templates are in a set's HTML.
pub(super) fn types(html: &str) -> Vec<String> {
    let after = html.split("data-template-name=").skip(1);
    let names = after.filter_map(|rest| {
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        Some(rest.get(1..)?.split_once(quote)?.0.to_owned())
    });
    names.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn nodes(files: &[(&str, &str)]) -> (tempfile::TempDir, Folder) {
        let directory = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let file = directory.path().join(file);
            fs::create_dir_all(file.parent().unwrap_or(Path::new(""))).unwrap();
            fs::write(file, content).unwrap();
        }
        let folder = Folder::open(directory.path()).unwrap();
        (directory, folder)
    }

    #[test]
    fn node_sets_are_found_by_file_and_types_by_template() {
        let (_directory, nodes) = nodes(&[
            ("core/b/rbe.html", "<script data-template-name='rbe'>"),
            (
                "core/a/10-file.html",
                "<script data-template-name=\"file\"><script type=x data-template-name='file in'>",
            ),
            ("core/a/05-junction.html", "<!-- nothing -->"),
            ("core/a/10-file.js", "data-template-name='no'"),
            ("core/a/lib/x.html", "data-template-name='no'"),
        ]);
        let found: Vec<_> = sets(&nodes)
            .unwrap()
            .into_iter()
            .map(|set| (set.name, set.types.join(", ")))
            .collect();
        let wanted = [
            ("junction", "junction"),
            ("file", "file, file in"),
            ("rbe", "rbe"),
        ];
        assert_eq!(found, wanted.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    #[test]
    fn help_is_in_the_requested_language_its_base_or_english() {
        let (_directory, nodes) = nodes(&[
            ("core/a/10-x.html", "x"),
            ("locales/en-US/a/10-x.html", " help"),
            ("locales/fr/a/10-x.html", " aide"),
        ]);
        let sets = sets(&nodes).unwrap();
        for (language, help) in [
            ("fr", "aide"),
            ("fr-CA", "aide"),
            ("en-US", "help"),
            ("*", "help"),
            ("..", "help"),
        ] {
            let mut html = String::new();
            sets[0].write(&nodes, language, &mut html).unwrap();
            assert_eq!(
                html,
                format!("<!-- --- [red-module:node-red/x] --- -->\nx {help}"),
                "{language}"
            );
        }
    }
}
