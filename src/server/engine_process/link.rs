//! The gateway's way to the engine's process: hears when it serves, and for a member of a cluster
//! extends its lease and keeps its state in the database. The process is not trusted: what it sends
//! is limited, and only state of the engine is kept.

use super::message::{ToEngine, ToGateway, line, of_line};
use crate::store::{EngineState, Error, KeptState};
use engine::lease;
use parking_lot::Mutex;
use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::sleep;

/// The time between two attempts to keep state while the database is away. Our choice: well within
/// a lease.
const RETRY: Duration = Duration::from_millis(200);

/// What the process of a member has, beside its configuration.
pub(in crate::server) struct Member {
    /// The number of its lease.
    pub(in crate::server) fence: i64,
    /// The end of its lease.
    pub(in crate::server) until: watch::Receiver<Duration>,
    /// What it takes over; `None`: it has.
    pub(in crate::server) state: Mutex<Option<EngineState>>,
    /// When the process began, or was heard last; `None`: there was none.
    pub(in crate::server) heard: watch::Sender<Option<Duration>>,
    /// The flows of the main engine, if it runs another shard; `None`: they have not changed since.
    pub(in crate::server) follows: watch::Receiver<Option<Arc<EngineState>>>,
    /// What it keeps.
    pub(in crate::server) kept: Arc<AsyncMutex<KeptState>>,
    /// The most bytes of a message.
    pub(in crate::server) longest: usize,
}

impl Member {
    /// Remembers that the process acts.
    pub(super) fn hear(&self) {
        self.heard.send_replace(Some(lease::now()));
    }

    fn state(&self) -> EngineState {
        let state = self.state.lock();
        state.clone().unwrap_or_default()
    }

    fn has_taken_over(&self) {
        *self.state.lock() = None;
    }

    /// Keeps a part of the state, for as long as that may still succeed: without the lease the
    /// process ends.
    async fn keep(&self, state: EngineState) -> Result<(), String> {
        let mut kept = self.kept.lock().await;
        if let Some(name) = state.keys().find(|name| !kept.keeps(name)) {
            return Err(format!("{name:?} is no part of the engine's state"));
        }
        let mut is_unknown = false;
        loop {
            match kept.keep(self.fence, &state).await {
                Ok(true) => return Ok(()),
                // The lease is another one's: what extends it finds that too.
                Ok(false) => std::future::pending().await,
                Err(Error::Unreachable(_)) => is_unknown = true,
                Err(Error::Busy { .. }) => {}
                Err(error) if !is_unknown => return Err(error.to_string()),
                // An attempt that was not answered may have arrived: it is no failure until a later
                // one has replaced it.
                Err(_) => {}
            }
            sleep(RETRY).await;
        }
    }
}

/// Keeps state, if there is some to keep.
type Keeping<'m> = Option<Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'm>>>;

/// Talks to a process until that fails. `ready` is called when it serves.
pub(super) async fn talk(
    channel: &mut UnixStream,
    member: Option<&Member>,
    mut ready: impl FnMut(),
) -> io::Result<Infallible> {
    let (read, mut write) = channel.split();
    let (mut read, mut received) = (BufReader::new(read), Vec::new());
    let mut until = member.map(|member| member.until.clone());
    if let (Some(member), Some(until)) = (member, &mut until) {
        let lease = current(until);
        tell(&mut write, &ToEngine::Lease(lease)).await?;
        tell(&mut write, &ToEngine::TakeOver(member.state())).await?;
    }
    let longest = member.map_or(1024, |member| member.longest);
    let mut follows = member.map(|member| member.follows.clone());
    let mut keeping: Keeping<'_> = None;
    loop {
        let message = tokio::select! {
            until = extended(&mut until) => {
                tell(&mut write, &ToEngine::Lease(until)).await?;
                continue;
            }
            flows = followed(&mut follows) => {
                tell(&mut write, &ToEngine::Follow(EngineState::clone(&flows))).await?;
                continue;
            }
            kept = finished(&mut keeping) => {
                keeping = None;
                tell(&mut write, &ToEngine::Kept(kept)).await?;
                continue;
            }
            message = hear(&mut read, &mut received, longest) => message?,
        };
        if let Some(member) = member {
            member.hear();
        }
        match (message, member) {
            (ToGateway::Ready, _) => ready(),
            (ToGateway::TakenOver, Some(member)) => member.has_taken_over(),
            (ToGateway::Keep(state), Some(member)) if keeping.is_none() => {
                keeping = Some(Box::pin(member.keep(state)));
            }
            (ToGateway::Alive | ToGateway::TakenOver | ToGateway::Keep(_), _) => {}
        }
    }
}

async fn tell(write: &mut WriteHalf<'_>, message: &ToEngine) -> io::Result<()> {
    write.write_all(line(message)?.as_bytes()).await
}

/// The next message. May be called again when it was not waited for: `received` holds what has
/// come.
async fn hear(
    read: &mut BufReader<ReadHalf<'_>>,
    received: &mut Vec<u8>,
    longest: usize,
) -> io::Result<ToGateway> {
    let room = longest.saturating_sub(received.len());
    let room = u64::try_from(room).unwrap_or(u64::MAX);
    read.take(room).read_until(b'\n', received).await?;
    if received.last() != Some(&b'\n') {
        let is_long = received.len() >= longest;
        return Err(if is_long {
            ErrorKind::InvalidData
        } else {
            ErrorKind::UnexpectedEof
        }
        .into());
    }
    let message = of_line(received);
    received.clear();
    received.shrink_to(1024);
    message
}

/// The end of the lease when it is another one; never without a lease.
async fn extended(until: &mut Option<watch::Receiver<Duration>>) -> Duration {
    if let Some(until) = until
        && until.changed().await.is_ok()
    {
        return current(until);
    }
    std::future::pending().await
}

/// The flows to follow when they have changed; never, if there are none.
async fn followed(
    follows: &mut Option<watch::Receiver<Option<Arc<EngineState>>>>,
) -> Arc<EngineState> {
    if let Some(follows) = follows {
        while follows.changed().await.is_ok() {
            let flows = follows.borrow_and_update().clone();
            if let Some(flows) = flows {
                return flows;
            }
        }
    }
    std::future::pending().await
}

fn current(until: &mut watch::Receiver<Duration>) -> Duration {
    *until.borrow_and_update()
}

/// What came of keeping state; never if nothing is kept.
async fn finished(keeping: &mut Keeping<'_>) -> Result<(), String> {
    match keeping {
        Some(keeping) => keeping.await,
        None => std::future::pending().await,
    }
}
