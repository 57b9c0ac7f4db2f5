//! The state of one connection of an `mqtt-broker` node, dropped when the connection is lost.

use super::application_message::Publish;
use super::settings::Settings;
use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Sleep;

/// The state of one connection.
#[derive(Default)]
pub(super) struct Session {
    pub(super) signed_in: bool,
    pub(super) over: bool,
    /// To be written.
    pub(super) out: Vec<u8>,
    pub(super) ping: Option<Pin<Box<Sleep>>>,
    pub(super) pong: Option<Pin<Box<Sleep>>>,
    aliases: HashMap<u16, String>,
    pub(super) most_aliases: u16,
    pub(super) numbers: bool,
}

impl Session {
    /// Waits anew for the response to a ping: while nothing was read, pings were sent, and their
    /// responses may still come.
    pub(super) fn extend_pong(&mut self, settings: &Settings) {
        if let Some(pong) = &mut self.pong {
            let timeout = Duration::from_secs(settings.keep_alive.max(1).into());
            *pong = Box::pin(tokio::time::sleep(timeout));
        }
    }

    /// Leaves out a topic for which the broker has an alias, and an alias that the broker does not
    /// allow.
    pub(super) fn shorten(&mut self, publish: &mut Publish) {
        let most = self.most_aliases;
        let alias = publish.extras.alias.filter(|a| (1..=most).contains(a));
        publish.extras.alias = alias;
        let Some(alias) = alias else { return };
        if self.aliases.get(&alias) == Some(&publish.topic) {
            publish.topic.clear();
        } else {
            self.aliases.insert(alias, publish.topic.clone());
        }
    }
}

/// Waits for a timer, for ever if there is none.
pub(super) async fn due(timer: &mut Option<Pin<Box<Sleep>>>) {
    match timer {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}
