//! `watch`: reports files and directories that change or vanish.
//!
//! Uses the notifications of the operating system; changes of one path in quick succession are
//! reported once.

use crate::expression::typed;
use crate::node::{BoxedNode, Build, Host, Node, boxed};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use serde::Deserialize;
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;
use value::{Failure, Message, Value, coerce, json};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    files: SmolStr,
    recursive: Json,
}

struct Watch {
    paths: Vec<PathBuf>,
    recursive: bool,
    topic: SmolStr,
    /// Kept for as long as the node runs: it stops watching when dropped.
    watcher: Option<RecommendedWatcher>,
    changes: Rc<RefCell<mpsc::UnboundedReceiver<PathBuf>>>,
    sender: Option<mpsc::UnboundedSender<PathBuf>>,
}

/// Paths that changed, each once, and what they are now.
struct Changed(Vec<(PathBuf, Option<fs::Metadata>)>);

/// Writing a file causes several notifications; those within this time are reported as one.
const SETTLE: Duration = Duration::from_millis(50);

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let names: Vec<&str> = properties.files.split(',').map(str::trim).collect();
    let topic = match names.as_slice() {
        [one] => SmolStr::new(one),
        several => json::stringify(&Value::array(
            several.iter().map(|n| Value::from(*n)).collect(),
        ))
        .unwrap_or_default()
        .into(),
    };
    let (sender, changes) = mpsc::unbounded_channel();
    Ok(boxed(Watch {
        paths: names.into_iter().map(PathBuf::from).collect(),
        recursive: coerce::truthy(&json::from_tree(&properties.recursive))
            && typed::text_of(&properties.recursive) != "false",
        topic,
        watcher: None,
        changes: Rc::new(RefCell::new(changes)),
        sender: Some(sender),
    }))
}

impl Watch {
    fn open(&mut self) -> notify::Result<()> {
        let Some(sender) = self.sender.take() else {
            return Ok(());
        };
        let (paths, recursive) = (self.paths.clone(), self.recursive);
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                // Reading changes nothing.
                let Some(event) = event
                    .ok()
                    .filter(|e| !matches!(e.kind, EventKind::Access(_)))
                else {
                    return;
                };
                for path in event
                    .paths
                    .into_iter()
                    .filter(|p| concerns(p, &paths, recursive))
                {
                    // This fails when the node is gone.
                    let _ = sender.send(path);
                }
            })?;
        for path in &self.paths {
            let (place, mode) = if !path.is_dir() {
                // A file is watched through its directory, so that it may vanish and come back.
                (
                    path.parent().unwrap_or(Path::new("")),
                    RecursiveMode::NonRecursive,
                )
            } else if self.recursive {
                (path.as_path(), RecursiveMode::Recursive)
            } else {
                (path.as_path(), RecursiveMode::NonRecursive)
            };
            let here = place.as_os_str().is_empty();
            watcher.watch(if here { Path::new(".") } else { place }, mode)?;
        }
        self.watcher = Some(watcher);
        Ok(())
    }

    /// Waits for the next changes.
    fn listen(&self, host: &mut Host<'_, Changed>) {
        let changes = Rc::clone(&self.changes);
        host.spawn(async move {
            let mut paths = BTreeSet::new();
            let first = std::future::poll_fn(|cx| changes.borrow_mut().poll_recv(cx)).await;
            paths.extend(first);
            tokio::time::sleep(SETTLE).await;
            while let Ok(path) = changes.borrow_mut().try_recv() {
                paths.insert(path);
            }
            let look = move || {
                paths
                    .into_iter()
                    .map(|p| (p.clone(), fs::metadata(&p).ok()))
                    .collect()
            };
            Changed(tokio::task::spawn_blocking(look).await.unwrap_or_default())
        });
    }

    fn message(&self, path: &Path, now: Option<&fs::Metadata>) -> Message {
        let name = SmolStr::new(path.to_string_lossy());
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let mut message = Message::with_payload(name.clone());
        message.set("topic", self.topic.clone());
        message.set("file", file.as_ref());
        message.set("filename", name);
        message.set("event", if now.is_some() { "update" } else { "remove" });
        if let Some(size) = now.filter(|m| m.is_file()).map(fs::Metadata::len) {
            message.set("size", size as f64);
        }
        let kind = match now {
            None => "none",
            Some(what) if what.is_file() => "file",
            Some(what) if what.is_dir() => "directory",
            Some(_) => "other",
        };
        message.set("type", kind);
        message
    }
}

/// Returns whether a change of this path is one of what is watched. A directory itself changes with
/// all in it.
fn concerns(path: &Path, watched: &[PathBuf], recursive: bool) -> bool {
    let path = path.strip_prefix("./").unwrap_or(path);
    watched.iter().any(|w| {
        if path == w {
            return !w.is_dir();
        }
        if recursive {
            path.starts_with(w)
        } else {
            path.parent() == Some(w)
        }
    })
}

impl Node<Changed> for Watch {
    fn start(&mut self, host: &mut Host<'_, Changed>) {
        if let Some(missing) = self.paths.iter().find(|path| !path.exists()) {
            let failure = Failure::error(format!("{} does not exist.", missing.display()));
            return host.error(failure, Some(Message::with_payload("")));
        }
        if let Err(error) = self.open() {
            let failure = Failure::error(error.to_string());
            return host.error(failure, Some(Message::with_payload("")));
        }
        self.listen(host);
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_, Changed>) {
        host.done(message);
    }

    fn event(&mut self, changed: Changed, host: &mut Host<'_, Changed>) {
        for (path, now) in &changed.0 {
            let message = self.message(path, now.as_ref());
            host.send(0, message);
        }
        self.listen(host);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_changes_of_watched_paths_match() {
        let directory = tempfile::tempdir().unwrap();
        let inside = |name: &str| directory.path().join(name);
        let watched = [directory.path().to_owned(), PathBuf::from("/x/file")];
        assert!(concerns(&inside("f"), &watched, false));
        assert!(!concerns(&inside("sub/f"), &watched, false));
        assert!(concerns(&inside("sub/f"), &watched, true));
        assert!(!concerns(directory.path(), &watched, true));
        assert!(concerns(Path::new("/x/file"), &watched, false));
        assert!(!concerns(Path::new("/x/other"), &watched, false));
    }
}
