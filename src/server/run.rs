//! The program: start, tell the operator, serve until a signal, drain.

use super::supervisor::Supervisor;
use super::watch::Watch;
use super::{Error, Inherited, Running, start_with};
use crate::config::Config;
use crate::secret::Secret;
use crate::store;
use rustix::process::{Pid, Resource, Signal as Kill, getrlimit, kill_process, setrlimit};
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

/// Descriptors that are not connections: sockets, files, the database, pipes.
const OTHER_DESCRIPTORS: usize = 64;

/// Runs until a signal ends it. SIGTERM and SIGINT drain, a second one ends at once; SIGHUP reads users, routes and
/// certificates again, and so does a change of their files.
pub fn run(config: Config) -> ExitCode {
    match run_until_signalled(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flowgate: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Tells the process that uses this data directory to reload; gives its number, `None`: there is none.
pub fn reload(config: &Config) -> Option<i32> {
    let number = store::user_of(&config.storage.directory)?;
    let told = kill_process(Pid::from_raw(number)?, Kill::HUP);
    told.ok().map(|()| number)
}

fn run_until_signalled(mut config: Config) -> Result<(), Error> {
    allow_descriptors(&config);
    let inherited = Inherited::take(&mut config)?;
    let running = start_with(config, &inherited)?;
    // What drains must not hold them: who comes next finds them with systemd.
    drop(inherited);
    announce(&running);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::Threads)?;
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(Error::Threads)?;
        let supervisor = Supervisor::of_environment();
        supervisor.ready("serving");
        until_end(&running, &mut signals, &supervisor).await;
        supervisor.stopping();
        tracing::info!("draining: finishing what is under way, taking nothing new; a second signal ends at once");
        tokio::select! {
            () = running.drain() => {}
            code = signals.end() => process::exit(code),
        }
        tracing::info!("ended");
        Ok(())
    })
}

/// Reloads and says that it is alive, until a signal asks for the end.
async fn until_end(running: &Running, signals: &mut Signals, supervisor: &Supervisor) {
    let config = &running.gateway().config;
    let mut watch = Watch::new(config.sources());
    let mut looks = ticks(config.server.watch);
    let mut pings = ticks(supervisor.watchdog());
    loop {
        let reload = tokio::select! {
            order = signals.next() => match order {
                Order::End => return,
                Order::Reload => true,
            },
            () = tick(&mut looks) => {
                let changed = watch.have_changed();
                if changed {
                    tracing::info!("files of the configuration have changed");
                }
                changed
            }
            () = tick(&mut pings) => {
                ping(running, supervisor).await;
                false
            }
        };
        if reload {
            supervisor.reloading();
            watch.begin_reading();
            let (files, status) = reload_now(running).await;
            if let Some(files) = files {
                watch.follow(files);
            }
            supervisor.ready(status);
        }
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
    let patience = supervisor.watchdog().unwrap_or_default();
    if timeout(patience, running.answer()).await.is_ok() {
        supervisor.alive();
    } else {
        tracing::error!(
            "a worker or the control thread hangs: systemd's watchdog is not told that we are alive"
        );
    }
}

/// What a signal asks for.
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

    /// Waits for one that ends; gives the exit code of a program that the signal has ended, as shells tell it.
    async fn end(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        };
        128 + kind.as_raw_value()
    }
}

/// Gives the files to watch from now on, if they could be read, and how it went.
async fn reload_now(running: &Running) -> (Option<Vec<PathBuf>>, &'static str) {
    let file = running.gateway().config.file.as_deref();
    let config = match Config::load(file) {
        Ok(config) => config,
        Err(error) => {
            tracing::error!(%error, "not reloaded: everything stays as it was");
            return (
                None,
                "not reloaded, the log says why; everything is as it was",
            );
        }
    };
    let files = config.sources();
    if running.reload(config).await {
        tracing::info!("reloaded users, routes and certificates; other settings need a restart");
        (Some(files), "serving, reloaded")
    } else {
        (Some(files), "reloaded in part, the log says what not")
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
    if let Some(address) = addresses.operations {
        tracing::info!("operations on http://{address}: /metrics /healthz /readyz");
    }
    tracing::info!(directory = %running.gateway().config.storage.directory.display(), "data");
    if let Some(password) = running.admin_password() {
        show(password);
    }
}

/// Past the log, which may be kept or sent elsewhere: the password is for the eyes of who starts the program.
fn show(password: &Secret) {
    let line = "=".repeat(72);
    eprintln!(
        "\n{line}\n  First start: the user `admin` has been made. The password is shown only now:\n"
    );
    eprintln!("      {}\n", password.reveal());
    eprintln!("  Users of your own: see [auth] in gateway.toml.\n{line}\n");
}

/// Lets the process open as many files as its connections need, which a shell's soft limit (often 1024) seldom does;
/// warns where the hard limit is lower.
fn allow_descriptors(config: &Config) {
    let connections = config.limits.connections;
    let upstreams = config.upstreams.iter();
    let upstreams: usize = upstreams.map(|u| u.max_in_flight + u.max_tunnels).sum();
    let needed = (connections + upstreams + OTHER_DESCRIPTORS) as u64;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return;
    }
    let allowed = limit.maximum.map_or(needed, |most| most.min(needed));
    limit.current = Some(allowed);
    let raised = setrlimit(Resource::Nofile, limit).is_ok();
    if !raised || allowed < needed {
        tracing::warn!(
            "this process may not open {needed} files, which [limits] connections = {connections} and the upstream \
             need: raise its limit (`ulimit -Hn`, LimitNOFILE= in systemd) or lower the settings"
        );
    }
}
