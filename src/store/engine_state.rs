//! The state of an engine that another machine can go on with: its flow files, its library, and
//! whether flows run. A change counts once the [`Replica`] has it.

use super::credentials;
use super::database::DATABASE;
use super::directory::{Directory, failed, write_new};
use super::disk::Disk;
use super::failpoint;
use super::flow_files::{CREDENTIALS, FLOWS, FlowFiles};
use super::library::LibraryPath;
use super::replica::{EngineState, Replica};
use super::{Error, Loaded, Record, Revision, Store};
use crate::config::{self, SHARED_CONTEXTS};
use std::sync::Arc;

/// The file that marks the directory of a member: its flows are those of the cluster.
const MEMBER: &str = ".cluster";

/// What the names of flow files end with that a member had before.
const BEFORE: &str = ".before-cluster";

/// The name of whether flows run, in the state and of the fact in the database.
const RUNNING: &str = "running";

/// The kind of a deployment that another engine has made.
const FOLLOWED: &str = "followed";

/// The name of the revision in the state.
const REV: &str = "rev";

/// What a deployment leads to, and whether it runs, in the state.
pub(super) const DEPLOYED: &[&str] = &[FLOWS, CREDENTIALS, REV, RUNNING];

/// What of it is another text whenever it is another one.
pub(super) const MARKS: &[&str] = &[REV, RUNNING];

impl Store {
    /// Keeps the state there too, from now on.
    pub async fn replicate(&self, replica: Replica) -> Result<(), Error> {
        let all = move |disk: &mut Disk| {
            disk.replica = Some(replica);
            let mut files = disk.read_files()?;
            files.credentials = disk.for_others(files.credentials)?;
            let mut state = of_files(&files);
            // Without flows there is a state too: other members go on with none.
            let flows = state.entry(FLOWS.to_owned());
            flows.or_insert_with(|| "[]".to_owned());
            state.extend(disk.directory.whole_library()?);
            let facts = [
                (REV, disk.load()?.rev),
                (RUNNING, disk.database.fact(RUNNING)?),
            ];
            let facts = facts.into_iter();
            state.extend(facts.filter_map(|(name, fact)| Some((name.to_owned(), fact?))));
            disk.replicate(state)
        };
        self.owner.ask(all).await
    }

    /// Takes over the flows that another engine has, with their revision, and whether they run; the
    /// flows, if they are others than those of `before`.
    pub async fn take_in(
        &self,
        state: EngineState,
        before: String,
        now: u64,
    ) -> Result<Option<Loaded>, Error> {
        self.owner
            .ask(move |disk| disk.take_in(&state, &before, now))
            .await
    }

    /// Whether flows are to run, as last set with `POST /flows/state`; true unless stopped.
    pub async fn running(&self) -> Result<bool, Error> {
        self.owner
            .ask(|disk| {
                Ok(disk
                    .database
                    .fact(RUNNING)?
                    .is_none_or(|running| running != "false"))
            })
            .await
    }

    /// Remembers whether flows run.
    pub async fn save_running(&self, running: bool) -> Result<(), Error> {
        let running = if running { "true" } else { "false" };
        let save = |disk: &mut Disk| {
            disk.replicate([(RUNNING.to_owned(), running.to_owned())].into())?;
            disk.database.save_fact(RUNNING, running)
        };
        self.owner.ask(save).await
    }
}

impl Disk {
    fn take_in(
        &mut self,
        state: &EngineState,
        before: &str,
        now: u64,
    ) -> Result<Option<Loaded>, Error> {
        if let Some(running) = state.get(RUNNING) {
            self.database.save_fact(RUNNING, running)?;
        }
        let Some(rev) = state.get(REV).filter(|rev| *rev != before) else {
            return Ok(None);
        };
        let file = |name: &str| Some(state.get(name)?.clone().into_bytes());
        let mut loaded = self.parse_files(&FlowFiles {
            flows: file(FLOWS),
            credentials: file(CREDENTIALS),
        })?;
        let record = Record {
            revision: Revision {
                rev: rev.clone(),
                kind: FOLLOWED.to_owned(),
                at: now,
                ..Revision::default()
            },
            flows: Arc::new(loaded.flows.clone()),
            credentials: Arc::new(loaded.credentials.clone()),
        };
        self.commit(&record)?;
        loaded.rev = Some(rev.clone());
        Ok(Some(loaded))
    }

    /// Has the replica keep a part of the state, if there is one.
    pub(super) fn replicate(&self, state: EngineState) -> Result<(), Error> {
        match &self.replica {
            Some(replica) if !state.is_empty() => replica(state).map_err(Error::Unreachable),
            _ => Ok(()),
        }
    }

