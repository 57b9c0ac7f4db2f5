//! A process of an exec node, in a process group of its own, so that what it starts ends with it.

use bytes::{Bytes, BytesMut};
use flows::HiddenVariables;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::cell::Cell;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// Bytes kept of each output of a process whose outputs are sent as one
/// (docs/reference/node-red-engine.md §4.2).
const MAX_OUTPUT: usize = 10_000_000;

/// Bytes read at once from a process whose outputs are sent as they come; a pipe of Linux holds as
/// many.
const CHUNK: usize = 64 * 1024;

/// The time-out for processes to end by themselves when their node closes (our choice).
const GRACE: Duration = Duration::from_secs(2);

/// The signals that a message may ask for, and that a process may end with.
const SIGNALS: [(&str, Signal); 19] = [
    ("SIGHUP", Signal::HUP),
    ("SIGINT", Signal::INT),
    ("SIGQUIT", Signal::QUIT),
    ("SIGILL", Signal::ILL),
    ("SIGTRAP", Signal::TRAP),
    ("SIGABRT", Signal::ABORT),
    ("SIGBUS", Signal::BUS),
    ("SIGFPE", Signal::FPE),
    ("SIGKILL", Signal::KILL),
    ("SIGUSR1", Signal::USR1),
    ("SIGSEGV", Signal::SEGV),
    ("SIGUSR2", Signal::USR2),
    ("SIGPIPE", Signal::PIPE),
    ("SIGALRM", Signal::ALARM),
    ("SIGTERM", Signal::TERM),
    ("SIGCONT", Signal::CONT),
    ("SIGSTOP", Signal::STOP),
    ("SIGXCPU", Signal::XCPU),
    ("SIGSYS", Signal::SYS),
];

/// The signal of a name.
pub(super) fn signal(name: &str) -> Option<Signal> {
    let known = SIGNALS.iter().find(|(known, _)| *known == name);
    known.map(|(_, signal)| *signal)
}

/// A process group, killed when the last reference is dropped, unless its leader has ended.
pub(super) struct Group {
    leader: Pid,
    ended: Cell<bool>,
}

impl Group {
    /// Sends a signal to all of them.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.ended.get() {
            // It may have ended just now.
            let _ = kill_process_group(self.leader, signal);
        }
    }

    fn is_gone(&self) -> bool {
        self.ended.get() || test_kill_process_group(self.leader).is_err()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Asks processes to end, and kills those that have not after a while.
pub(super) async fn end(groups: Vec<Rc<Group>>) {
    for group in &groups {
        group.signal(Signal::TERM);
    }
    let gone = async {
        while !groups.iter().all(|g| g.is_gone()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // The remaining processes are killed as `groups` is dropped.
    let _ = tokio::time::timeout(GRACE, gone).await;
}

/// A process that runs.
pub(super) struct Process {
    pub id: u32,
    pub group: Rc<Group>,
    child: Child,
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    /// Kept here, because `Child::wait` would close it.
    _input: Option<ChildStdin>,
}

/// An event of a process.
pub(super) enum Event {
    /// It wrote to standard output.
    Out(Bytes),
    /// It wrote to standard error.
    Err(Bytes),
    /// It ended, and so did its outputs.
    End(End),
}

/// The exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct End {
    /// `None`: by a signal.
    pub code: Option<i32>,
    pub signal: Option<&'static str>,
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        let name = |number: i32| {
            let known = SIGNALS.iter().find(|(_, s)| s.as_raw() == number);
            known.map_or("SIGUNUSED", |(name, _)| *name)
        };
        Self {
            code: status.code(),
            signal: status.signal().map(name),
        }
    }
}

/// All that a process wrote.
pub(super) struct Outputs {
    pub out: Bytes,
    pub err: Bytes,
    pub end: End,
    /// The output that was longer than may be kept; the process was ended for it.
    pub too_long: Option<&'static str>,
}

impl Process {
    /// Starts a program, whose environment is the gateway's without the hidden variables. Its
    /// standard input is a pipe that stays open and empty until the process ends.
    pub(super) fn start(
        program: &str,
        arguments: &[impl AsRef<str>],
        hidden: &HiddenVariables,
    ) -> io::Result<Self> {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| hidden.hides(name)) {
                command.env_remove(name);
            }
        }
        let mut child = command
            .args(arguments.iter().map(AsRef::as_ref))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let id = child.id().unwrap_or_default();
        let leader = i32::try_from(id).ok().and_then(Pid::from_raw);
        let leader = leader.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self {
            id,
            group: Rc::new(Group {
                leader,
                ended: Cell::new(false),
            }),
            out: child.stdout.take(),
            err: child.stderr.take(),
            _input: child.stdin.take(),
            child,
        })
    }

    /// Waits for what it does next.
    pub(super) async fn next(&mut self) -> Event {
        let mut out = BytesMut::with_capacity(CHUNK);
        let mut err = BytesMut::with_capacity(CHUNK);
        while self.out.is_some() || self.err.is_some() {
            tokio::select! {
                read = read(&mut self.out, &mut out) => if read {
                    return Event::Out(out.freeze());
                },
                read = read(&mut self.err, &mut err) => if read {
                    return Event::Err(err.freeze());
                },
            }
        }
        let status = self.child.wait().await;
        self.group.ended.set(true);
        Event::End(status.map_or(
            End {
                code: None,
                signal: None,
            },
            End::from,
        ))
    }

    /// Waits for its end and keeps all that it writes.
    pub(super) async fn collect(mut self) -> Outputs {
        let (mut out, mut err) = (BytesMut::new(), BytesMut::new());
        let mut too_long = None;
        loop {
            let (kept, bytes, name) = match self.next().await {
                Event::Out(bytes) => (&mut out, bytes, "stdout"),
                Event::Err(bytes) => (&mut err, bytes, "stderr"),
                Event::End(end) => {
                    return Outputs {
                        out: out.freeze(),
                        err: err.freeze(),
                        end,
                        too_long,
                    };
                }
            };
            let room = MAX_OUTPUT - kept.len();
            kept.extend_from_slice(bytes.get(..room).unwrap_or(&bytes));
            if bytes.len() > room && too_long.is_none() {
                too_long = Some(name);
                self.group.signal(Signal::TERM);
            }
        }
    }
}

