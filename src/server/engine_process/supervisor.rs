//! Starts the engine's process with a new listening socket and its part of the configuration, waits
//! until it ends, and starts it again after a while. While there is none, no process listens on the
//! socket, so that requests are refused at once.

use super::link::{Member, talk};
use super::log::Line;
use super::prepare::bind;
use crate::config::{Config, EngineProcess};
use crate::gateway::Gateway;
use crate::server::Error;
use crypto::Secret;
use engine::log_lines;
use engine::restart_delay::RestartDelay;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream as StdUnixStream};
use std::process::{Command as StdCommand, ExitStatus, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// This program, also when its file has been replaced (proc(5)).
const OWN_PROGRAM: &str = "/proc/self/exe";

/// How long a process must have run, so that its end counts as the first one again. Our choice, as
/// for the node host.
const SETTLED: Duration = Duration::from_mins(1);

/// How long the last lines of a process that has ended may take. Our choice.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How messages of the program begin that are no records of the log.
const MESSAGE: &str = "flowgate: ";

/// Lets the allocator map memory when it is needed: it would reserve a GiB at once, which counts as
/// data.
const LAZY_ALLOCATOR: (&str, &str) = ("MIMALLOC_ARENA_EAGER_COMMIT", "0");

/// The variable with the number of the lease: flows that give it to others let these refuse a
/// process that comes too late.
const FENCE: &str = "FLOWGATE_FENCE";

/// The variable with the name of the shard that the process runs.
const SHARD: &str = "FLOWGATE_SHARD";

/// Variables by which a service manager knows the gateway: the process is none of its services.
const SERVICE_VARIABLES: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
];

