//! The files of the stock editor and of the packages in its palette, which are read at the start.

use super::Error;
use crate::config::{Config, Storage};
use crate::editor::{self, Editor, InstalledPackages};
use crate::palette::Palette;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

/// The stock editor with what our engine has for its palette; `None`: it is not served.
pub fn open_editor(config: &Config) -> Result<Option<Editor>, editor::Error> {
    let modules = config.editor.modules.as_deref();
    modules
        .map(|modules| Editor::open(modules, engine::nodes::knows))
        .transpose()
}

type PaletteAndEditor = (Option<Arc<Palette>>, Option<Arc<Editor>>);

/// The palette of the node host, if there is one, which starts without the node sets that are
/// disabled; and the editor with its packages, if it is served.
fn open_palette(config: &mut Config) -> Result<PaletteAndEditor, Error> {
    let editor = open_editor(config)?;
    let Some(host) = &mut config.engine.node_host else {
        return Ok((None, editor.map(Arc::new)));
    };
    let installed = Arc::new(InstalledPackages::find(&host.directory));
    let editor = editor.map(|editor| Arc::new(editor.with_packages(&installed)));
    let palette = Palette::open(host, installed).map_err(Error::Palette)?;
    host.disabled = palette.disabled().into_iter().collect();
    Ok((Some(Arc::new(palette)), editor))
}

/// Opens the palette and the editor while this thread opens something else, because both read many
/// files.
pub(super) fn open_beside<T>(
    config: &mut Config,
    other: impl FnOnce(&Storage) -> T,
) -> (Result<PaletteAndEditor, Error>, T) {
    let storage = config.storage.clone();
    thread::scope(|scope| {
        let opened = scope.spawn(|| open_palette(config));
        let other = other(&storage);
        let opened = opened.join();
        (opened.unwrap_or_else(|panic| resume_unwind(panic)), other)
    })
}
