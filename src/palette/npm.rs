//! Runs npm in the directory of the node host: without the gateway's environment, in a process
//! group of its own, for a limited time. What it has started ends with it, in whichever group that
//! is.

use super::Error;
use super::lock_file::Origin;
use super::name::{PackageName, PackageVersion};
use super::script_shell::{ScriptShell, absolute};
use crate::config::{Installs, NodeHost};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::child_environment::child_environment;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use serde_json::{Map, Value as Json};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Bytes of npm's output that are kept: the last ones. Our choice: npm names the cause at the end,
/// and its settings have some 8 KiB.
const MAX_OUTPUT: usize = 64 << 10;

/// The time for which output is read after npm has ended and its process group was killed: of
/// programs that have left the group.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// The registry whose addresses npm replaces by those of the configured one
/// (`replace-registry-host`).
const PUBLIC_REGISTRY: &str = "https://registry.npmjs.org";

/// In place of `git`, which runs what a repository wants (a `.npmrc` in it, for one): there is no
/// such program.
const NO_GIT: &str = "flowgate-installs-nothing-with-git";

/// What each installation and removal is done with. Scripts of packages never run by themselves,
/// whatever `.npmrc` says. npm's own retries, after 10 s and a minute, would come for an archive
/// with a wrong hash too; a user waits here.
const ALWAYS: [&str; 11] = [
    "--ignore-scripts=true",
    "--package-lock=true",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--no-progress",
    "--global=false",
    "--omit=dev",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=5000",
];

/// npm.
#[derive(Debug)]
pub(super) struct Npm {
    program: PathBuf,
    directory: PathBuf,
    launcher: Option<PathBuf>,
    /// `PATH`, which has Node.js.
    path: Option<OsString>,
    registry: Option<String>,
    timeout: Duration,
    shell: ScriptShell,
}

/// The variable that marks the processes of one run of npm, also those that have left its group.
const MARK: &str = "FLOWGATE_INSTALLATION";

/// The number of searches for marked processes: each may have started another one meanwhile.
const SEARCHES: usize = 10;

/// Kills what npm has started when dropped.
struct Group {
    leader: Pid,
    /// The value of [`MARK`].
    mark: String,
}

impl Drop for Group {
    fn drop(&mut self) {
        // All of it may have ended.
        let _ = kill_process_group(self.leader, Signal::KILL);
        let variable = format!("{MARK}={}\0", self.mark);
        for _ in 0..SEARCHES {
            let found = marked(variable.as_bytes());
            if found.is_empty() {
                return;
            }
            for process in found {
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
        }
        tracing::warn!(target: "npm", "processes that an installation has started go on");
    }
}

/// The processes with a variable in their environment. Those of other users, such as a service's,
/// cannot be seen.
fn marked(variable: &[u8]) -> Vec<OwnedFd> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let marked = processes.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        // Opened before its environment is read: no other process gets the number meanwhile.
        let process = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let mut parts = environment.windows(variable.len());
        parts.any(|part| part == variable).then_some(process)
    });
    marked.collect()
}

impl Npm {
    pub(super) fn new(host: &NodeHost) -> Self {
        let Installs {
            npm,
            registry,
            timeout,
            ..
        } = &host.installs;
        Self {
            program: npm.clone(),
            directory: absolute(&host.directory),
            launcher: host.launcher.clone(),
            path: path_with(&host.node),
            registry: registry.clone(),
            timeout: *timeout,
            shell: ScriptShell::new(host),
        }
    }

    /// Decides what belongs to a package, or to another version of it, and writes it to
    /// `package-lock.json`. The flags are Node-RED's (`@node-red/registry/lib/installer.js`).
    pub(super) async fn resolve(
        &self,
        name: &PackageName,
        version: Option<&PackageVersion>,
    ) -> Result<(), Error> {
        let version = version.map_or("latest", PackageVersion::as_str);
        let package = format!("{}@{version}", name.as_str());
        let flags = [
            "install",
            "--package-lock-only",
            "--save",
            "--save-prefix=~",
            "--engine-strict",
        ];
        self.run(&[&flags, &ALWAYS[..], &["--", &package]].concat())
            .await?;
        Ok(())
    }

