//! The program: start, announce, serve until a signal, drain.

#[cfg(feature = "engine")]
use super::engine_process::Handed;
use super::sd_notify::Supervisor;
use super::{Error, Inherited, OfEngine, Running, inaccessible_paths, reload, start_with};
use crate::allocator;
use crate::config::{Config, EngineListen};
use crate::stdio::report;
use crypto::Secret;
use rustix::fs::Mode;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit, umask,
};
use serde_json::json;
use std::path::{Path, absolute};
use std::process::{self, ExitCode};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};

/// Descriptors that are not connections: sockets, files, the database, pipes, what asks for
/// metrics.
const OTHER_DESCRIPTORS: usize = 64;

/// The time after which what only the start has needed of the program is unmapped. Our choice:
/// flows have started by then, and who has started it has signed in.
const STARTED: Duration = Duration::from_secs(10);

/// Runs until a signal ends it. SIGTERM and SIGINT drain, a second one ends at once; SIGHUP reads
/// users, routes, certificates and the account at the upstream again, and so does a change of their
/// files.
pub fn run(config: Config) -> ExitCode {
    run_with(config, "engine.listen.inaccessible_paths", |config| {
        Ok(Given {
            inherited: Inherited::take(config)?,
            engine: OfEngine::default(),
            report: Box::new(|| ()),
        })
    })
}

/// Runs the engine of a gateway that has started this process, until that ends it.
#[cfg(feature = "engine")]
pub fn run_handed(config: Config, handed: Handed) -> ExitCode {
    run_with(config, "engine.isolation", |config| {
        let begun = handed.begin(config);
        let begun = begun.map_err(|error| Error::Isolation(error.to_string()))?;
        let link = begun.link;
        Ok(Given {
            inherited: Inherited::of_engine(begun.listener),
            engine: OfEngine {
                replica: begun.replica,
                follows: begun.flows,
            },
            report: Box::new(move || link.report_ready()),
        })
    })
}

/// What is there already.
struct Given {
    inherited: Inherited,
    engine: OfEngine,
    /// What to do when requests are served.
    report: Box<dyn FnOnce()>,
}

/// `setting` names the one that takes paths away; `given` runs after that, as it may start a
/// thread.
fn run_with(
    config: Config,
    setting: &str,
    given: impl FnOnce(&mut Config) -> Result<Given, Error>,
) -> ExitCode {
    keep_to_ourselves();
    if let Err(error) = take_away_paths(&config) {
        report(format_args!("flowgate: {setting}: {error}"));
        return ExitCode::FAILURE;
    }
    match run_until_signalled(config, given) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(format_args!("flowgate: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Before any thread is started: what it may open is decided for each thread.
fn take_away_paths(config: &Config) -> Result<(), inaccessible_paths::Error> {
    let accessible = &config.engine.accessible_paths;
    let mut needed = Vec::new();
    if accessible.is_empty() {
        needed.push(config.storage.directory.clone());
    }
    // The gateway has made the socket of an engine that it has started.
    if accessible.is_empty()
        && let Some(EngineListen::Unix(socket)) = &config.engine.listen
    {
        let path = absolute(&socket.path).unwrap_or_else(|_| socket.path.clone());
        needed.extend(path.parent().map(Path::to_owned));
    }
    let inaccessible = &config.engine.inaccessible_paths;
    inaccessible_paths::take_away(inaccessible, accessible, &needed)
}

fn run_until_signalled(
    mut config: Config,
    given: impl FnOnce(&mut Config) -> Result<Given, Error>,
) -> Result<(), Error> {
    allow_descriptors(&mut config);
    let Given {
        inherited,
        engine,
        report,
    } = given(&mut config)?;
    let running = start_with(config, &inherited, engine)?;
    // A draining process must not hold them: its successor takes them from systemd.
    drop(inherited);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::Threads)?;
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(Error::Threads)?;
        // Only now: a program that reads the announcement may send a signal at once.
        announce(&running);
        let supervisor = Supervisor::of_environment();
        supervisor.ready("serving");
        report();
        tokio::spawn(async {
            sleep(STARTED).await;
            allocator::unmap_program();
        });
        tokio::spawn(allocator::give_back_free_memory());
        until_end(&running, &mut signals, &supervisor).await;
        supervisor.stopping();
        tracing::info!("draining: finishing open requests, accepting no new connections; a second signal exits at once");
        tokio::select! {
            () = running.drain() => {}
            code = signals.end() => process::exit(code),
        }
        tracing::info!("ended");
        Ok(())
    })
}

/// Reloads and sends watchdog pings, until a signal requests the end.
async fn until_end(running: &Running, signals: &mut Signals, supervisor: &Supervisor) {
    let mut looks = ticks(running.gateway().config.server.watch);
    let mut pings = ticks(supervisor.watchdog());
    loop {
        let by = tokio::select! {
            order = signals.next() => match order {
                Order::End => return,
                Order::Reload => "signal",
            },
            () = tick(&mut looks) => {
                if !running.reload.files_have_changed() {
                    continue;
                }
                tracing::info!("files of the configuration have changed");
                "watch"
            }
            () = tick(&mut pings) => {
                ping(running, supervisor).await;
                continue;
            }
        };
        supervisor.reloading();
        supervisor.ready(match running.reload.read_again(json!({ "by": by })).await {
            Ok(()) => "serving, reloaded",
            Err(reload::Error::Config(_)) => {
                "not reloaded, the log says why; everything is as it was"
            }
            Err(reload::Error::Incomplete) => "reloaded in part, the log says what not",
        });
    }
}

