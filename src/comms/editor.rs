//! Serves one editor's channel from the handshake to its end: sign-in, subscriptions, messages both
//! ways, closing.

use super::frame::{Frame, FrameError};
use super::outbox::{Outgoing, Waiting, outbox};
use super::sign_in::{self, Watch};
use super::topic_filter::Pattern;
use super::topics::{self, Topics};
use super::upstream_relay::{Relay, Said};
use super::visible_events::{Unseen, VisibleEvents};
use super::websocket::{Lost, Received, Socket};
use super::{Comms, PendingEditor, Source};
use crate::audit::{Actor, Event};
use crate::auth::{Caller, Lapsed};
use crate::metrics::CommsEnd;
use bytes::Bytes;
use crypto::Secret;
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

const OK: &str = r#"{"auth":"ok"}"#;
const FAIL: &str = r#"{"auth":"fail"}"#;

/// The cause of a channel's end, in the audit log, when the token of another user is shown on it.
const REPLACED: &str = "replaced";

/// Frames of one editor that may wait for the upstream; then the editor waits. Our choice.
const AHEAD: usize = 32;

/// Why the channel ends, and the close code for the editor.
struct End(CommsEnd, Option<CloseCode>);

/// Serves one editor to its end.
pub(super) async fn serve<S>(comms: &Arc<Comms>, stream: S, mut editor: PendingEditor)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut open = comms.metrics.comms().opened();
    let socket = Socket::new(stream, Role::Server, comms.config.frame).await;
    let (outbox, waiting) = outbox(comms.config.queue);
    let level = waiting.level();
    let mut session = Session::new(comms, socket, waiting);
    let signed_in = signed_in(comms, &editor, &mut session).await;
    if signed_in.is_ok() {
        open.is_active();
        editor.place = None;
    }
    let editor = &editor;
    let actor = editor.actor.clone();
    let mut served = Served {
        comms,
        editor,
        actor,
    };
    let end = match signed_in {
        Err(end) => end,
        Ok(watch) => {
            served.actor = identity(editor, &watch);
            served.record(Event::CommsOpen, None);
            let end = match &editor.source {
                Source::Own => {
                    comms.topics.join(outbox);
                    session.source = Channel::Topics(Arc::clone(&comms.topics));
                    active(&mut served, &mut session, watch, std::future::pending()).await
                }
                Source::Upstream(link, shards) => {
                    let (said, hears) = mpsc::channel(AHEAD);
                    session.source = Channel::Relay(said);
                    let relay =
                        |upstream, head| Relay::new(upstream, head, outbox.clone(), &comms.config);
                    let shards = shards.iter();
                    let shards = shards
                        .map(|(upstream, head)| relay(upstream, head))
                        .collect();
                    let (upstream, head) = link;
                    let away = Box::pin(relay(upstream, head).run_beside(shards, hears));
                    active(&mut served, &mut session, watch, away).await
                }
            };
            comms.topics.leave(&level);
            served.record(Event::CommsClose, Some(end.0.name()));
            end
        }
    };
    if matches!(end.0, CommsEnd::Refused) {
        served.record(Event::CommsRefused, Some(end.0.name()));
    }
    comms.metrics.comms().ended(end.0);
    drop(open);
    let Session { socket, .. } = session;
    socket.close(end.last(), end.1).await;
}

/// The sign-in: by a token, or without one where that is allowed. A first frame that is no token is
/// left to the session.
async fn signed_in<S>(
    comms: &Comms,
    editor: &PendingEditor,
    session: &mut Session<'_, S>,
) -> Result<Watch, End>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if comms.auth.is_none() {
        return Ok(sign_in::open(comms, editor));
    }
    let first = tokio::select! {
        biased;
        () = left(comms) => return Err(End(CommsEnd::Drain, Some(CloseCode::Away))),
        first = timeout(comms.config.sign_in, session.frame()) => first,
    };
    match first.map_err(|_| End(CommsEnd::Silent, None))?? {
        Frame::Auth(token) => {
            let watch = sign_in::by_token(comms, editor, &token).await;
            let watch = watch.ok_or(End(CommsEnd::Refused, None))?;
            session.greeting = Some(OK);
            Ok(watch)
        }
        other => {
            let watch = sign_in::without_token(comms, editor);
            let watch = watch.ok_or(End(CommsEnd::Refused, None))?;
            session.pending = Some(other);
            Ok(watch)
        }
    }
}

/// A signed-in editor, for the audit log.
struct Served<'c> {
    comms: &'c Comms,
    editor: &'c PendingEditor,
    /// The identity; it changes when a token of another user is shown.
    actor: Actor,
}

