//! The process of the node host: started with a short environment in a process group of its own,
//! and again, after a while, whenever it ends.

use super::NodeHost;
use super::connection::{self, Pulse};
use super::culprits::MAX_ENDS;
use super::frame;
use super::listener::{Listener, check_length};
use super::program::{command, sources};
use super::reload::End;
use crate::log_lines;
use crate::restart_delay::RestartDelay;
use crate::settings::{self, ADMIN_SOCKET, ENDPOINTS_SOCKET};
use rustix::process::{Pid, Signal, kill_process_group};
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

/// How long the first process waits for native flows to start, at most. Our choice: there may be no
/// flows.
const FIRST_FLOWS: Duration = Duration::from_secs(1);

/// Pings that a process must have lived for, so that its end counts as the first one again: a
/// minute.
const SETTLED: u32 = 12;

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
    let mut delay = RestartDelay::default();
    let mut listener = None;
    let _ = tokio::time::timeout(FIRST_FLOWS, host.may_start.notified()).await;
    loop {
        let pulse = Pulse::default();
        let ended = run(&host, &pulse, &mut listener).await;
        let reason = host.reason.take().unwrap_or(ended);
        if host.ended() == End::Reload {
            host.culprits.borrow_mut().loading(None);
            tracing::info!(target: "node_host", "the node host starts again: its packages have changed");
            delay.reset();
            continue;
        }
        let settled = pulse.pings.get() >= SETTLED;
        if settled {
            delay.reset();
        }
        if let Some(package) = host.leave_out(settled) {
            tracing::error!(target: "node_host", package = %package, reason, "a package has ended the node host {MAX_ENDS} times in a row: it is left out until a full deployment");
            delay.reset();
        }
        let delay = delay.advance();
        tracing::error!(target: "node_host", reason, "the node host has ended; it starts again in {delay:?}");
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = host.end.notified() => {}
        }
        host.metrics.restarts.increment(1);
    }
}

/// Runs one process; the result says why it ended.
async fn run(host: &Rc<NodeHost>, pulse: &Pulse, listener: &mut Option<Listener>) -> String {
    let started = match &host.settings.socket {
        None => spawn(&host.settings),
        Some(socket) => accept(host, socket, listener).await,
    };
    let Started {
        mut child,
        _group,
        outgoing,
        mut incoming,
    } = match started {
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
    let output = child.as_mut().and_then(|child| child.stderr.take());
    let log = async {
        if let Some(output) = output {
            log_lines::read(output, |line| tracing::info!(target: "node_host", "{line}")).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        reason = connection::read(host, incoming, pulse) => match tokio::time::timeout(Duration::from_secs(1), end_of(&mut child)).await {
            Ok(status) if child.is_some() => format!("{reason}: {status}"),
            _ => reason,
        },
        error = connection::write(host, outgoing, to_write) => format!("its channel failed: {error}"),
        reason = connection::watch(host, pulse) => reason,
        status = end_of(&mut child) => status,
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

/// A process that runs.
struct Started {
    /// `None`: it is a service of its own.
    child: Option<Child>,
    _group: Option<Group>,
    outgoing: UnixStream,
    incoming: UnixStream,
}

/// Waits until a child has ended; without one for ever.
async fn end_of(child: &mut Option<Child>) -> String {
    match child {
        Some(child) => match child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        },
        None => std::future::pending().await,
    }
}

fn spawn(settings: &settings::NodeHost) -> io::Result<Started> {
    sockets_directory(&settings.sockets)?;
    let (outgoing, input) = StdUnixStream::pair()?;
    let (incoming, output) = StdUnixStream::pair()?;
    let ours = |socket: StdUnixStream| {
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket)
    };
    let launcher = settings.launcher.as_deref();
    let command = command(
        launcher,
        &settings.node,
        settings.memory,
        &settings.directory,
    );
    let child = Command::from(command)
        .stdin(OwnedFd::from(input))
        .stdout(OwnedFd::from(output))
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok());
    let leader = leader
        .and_then(Pid::from_raw)
        .ok_or(io::ErrorKind::NotFound)?;
    Ok(Started {
        child: Some(child),
        _group: Some(Group(leader)),
        outgoing: ours(outgoing)?,
        incoming: ours(incoming)?,
    })
}

/// Waits for the service, `start_timeout` long: after that messages to foreign nodes no longer wait
/// for it.
async fn accept(
    host: &NodeHost,
    socket: &settings::HostSocket,
    listener: &mut Option<Listener>,
) -> io::Result<Started> {
    remove_sockets(&host.settings.sockets)?;
    let listener = match listener {
        Some(listener) => listener,
        None => listener.insert(Listener::bind(socket)?),
    };
    let late = || io::Error::other("no node host has connected within start_timeout");
    let accepted = tokio::time::timeout(host.start_timeout(), listener.accept());
    let (outgoing, incoming) = tokio::select! {
        accepted = accepted => accepted.map_err(|_| late())??,
        () = host.end.notified() => return Err(io::Error::other("it was ended")),
    };
    Ok(Started {
        child: None,
        _group: None,
        outgoing,
        incoming,
    })
}

/// Makes the directory of the sockets, and removes those of the process before. The host, which
/// runs as our user, makes its own; no other account gets past the directory.
fn sockets_directory(directory: &Path) -> io::Result<()> {
    check_length(directory)?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    remove_sockets(directory)
}

fn remove_sockets(directory: &Path) -> io::Result<()> {
    for name in [ENDPOINTS_SOCKET, ADMIN_SOCKET] {
        match fs::remove_file(directory.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
