//! Relays frames between one editor and the upstream; the upstream's pass unchanged.
//!
//! The link is opened when the editor has signed in, with the gateway's own token, never the
//! editor's. When the upstream restarts, the link is opened again and the editor's subscriptions
//! are renewed, so that the editor need not notice. The upstream's sign-in messages are for the
//! gateway and never reach the editor.

use super::outbox::{Frame, Outbox};
use super::topic_filter::Pattern;
use super::websocket::{Lost, Received, Socket};
use crate::config;
use crate::upstream::{Bearer, Error, LinkHead, Upgraded, Upstream};
use futures_util::future::join_all;
use serde_json::{Map, Value as Json, json};
use std::future::pending;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_tungstenite::tungstenite::protocol::Role;

/// The pause before the link is made again, and the longest to which it grows. Our choice: Node-RED
/// restarts within seconds.
const PAUSE: Duration = Duration::from_millis(200);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);
/// The time-out for the upstream to respond to a token, or to take a frame. Our choice.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The interval between pings to the upstream, and the number of unanswered ones after which it
/// counts as gone. Our choice; it sends a frame of its own every 15 s
/// (docs/reference/node-red-admin-api.md §4).
const PING_INTERVAL: Duration = Duration::from_secs(15);
const SILENCES: u32 = 3;
/// Subscriptions of an editor that are asked for again. Our choice: the stock editor has about ten.
const SUBSCRIPTIONS: usize = 256;
/// Frames of the editor that may wait for the main engine. Our choice, as for all of them.
const AHEAD: usize = 32;
/// Links in a row that end without a word, as when the upstream wants a token that we do not have.
/// Our choice.
const BARREN: u32 = 5;

type Link = Socket<Upgraded>;

/// A message from an editor.
pub(super) enum Said {
    /// It subscribes.
    Subscribe(Pattern),
    /// It publishes.
    Publish {
        topic: String,
        /// The whole frame.
        text: String,
    },
}

/// The link of one editor.
pub(super) struct Relay<'e> {
    upstream: &'e Upstream,
    head: &'e LinkHead,
    config: &'e config::Comms,
    outbox: Outbox,
}

impl<'e> Relay<'e> {
    /// A relay to this upstream, with this handshake; received frames go into the outbox.
    pub(super) fn new(
        upstream: &'e Upstream,
        head: &'e LinkHead,
        outbox: Outbox,
        config: &'e config::Comms,
    ) -> Self {
        Self {
            upstream,
            head,
            config,
            outbox,
        }
    }