    /// Installs what `package-lock.json` has.
    pub(super) async fn install(&self) -> Result<(), Error> {
        self.run(&[&["install", "--engine-strict"], &ALWAYS[..]].concat())
            .await?;
        Ok(())
    }

    /// The registries, those of scopes too, as npm reads them from the command line and all of its
    /// files.
    pub(super) async fn registries(&self) -> Result<Vec<Origin>, Error> {
        let listed = self
            .run(&["config", "list", "--json", "--global=false"])
            .await?;
        let settings: Map<String, Json> = serde_json::from_slice(&listed)
            .map_err(|_| Error::Npm("its settings cannot be read".to_owned()))?;
        let registries = settings
            .iter()
            .filter(|(name, _)| name.as_str() == "registry" || name.ends_with(":registry"));
        let addresses = registries.filter_map(|(_, address)| address.as_str());
        Ok(addresses
            .chain([PUBLIC_REGISTRY])
            .filter_map(Origin::of)
            .collect())
    }

    /// Removes a package, and those that only it has needed.
    pub(super) async fn remove(&self, name: &PackageName) -> Result<(), Error> {
        let flags = ["uninstall", "--save"];
        self.run(&[&flags, &ALWAYS[..], &["--", name.as_str()]].concat())
            .await?;
        Ok(())
    }

    /// Runs the install scripts of the packages at these paths, and of no other.
    pub(super) async fn run_scripts(&self, paths: &[&str]) -> Result<(), Error> {
        for path in paths {
            self.shell
                .make(&self.directory, path)
                .map_err(Error::Files)?;
            let done = self.run_scripts_of(path).await;
            self.shell.remove().map_err(Error::Files)?;
            done?;
        }
        Ok(())
    }

    async fn run_scripts_of(&self, path: &str) -> Result<(), Error> {
        // npm takes a name for that of a directory, which may have another package; a path is one
        // place.
        let place = self.directory.join(path).display().to_string();
        let shell = self.shell.program();
        let arguments = [
            "rebuild",
            "--ignore-scripts=false",
            "--foreground-scripts",
            "--global=false",
            &format!("--script-shell={}", shell.display()),
            "--",
            &place,
        ];
        let mut command = self.command(&arguments);
        let path = self.path.clone().or_else(|| std::env::var_os("PATH"));
        let path = path.unwrap_or_default();
        let all = std::env::split_paths(&path).chain([self.shell.programs()]);
        let all =
            std::env::join_paths(all).map_err(|error| Error::Files(io::Error::other(error)))?;
        // For npm that npm runs, too.
        command
            .env("PATH", all)
            .env("npm_config_script_shell", shell);
        self.run_command(command).await?;
        Ok(())
    }

    /// Runs npm, and gives the end of its output back.
    async fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, Error> {
        self.run_command(self.command(arguments)).await
    }

