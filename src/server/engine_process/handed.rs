//! What the engine's process gets from the gateway that starts it: its configuration and the
//! gateway's end on standard input, which is a socket, and its listening socket as standard output.

use super::lease;
use super::message::{ToEngine, ToGateway, line, of_line};
use crate::config::{Config, Error, Handover, SHARED_CONTEXTS};
use crate::http::unix_time;
use crate::stdio::report;
use crate::store::{EngineState, Replica, take_over};
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::stdio::{dup2_stdin, dup2_stdout};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use tokio::sync::watch;

/// How gladly the system ends this process when memory runs out, before the gateway
/// (`proc_pid_oom_score_adj(5)`: -1000 to 1000). Our choice: the middle, so that what flows have
/// started can have a higher one.
const OOM_SCORE_ADJ: &str = "500";

/// What the process has got.
pub struct Handed {
    handover: Handover,
    gateway: BufReader<UnixStream>,
    listener: UnixListener,
    /// The state of the engine that ran elsewhere before; `None`: it never runs elsewhere.
    state: Option<EngineState>,
}

impl Handed {
    /// Takes it from standard input and output, and sets the limits of this process. Must run
    /// before the first thread, and before anything writes to standard output, which is standard
    /// error afterwards.
    pub fn take() -> io::Result<Self> {
        // The file is root's once the process cannot be debugged.
        if let Err(error) = fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ) {
            report(format_args!(
                "flowgate: oom_score_adj stays as it is: {error}"
            ));
        }
        let gateway = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let listener = UnixListener::from(io::stdout().as_fd().try_clone_to_owned()?);
        let mut gateway = BufReader::new(gateway);
        let mut line = zeroize::Zeroizing::new(Vec::new());
        gateway.read_until(b'\n', &mut line)?;
        let handover: Handover = serde_json::from_slice(&line).map_err(io::Error::other)?;
        let is_member = handover.longest_message.is_some();
        let state = is_member.then(|| leased(&mut gateway));
        listener.local_addr()?;
        // Nothing that flows start may inherit them.
        dup2_stdin(File::open("/dev/null")?)?;
        dup2_stdout(io::stderr())?;
        if let Some(bytes) = handover.memory_limit {
            let limit = Rlimit {
                current: Some(bytes),
                maximum: Some(bytes),
            };
            setrlimit(Resource::Data, limit)?;
        }
        Ok(Self {
            state: state.transpose()?,
            handover,
            gateway,
            listener,
        })
    }

    /// The configuration.
    pub fn config(&self) -> Result<Config, Error> {
        self.handover.config()
    }

    /// Takes over the state that it was given, and follows the gateway.
    pub(in crate::server) fn begin(self, config: &Config) -> io::Result<Begun> {
        let link = Link(Arc::new(Mutex::new(self.gateway.get_ref().try_clone()?)));
        let (kept, answers) = sync_channel(1);
        let (follow, flows) = watch::channel(EngineState::new());
        follow_gateway(self.gateway, link.clone(), kept, follow)?;
        let replica = match self.state {
            None => None,
            Some(state) => {
                lease::watch()?;
                take_over(&config.storage, &state, unix_time().as_secs())
                    .map_err(io::Error::other)?;
                link.tell(&ToGateway::TakenOver)?;
                let longest = self.handover.longest_message.unwrap_or_default();
                let replica = replica(link.clone(), answers, longest);
                keep_contexts(config, &replica);
                Some(replica)
            }
        };
        // The flows of a shard are the main engine's, which keeps them and follows none.
        let shard = config.engine.shard.as_ref();
        let is_main = shard.is_none_or(|shard| shard.name.is_empty());
        Ok(Begun {
            listener: self.listener,
            link,
            replica: replica.filter(|_| is_main),
            flows: (!is_main).then_some(flows),
        })
    }
}

