//! `[[engine.context]]`: the stores for what flows remember.

use super::error::SpannedError;
use super::raw;
use super::setting::Source;
use smol_str::SmolStr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::{Spanned, Table, Value};

const SECOND: Duration = Duration::from_secs(1);
const GIB: u64 = 1 << 30;

/// The name of the module whose contexts other members of a cluster go on with.
const SHARED: &str = "shared";
/// How long a change may wait until it is shared. Our choice: so much of what flows remember is
/// lost at most.
const SHARED_FLUSH: Duration = Duration::from_millis(500);
/// The directory of these contexts in the engine's.
pub const SHARED_CONTEXTS: &str = "shared-context";

/// One `[[engine.context]]`: a store for what flows remember.
#[derive(Debug, Clone)]
pub struct ContextStore {
    /// Its name in flows.
    pub name: SmolStr,
    /// Its files; `None`: in memory only.
    pub files: Option<ContextFiles>,
}

/// The files of a context store of module `localfilesystem` or `shared`.
#[derive(Debug, Clone)]
pub struct ContextFiles {
    /// Their directory.
    pub directory: PathBuf,
    /// The maximum delay until a change is written (30 s, as in Node-RED).
    pub flush: Duration,
    /// A context of more bytes is neither read nor written.
    pub file_limit: usize,
}

/// What keeps a store.
#[derive(Clone, Copy, PartialEq)]
enum Module {
    Memory,
    Files,
    Shared,
}

/// The stores, each name once. `has_members`: whether the engine can run at another member.
pub(super) fn contexts(
    raw: Vec<Spanned<raw::ContextStore>>,
    data: &Path,
    has_members: bool,
    source: &Source<'_>,
) -> Result<Vec<ContextStore>, SpannedError> {
    let mut stores: Vec<ContextStore> = Vec::new();
    for table in raw {
        let span = table.span();
        let store = context(table, data, has_members, source)?;
        if stores.iter().any(|other| other.name == store.name) {
            let sentence = format!("a context store named {:?} is configured above", store.name);
            return Err(SpannedError::rule(span, sentence));
        }
        stores.push(store);
    }
    Ok(stores)
}

fn context(
    table: Spanned<raw::ContextStore>,
    data: &Path,
    has_members: bool,
    source: &Source<'_>,
) -> Result<ContextStore, SpannedError> {
    let span = table.span();
    let raw = table.into_inner();
    let (Some(name), Some(module)) = (&raw.name, &raw.module) else {
        let sentence = "an [[engine.context]] needs name, and module: \"memory\", \"localfilesystem\" or \"shared\"";
        return Err(SpannedError::rule(span, sentence));
    };
    let named = |text: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        (!text.is_empty() && text.chars().all(allowed)).then(|| SmolStr::from(text))
    };
    let name = source.parsed(name, "a name of letters, digits, _ and -", named)?;
    let expected = "\"memory\", \"localfilesystem\" or \"shared\"";
    let module = source.parsed(module, expected, |text| match text {
        "memory" => Some(Module::Memory),
        "localfilesystem" => Some(Module::Files),
        SHARED => Some(Module::Shared),
        _ => None,
    })?;
    if let Some(sentence) = misplaced(module, &raw, has_members) {
        return Err(SpannedError::rule(span, sentence));
    }
    if module == Module::Memory {
        return Ok(ContextStore { name, files: None });
    }
    let flush = if module == Module::Shared {
        SHARED_FLUSH
    } else {
        30 * SECOND
    };
    let files = ContextFiles {
        directory: match raw.directory {
            Some(entry) => source.path(&entry)?,
            None => data.join("context"),
        },
        flush: source.duration(
            raw.flush,
            flush,
            Duration::from_millis(1)..=Duration::from_hours(1),
        )?,
        file_limit: source.size(raw.file_limit, 64 << 20, 1024..=GIB)?,
    };
    Ok(ContextStore {
        name,
        files: Some(files),
    })
}

/// Why a store of this module cannot be as the table says.
fn misplaced(module: Module, raw: &raw::ContextStore, has_members: bool) -> Option<&'static str> {
    let has_files = raw.directory.is_some() || raw.flush.is_some() || raw.file_limit.is_some();
    match module {
        Module::Memory if has_files => {
            Some("directory, flush and file_limit are not for the module \"memory\"")
        }
        Module::Shared if !has_members => {
            Some("the module \"shared\" is for the members of a [cluster], and there is none")
        }
        Module::Shared if raw.directory.is_some() => Some(
            "directory is for the module \"localfilesystem\": what is shared is kept in the database",
        ),
        Module::Memory | Module::Files | Module::Shared => None,
    }
}

/// Makes the stores of a member's file those of its engine's process: what is shared are files
/// below one directory.
pub(super) fn for_process(stores: &mut Value, directory: &Path) {
    let tables = stores.as_array_mut().into_iter().flatten();
    for table in tables.filter_map(Value::as_table_mut) {
        let name = table.get("name").and_then(Value::as_str);
        if table.get("module").and_then(Value::as_str) != Some(SHARED) {
            continue;
        }
        let own = directory
            .join(SHARED_CONTEXTS)
            .join(name.unwrap_or_default());
        let own = own.display().to_string().replace('$', "$$");
        let flush = format!("{}ms", SHARED_FLUSH.as_millis());
        table.extend(Table::from_iter([
            ("module".to_owned(), Value::from("localfilesystem")),
            ("directory".to_owned(), own.into()),
        ]));
        table.entry("flush").or_insert_with(|| flush.into());
    }
}
