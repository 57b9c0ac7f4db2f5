//! The live view: an alternate screen that is left again however it ends, by a key, a signal, a
//! panic, or because the gateway has gone.

use super::app::{App, Measured, Page};
use super::draw::draw;
use super::requests::Counters;
use super::{metrics, profile, sessions};
use crate::config::Config;
use crate::http::unix_time;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// How long a key is waited for before the view looks for answers. Our choice: below what a user
/// notices.
const TICK: Duration = Duration::from_millis(100);

/// What the view is sent.
enum Update {
    Measured(Box<Measured>),
    /// The gateway has gone, and why.
    Gone(String),
    /// A signal asks for the end.
    Signal,
}

/// The view's end.
enum End {
    Wanted,
    Gone(String),
}

/// Shows the view until it ends.
pub(super) fn run(config: &Config, interval: Duration) -> ExitCode {
    // Asked before the screen changes: an error then stands below the command.
    let first = match metrics(config) {
        Ok(first) => first,
        Err(reason) => return super::refuse(&reason),
    };
    let (updates, received) = channel();
    let nodes = Arc::new(AtomicBool::new(false));
    let source = Source {
        config: config.clone(),
        interval,
        nodes: Arc::clone(&nodes),
        updates: updates.clone(),
    };
    thread::spawn(move || source.measure(first));
    let (ready, is_ready) = channel();
    thread::spawn(move || wait_for_signals(&ready, &updates));
    // The screen changes when signals can restore it.
    let _ = is_ready.recv();
    // Its panic hook restores the terminal.
    let ended = ratatui::try_init().and_then(|mut terminal| {
        let mut app = App::new(interval);
        show(&mut terminal, &mut app, &received, &nodes)
    });
    ratatui::restore();
    match ended {
        Ok(End::Wanted) => ExitCode::SUCCESS,
        Ok(End::Gone(reason)) => super::refuse(&reason),
        Err(error) => super::refuse(&format!("the terminal: {error}")),
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    app: &mut App,
    received: &Receiver<Update>,
    nodes: &AtomicBool,
) -> io::Result<End> {
    loop {
        nodes.store(app.page == Page::Nodes, Ordering::Relaxed);
        terminal.draw(|frame| draw(frame, app))?;
        // A change of the size is an event too, after which the view is drawn again.
        if event::poll(TICK)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && !app.press(key)
        {
            return Ok(End::Wanted);
        }
        loop {
            match received.try_recv() {
                Ok(Update::Measured(measured)) => app.update(*measured),
                Ok(Update::Gone(reason)) => return Ok(End::Gone(reason)),
                Ok(Update::Signal) | Err(TryRecvError::Disconnected) => return Ok(End::Wanted),
                Err(TryRecvError::Empty) => break,
            }
        }
    }
}

/// Asks the gateway, in a thread of its own: an answer may take as long as the measurement.
struct Source {
    config: Config,
    interval: Duration,
    /// Whether the page of nodes is open: only then their time is measured.
    nodes: Arc<AtomicBool>,
    updates: Sender<Update>,
}

impl Source {
    fn measure(self, first: Counters) {
        let (mut before, mut since) = (first, Instant::now());
        loop {
            let nodes = self.wait();
            let update = metrics(&self.config).map(|after| {
                let now = Instant::now();
                let requests = after.rates(&before, now.duration_since(since));
                since = now;
                before = after.clone();
                Measured {
                    requests,
                    gauges: after,
                    nodes,
                    sessions: Some(sessions(&self.config)),
                    now: unix_time().as_secs(),
                }
            });
            let update = match update {
                Ok(measured) => Update::Measured(Box::new(measured)),
                Err(reason) => Update::Gone(reason),
            };
            if self.updates.send(update).is_err() {
                return;
            }
        }
    }

    /// Waits for the interval, in which the engine measures if the page is open.
    fn wait(&self) -> Option<Result<(engine::profile::Profile, u64), String>> {
        let began = Instant::now();
        let is_open = self.nodes.load(Ordering::Relaxed);
        let nodes = is_open.then(|| profile(&self.config, self.interval));
        while let Some(rest) = self.interval.checked_sub(began.elapsed()) {
            let opened = !is_open && self.nodes.load(Ordering::Relaxed);
            if opened || rest.is_zero() {
                break;
            }
            thread::park_timeout(rest.min(TICK));
        }
        nodes
    }
}

/// Ends the view at a signal that would otherwise leave the terminal as it is; `ready`: from now
/// on.
fn wait_for_signals(ready: &Sender<()>, updates: &Sender<Update>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ];
        let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = kinds.map(signal) else {
            return;
        };
        let _ = ready.send(());
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    });
    let _ = updates.send(Update::Signal);
}
