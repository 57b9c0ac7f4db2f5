//! Changes of the palette while flowgate runs: npm packages are installed, updated and removed, and
//! their node sets enabled and disabled. One change at a time; one that fails leaves the packages
//! and the node host as they were.
//!
//! - `name` reads what clients send, `npm` runs npm, `script_shell` is what install scripts run in,
//!   `backup` keeps what it
//!   changes, `lock_file` reads what it has done.
//! - `disabled` keeps the node sets that are disabled.

mod backup;
mod disabled;
mod error;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod lock_file;
mod name;
mod npm;
mod script_shell;

pub use error::Error;
pub use name::{PackageName, PackageVersion};

use crate::config::{Installs, NodeHost};
use crate::editor::{InstalledPackages, Packages};
use backup::Backup;
use disabled::DisabledSets;
use engine::Engine;
use lock_file::{ForeignPackage, LockFile};
use npm::Npm;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Starts of the node host that a change waits for: a package that ends it is left out after three
/// (docs/node-host.md).
const STARTS: u32 = 4;

/// Node-RED's runtime, without which nothing runs.
const RUNTIME: &str = "node_modules/@node-red/runtime";

/// The palette of a node host.
#[derive(Debug)]
pub struct Palette {
    installs: Installs,
    npm: Npm,
    directory: PathBuf,
    installed: Arc<InstalledPackages>,
    disabled: DisabledSets,
    start_timeout: Duration,
    one_at_a_time: Mutex<()>,
}

/// What an installation has changed.
#[derive(Debug)]
pub struct Installation {
    /// The installed version.
    pub version: String,
    /// The hash of its archive.
    pub integrity: Option<String>,
    /// The version that was there before.
    pub before: Option<String>,
}

impl Palette {
    /// Opens the palette, and undoes a change that was interrupted. May wait for the disk.
    pub fn open(host: &NodeHost, installed: Arc<InstalledPackages>) -> io::Result<Self> {
        if host.installs.are_allowed() {
            backup::recover(&host.directory)?;
            installed.refresh();
        }
        Ok(Self {
            installs: host.installs.clone(),
            npm: Npm::new(host),
            directory: host.directory.clone(),
            installed,
            disabled: DisabledSets::open(&host.state)?,
            start_timeout: host.start_timeout,
            one_at_a_time: Mutex::new(()),
        })
    }

    /// The packages.
    pub fn installed(&self) -> &Arc<InstalledPackages> {
        &self.installed
    }

    /// The disabled node sets, as `package/set`.
    pub fn disabled(&self) -> BTreeSet<String> {
        self.disabled.all()
    }

    /// Installs a package, or another version of it, and restarts the node host.
    pub async fn install(
        &self,
        engine: &Engine,
        name: &PackageName,
        version: Option<&PackageVersion>,
    ) -> Result<Installation, Error> {
        self.permitted()?;
        if !name.is_allowed(&self.installs) {
            return Err(Error::NotAllowed);
        }
        let _turn = self.turn().await?;
        let before = self.installed.now().version(name.as_str());
        if before
            .as_deref()
            .is_some_and(|b| version.is_none_or(|v| v.as_str() == b))
        {
            return Err(Error::AlreadyInstalled);
        }
        let backup = self.backup().await?;
        let old = LockFile::read(&backup.lock_file());
        let done = self.npm_install(name, version, &old).await;
        let done = self.loaded(engine, name, done).await;
        let new = LockFile::read(&self.directory.join("package-lock.json"));
        self.finished(engine, backup, done).await?;
        let locked = new.package(name.as_str()).cloned().unwrap_or_default();
        let version = self.installed.now().version(name.as_str());
        Ok(Installation {
            version: version.unwrap_or(locked.version),
            integrity: locked.integrity,
            before,
        })
    }

    /// Removes a package of which no type is used, and restarts the node host. Returns its version.
    pub async fn remove(
        &self,
        engine: &Engine,
        name: &PackageName,
        is_used: impl Fn(&str) -> bool,
    ) -> Result<String, Error> {
        self.permitted()?;
        let _turn = self.turn().await?;
        let installed = self.installed.now();
        let version = installed
            .version(name.as_str())
            .ok_or(Error::NotInstalled)?;
        unused(
            types(engine, &installed, |package, _| package == name.as_str()),
            is_used,
        )?;
        let backup = self.backup().await?;
        let done = self.npm_remove(name).await;
        let done = match done {
            Ok(()) => self.reload(engine).await.map_err(|error| (error, true)),
            Err(error) => Err((error, false)),
        };
        self.finished(engine, backup, done).await?;
        Ok(version)
    }

    /// Enables or disables node sets of packages, none of which is used, and restarts the node host
    /// if that changes anything.
    pub async fn switch(
        &self,
        engine: &Engine,
        sets: &[String],
        is_enabled: bool,
        is_used: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        let _turn = self.turn().await?;
        let mut disabled = self.disabled.all();
        let before = disabled.clone();
        if is_enabled {
            disabled.retain(|set| !sets.contains(set));
        } else {
            let meant = |_: &str, id: &str| sets.iter().any(|set| set == id);
            unused(types(engine, &self.installed.now(), meant), is_used)?;
            disabled.extend(sets.iter().cloned());
        }
        if disabled == before {
            return Ok(());
        }
        self.disabled.replace(disabled).map_err(Error::Files)?;
        self.reload(engine).await
    }