    async fn run_command(&self, mut command: Command) -> Result<Vec<u8>, Error> {
        let mark = URL_SAFE_NO_PAD.encode(crypto::random::<16>());
        let child = command.env(MARK, &mark).spawn();
        let mut child = child.map_err(|source| Error::Program {
            program: self.program.clone(),
            source,
        })?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = leader.and_then(Pid::from_raw);
        let group = leader.map(|leader| Group { leader, mark });
        let ended = timeout(self.timeout, output(&mut child, group)).await;
        let ended = ended.map_err(|_| Error::Timeout)??;
        let output = [&ended.output[..], &ended.errors].concat();
        let output = String::from_utf8_lossy(&output).into_owned();
        if ended.succeeded {
            tracing::debug!(target: "npm", output, "npm has ended");
            return Ok(ended.output);
        }
        tracing::warn!(target: "npm", output, "npm has failed");
        Err(failure(&output))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.launcher {
            Some(launcher) => {
                let mut command = Command::new(launcher);
                let gateway = std::process::id().to_string();
                command.arg("with-parent").arg(gateway).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command
            .arg(format!("--git={NO_GIT}"))
            .args(self.registry.iter().map(|r| format!("--registry={r}")))
            .arg("--prefix")
            .arg(&self.directory)
            .args(arguments)
            .current_dir(&self.directory)
            .env_clear()
            .envs(child_environment())
            .envs(self.path.iter().map(|path| ("PATH", path)))
            .env("HOME", &self.directory)
            // For npm that npm runs, too.
            .env("npm_config_git", NO_GIT)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

/// `PATH` with the directory of Node.js first, if that has one: npm is a script that looks for it
/// there.
fn path_with(node: &Path) -> Option<OsString> {
    let directory = node
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(directory.to_owned()).chain(std::env::split_paths(&path));
    std::env::join_paths(all).ok()
}

/// The end of npm, and the ends of its output.
struct Ended {
    succeeded: bool,
    output: Vec<u8>,
    errors: Vec<u8>,
}

/// Waits for npm. What it has left running is killed.
async fn output(child: &mut Child, group: Option<Group>) -> Result<Ended, Error> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut tail = VecDeque::new();
    let mut errors = VecDeque::new();
    let status = {
        let mut reading = std::pin::pin!(async {
            tokio::join!(read(stdout, &mut tail), read(stderr, &mut errors));
        });
        let (status, is_read) = tokio::select! {
            status = child.wait() => (status, false),
            () = &mut reading => (child.wait().await, true),
        };
        drop(group);
        if !is_read {
            // Programs that have left the group may keep the pipes open.
            let _ = timeout(OUTPUT_TIMEOUT, reading).await;
        }
        status
    };
    let status = status.map_err(Error::Files)?;
    Ok(Ended {
        succeeded: status.success(),
        output: tail.into(),
        errors: errors.into(),
    })
}

/// Reads to the end, and keeps the last bytes.
async fn read(from: Option<impl AsyncRead + Unpin>, tail: &mut VecDeque<u8>) {
    let Some(mut from) = from else { return };
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        tail.extend(buffer.iter().take(count));
        tail.drain(..tail.len().saturating_sub(MAX_OUTPUT));
    }
}

/// The failure that npm's output names: a line `npm error code E…`, before npm 10
/// `npm ERR! code E…`.
fn failure(output: &str) -> Error {
    if output.contains(NO_GIT) {
        return Error::Foreign {
            package: "a package".to_owned(),
            from: "a git repository".to_owned(),
        };
    }
    let code = output.lines().find_map(|line| {
        let rest = line
            .strip_prefix("npm error code ")
            .or_else(|| line.strip_prefix("npm ERR! code "))?;
        let code = rest.trim();
        let plain = code.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        (plain && !code.is_empty() && code.len() <= 40).then_some(code)
    });
    match code {
        Some("E404" | "ETARGET") => Error::Unpublished,
        code => Error::Npm(code.unwrap_or("no code").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_failure_is_found_in_the_output_of_old_and_new_releases() {
        for output in [
            "x\nnpm error code E404\nnpm error 404",
            "npm ERR! code ETARGET\n",
        ] {
            assert!(matches!(failure(output), Error::Unpublished), "{output}");
        }
        for (output, code) in [
            ("npm error code EINTEGRITY\n", "EINTEGRITY"),
            ("npm error code 1\n", "1"),
            ("npm error code <script>\n", "no code"),
            ("Killed\n", "no code"),
        ] {
            assert!(
                matches!(failure(output), Error::Npm(c) if c == code),
                "{output}"
            );
        }
    }
}
