//! Reports the state of the service to systemd (`sd_notify(3)`): ready, reloading, stopping, alive.
//! Without systemd it does nothing.
//!
//! Ours, as the crate `sd-notify` cannot send to abstract sockets (`@name`), which systemd uses in
//! containers.

use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The notification socket, if there is one, and the watchdog interval.
pub(super) struct Supervisor {
    to: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// Reads systemd's environment variables.
    pub(super) fn of_environment() -> Self {
        let to = std::env::var_os("NOTIFY_SOCKET").and_then(|path| {
            let address = address(&path)?;
            Some((UnixDatagram::unbound().ok()?, address))
        });
        let number = |name| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
        // The variables of a process that started us are not for us.
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|usec| ours && *usec > 0);
        Self {
            watchdog: watchdog.filter(|_| to.is_some()).map(Duration::from_micros),
            to,
        }
    }

    /// The interval between watchdog pings: half of systemd's time-out, as systemd advises.
    pub(super) fn watchdog(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 2)
    }

    /// Requests are answered, and the flows run.
    pub(super) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// The configuration is read again.
    pub(super) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.tell(&format!(
            "RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS=reloading"
        ));
    }

    /// Nothing new is taken.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=draining");
    }

    /// Everything answers.
    pub(super) fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.to
            && let Err(error) = socket.send_to_addr(state.as_bytes(), address)
        {
            tracing::warn!(%error, "no notification to systemd: {}", state.replace('\n', " "));
        }
    }
}

/// A path, or after `@` a name of Linux's own.
fn address(path: &OsString) -> Option<SocketAddr> {
    match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name).ok(),
        None => SocketAddr::from_pathname(path).ok(),
    }
}

#[cfg(all(test, feature = "engine"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::config::Config;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn a_worker_that_hangs_does_not_answer() {
        let place = tempfile::tempdir().unwrap();
        let text = "auth = \"off\"\noperations = \"off\"\n[server]\nlisten = [\"127.0.0.1:0\"]\nworkers = 2\n";
        let config = Config::parse(text, "test.toml", place.path()).unwrap();
        let running = crate::server::start(config).ok().unwrap();
        // The thread of a worker starts in its own time.
        let worker = loop {
            match running.workers.last().and_then(|worker| worker.runtime()) {
                Some(runtime) => break runtime,
                None => tokio::task::yield_now().await,
            }
        };
        running.answer().await;
        let (release, hanging) = std::sync::mpsc::channel::<()>();
        let hung = worker.spawn(async move { hanging.recv() });
        let short = Duration::from_millis(100);
        assert!(timeout(short, running.answer()).await.is_err());
        drop(release);
        running.answer().await;
        let _ = hung.await;
        running.stop().await;
    }
}