    /// An error: no packages are installed or removed here.
    pub fn permitted(&self) -> Result<(), Error> {
        if self.installs.are_allowed() {
            Ok(())
        } else {
            Err(Error::Off)
        }
    }

    /// Waits for the change under way, as long as one may take.
    async fn turn(&self) -> Result<MutexGuard<'_, ()>, Error> {
        let turn = timeout(self.installs.timeout, self.one_at_a_time.lock());
        turn.await.map_err(|_| Error::Busy)
    }

    async fn backup(&self) -> Result<Backup, Error> {
        let directory = self.directory.clone();
        blocking(move || Backup::take(&directory)).await
    }

    async fn npm_install(
        &self,
        name: &PackageName,
        version: Option<&PackageVersion>,
        before: &LockFile,
    ) -> Result<(), Error> {
        let has_runtime = self.has_runtime();
        // npm writes there what it has only resolved, and would then take it for installed.
        let hidden = self.directory.join("node_modules/.package-lock.json");
        let there = LockFile::read(&hidden);
        self.npm.resolve(name, version).await?;
        let wanted = LockFile::read(&self.directory.join("package-lock.json"));
        let registries = self.npm.registries().await?;
        if let Some(ForeignPackage { path, from }) =
            wanted.foreign_package([before, &there], &registries)
        {
            let package = path;
            return Err(Error::Foreign { package, from });
        }
        blocking(move || backup::unless_gone(fs::remove_file(hidden))).await?;
        self.npm.install().await?;
        if has_runtime && !self.has_runtime() {
            return Err(Error::Runtime);
        }
        self.refresh().await?;
        if self.installed.now().version(name.as_str()).is_none() {
            return Err(Error::NoNodes);
        }
        // Of the file that was checked: the packages of the host may have changed it meanwhile.
        let with_scripts = wanted.changed(&self.installs.scripts, before);
        if !with_scripts.is_empty() {
            self.npm.run_scripts(&with_scripts).await?;
        }
        Ok(())
    }

    async fn npm_remove(&self, name: &PackageName) -> Result<(), Error> {
        let has_runtime = self.has_runtime();
        self.npm.remove(name).await?;
        if has_runtime && !self.has_runtime() {
            return Err(Error::Runtime);
        }
        if self
            .directory
            .join("node_modules")
            .join(name.as_str())
            .exists()
        {
            return Err(Error::Needed);
        }
        Ok(())
    }

    /// npm keeps only what `package.json` lists.
    fn has_runtime(&self) -> bool {
        self.directory.join(RUNTIME).exists()
    }

    /// Restarts the node host with a package that npm has installed. An error says whether the host
    /// has restarted.
    async fn loaded(
        &self,
        engine: &Engine,
        name: &PackageName,
        installed: Result<(), Error>,
    ) -> Result<(), (Error, bool)> {
        installed.map_err(|error| (error, false))?;
        self.reload(engine).await.map_err(|error| (error, true))?;
        if engine.packages_left_out().contains(name.as_str()) {
            return Err((Error::EndsHost, true));
        }
        Ok(())
    }

    /// Looks which packages are there now.
    async fn refresh(&self) -> Result<(), Error> {
        let installed = Arc::clone(&self.installed);
        blocking(move || {
            installed.refresh();
            Ok(())
        })
        .await
    }

    /// Restarts the node host, and waits until it has loaded its packages.
    async fn reload(&self, engine: &Engine) -> Result<(), Error> {
        self.refresh().await?;
        let disabled = self.disabled.all().into_iter().collect();
        let reloaded = engine.reload_packages(disabled);
        match timeout(self.start_timeout * STARTS, reloaded).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Error::NotStarted),
        }
    }

    /// Keeps a change, or puts everything back as it was.
    async fn finished(
        &self,
        engine: &Engine,
        backup: Backup,
        done: Result<(), (Error, bool)>,
    ) -> Result<(), Error> {
        let Err((error, has_reloaded)) = done else {
            return blocking(move || backup.discard()).await;
        };
        blocking(move || backup.restore()).await?;
        self.refresh().await?;
        if has_reloaded {
            // The first error is the one that counts; the log has this one too.
            let _ = self.reload(engine).await;
        }
        Err(error)
    }
}

/// The types of the sets that are meant, each by its package and as `package/set`.
fn types(
    engine: &Engine,
    installed: &Packages,
    is_meant: impl Fn(&str, &str) -> bool,
) -> Vec<String> {
    let packaged = engine.packaged_subflows();
    let mut types = Vec::new();
    for (package, _, set) in installed.sets() {
        let id = format!("{package}/{}", set.name);
        if is_meant(package, &id) {
            types.extend(set.types.iter().cloned());
            let made = packaged.get(&id).into_iter();
            types.extend(made.flat_map(|made| made.types.iter().map(ToString::to_string)));
        }
    }
    types
}

/// Refuses a change of types that are used.
fn unused(types: Vec<String>, is_used: impl Fn(&str) -> bool) -> Result<(), Error> {
    let used: Vec<String> = types.into_iter().filter(|kind| is_used(kind)).collect();
    if used.is_empty() {
        Ok(())
    } else {
        Err(Error::InUse(used.join(", ")))
    }
}

/// Runs what waits for files where nothing else has to wait.
async fn blocking<T: Send + 'static>(
    task: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let done = spawn_blocking(task).await;
    done.map_err(io::Error::other)
        .flatten()
        .map_err(Error::Files)
}
