//! The layers of the program: which modules may use which, which know HTTP status codes, and which
//! read the clock. `signatures` checks the parameters of functions.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "layers/signatures.rs"]
mod signatures;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules from the lowest to the highest; those on one line do not know each other.
const LAYERS: &[&[&str]] = &[
    &[
        "metrics",
        "allocator",
        "stdio",
        "websocket",
        "console",
        "otlp",
        "visible_json",
    ],
    &["config"],
    &["store"],
    &["audit", "auth", "upstream"],
    &["policy", "sinks", "traces"],
    &["comms"],
    &["deployment", "editor"],
    &["palette"],
    &["gateway"],
    &["http"],
    &["server"],
    &["cli", "fuzzing"],
];

/// Modules, or parts of them, that may know HTTP status codes.
const KNOW_STATUS: &[&str] = &[
    "src/http/",
    "src/server/",
    "src/upstream/",
    "crates/engine/src/nodes/network/",
    "crates/engine/src/http.rs",
];

/// The edges, where the clock is read.
const READ_CLOCK: &[&str] = &[
    "src/server/",
    "src/cli/",
    "src/main.rs",
    "src/http/",
    "src/upstream/",
    "src/store/thread.rs",
    "src/store/database/connection/postgres.rs",
    "crates/engine/src/state.rs",
    // The time that a node's work takes is looked at within that work.
    "crates/value/src/budget.rs",
    "crates/engine/src/script/",
    "crates/engine/src/event_loop/",
    // Measures in tests.
    "crates/testing/",
];

