//! Runs npm in the directory of the node host: without the gateway's environment, in a process group of its own, for a
//! limited time.

use super::Error;
use super::name::{PackageName, PackageVersion};
use crate::config::{Installs, NodeHost};
use engine::child_environment::child_environment;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Bytes of npm's output that are kept: the last ones. Our choice: npm names the cause at the end.
const MAX_OUTPUT: usize = 16 << 10;

/// The time for which output is read after npm has ended and its process group was killed: of programs that have left the
/// group.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// What each installation and removal is done with. Scripts of packages never run by themselves, whatever `.npmrc` says.
/// npm's own retries, after 10 s and a minute, would come for an archive with a wrong hash too; a user waits here.
const ALWAYS: [&str; 10] = [
    "--ignore-scripts=true",
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
}

/// Kills what npm has started when dropped.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // All of it may have ended.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
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
            directory: std::path::absolute(&host.directory)
                .unwrap_or_else(|_| host.directory.clone()),
            launcher: host.launcher.clone(),
            path: path_with(&host.node),
            registry: registry.clone(),
            timeout: *timeout,
        }
    }

    /// Installs a package, or another version of it. The flags are Node-RED's (`@node-red/registry/lib/installer.js`).
    pub(super) async fn install(
        &self,
        name: &PackageName,
        version: Option<&PackageVersion>,
    ) -> Result<(), Error> {
        let version = version.map_or("latest", PackageVersion::as_str);
        let package = format!("{}@{version}", name.as_str());
        let flags = ["install", "--save", "--save-prefix=~", "--engine-strict"];
        self.run(&[&flags, &ALWAYS[..], &["--", &package]].concat())
            .await
    }

    /// Removes a package, and those that only it has needed.
    pub(super) async fn remove(&self, name: &PackageName) -> Result<(), Error> {
        let flags = ["uninstall", "--save"];
        self.run(&[&flags, &ALWAYS[..], &["--", name.as_str()]].concat())
            .await
    }

    /// Runs the install scripts of these packages, and of no other.
    pub(super) async fn run_scripts(&self, names: &[&str]) -> Result<(), Error> {
        let flags = [
            "rebuild",
            "--ignore-scripts=false",
            "--foreground-scripts",
            "--global=false",
            "--",
        ];
        self.run(&[&flags[..], names].concat()).await
    }

    async fn run(&self, arguments: &[&str]) -> Result<(), Error> {
        let mut child = self
            .command(arguments)
            .spawn()
            .map_err(|source| Error::Program {
                program: self.program.clone(),
                source,
            })?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok());
        let group = leader.and_then(Pid::from_raw).map(Group);
        let ended = timeout(self.timeout, output(&mut child, group)).await;
        let (succeeded, output) = ended.map_err(|_| Error::Timeout)??;
        let output = String::from_utf8_lossy(&output).into_owned();
        if succeeded {
            tracing::debug!(target: "npm", output, "npm has ended");
            return Ok(());
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
            .args(self.registry.iter().map(|r| format!("--registry={r}")))
            .arg("--prefix")
            .arg(&self.directory)
            .args(arguments)
            .current_dir(&self.directory)
            .env_clear()
            .envs(child_environment())
            .envs(self.path.iter().map(|path| ("PATH", path)))
            .env("HOME", &self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

/// `PATH` with the directory of Node.js first, if that has one: npm is a script that looks for it there.
fn path_with(node: &Path) -> Option<OsString> {
    let directory = node
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(directory.to_owned()).chain(std::env::split_paths(&path));
    std::env::join_paths(all).ok()
}

/// Whether npm has succeeded, and the end of its output. What it has left running is killed.
async fn output(child: &mut Child, group: Option<Group>) -> Result<(bool, Vec<u8>), Error> {
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
    tail.extend(errors);
    let status = status.map_err(Error::Files)?;
    Ok((status.success(), tail.into()))
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

/// The failure that npm's output names: a line `npm error code E…`, before npm 10 `npm ERR! code E…`.
fn failure(output: &str) -> Error {
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