    /// A credentials file as other members can read it: they have the secret of the configuration
    /// only, not one that was generated here.
    fn for_others(&self, file: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, Error> {
        let (Some(secret), Some(content)) = (&self.credential_secret, &file) else {
            return Ok(file);
        };
        match credentials::open(content, &self.secrets()?) {
            Some(opened) if !opened.current => {
                credentials::seal(&opened.credentials, secret).map(Some)
            }
            _ => Ok(file),
        }
    }

    /// The same with a deployment and the flow files that it changes.
    pub(super) fn replicate_deployment(
        &self,
        record: &Record,
        new_flows: bool,
        new_credentials: Option<&[u8]>,
    ) -> Result<(), Error> {
        if self.replica.is_none() {
            return Ok(());
        }
        let mut state = of_files(&FlowFiles {
            flows: new_flows.then(|| record.flows.to_json().into_bytes()),
            credentials: new_credentials.map(<[u8]>::to_vec),
        });
        state.insert(REV.to_owned(), record.revision.rev.clone());
        self.replicate(state)
    }
}

fn of_files(files: &FlowFiles) -> EngineState {
    let each = files.each();
    let each = each.into_iter().filter_map(|(name, content)| {
        let content = String::from_utf8_lossy(content?).into_owned();
        Some((name.to_owned(), content))
    });
    each.collect()
}

/// The flow set in the state, as JSON.
pub fn flows_of(state: &EngineState) -> Option<&str> {
    state.get(FLOWS).map(String::as_str)
}

/// Returns whether a part of the state has this name.
pub fn is_engine_state(name: &str) -> bool {
    let is_known = DEPLOYED.contains(&name);
    is_known || LibraryPath::of_file(name).is_some() || is_context(name)
}

/// Returns whether it is the file of a shared context: store, flow and node.
pub fn is_context(name: &str) -> bool {
    let part = |part: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        (1..=PART).contains(&part.len()) && !part.starts_with('.') && part.bytes().all(plain)
    };
    let below = name
        .strip_prefix(SHARED_CONTEXTS)
        .and_then(|below| below.strip_prefix('/'));
    below.is_some_and(|below| below.split('/').count() == 3 && below.split('/').all(part))
}

/// Returns whether it is the file of a context that no flow has.
pub fn is_global_context(name: &str) -> bool {
    is_context(name) && name.split('/').nth(2) == Some("global")
}

/// Bytes of a part of a context's name, at most: those of a file's name.
const PART: usize = 255;

/// Makes the state that of the engine in this directory, which is not open. The engine's own
/// history there ends: it is that of other flows.
pub fn take_over(config: &config::Storage, state: &EngineState, now: u64) -> Result<(), Error> {
    if state.is_empty() {
        return Ok(());
    }
    put_files(&Directory::open(&config.directory)?, state)?;
    let mut disk = Disk::open(config)?;
    if let Some(running) = state.get(RUNNING) {
        disk.database.save_fact(RUNNING, running)?;
    }
    let (Some(rev), Ok(loaded)) = (state.get(REV), disk.load()) else {
        return Ok(());
    };
    if loaded.locked {
        return Ok(());
    }
    // The first of a new history: the flows keep their revision.
    let record = Record {
        revision: Revision {
            rev: rev.clone(),
            kind: "start".to_owned(),
            at: now,
            ..Revision::default()
        },
        flows: Arc::new(loaded.flows),
        credentials: Arc::new(loaded.credentials),
    };
    disk.commit(&record)?;
    disk.sync_written();
    Ok(())
}

fn put_files(directory: &Directory, state: &EngineState) -> Result<(), Error> {
    for name in [DATABASE, "flowgate.db-wal", "flowgate.db-shm"] {
        directory.remove(name)?;
    }
    let is_member = directory.read(MEMBER)?.is_some();
    for name in [CREDENTIALS, FLOWS] {
        let (here, kept) = (directory.read(name)?, state.get(name));
        if here.as_deref() == kept.map(String::as_bytes) {
            continue;
        }
        match &here {
            Some(own) if !is_member => directory.set_aside(&format!("{name}{BEFORE}"), own)?,
            _ => directory.back_up(name)?,
        }
        match kept {
            Some(content) => directory.replace(name, content.as_bytes())?,
            None => directory.remove(name)?,
        }
    }
    directory.make(MEMBER)?;
    let contexts = directory.path(SHARED_CONTEXTS);
    failpoint::remove_tree(&contexts).map_err(|source| failed(&contexts, source))?;
    for (name, text) in state {
        if is_context(name) && !text.is_empty() {
            let path = directory.path(name);
            let folder = path.parent().unwrap_or(&path);
            let written = failpoint::make_directory(folder);
            let written = written.and_then(|()| write_new(&path, text.as_bytes()));
            written.map_err(|source| failed(&path, source))?;
        }
        if let Some(path) = LibraryPath::of_file(name) {
            directory.save_in_library(&path, &[], text)?;
        }
    }
    Ok(())
}