/// Adds the Rust files below a folder, but for those of packages of npm.
fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("node_modules") {
                walk(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for root in ["src", "crates"] {
        walk(Path::new(root), &mut found);
    }
    found.retain(|path| {
        // Tests are not layered: they drive the modules from outside.
        let tests = |part: &OsStr| part == "tests" || part == "benches";
        !path.components().any(|part| tests(part.as_os_str())) && !path.ends_with("tests.rs")
    });
    found.sort();
    assert!(
        found.len() > 20,
        "the sources are not where this test looks for them"
    );
    found
}

fn gateway() -> impl Iterator<Item = PathBuf> {
    sources().into_iter().filter(|path| path.starts_with("src"))
}

/// The code of a file: without its tests and comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let tests = text
        .match_indices("\n#[cfg(test)]\n")
        .map(|(at, _)| at)
        .find(|at| begins_a_module(&text[at + 1..]))
        .unwrap_or(text.len());
    text[..tests]
        .lines()
        .filter(|l| !l.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns whether the attributes at the beginning of the text belong to a module that stands there
/// whole.
fn begins_a_module(text: &str) -> bool {
    let item = text.find("\nmod ").map(|at| &text[at + 1..]);
    let attributes = text.find("\nmod ").map_or("", |at| &text[..at]);
    let only_attributes = attributes.lines().all(|l| l.starts_with(['#', ' ', ')']));
    only_attributes
        && item
            .and_then(|i| i.lines().next())
            .is_some_and(|l| l.ends_with('{'))
}

/// The module of a file of the gateway; the crates are layers of their own, which the compiler
/// keeps.
fn module(path: &Path) -> String {
    let second = path
        .components()
        .nth(1)
        .unwrap()
        .as_os_str()
        .to_string_lossy()
        .into_owned();
    second.trim_end_matches(".rs").to_owned()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|l| l.contains(&module))
}

/// Modules named after `crate::` in some code, `use crate::{a, b::c}` included.
fn uses(code: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let word = |text: &str| {
            text.chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect::<String>()
        };
        match rest.strip_prefix('{') {
            None => modules.push(word(rest)),
            Some(list) => {
                let mut depth = 1;
                let mut start = true;
                for (i, c) in list.char_indices() {
                    if start && depth == 1 && c.is_alphabetic() {
                        modules.push(word(&list[i..]));
                        start = false;
                    }
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' => start = true,
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
        }
    }
    modules
}

#[test]
fn no_arrow_runs_up() {
    let mut wrong = Vec::new();
    for path in gateway() {
        let from = module(&path);
        let Some(own) = layer(&from) else { continue };
        for to in uses(&code(&path)) {
            if let Some(theirs) = layer(&to)
                && to != from
                && theirs >= own
            {
                wrong.push(format!("{}: {from} uses {to}", path.display()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "arrows that run up or sideways:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_room_has_its_layer() {
    for path in gateway() {
        let module = module(&path);
        assert!(
            matches!(module.as_str(), "lib" | "main") || layer(&module).is_some(),
            "{module} is in no layer"
        );
    }
}

#[test]
fn status_codes_are_known_only_where_http_is_spoken() {
    for path in sources() {
        if !KNOW_STATUS
            .iter()
            .any(|k| path.starts_with(k) || path == Path::new(k))
        {
            assert!(
                !code(&path).contains("StatusCode"),
                "{} knows status codes",
                path.display()
            );
        }
    }
}

#[test]
fn the_clock_is_read_only_at_the_edges() {
    for path in sources() {
        let shown = path.display().to_string();
        if !READ_CLOCK.iter().any(|k| shown.starts_with(k)) {
            let code = code(&path);
            for call in ["Instant::now", "SystemTime::now"] {
                assert!(!code.contains(call), "{shown} calls {call}");
            }
        }
    }
}

#[test]
fn files_say_what_they_are() {
    for path in sources() {
        assert!(
            fs::read_to_string(&path).unwrap().starts_with("//!"),
            "{} does not say what it is: a file opens with //!",
            path.display()
        );
    }
}

#[test]
fn unsafe_code_stands_in_four_files() {
    let unsafe_files: Vec<_> = sources()
        .into_iter()
        .filter(|path| code(path).contains("unsafe_code"))
        .collect();
    let known = [
        "crates/engine/src/script/compile.rs",
        "crates/engine/src/script/script_memory.rs",
        "src/allocator.rs",
        "src/store/database/connection/sqlite.rs",
    ];
    let known = known.map(Path::new);
    assert_eq!(unsafe_files, known);
}

/// All packages that one needs, its tests included, by the lock file.
fn needed(package: &str) -> BTreeSet<String> {
    let lock: toml::Table = fs::read_to_string("Cargo.lock").unwrap().parse().unwrap();
    let packages = lock["package"].as_array().unwrap();
    let mut needed = BTreeSet::new();
    let mut pending = vec![package.to_owned()];
    while let Some(name) = pending.pop() {
        for package in packages
            .iter()
            .filter(|p| p["name"].as_str() == Some(&name))
        {
            let dependencies = package.get("dependencies").and_then(|d| d.as_array());
            let names = dependencies
                .into_iter()
                .flatten()
                .filter_map(|d| d.as_str());
            // A name may be followed by a version.
            let names = names.map(|name| name.split(' ').next().unwrap().to_owned());
            pending.extend(names.filter(|name| !needed.contains(name)));
        }
        needed.insert(name);
    }
    needed
}

#[test]
fn values_formats_and_flows_need_neither_a_runtime_nor_quickjs() {
    for package in ["value", "formats", "flows"] {
        let needed = needed(package);
        for other in ["tokio", "rquickjs", "hyper", "engine", "flowgate"] {
            assert!(!needed.contains(other), "{package} needs {other}");
        }
    }
    assert!(needed("engine").contains("tokio") && !needed("engine").contains("flowgate"));
}

/// The modules of each crate: by the folder of its sources, each module's path and file.
fn modules() -> BTreeMap<PathBuf, BTreeMap<Vec<String>, PathBuf>> {
    let mut crates = BTreeMap::<PathBuf, BTreeMap<_, _>>::new();
    for file in sources() {
        let depth = if file.starts_with("src") { 1 } else { 3 };
        let root: PathBuf = file.iter().take(depth).collect();
        let inside = file.strip_prefix(&root).unwrap().with_extension("");
        let mut module: Vec<String> = inside.iter().map(|p| p.display().to_string()).collect();
        module.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
        crates.entry(root).or_default().insert(module, file);
    }
    crates
}

/// The paths in some code, those of `use a::{b, c::d}` included.
fn paths(code: &str) -> Vec<Vec<&str>> {
    /// Reads one path, or a tree of them, and returns the rest of the code.
    fn read<'c>(code: &'c str, mut path: Vec<&'c str>, found: &mut Vec<Vec<&'c str>>) -> &'c str {
        let name = code.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (name, rest) = code.split_at(name.unwrap_or(code.len()));
        path.extend((!name.is_empty()).then_some(name));
        let Some(below) = rest.strip_prefix("::") else {
            found.push(path);
            return rest;
        };
        let Some(mut list) = below.strip_prefix('{') else {
            return read(below, path, found);
        };
        loop {
            list = list.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            if list.is_empty() || list.starts_with('}') {
                return list;
            }
            list = read(list, path.clone(), found);
            // `as` and another name
            list = list.split_at(list.find([',', '}']).unwrap_or(list.len())).1;
        }
    }
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(start) = rest.find(|c: char| c.is_alphabetic() || c == '_') {
        rest = read(&rest[start..], Vec::new(), &mut found);
    }
    found
}

/// The other modules of its crate that a module uses, but for those that it is in.
fn used(
    module: &[String],
    file: &Path,
    modules: &BTreeMap<Vec<String>, PathBuf>,
) -> BTreeSet<Vec<String>> {
    let mut used = BTreeSet::new();
    for path in paths(&code(file)) {
        let (base, names) = match path[0] {
            "crate" => (&[][..], &path[1..]),
            "self" => (module, &path[1..]),
            "super" => {
                let up = path.iter().take_while(|name| **name == "super").count();
                (&module[..module.len().saturating_sub(up)], &path[up..])
            }
            child if modules.contains_key(&[module, &[child.to_owned()]].concat()) => {
                (module, &path[..])
            }
            _ => continue,
        };
        let names = names.iter().map(|name| (*name).to_owned());
        let mut target: Vec<String> = base.iter().cloned().chain(names).collect();
        while !modules.contains_key(&target) {
            target.pop();
        }
        if !module.starts_with(&target) {
            used.insert(target);
        }
    }
    used
}

#[test]
fn modules_of_one_crate_form_no_circle() {
    let mut circles = Vec::new();
    for modules in modules().into_values() {
        let uses = modules
            .iter()
            .map(|(module, file)| (module, used(module, file, &modules)));
        let uses: BTreeMap<_, _> = uses.collect();
        let leads_to = |from: &Vec<String>, to: &Vec<String>| {
            let (mut pending, mut seen) = (vec![from], BTreeSet::new());
            while let Some(module) = pending.pop() {
                if seen.insert(module) {
                    pending.extend(&uses[module]);
                }
            }
            seen.contains(to)
        };
        for (from, targets) in &uses {
            for to in targets.iter().filter(|to| leads_to(to, from)) {
                let (from, to) = (modules[*from].display(), modules[to].display());
                circles.push(format!("{from} uses {to}"));
            }
        }
    }
    assert!(
        circles.is_empty(),
        "modules that use each other, directly or through others; move what both need to a module of its own:\n{}",
        circles.join("\n")
    );
}

#[test]
fn a_test_of_a_promised_time_has_within_in_its_name() {
    // `tests/run` finds them by it, and runs them alone.
    let word = "Stopwatch::start()";
    for entry in fs::read_dir("tests/e2e").unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() || path.ends_with("stopwatch.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let functions: Vec<&str> = text.split("\nasync fn ").skip(1).collect();
        // Helpers of such tests are named after what they assert.
        let of_time = |name: &str| name.contains("within_") || name.contains("_in_time");
        for function in functions.iter().filter(|function| function.contains(word)) {
            let name = function.split('(').next().unwrap();
            let body = function.split("\n}").next().unwrap();
            assert!(
                !body.contains(word) || of_time(name),
                "{}: {name} uses a stopwatch",
                path.display()
            );
        }
    }
}