fn ticks(every: Option<Duration>) -> Option<Interval> {
    every.map(|every| {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    })
}

/// The next of them; if there are none, never.
async fn tick(ticks: &mut Option<Interval>) {
    match ticks {
        Some(ticks) => drop(ticks.tick().await),
        None => std::future::pending().await,
    }
}

/// Says that we are alive if everything answers; if not, systemd will start us anew.
async fn ping(running: &Running, supervisor: &Supervisor) {
    let watchdog = supervisor.watchdog().unwrap_or_default();
    if timeout(watchdog, running.answer()).await.is_ok() {
        supervisor.alive();
    } else {
        tracing::error!("a worker or the control thread hangs: systemd's watchdog gets no signal");
    }
}

/// The request of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    End,
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Order {
        tokio::select! {
            _ = self.terminate.recv() => Order::End,
            _ = self.interrupt.recv() => Order::End,
            _ = self.hangup.recv() => Order::Reload,
        }
    }

    /// Waits for a signal that ends the gateway; returns the exit code of a program that the signal
    /// has ended, as shells report it.
    async fn end(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        };
        128 + kind.as_raw_value()
    }
}

fn announce(running: &Running) {
    let addresses = running.addresses();
    for address in &addresses.tls {
        tracing::info!("listening on https://{address}");
    }
    if let Some(address) = addresses.plain {
        tracing::info!("listening on http://{address} (no TLS)");
    }
    if let Some(path) = &addresses.unix {
        tracing::info!("listening on unix:{}", path.display());
    }
    if let Some(address) = addresses.operations {
        tracing::info!("operations on http://{address}: /metrics /healthz /readyz");
    }
    tracing::info!(directory = %running.gateway().config.storage.directory.display(), "data");
    if let Some(password) = running.admin_password() {
        show(password);
    }
}

/// Past the log, which may be kept or sent elsewhere: the password is for the eyes of who starts
/// the program.
fn show(password: &Secret) {
    let line = "=".repeat(72);
    report(format_args!(
        "\n{line}\n  First start: the user `admin` has been made. The password is shown only now:\n"
    ));
    report(format_args!("      {}\n", password.reveal()));
    report(format_args!(
        "  Users of your own: see [auth] in gateway.toml.\n{line}\n"
    ));
}

/// Restricts new files to their owner, and protects the memory, with keys and tokens in it: no core
/// dump, no debugger but root's. Programs that exec nodes start inherit the umask and the limit.
fn keep_to_ourselves() {
    umask(Mode::RWXG | Mode::RWXO);
    let nothing = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let limited = setrlimit(Resource::Core, nothing);
    if let Err(error) = limited.and(set_dumpable_behavior(DumpableBehavior::NotDumpable)) {
        tracing::warn!(%error, "a crash of this process may leave its memory, with secrets in it, on disk");
    }
}

/// Raises the limit of open files to the number that the connections need, which a shell's soft
/// limit (often 1024) seldom covers. Where the hard limit is lower, fewer connections are accepted:
/// files, sign-ins and deployments must have theirs however many clients connect.
fn allow_descriptors(config: &mut Config) {
    let connections = config.limits.connections;
    let upstreams = config.upstreams.iter();
    let idle = |pool: usize| pool * config.server.workers;
    let upstreams = upstreams.map(|u| u.max_in_flight + idle(u.pool) + u.max_tunnels);
    let upstreams: usize = upstreams.sum();
    let needed = (connections + upstreams + OTHER_DESCRIPTORS) as u64;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return;
    }
    let before = limit.current.unwrap_or(needed);
    let allowed = limit.maximum.map_or(needed, |most| most.min(needed));
    limit.current = Some(allowed);
    let raised = setrlimit(Resource::Nofile, limit).is_ok();
    let allowed = if raised { allowed } else { before };
    if allowed >= needed {
        return;
    }
    let room = room_for_connections(allowed, !config.upstreams.is_empty());
    config.limits.connections = connections.min(room);
    tracing::warn!(
        "this process may not open {needed} files, which [limits] connections = {connections} and the upstream \
         need: raise its limit (`ulimit -Hn`, LimitNOFILE= in systemd) or lower the settings. It takes {} connections",
        config.limits.connections
    );
}

/// The maximum number of connections for these descriptors; each may need another one to the
/// upstream.
fn room_for_connections(descriptors: u64, upstream: bool) -> usize {
    let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
    let left = descriptors - OTHER_DESCRIPTORS.min(descriptors / 2);
    (if upstream { left / 2 } else { left }).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_shared_between_files_clients_and_the_upstream() {
        assert_eq!(room_for_connections(1024, false), 960);
        assert_eq!(room_for_connections(1024, true), 480);
        assert_eq!(room_for_connections(64, false), 32);
        assert_eq!(room_for_connections(1, true), 1);
    }
}