    /// The same while the events of other engines come too, which run a part of the flows: these
    /// hear the subscriptions alone.
    pub(super) async fn run_beside(self, shards: Vec<Self>, mut said: Receiver<Said>) {
        if shards.is_empty() {
            return self.run(said).await;
        }
        let (to_main, hears) = channel(AHEAD);
        let (to_shards, relays): (Vec<_>, Vec<_>) = shards
            .iter()
            .map(|shard| {
                let (to_shard, hears) = channel(SUBSCRIPTIONS);
                (to_shard, shard.follow(hears))
            })
            .unzip();
        let relays = join_all(relays);
        let hand_on = async {
            while let Some(said) = said.recv().await {
                if let Said::Subscribe(pattern) = &said {
                    for shard in &to_shards {
                        // It is away, and as many wait as are asked for again.
                        let _ = shard.try_send(Said::Subscribe(pattern.clone()));
                    }
                }
                if to_main.send(said).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = self.run(hears) => {}
            () = hand_on => {}
            _ = relays => {}
        }
    }

    /// Relays for as long as the editor is there, whether or not the upstream is.
    async fn follow(&self, mut said: Receiver<Said>) {
        let Ok(_permit) = self.upstream.link_permit(self.head) else {
            return pending().await;
        };
        let mut replay = Replay::default();
        let mut barren = 0;
        loop {
            let mut link = self.open_again(&mut replay, &mut said, barren).await;
            barren = match self.relay(&mut link, &mut replay, &mut said).await {
                0 => (barren + 1).min(BARREN),
                _ => 0,
            };
        }
    }

    /// Relays until the upstream is away for too long; ends at once if it is away at the start, or
    /// if too many links and tunnels are open. The permit is kept while the link is opened again.
    pub(super) async fn run(self, mut said: Receiver<Said>) {
        let _permit = match self.upstream.link_permit(self.head) {
            Ok(permit) => permit,
            Err(error) => {
                tracing::debug!(upstream = ?self.upstream, "comms: {error}");
                return;
            }
        };
        let mut replay = Replay::default();
        let mut barren = 0;
        let Ok(mut link) = self.open().await else {
            return;
        };
        while barren < BARREN {
            match self.relay(&mut link, &mut replay, &mut said).await {
                0 => barren += 1,
                _ => barren = 0,
            }
            drop(link);
            let again = self.open_again(&mut replay, &mut said, barren);
            match timeout(self.config.upstream_away, again).await {
                Ok(new) => link = new,
                Err(_) => return,
            }
        }
    }

    /// Relays until the link is lost; gives how many frames the editor was sent.
    async fn relay(&self, link: &mut Link, replay: &mut Replay, said: &mut Receiver<Said>) -> u64 {
        let mut relayed = 0;
        for text in replay.again() {
            if send(link, text).await.is_err() {
                return relayed;
            }
        }
        let mut silences = 0;
        let mut pings = interval(PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let going = tokio::select! {
                received = link.receive() => {
                    silences = 0;
                    self.pass_on(received, &mut relayed)
                }
                Some(said) = said.recv() => send(link, replay.remember(said)).await,
                _ = pings.tick() => {
                    silences += 1;
                    if silences > SILENCES {
                        return relayed;
                    }
                    timeout(TIMEOUT, link.ping()).await.unwrap_or(Err(Lost::Gone))
                }
            };
            if going.is_err() {
                return relayed;
            }
        }
    }

    fn pass_on(&self, received: Result<Received, Lost>, relayed: &mut u64) -> Result<(), Lost> {
        let Received::Text(text) = received? else {
            return Ok(());
        };
        match Meaning::of(&text) {
            Meaning::ForEditor => {
                *relayed += 1;
                // An editor that is too slow is closed where it is served.
                self.outbox.put(Frame::whole(text.into()));
                Ok(())
            }
            Meaning::Accepted | Meaning::Invalid => Ok(()),
            Meaning::Refused => {
                let error = self.upstream.refused();
                tracing::warn!(upstream = ?self.upstream, "comms: {error}");
                Err(Lost::Gone)
            }
        }
    }

    /// Opens the link again, for as long as it takes.
    async fn open_again(
        &self,
        replay: &mut Replay,
        said: &mut Receiver<Said>,
        failures: u32,
    ) -> Link {
        let mut pause = (PAUSE * 2_u32.pow(failures)).min(MAX_RETRY_DELAY);
        loop {
            let nap = sleep(pause);
            let mut attempt = pin!(async {
                nap.await;
                self.open().await
            });
            let attempt = loop {
                tokio::select! {
                    attempt = &mut attempt => break attempt,
                    Some(said) = said.recv() => drop(replay.remember(said)),
                }
            };
            match attempt {
                Ok(link) => return link,
                Err(error) => tracing::debug!(upstream = ?self.upstream, "comms: {error}"),
            }
            pause = (pause * 2).min(MAX_RETRY_DELAY);
        }
    }

    /// Opens the link and signs in; a token that is refused is renewed, once.
    async fn open(&self) -> Result<Link, Error> {
        let Some(bearer) = self.upstream.token().await? else {
            return self.link().await;
        };
        match self.signed_in(&bearer).await {
            Err(Error::Unauthorized) => match self.upstream.renew(&bearer).await? {
                Some(fresh) => self.signed_in(&fresh).await,
                None => self.link().await,
            },
            link => link,
        }
    }

    async fn signed_in(&self, bearer: &Bearer) -> Result<Link, Error> {
        let mut link = self.link().await?;
        let frame = json!({ "auth": bearer.token().reveal() }).to_string();
        let signed_in = async {
            link.say(frame).await?;
            loop {
                let Received::Text(text) = link.receive().await? else {
                    continue;
                };
                match Meaning::of(&text) {
                    Meaning::ForEditor => {}
                    meaning => return Ok::<_, Lost>(meaning),
                }
            }
        };
        match timeout(TIMEOUT, signed_in).await {
            Ok(Ok(Meaning::Refused)) => Err(self.upstream.refused()),
            Ok(Ok(Meaning::Invalid)) => Err(Error::Unexpected("its comms channel is not JSON")),
            Ok(Ok(_)) => Ok(link),
            Ok(Err(_)) => Err(Error::Unexpected("it closed its comms channel")),
            Err(_) => Err(Error::Timeout),
        }
    }

    async fn link(&self) -> Result<Link, Error> {
        let upgraded = self.upstream.websocket(self.head).await?;
        let longest = self.config.upstream_frame;
        Ok(Socket::new(upgraded, Role::Client, longest).await)
    }
}

/// The subscriptions and the presence that a new link repeats.
#[derive(Default)]
struct Replay {
    subscriptions: Vec<Pattern>,
    /// The frame that announces the editor to other editors.
    presence: Option<String>,
}

impl Replay {
    /// Records the state to restore; returns the frame to send.
    fn remember(&mut self, said: Said) -> String {
        match said {
            Said::Subscribe(pattern) => {
                let text = subscription(&pattern);
                if self.subscriptions.len() < SUBSCRIPTIONS
                    && !self.subscriptions.contains(&pattern)
                {
                    self.subscriptions.push(pattern);
                }
                text
            }
            Said::Publish { topic, text } => {
                match topic.as_str() {
                    "multiplayer/connect" => self.presence = Some(text.clone()),
                    "multiplayer/disconnect" => self.presence = None,
                    _ => {}
                }
                text
            }
        }
    }

