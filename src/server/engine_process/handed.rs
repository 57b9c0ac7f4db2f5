//! What the engine's process gets from the gateway that starts it: its configuration and the gateway's end on standard input,
//! which is a socket, and its listening socket as standard output.

use crate::config::{Config, Error, Handover};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::stdio::{dup2_stdin, dup2_stdout};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process;
use std::thread;

/// The line with which the process reports that it serves.
pub(super) const READY: &str = "ready";

/// How gladly the system ends this process when memory runs out, before the gateway (`proc_pid_oom_score_adj(5)`: -1000 to
/// 1000). Our choice: the middle, so that what flows have started can have a higher one.
const OOM_SCORE_ADJ: &str = "500";

/// What the process has got.
pub struct Handed {
    handover: Handover,
    gateway: UnixStream,
    listener: UnixListener,
}

impl Handed {
    /// Takes it from standard input and output, and sets the limits of this process. Must run before the first thread, and
    /// before anything writes to standard output, which is standard error afterwards.
    pub fn take() -> io::Result<Self> {
        // The file is root's once the process cannot be debugged.
        if let Err(error) = fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ) {
            eprintln!("flowgate: oom_score_adj stays as it is: {error}");
        }
        let gateway = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let listener = UnixListener::from(io::stdout().as_fd().try_clone_to_owned()?);
        let mut line = zeroize::Zeroizing::new(Vec::new());
        BufReader::new(&gateway).read_until(b'\n', &mut line)?;
        let handover: Handover = serde_json::from_slice(&line).map_err(io::Error::other)?;
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
            handover,
            gateway,
            listener,
        })
    }

    /// The configuration.
    pub fn config(&self) -> Result<Config, Error> {
        self.handover.config()
    }

    /// The listening socket, and the gateway, for which a thread waits: this process ends when the gateway has ended, however
    /// that came about.
    pub(in crate::server) fn follow_gateway(self) -> io::Result<(UnixListener, Ready)> {
        let mut gateway = self.gateway.try_clone()?;
        let wait = move || {
            // Nothing comes any more.
            let _ = gateway.read(&mut [0]);
            process::exit(1);
        };
        thread::Builder::new()
            .name("gateway".to_owned())
            .spawn(wait)?;
        Ok((self.listener, Ready(self.gateway)))
    }
}

/// Reports to the gateway that the engine serves.
pub(in crate::server) struct Ready(UnixStream);

impl Ready {
    /// An error: the gateway has ended, and so will this process.
    pub(in crate::server) fn report(&self) {
        let _ = writeln!(&self.0, "{READY}");
    }
}
