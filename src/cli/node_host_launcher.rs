//! `flowgate with-parent`: the way in which the processes of the node host and of an isolated
//! engine are started. The system kills them when the process that has started them ends, also if
//! it hangs then.

use crate::stdio::report;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Becomes a program that is killed when the gateway, the parent with this process id, ends.
/// Returns only if that fails.
pub(super) fn become_program(gateway: u32, program: &[OsString]) -> ExitCode {
    let Some((name, arguments)) = program.split_first() else {
        return ExitCode::FAILURE;
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        report(format_args!(
            "flowgate: the process would outlive the gateway: {error}"
        ));
        return ExitCode::FAILURE;
    }
    // The gateway may have ended before that.
    let gateway = i32::try_from(gateway).ok().and_then(Pid::from_raw);
    if getppid() != gateway {
        return ExitCode::FAILURE;
    }
    let error = Command::new(name).args(arguments).exec();
    report(format_args!("flowgate: {}: {error}", name.display()));
    ExitCode::FAILURE
}