/// Serves a signed-in editor until its channel ends. `away` resolves when the source has ended.
async fn active<S>(
    served: &mut Served<'_>,
    session: &mut Session<'_, S>,
    mut watch: Watch,
    mut away: impl Future<Output = ()> + Unpin,
) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (comms, editor) = (served.comms, served.editor);
    let level = session.waiting.level();
    session.heartbeat.reset();
    loop {
        session.visible = Some(VisibleEvents::new(
            watch.detached(),
            Arc::clone(&editor.sight),
        ));
        let caller = watch.caller().cloned();
        // A frame from the editor counts as a use of its session; keeping the channel open does
        // not, else a forgotten tab would keep its token for ever.
        let used = || {
            if let Some(session) = caller.as_ref().and_then(Caller::session) {
                session.touch((editor.clock)().as_secs());
            }
        };
        let token = tokio::select! {
            biased;
            () = left(comms) => return End(CommsEnd::Drain, Some(CloseCode::Away)),
            lapsed = watch.lapsed() => return End(lapsed.into(), None),
            () = level.exceeded() => return End(CommsEnd::Slow, Some(CloseCode::Policy)),
            () = &mut away => return End(CommsEnd::Upstream, Some(CloseCode::Restart)),
            token = session.until_token(used) => match token {
                Ok(token) => token,
                Err(end) => return end,
            },
        };
        match sign_in::by_token(comms, editor, &token).await {
            Some(new) => {
                watch = new;
                served.replace(identity(editor, &watch));
            }
            None => return End(CommsEnd::Refused, None),
        }
        session.greeting = Some(OK);
    }
}

/// The caller of a channel, for the audit log.
fn identity(editor: &PendingEditor, watch: &Watch) -> Actor {
    let mut actor = editor.actor.clone();
    if let Some(caller) = watch.caller() {
        caller.user.as_str().clone_into(&mut actor.user);
        actor.by = caller.known.to_string();
        actor.has_all = caller.permissions.cover_all();
    }
    actor
}

impl Served<'_> {
    fn record(&self, event: Event, cause: Option<&str>) {
        let facts = cause.map_or(json!({}), |cause| json!({ "cause": cause }));
        let now = (self.editor.clock)().as_secs();
        self.comms.audit.record(event, &self.actor, now, facts);
    }

    /// Records that another user has the channel from now on; a new token of the same user changes
    /// nothing.
    fn replace(&mut self, new: Actor) {
        if (&self.actor.user, &self.actor.by) == (&new.user, &new.by) {
            return;
        }
        self.record(Event::CommsClose, Some(REPLACED));
        self.actor = new;
        self.record(Event::CommsOpen, None);
    }
}

/// The conversation with one editor.
struct Session<'c, S> {
    comms: &'c Comms,
    socket: Socket<S>,
    waiting: Waiting,
    /// Said before all else.
    greeting: Option<&'static str>,
    /// A frame that was read before the session began.
    pending: Option<Frame>,
    /// Since the sign-in, what of the messages the caller sees.
    visible: Option<VisibleEvents>,
    source: Channel,
    heartbeat: Interval,
    pace: RateLimiter,
}

/// Limits the frames of an editor: those of a second are read, then the next second must begin. It
/// waits instead of refusing, by tokio's clock, so it is no fixed window of the `limits` crate.
struct RateLimiter {
    most: u32,
    left: u32,
    second: Interval,
}

/// The source of an editor's messages.
enum Channel {
    /// No source yet.
    None,
    Topics(Arc<Topics>),
    Relay(mpsc::Sender<Said>),
}