/// The process under supervision; dropping it kills the process.
pub(in crate::server) struct Supervised {
    end: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Supervised {
    /// What the task supervises, which ends the process when it is asked to.
    pub(in crate::server) fn new(end: watch::Sender<bool>, task: JoinHandle<()>) -> Self {
        Self { end, task }
    }

    /// Ends the process as SIGTERM does; kills it if it takes longer than this.
    pub(in crate::server) async fn end(mut self, limit: Duration) {
        self.end.send_replace(true);
        if timeout(limit, &mut self.task).await.is_err() {
            tracing::warn!("the engine's process did not end in time: it is killed");
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What each process of a gateway is started with.
pub(in crate::server) struct Plan {
    process: EngineProcess,
    handover: Secret,
    /// Variables that it does not get.
    hidden: Vec<String>,
    /// The shard that it runs; empty: the main one, or all flows.
    shard: String,
    /// What it has as that of a member of a cluster.
    pub(in crate::server) member: Option<Member>,
}

impl Plan {
    /// That of a gateway, or of a shard of a cluster; `None`: the engine has no process.
    pub(in crate::server) fn of(
        config: &Config,
        shard: Option<&str>,
    ) -> Result<Option<Self>, Error> {
        let process = match shard {
            None => config.engine.process.as_ref(),
            Some(shard) => {
                let cluster = config.cluster.as_ref();
                cluster.and_then(|cluster| cluster.shards.get(shard))
            }
        };
        let (Some(process), Some(handover)) = (process, config.handover(shard)) else {
            return Ok(None);
        };
        let handover = serde_json::to_string(&handover);
        let handover = handover.map_err(|error| Error::Isolation(error.to_string()))?;
        let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let hidden = variables.filter(|name| config.engine.hide_env.hides(name));
        Ok(Some(Self {
            process: process.clone(),
            handover: Secret::new(handover + "\n"),
            hidden: hidden.collect(),
            shard: shard.unwrap_or_default().to_owned(),
            member: None,
        }))
    }
}

/// Starts the process; returns when the engine serves. An error: it has refused to start, and says
/// why. One that is killed before it serves is started again meanwhile, as flows may do that.
pub(in crate::server) fn start(
    gateway: &Gateway,
    listener: Option<UnixListener>,
) -> Result<Option<Supervised>, Error> {
    let Some(plan) = Plan::of(&gateway.config, None)? else {
        return Ok(None);
    };
    let restarts = gateway.metrics.engine_restarts();
    let (end, mut ended) = watch::channel(false);
    let (first, started) = sync_channel(1);
    let task = gateway.control.spawn(async move {
        supervise(&plan, &mut ended, First(Some(first), listener), &restarts).await;
    });
    match started.recv() {
        Ok(Err(refused)) => Err(Error::Isolation(refused)),
        Ok(Ok(())) | Err(_) => Ok(Some(Supervised { end, task })),
    }
}

/// The gateway waits for the result of the first process, which has a listening socket already.
#[derive(Default)]
pub(in crate::server) struct First(Option<SyncSender<Result<(), String>>>, Option<UnixListener>);

impl First {
    /// Gives the result, if there was none before.
    fn is(&mut self, result: Result<(), String>) {
        if let Some(first) = self.0.take() {
            // An error: the gateway is gone.
            let _ = first.send(result);
        }
    }
}

/// How a process has ended.
enum Ended {
    /// The gateway has ended it.
    Wanted,
    /// It was killed, or its socket and the like failed.
    Crashed(String),
    /// It has ended by itself, for this reason.
    Exited(String),
}

/// Runs one process after the other, until the gateway wants their end.
pub(in crate::server) async fn supervise(
    plan: &Plan,
    end: &mut watch::Receiver<bool>,
    mut first: First,
    restarts: &metrics::Counter,
) {
    let mut delay = RestartDelay::default();
    loop {
        let since = Instant::now();
        let ended = run(plan, end, &mut first).await;
        let reason = match ended.unwrap_or_else(|error| Ended::Exited(error.to_string())) {
            Ended::Wanted => return,
            Ended::Crashed(reason) => {
                first.is(Ok(()));
                reason
            }
            Ended::Exited(reason) if first.0.is_some() => return first.is(Err(reason)),
            Ended::Exited(reason) => reason,
        };
        if since.elapsed() >= SETTLED {
            delay.reset();
        }
        let delay = delay.advance();
        tracing::error!(process = "engine", %reason, "the engine's process has ended; it starts again in {delay:?}");
        tokio::select! {
            () = sleep(delay) => {}
            () = wanted(end) => return,
        }
        restarts.increment(1);
    }
}

/// Waits until the gateway wants the process to end.
pub(in crate::server) async fn wanted(end: &mut watch::Receiver<bool>) {
    if end.wait_for(|end| *end).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Runs one process.
async fn run(plan: &Plan, end: &mut watch::Receiver<bool>, first: &mut First) -> io::Result<Ended> {
    let Started {
        mut child,
        group,
        mut channel,
    } = spawn(plan, first.1.take())?;
    let last = Mutex::new(String::new());
    let output = child.stderr.take();
    let exited = Notify::new();
    let log = async {
        let Some(output) = output else { return };
        tokio::select! {
            () = log_lines::read(output, |line| log(line, &last)) => {}
            // What flows have started may hold the pipe open.
            () = async { exited.notified().await; sleep(LAST_LINES).await } => {}
        }
    };
    let serve = async {
        channel.write_all(plan.handover.reveal().as_bytes()).await?;
        let member = plan.member.as_ref();
        if let Some(member) = member {
            member.hear();
        }
        let talked = talk(&mut channel, member, || first.is(Ok(()))).await;
        match talked {
            // It ends, and its status says why.
            Err(error) if error.kind() != io::ErrorKind::InvalidData => {
                std::future::pending().await
            }
            Ok(never) => match never {},
            Err(error) => Err::<Infallible, _>(error),
        }
    };
    let wait = async {
        let ended = tokio::select! {
            status = child.wait() => Some(status?),
            () = wanted(end) => None,
        };
        let is_wanted = ended.is_none();
        let status = if let Some(status) = ended {
            status
        } else {
            // It may have ended just now.
            let _ = kill_process(group.0, Signal::TERM);
            child.wait().await?
        };
        exited.notify_one();
        Ok::<_, io::Error>((status, is_wanted))
    };
    let both = async { tokio::join!(log, wait).1 };
    let (status, is_wanted) = tokio::select! {
        ended = both => ended?,
        Err(error) = serve => return Ok(Ended::Crashed(error.to_string())),
    };
    Ok(if is_wanted {
        Ended::Wanted
    } else {
        reason(status, last.into_inner())
    })
}

/// Logs a line, and keeps it if it may be the reason of the process's end.
fn log(line: &str, last: &Mutex<String>) {
    let found = Line::read(line);
    found.log();
    let mut last = last.lock();
    // The first line of a message of the program, which may have several.
    match line.strip_prefix(MESSAGE) {
        Some(message) => message.clone_into(&mut last),
        None if last.is_empty() => *last = found.text,
        None => {}
    }
}

fn reason(status: ExitStatus, last: String) -> Ended {
    match status.code() {
        Some(_) if !last.is_empty() => Ended::Exited(last),
        Some(_) => Ended::Exited(status.to_string()),
        None => Ended::Crashed(status.to_string()),
    }
}

/// A process that runs.
struct Started {
    child: Child,
    group: Group,
    /// The gateway's end of the process's standard input.
    channel: UnixStream,
}

/// Kills the processes of the group when dropped: the engine, and what flows have started in it.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // All of them may have ended.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

/// Runs on the control thread: the system kills the process when the thread that has started it
/// ends (prctl(2)).
fn spawn(plan: &Plan, listener: Option<UnixListener>) -> io::Result<Started> {
    let listener = match listener {
        Some(listener) => listener,
        None => bind(&plan.process.socket)?,
    };
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let child = Command::from(command(plan))
        .stdin(OwnedFd::from(theirs))
        .stdout(OwnedFd::from(listener))
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok());
    let leader = leader.and_then(Pid::from_raw);
    Ok(Started {
        child,
        group: Group(leader.ok_or(io::ErrorKind::NotFound)?),
        channel: UnixStream::from_std(ours)?,
    })
}

fn command(plan: &Plan) -> StdCommand {
    let mut command = StdCommand::new(OWN_PROGRAM);
    let caller = std::process::id().to_string();
    command.args(["with-parent", &caller, OWN_PROGRAM, "engine-process"]);
    for name in SERVICE_VARIABLES {
        command.env_remove(name);
    }
    for name in &plan.hidden {
        command.env_remove(name);
    }
    if let Some(member) = &plan.member {
        command.env(FENCE, member.fence.to_string());
        command.env(SHARD, &plan.shard);
    }
    if plan.process.memory_limit.is_some() {
        command.env(LAZY_ALLOCATOR.0, LAZY_ALLOCATOR.1);
    }
    // Ctrl-C in a terminal is for the gateway, which ends the process when requests have been
    // answered.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command
}