/// Takes the first lease, and the state.
fn leased(gateway: &mut BufReader<UnixStream>) -> io::Result<EngineState> {
    loop {
        match next(gateway)? {
            Some(ToEngine::Lease(until)) => engine::lease::extend(until),
            Some(ToEngine::TakeOver(state)) => return Ok(state),
            // What it takes over is as new.
            Some(ToEngine::Kept(_) | ToEngine::Follow(_)) => {}
            None => return Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The next message; `None`: the gateway has ended.
fn next(gateway: &mut BufReader<UnixStream>) -> io::Result<Option<ToEngine>> {
    let mut line = Vec::new();
    match gateway.read_until(b'\n', &mut line)? {
        0 => Ok(None),
        _ => of_line(&line).map(Some),
    }
}

/// A process of an engine that has followed its gateway.
pub(in crate::server) struct Begun {
    /// Where it is to listen.
    pub(in crate::server) listener: UnixListener,
    /// The way to the gateway.
    pub(in crate::server) link: Link,
    /// What keeps its state elsewhere; `None`: nothing does.
    pub(in crate::server) replica: Option<Replica>,
    /// The flows of the main engine; `None`: it is that.
    pub(in crate::server) flows: Option<watch::Receiver<EngineState>>,
}

/// Waits for the gateway on a thread: this process ends when the gateway has ended, however that
/// came about.
fn follow_gateway(
    mut gateway: BufReader<UnixStream>,
    link: Link,
    kept: SyncSender<Result<(), String>>,
    follow: watch::Sender<EngineState>,
) -> io::Result<()> {
    let mut act = move || -> io::Result<()> {
        while let Some(message) = next(&mut gateway)? {
            match message {
                ToEngine::Lease(until) => {
                    engine::lease::extend(until);
                    link.tell(&ToGateway::Alive)?;
                }
                // No thread waits for an answer that was not asked for.
                ToEngine::Kept(result) => drop(kept.try_send(result)),
                ToEngine::Follow(state) => drop(follow.send_replace(state)),
                ToEngine::TakeOver(_) => {}
            }
        }
        Ok(())
    };
    let follow = move || {
        // Nothing comes any more.
        let _ = act();
        process::exit(1);
    };
    let thread = thread::Builder::new().name("gateway".to_owned());
    thread.spawn(follow).map(drop)
}

/// The way to the gateway.
#[derive(Clone)]
pub(in crate::server) struct Link(Arc<Mutex<UnixStream>>);

impl Link {
    /// Reports that the engine serves.
    pub(in crate::server) fn report_ready(&self) {
        // An error: the gateway has ended, and so will this process.
        let _ = self.tell(&ToGateway::Ready);
    }

    fn tell(&self, message: &ToGateway) -> io::Result<()> {
        self.write(&line(message)?)
    }

    fn write(&self, line: &str) -> io::Result<()> {
        let mut stream = self.0.lock();
        stream.write_all(line.as_bytes())
    }
}

/// Asks the gateway to keep state, and waits for its answer, which comes before the lease ends.
fn replica(link: Link, answers: Receiver<Result<(), String>>, longest: usize) -> Replica {
    let answers = Mutex::new(answers);
    Arc::new(move |state| {
        let gone = || "the gateway has ended".to_owned();
        // One at a time: the answers have no names.
        let answers = answers.lock();
        let message = line(&ToGateway::Keep(state)).map_err(|error| error.to_string())?;
        if message.len() >= longest {
            let bytes = message.len();
            return Err(format!(
                "{bytes} bytes are too many to be kept: {longest} are allowed"
            ));
        }
        link.write(&message).map_err(|_| gone())?;
        answers.recv().unwrap_or_else(|_| Err(gone()))
    })
}

/// Has what flows remember in shared contexts kept too.
fn keep_contexts(config: &Config, replica: &Replica) {
    let replica = Arc::clone(replica);
    let keep = move |name: &str, text: &str| {
        let name = format!("{SHARED_CONTEXTS}/{name}");
        replica([(name, text.to_owned())].into())
    };
    let directory = config.storage.directory.join(SHARED_CONTEXTS);
    engine::context::keep_below(directory, Box::new(keep));
}
