//! `flowgate node-host`: the node host as a service of its own, perhaps with a user of its own. It
//! connects to the engine, runs Node.js with the two connections, and kills it when the engine has
//! closed them; the service manager starts it again.

use super::OWN_PROGRAM;
use crate::stdio::report;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

/// Runs until Node.js has ended.
pub(super) fn run(socket: &Path, directory: &Path, node: &Path, memory: u64) -> ExitCode {
    match serve(socket, directory, node, memory) {
        Ok(()) => report(format_args!("flowgate: the node host has ended")),
        Err(error) => report(format_args!(
            "flowgate: node host: {}: {error}",
            socket.display()
        )),
    }
    ExitCode::FAILURE
}

fn serve(socket: &Path, directory: &Path, node: &Path, memory: u64) -> io::Result<()> {
    // In this order (engine, node_host/listener.rs).
    let frames = UnixStream::connect(socket)?;
    let own = UnixStream::connect(socket)?;
    let watched = frames.try_clone()?;
    let mut command =
        engine::node_host_command(Some(OWN_PROGRAM.as_ref()), node, memory, directory);
    let mut child = command
        .stdin(OwnedFd::from(frames))
        .stdout(OwnedFd::from(own))
        .spawn()?;
    // It holds the descriptors of the child until then.
    drop(command);
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    std::thread::spawn(move || {
        wait_until_closed(&watched);
        kill(group);
    });
    child.wait()?;
    kill(group);
    Ok(())
}

/// Waits until the other side has closed a connection, whatever there is to read.
fn wait_until_closed(socket: &UnixStream) {
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    while let Ok(0) | Err(Errno::INTR) = poll(&mut polled, None) {}
}

/// Kills the host, and what packages have started.
fn kill(group: Option<Pid>) {
    if let Some(group) = group {
        // All of it may have ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
}