impl<'c, S: AsyncRead + AsyncWrite + Unpin> Session<'c, S> {
    fn new(comms: &'c Comms, socket: Socket<S>, waiting: Waiting) -> Self {
        let every = |period| {
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        Self {
            comms,
            socket,
            waiting,
            greeting: None,
            pending: None,
            visible: None,
            source: Channel::None,
            heartbeat: every(comms.config.heartbeat),
            pace: RateLimiter {
                most: comms.config.frames,
                left: comms.config.frames,
                second: every(Duration::from_secs(1)),
            },
        }
    }

    /// Talks until the editor shows a token.
    async fn until_token(&mut self, used: impl Fn()) -> Result<Secret, End> {
        let mut next = self.pending.take();
        if let Some(greeting) = self.greeting.take() {
            self.say(greeting.into()).await?;
        }
        loop {
            if let Some(frame) = next.take() {
                used();
                match frame {
                    Frame::Auth(token) => return Ok(token),
                    Frame::Subscribe(topic) => self.subscribe(topic).await?,
                    Frame::Publish { topic, text } => self.publish(topic, text).await?,
                }
            }
            let sent = tokio::select! {
                text = read_text(&mut self.socket, &mut self.pace) => {
                    next = self.understood(&text?)?;
                    continue;
                }
                outgoing = self.waiting.next() => {
                    // Every frame from the upstream is a sign of life.
                    if matches!(self.source, Channel::Relay(_)) {
                        self.heartbeat.reset();
                    }
                    match outgoing {
                        Outgoing::Frame(text) => {
                            self.show(text).await?;
                            continue;
                        }
                        Outgoing::Lost(count) => topics::loss(count),
                    }
                }
                _ = self.heartbeat.tick() => self.comms.heartbeat(),
            };
            self.say(sent).await?;
        }
    }

    /// Reads the next frame; ignores text that is not JSON, as Node-RED does.
    async fn frame(&mut self) -> Result<Frame, End> {
        loop {
            let text = read_text(&mut self.socket, &mut self.pace).await?;
            if let Some(frame) = self.understood(&text)? {
                return Ok(frame);
            }
        }
    }

    fn understood(&self, text: &str) -> Result<Option<Frame>, End> {
        self.comms.metrics.comms().received();
        match Frame::parse(text) {
            Ok(frame) => Ok(Some(frame)),
            Err(FrameError::Malformed) => Ok(None),
            Err(FrameError::Foreign) => Err(End(CommsEnd::Malformed, Some(CloseCode::Policy))),
        }
    }

    async fn say(&mut self, text: Bytes) -> Result<(), End> {
        let said = timeout(self.comms.stalled, self.socket.say(text)).await;
        said.map_err(|_| End(CommsEnd::Slow, None))??;
        self.comms.metrics.comms().sent();
        Ok(())
    }

    /// Sends the messages of a frame that the caller sees.
    async fn show(&mut self, frame: Bytes) -> Result<(), End> {
        let mut frames = VecDeque::from([frame]);
        while let Some(frame) = frames.pop_front() {
            let Some(visible) = &mut self.visible else {
                return Ok(());
            };
            let chosen = visible.choose(frame).await?;
            if let Some(frame) = chosen.frame {
                self.say(frame).await?;
            }
            if let Some(pattern) = chosen.repeat {
                frames.extend(self.retained(pattern).await);
            }
        }
        Ok(())
    }

    /// Sends the retained messages of these topics; all others need no subscription.
    async fn subscribe(&mut self, topic: String) -> Result<(), End> {
        let Some(pattern) = Pattern::parse(topic) else {
            tracing::debug!("a subscription means no topic");
            return Ok(());
        };
        for frame in self.retained(pattern).await {
            self.show(frame).await?;
        }
        Ok(())
    }

    /// Frames with the retained messages of these topics; an upstream sends its own.
    async fn retained(&mut self, pattern: Pattern) -> Vec<Bytes> {
        match &self.source {
            Channel::None => Vec::new(),
            Channel::Topics(topics) => topics.retained(&pattern),
            Channel::Relay(said) => {
                // An error: the relay has ended, and so will this.
                let _ = said.send(Said::Subscribe(pattern)).await;
                Vec::new()
            }
        }
    }

    /// Forwards a message to the upstream; our own engine has no subscriber for it. Those of
    /// callers who read some flows only are dropped: they would announce their editors to others,
    /// and get no answer.
    async fn publish(&mut self, topic: String, text: String) -> Result<(), End> {
        let limited = self.visible.as_mut().map(VisibleEvents::are_limited);
        let limited = limited.transpose().map_err(Unseen::Lapsed)?;
        if let (Channel::Relay(said), Some(false)) = (&self.source, limited) {
            let _ = said.send(Said::Publish { topic, text }).await;
        }
        Ok(())
    }
}

/// The next text, at the pace that is allowed. Nothing is lost when the wait is given up.
async fn read_text<S>(socket: &mut Socket<S>, pace: &mut RateLimiter) -> Result<Utf8Bytes, End>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        if pace.left == 0 {
            pace.second.tick().await;
            pace.left = pace.most;
        }
        let received = socket.receive().await?;
        pace.left -= 1;
        if let Received::Text(text) = received {
            return Ok(text);
        }
    }
}

impl End {
    /// The last frame before the channel closes: `fail` makes the stock editor show its login.
    fn last(&self) -> Option<&'static str> {
        match self.0 {
            CommsEnd::Silent | CommsEnd::Refused | CommsEnd::Session | CommsEnd::Permission => {
                Some(FAIL)
            }
            CommsEnd::Client
            | CommsEnd::Malformed
            | CommsEnd::TooLarge
            | CommsEnd::Slow
            | CommsEnd::Upstream
            | CommsEnd::Drain => None,
        }
    }
}

impl From<Lapsed> for CommsEnd {
    fn from(lapsed: Lapsed) -> Self {
        match lapsed {
            Lapsed::Session => Self::Session,
            Lapsed::Permission => Self::Permission,
        }
    }
}

impl From<Unseen> for End {
    fn from(unseen: Unseen) -> Self {
        match unseen {
            Unseen::Lapsed(lapsed) => Self(lapsed.into(), None),
            Unseen::Unavailable => Self(CommsEnd::Upstream, Some(CloseCode::Restart)),
        }
    }
}

impl From<Lost> for End {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Gone => Self(CommsEnd::Client, None),
            Lost::Broken(CloseCode::Size) => Self(CommsEnd::TooLarge, Some(CloseCode::Size)),
            Lost::Broken(code) => Self(CommsEnd::Malformed, Some(code)),
        }
    }
}

/// Waits until the gateway drains.
async fn left(comms: &Comms) {
    // An error: the gateway is gone.
    let _ = comms.leaving.clone().wait_for(|leaving| *leaving).await;
}
