//! deploy/Containerfile: what it copies is there and is enough, and what it starts and names fits
//! the program and its configuration.

use super::{book, repository};
use flowgate::config::Config;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

const FILE: &str = "deploy/Containerfile";

/// The instructions with their arguments, without comments.
fn instructions() -> Vec<(String, String)> {
    let text = book::read(FILE);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(' '))
        .map(|(name, arguments)| (name.to_owned(), arguments.to_owned()))
        .collect()
}

/// The arguments of an instruction that is there once.
fn only(name: &str) -> String {
    let mut found = instructions();
    found.retain(|(instruction, _)| instruction == name);
    assert_eq!(found.len(), 1, "{name}");
    found.remove(0).1
}

/// The files and directories that are copied from the repository, with their places in the image.
fn copied() -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (name, arguments) in instructions() {
        if name == "COPY" && !arguments.contains("--from") {
            let mut words: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            let target = words.pop().unwrap();
            pairs.extend(words.into_iter().map(|source| (source, target.clone())));
        }
    }
    pairs
}

/// A path without `..`, relative to the repository.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.strip_prefix(repository()).unwrap().components() {
        match component {
            Component::ParentDir => assert!(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

/// The files that a source file includes, outside of its tests.
fn included(source: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(source).unwrap();
    let text = text.split("\nmod tests {").next().unwrap();
    let mut found = Vec::new();
    for start in ["include_str!(", "include_bytes!("] {
        for rest in text.split(start).skip(1) {
            if let Some((name, _)) = rest
                .trim_start()
                .strip_prefix('"')
                .and_then(|it| it.split_once('"'))
            {
                found.push(normal(&source.with_file_name(name)));
            }
        }
    }
    found
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["tests", "benches", "node_modules"].contains(&&*name) {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

#[test]
fn the_image_is_built_of_files_that_are_there_and_has_all_that_the_sources_include() {
    let copied = copied();
    for (source, _) in &copied {
        assert!(repository().join(source).exists(), "there is no {source}");
    }
    let mut sources = Vec::new();
    for directory in ["src", "crates"] {
        rust_files(&repository().join(directory), &mut sources);
    }
    let files: Vec<PathBuf> = sources.iter().flat_map(|source| included(source)).collect();
    assert!(files.contains(&PathBuf::from("gateway.toml")));
    for file in files {
        let has = |(source, _): &(String, String)| file.starts_with(source);
        assert!(
            copied.iter().any(has),
            "{FILE} does not copy {}",
            file.display()
        );
    }
}

#[test]
fn the_image_starts_and_checks_the_program_with_its_configuration_and_writes_to_its_volume_only() {
    let (_, check) = only("HEALTHCHECK")
        .split_once("CMD ")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let [start, check]: [Vec<String>; 2] =
        [only("ENTRYPOINT"), check].map(|list| serde_json::from_str(&list).unwrap());
    assert_eq!(check.last().map(String::as_str), Some("health"));
    assert_eq!(start[..], check[..check.len() - 1]);
    let (source, _) = copied()
        .into_iter()
        .find(|(_, target)| *target == start[2])
        .unwrap();
    let built = instructions();
    let program = built
        .iter()
        .find(|(name, copy)| name == "COPY" && copy.ends_with(&format!("flowgate {}", start[0])));
    assert!(program.unwrap().1.contains("/target/dist/"));
    let help = Command::new(env!("CARGO_BIN_EXE_flowgate"))
        .args(["--config", &source, "health", "--help"])
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(help.status.success());

    let config = Config::load(Some(&repository().join(source))).unwrap();
    let volume = only("VOLUME");
    assert!(
        config.storage.directory.starts_with(&volume) && config.tls.directory.starts_with(&volume)
    );
    assert_eq!(only("EXPOSE"), config.server.listen[0].port().to_string());
    // By number, and the directory of the state is that user's.
    let user = only("USER");
    assert!(
        user.split(':')
            .all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)),
        "{user}"
    );
    let owned = format!("--chown={user} --chmod=700 /state {volume}");
    assert!(built.iter().any(|(_, copy)| copy.ends_with(&owned)));
    let manifest: toml::Table = book::read("Cargo.toml").parse().unwrap();
    let version = manifest["workspace"]["package"]["rust-version"]
        .as_str()
        .unwrap();
    assert!(built.contains(&("ARG".to_owned(), format!("RUST={version}.0"))));
    let compose = book::read("examples/node-red-compose/compose.yml");
    assert!(
        compose.contains(&format!("dockerfile: {FILE}\n"))
            && compose.contains(&format!(":{volume}\n"))
    );
}
