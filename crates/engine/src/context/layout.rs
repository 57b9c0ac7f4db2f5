//! Maps contexts to files, as Node-RED's `localfilesystem` does: `global/global.json`,
//! `<flow>/flow.json`, `<flow>/<node>.json`; and reads all of them at start.

use super::Place;
use smol_str::SmolStr;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use value::{Value, json};

/// The directory of the global context and of the nodes outside flows.
const GLOBAL: &str = "global";
/// The file of a flow's own context.
const FLOW: &str = "flow";
/// The longest id that is used as a file name. Most file systems allow 255 bytes; the rest is for
/// our endings.
const MAX_LENGTH: usize = 200;

/// The file of a context; `None`: its ids make no file name.
pub(super) fn path(base: &Path, place: &Place) -> Option<PathBuf> {
    let name = match (place.flow.as_str(), place.node.as_str()) {
        ("", "") => GLOBAL,
        (_, "") => FLOW,
        (_, node) => node,
    };
    let directory = directory(base, &place.flow)?;
    is_name(name).then(|| directory.join(format!("{name}.json")))
}

/// The directory of a flow; `None`: its id makes no directory name.
pub(super) fn directory(base: &Path, flow: &str) -> Option<PathBuf> {
    let name = if flow.is_empty() { GLOBAL } else { flow };
    is_name(name).then(|| base.join(name))
}

/// Ids come from outside: only letters, digits, `_`, `-` and `.` may name files, and nothing
/// hidden.
fn is_name(id: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    id.len() <= MAX_LENGTH && !id.is_empty() && !id.starts_with('.') && id.bytes().all(allowed)
}

/// Reads every context below the directory. A file that is broken or too large is set aside under
/// another name, and logged: its content is neither lost nor overwritten.
pub(super) fn load(base: &Path, limit: usize) -> Vec<(Place, Value)> {
    let mut loaded = Vec::new();
    for flow in entries(base) {
        let Some(name) = flow
            .file_name()
            .and_then(OsStr::to_str)
            .filter(|n| is_name(n))
        else {
            continue;
        };
        for file in entries(&flow) {
            let stem = file.file_stem().and_then(OsStr::to_str);
            let is_json = file.extension().is_some_and(|e| e == "json");
            let Some(stem) = stem.filter(|stem| is_json && is_name(stem)) else {
                continue;
            };
            match read(&file, limit) {
                Ok(value) => loaded.push((place(name, stem), value)),
                Err(reason) => set_aside(&file, &reason),
            }
        }
    }
    loaded
}

fn place(directory: &str, stem: &str) -> Place {
    let flow = SmolStr::from(if directory == GLOBAL { "" } else { directory });
    let own = if directory == GLOBAL { GLOBAL } else { FLOW };
    Place {
        flow,
        node: SmolStr::from(if stem == own { "" } else { stem }),
    }
}

/// The entries of a directory, in order; none if it cannot be read, which is logged unless the
/// directory does not exist.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(directory).and_then(|entries| {
        entries
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<PathBuf>>>()
    });
    match listed {
        Ok(mut paths) => {
            paths.sort();
            paths
        }
        Err(error) => {
            let harmless = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
            if !harmless.contains(&error.kind()) {
                tracing::error!(directory = %directory.display(), %error, "contexts cannot be read");
            }
            Vec::new()
        }
    }
}

fn read(file: &Path, limit: usize) -> Result<Value, String> {
    let size = fs::metadata(file).map_err(|e| e.to_string())?.len();
    if size > limit as u64 {
        return Err(format!(
            "{size} bytes are over the limit engine.context.file_limit"
        ));
    }
    let text = fs::read_to_string(file).map_err(|e| e.to_string())?;
    // Node-RED takes an empty file as an empty context.
    let value = if text.trim().is_empty() {
        Value::object(value::Object::default())
    } else {
        json::parse(&text).map_err(|failure| failure.to_string())?
    };
    match value {
        Value::Object(_) => Ok(value),
        _ => Err("it holds no JSON object".to_owned()),
    }
}

/// Renames a file to `….broken`, with a number if there is one already.
fn set_aside(file: &Path, reason: &str) {
    let aside = (0..1000)
        .map(|n| match n {
            0 => file.with_extension("json.broken"),
            n => file.with_extension(format!("json.broken-{n}")),
        })
        .find(|name| !name.exists());
    let renamed = aside.as_ref().map(|aside| fs::rename(file, aside));
    match (aside, renamed) {
        (Some(aside), Some(Ok(()))) => tracing::error!(
            file = %file.display(), reason, aside = %aside.display(),
            "a context file cannot be used; it was set aside, and this context starts empty"
        ),
        (_, failed) => tracing::error!(
            file = %file.display(), reason, error = ?failed.and_then(Result::err),
            "a context file cannot be used, nor set aside; this context starts empty"
        ),
    }
}