    fn again(&self) -> Vec<String> {
        let presence = self.presence.iter().cloned();
        let subscriptions = self.subscriptions.iter().map(subscription);
        subscriptions.chain(presence).collect()
    }
}

fn subscription(pattern: &Pattern) -> String {
    json!({ "subscribe": pattern.as_str() }).to_string()
}

async fn send(link: &mut Link, text: String) -> Result<(), Lost> {
    timeout(TIMEOUT, link.say(text))
        .await
        .unwrap_or(Err(Lost::Gone))
}

/// The kind of an upstream's text: an object with `auth` answers the gateway's token, any other
/// object or array is relayed.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    ForEditor,
    Accepted,
    Refused,
    /// Neither an array nor an object; never relayed.
    Invalid,
}

impl Meaning {
    fn of(text: &str) -> Self {
        if text.trim_start().starts_with('[') {
            return Self::ForEditor;
        }
        match serde_json::from_str::<Map<String, Json>>(text) {
            Ok(object) => match object.get("auth") {
                None => Self::ForEditor,
                Some(auth) if auth == "ok" => Self::Accepted,
                Some(_) => Self::Refused,
            },
            Err(_) => Self::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authentication_frames_of_the_upstream_are_not_for_editors() {
        for text in [r#"[{"topic":"hb","data":1}]"#, " []", r#"{"x":1}"#] {
            assert_eq!(Meaning::of(text), Meaning::ForEditor, "{text}");
        }
        assert_eq!(Meaning::of(r#"{"auth":"ok"}"#), Meaning::Accepted);
        for text in [r#"{"auth":"fail"}"#, r#"{"x":1,"\u0061uth":"fail"}"#] {
            assert_eq!(Meaning::of(text), Meaning::Refused, "{text}");
        }
        for text in ["", "null", "\"auth\"", "{", "x"] {
            assert_eq!(Meaning::of(text), Meaning::Invalid, "{text}");
        }
    }
}