/// Reads what is there; false at the end, and then the pipe is closed. Never ends for a closed one.
async fn read<P: AsyncReadExt + Unpin>(pipe: &mut Option<P>, into: &mut BytesMut) -> bool {
    let Some(open) = pipe else {
        return std::future::pending().await;
    };
    let read = open.read_buf(into).await.is_ok_and(|n| n > 0);
    if !read {
        *pipe = None;
    }
    read
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        Process::start("sh", &["-c", script], &HiddenVariables::default()).unwrap()
    }

    #[tokio::test]
    async fn outputs_and_the_exit_code_are_collected() {
        let outputs = shell("echo out; echo err >&2; exit 3").collect().await;
        assert_eq!(
            (&outputs.out[..], &outputs.err[..]),
            (&b"out\n"[..], &b"err\n"[..])
        );
        assert_eq!(outputs.end.code, Some(3));
    }

    #[tokio::test]
    async fn output_beyond_the_limit_ends_the_process() {
        let outputs = shell("yes").collect().await;
        assert_eq!(outputs.out.len(), MAX_OUTPUT);
        assert_eq!(outputs.too_long, Some("stdout"));
        assert_eq!(outputs.end.signal, Some("SIGTERM"));
    }

    #[tokio::test]
    async fn child_processes_are_killed_with_their_parent() {
        let mut process = shell("trap '' TERM; sleep 100 & echo $!; wait");
        let Event::Out(child) = process.next().await else {
            unreachable!("it writes first");
        };
        let group = Rc::clone(&process.group);
        drop(process);
        end(vec![group]).await;
        // The orphan may have no parent that reaps it: a zombie counts as ended.
        let stat = format!("/proc/{}/stat", String::from_utf8_lossy(&child).trim());
        let lives = || std::fs::read_to_string(&stat).is_ok_and(|s| !s.contains(") Z"));
        for _ in 0..500 {
            if !lives() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!lives(), "{stat}");
    }

    #[test]
    fn signals_are_found_by_name() {
        assert_eq!(signal("SIGINT"), Some(Signal::INT));
        assert_eq!(signal("NOPE"), None);
    }
}
