//! The process of the node host: started with a short environment in a process group of its own, and again, after a
//! while, whenever it ends.

use super::NodeHost;
use super::connection::{self, Pulse};
use super::culprits::MAX_ENDS;
use super::reload::End;
use super::{frame, log_lines};
use crate::child_environment::child_environment;
use crate::settings::{self, ADMIN_SOCKET, ENDPOINTS_SOCKET};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

/// The delay before a process that ended is started again; doubled each time up to the longest. Our choice.
const FIRST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// Pings that a process must have lived for, so that its end counts as the first one again: a minute.
const SETTLED: u32 = 12;

/// Moves the sockets, which are standard input and output of this shell, to the descriptors 3 and 4; what packages write
/// to standard output then goes to standard error. Node.js takes the shell's place.
const LAUNCH: &str = r#"exec "$0" "$@" 3<&0 4<&1 </dev/null >&2"#;

const SHELL: &str = "/bin/sh";

const BOOTSTRAP: &str = include_str!("host/bootstrap.js");

/// The program of the host, which it reads from its channel.
const SOURCES: [(&str, &str); 13] = [
    ("channel.js", include_str!("host/channel.js")),
    ("context.js", include_str!("host/context.js")),
    ("core_nodes.js", include_str!("host/core_nodes.js")),
    ("culprit.js", include_str!("host/culprit.js")),
    ("deployment.js", include_str!("host/deployment.js")),
    ("http.js", include_str!("host/http.js")),
    ("main.js", include_str!("host/main.js")),
    ("packaged.js", include_str!("host/packaged.js")),
    ("reports.js", include_str!("host/reports.js")),
    ("routing.js", include_str!("host/routing.js")),
    ("runtime.js", include_str!("host/runtime.js")),
    ("storage.js", include_str!("host/storage.js")),
    ("values.js", include_str!("host/values.js")),
];

/// Bytes of the path of a Unix socket (`sun_path` of unix(7), without its end).
const MAX_SOCKET_PATH: usize = 107;

/// Kills the processes of the group when dropped: the host, and what its packages have started.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // All of them may have ended.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

/// Runs the process again and again, until the engine ends.
pub(crate) async fn supervise(host: Rc<NodeHost>) {
    let mut delay = FIRST_DELAY;
    loop {
        let pulse = Pulse::default();
        let ended = run(&host, &pulse).await;
        let reason = host.reason.take().unwrap_or(ended);
        if host.ended() == End::Reload {
            host.culprits.borrow_mut().loading(None);
            tracing::info!(target: "node_host", "the node host starts again: its packages have changed");
            delay = FIRST_DELAY;
            continue;
        }
        let settled = pulse.pings.get() >= SETTLED;
        if settled {
            delay = FIRST_DELAY;
        }
        if let Some(package) = host.leave_out(settled) {
            tracing::error!(target: "node_host", package = %package, reason, "a package has ended the node host {MAX_ENDS} times in a row: it is left out until a full deployment");
            delay = FIRST_DELAY;
        }
        tracing::error!(target: "node_host", reason, "the node host has ended; it starts again in {delay:?}");
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = host.end.notified() => {}
        }
        delay = (delay * 2).min(LONGEST_DELAY);
        host.metrics.restarts.increment(1);
    }
}

/// Runs one process; the result says why it ended.
async fn run(host: &Rc<NodeHost>, pulse: &Pulse) -> String {
    let started = start(host);
    let (mut child, _group, outgoing, mut incoming) = match started {
        Ok(started) => started,
        Err(error) => return format!("it cannot be started: {error}"),
    };
    if let Err(error) = incoming.write_all(&sources()).await {
        return format!("it did not read its program: {error}");
    }
    let (frames, to_write) = mpsc::unbounded_channel();
    host.begin(frames);
    if let Ok(first) = frame::encode(&host.start(), &[]) {
        host.send(first);
    }
    let output = child.stderr.take();
    let log = async {
        if let Some(output) = output {
            log_lines::log(output).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        reason = connection::read(host, incoming, pulse) => match tokio::time::timeout(Duration::from_secs(1), child.wait()).await {
            Ok(Ok(status)) => format!("{reason}: {status}"),
            _ => reason,
        },
        error = connection::write(outgoing, to_write) => format!("its channel failed: {error}"),
        reason = connection::watch(host, pulse) => reason,
        status = child.wait() => status.map_or_else(|error| error.to_string(), |status| status.to_string()),
        () = host.end.notified() => "it was ended".to_owned(),
        () = late(host) => "it was not ready within start_timeout".to_owned(),
        () = log => "its output ended".to_owned(),
    }
}

/// Ends when the process has not become ready in time.
async fn late(host: &NodeHost) {
    let before = host.deployments.get();
    tokio::time::sleep(host.start_timeout()).await;
    if host.deployments.get() != before || host.state.get() != super::State::Starting {
        std::future::pending::<()>().await;
    }
}

type Started = (Child, Group, UnixStream, UnixStream);

fn start(host: &NodeHost) -> io::Result<Started> {
    let settings = &host.settings;
    sockets_directory(&settings.sockets)?;
    let (outgoing, input) = StdUnixStream::pair()?;
    let (incoming, output) = StdUnixStream::pair()?;
    let ours = |socket: StdUnixStream| {
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket)
    };
    let child = command(settings)
        .args(["-c", LAUNCH])
        .arg(&settings.node)
        .arg(format!("--max-old-space-size={}", settings.memory >> 20))
        .args(["--input-type=commonjs", "--eval", BOOTSTRAP])
        .current_dir(&settings.directory)
        .env_clear()
        .envs(child_environment())
        .env("HOME", &settings.directory)
        .stdin(OwnedFd::from(input))
        .stdout(OwnedFd::from(output))
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok());
    let leader = leader
        .and_then(Pid::from_raw)
        .ok_or(io::ErrorKind::NotFound)?;
    Ok((child, Group(leader), ours(outgoing)?, ours(incoming)?))
}

/// The shell, started by the launcher if there is one.
fn command(settings: &settings::NodeHost) -> Command {
    let Some(launcher) = &settings.launcher else {
        return Command::new(SHELL);
    };
    let mut command = Command::new(launcher);
    command
        .arg("node-host")
        .arg(std::process::id().to_string())
        .arg(SHELL);
    command
}

/// Makes the directory of the sockets, and removes those of the process before. The host, which runs as our user, makes
/// its own; no other account gets past the directory.
fn sockets_directory(directory: &Path) -> io::Result<()> {
    let longest = std::path::absolute(directory)?.join(ENDPOINTS_SOCKET);
    if longest.as_os_str().len() > MAX_SOCKET_PATH {
        let text = format!(
            "the path {} is longer than the {MAX_SOCKET_PATH} bytes that a Unix socket's may have; use a data directory with a shorter one",
            longest.display()
        );
        return Err(io::Error::other(text));
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    for name in [ENDPOINTS_SOCKET, ADMIN_SOCKET] {
        match fs::remove_file(directory.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// The program as the bootstrap reads it: its length, and a JSON object of its files.
fn sources() -> Vec<u8> {
    let files: serde_json::Map<_, _> = SOURCES
        .iter()
        .map(|(name, text)| ((*name).to_owned(), json!(text)))
        .collect();
    let text = serde_json::Value::Object(files).to_string();
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes()[..], text.as_bytes()].concat()
}
