//! The socket in the data directory over which the operator's commands reach the running gateway:
//! tokens, sessions, reload, profiles. A line with the key and one of JSON ask, one answers.
//!
//! Only root and the user that the gateway runs as are accepted, with the key of the data directory
//! ([`mod@control_key`]): the socket is for its owner, and the system reports the peer's user.
//! Independent of terminals: the command line writes the output.

use super::control_key;
use super::reload::Reload;
use crate::audit::{Actor, Event, Unavailable, rfc3339};
use crate::auth::{
    Auth, CreateTokenError, NewToken, PasskeyInfo, PasskeySelector, SessionInfo, SessionSelector,
};
use crate::config::is_reason;
use crate::gateway::Gateway;
#[cfg(feature = "engine")]
use crate::gateway::Runtime;
use crate::http::unix_time;
use crate::policy::Freeze;
use crate::store::{self, step};
use crypto::Secret;
#[cfg(feature = "engine")]
use engine::profile::Profile;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// The socket's name in the data directory.
const FILE: &str = "flowgate.sock";

/// Bytes of a question. Our choice: the longest has a name and a few permissions.
const MAX_LENGTH: u64 = 64 << 10;
/// The time-out for receiving a request. Our choice: it comes from a program on the same machine.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest profile. Our choice: half of the time that the command line waits for a response.
#[cfg(feature = "engine")]
const MAX_PROFILE: Duration = Duration::from_secs(30);

/// A request on the control socket.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Ask {
    /// Makes a service token.
    CreateToken(NewToken),
    /// Ends the service token of this name.
    RevokeToken {
        /// Its name.
        name: String,
    },
    /// Shows all sessions.
    List,
    /// Ends the sessions of a user.
    RevokeUser {
        /// The user's name.
        user: String,
    },
    /// Ends the sessions of all users.
    RevokeAllUsers,
    /// Ends one session.
    RevokeSession {
        /// As it is listed.
        id: String,
    },
    /// Shows passkeys: of a user, or of all.
    ListPasskeys {
        /// The user's name.
        user: Option<String>,
    },
    /// Removes the passkeys of a user, or one.
    RevokePasskeys {
        /// The user's name.
        user: Option<String>,
        /// As it is listed.
        id: Option<String>,
    },
    /// Reads users, routes and certificates again.
    Reload,
    /// Refuses all deployments for a time.
    Freeze {
        /// Its duration.
        seconds: u64,
        /// The reason, for users.
        reason: String,
    },
    /// Ends that.
    Unfreeze,
    /// Shows the metrics.
    Metrics,
    /// Takes a profile of the engine.
    #[cfg(feature = "engine")]
    Profile {
        /// Its duration.
        seconds: f64,
    },
}

/// A response on the control socket.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A token, shown only now.
    Token {
        /// The token.
        token: String,
        /// When it ends, seconds since 1970.
        expires: u64,
    },
    /// Sessions: those there are, or those that have ended.
    Sessions(Vec<SessionInfo>),
    /// Passkeys: those there are, or those that were removed.
    Passkeys(Vec<PasskeyInfo>),
    /// Nothing is deployed until then, seconds since 1970.
    Frozen {
        /// The end.
        until: u64,
    },
    /// The metrics, as text for Prometheus.
    Metrics(String),
    /// It is done.
    Done,
    /// A profile.
    #[cfg(feature = "engine")]
    Profile {
        /// The nodes that used most.
        profile: Profile,
        /// Bytes of memory that the gateway has.
        memory: u64,
    },
    /// It is not, and why.
    Refused(String),
}

/// The path of the socket in a data directory.
pub fn path(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Creates the socket and listens on it, for as long as the control runtime lives.
pub(super) fn open(reload: &Arc<Reload>) -> io::Result<Open> {
    let directory = reload.gateway.config.storage.directory.clone();
    let path = path(&directory);
    // No process listens on it: the data directory is locked by this one.
    step();
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let key = Arc::new(control_key::make(&directory)?);
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    // It must not keep the gateway: when that has ended, its data directory is free.
    let reload = Arc::downgrade(reload);
    let hears = async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let Some(reload) = reload.upgrade() else {
                        return;
                    };
                    tokio::spawn(serve(stream, Arc::clone(&key), reload));
                }
                Err(error) => {
                    tracing::warn!(%error, "control socket: accept failed; retrying");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    };
    let task = tokio::spawn(hears);
    Ok(Open { directory, task })
}

/// The socket; dropped, it is gone.
pub(super) struct Open {
    directory: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(path(&self.directory));
        control_key::remove(&self.directory);
    }
}

async fn serve(mut stream: UnixStream, key: Arc<Secret>, reload: Arc<Reload>) {
    let Ok(peer) = stream.peer_cred() else { return };
    let own = rustix::process::geteuid().as_raw();
    if peer.uid() != 0 && peer.uid() != own {
        tracing::warn!(
            uid = peer.uid(),
            "another user has connected to the control socket"
        );
        return;
    }
    let (mut given, mut line) = (String::new(), String::new());
    let mut reader = BufReader::new((&mut stream).take(MAX_LENGTH));
    let read = async {
        reader.read_line(&mut given).await?;
        reader.read_line(&mut line).await
    };
    if !matches!(timeout(TIMEOUT, read).await, Ok(Ok(length)) if length > 0) {
        return;
    }
    if Secret::new(given.trim_end().to_owned()) != *key {
        tracing::warn!(
            uid = peer.uid(),
            "a request without the key of the control socket"
        );
        return;
    }
    let answer = match serde_json::from_str(&line) {
        Ok(ask) => {
            #[cfg(feature = "engine")]
            let only_reads = matches!(ask, Ask::Profile { .. });
            #[cfg(not(feature = "engine"))]
            let only_reads = false;
            let handler = ControlHandler {
                gateway: &reload.gateway,
                reload: &reload,
                by: json!({ "by": "control", "uid": peer.uid() }),
                now: unix_time().as_secs(),
            };
            tokio::select! {
                answer = handler.answer(ask) => answer,
                // The client is gone, and only a profile is of no use without it.
                _ = reader.read_u8(), if only_reads => return,
            }
        }
        Err(error) => Answer::Refused(format!("not understood: {error}")),
    };
    let mut text = serde_json::to_vec(&answer).unwrap_or_default();
    text.push(b'\n');
    // A client that does not wait for the response does not get it.
    let _ = timeout(TIMEOUT, stream.write_all(&text)).await;
}

/// The handler of one request.
struct ControlHandler<'a> {
    gateway: &'a Gateway,
    reload: &'a Reload,
    /// The requester, for the audit log.
    by: Value,
    now: u64,
}

/// Why a question is refused.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("authentication is off: there are no tokens and no sessions")]
    NoAuth,
    #[error("there is no token named {0}")]
    NoToken(String),
    #[error("there is no such session")]
    NoSession,
    #[error("there is no such passkey")]
    NoPasskey,
    #[error(transparent)]
    CreateToken(#[from] CreateTokenError),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Audit(#[from] Unavailable),
    #[error(transparent)]
    Reload(#[from] super::reload::Error),
    #[error("a freeze has a reason of 1 to 200 characters on one line")]
    Reason,
    #[cfg(feature = "engine")]
    #[error("a profile takes at most {} seconds", MAX_PROFILE.as_secs())]
    Duration,
    #[cfg(feature = "engine")]
    #[error("the flows run in an upstream; profiles are those of flowgate's own engine")]
    NoEngine,
    #[cfg(feature = "engine")]
    #[error(transparent)]
    Engine(#[from] engine::Error),
}

impl ControlHandler<'_> {
    async fn answer(&self, ask: Ask) -> Answer {
        let answer = match ask {
            Ask::CreateToken(made) => self.create(made).await,
            Ask::RevokeToken { name } => self.revoke(SessionSelector::Token(name)).await,
            Ask::RevokeUser { user } => self.revoke(SessionSelector::User(user)).await,
            Ask::RevokeAllUsers => self.revoke(SessionSelector::AllUsers).await,
            Ask::RevokeSession { id } => self.revoke(SessionSelector::Id(id)).await,
            Ask::List => self
                .auth()
                .map(|auth| Answer::Sessions(auth.list(self.now))),
            Ask::ListPasskeys { user } => self.passkeys(user).await,
            Ask::RevokePasskeys { user, id } => self.remove_passkeys(user, id).await,
            Ask::Reload => {
                let done = self.reload.read_again(self.by.clone()).await;
                done.map(|()| Answer::Done).map_err(Error::from)
            }
            Ask::Freeze { seconds, reason } => self.freeze(seconds, reason).await,
            Ask::Unfreeze => self.unfreeze().await,
            Ask::Metrics => Ok(Answer::Metrics(self.gateway.metrics.render())),
            #[cfg(feature = "engine")]
            Ask::Profile { seconds } => self.profile(seconds).await,
        };
        if let Ok(auth) = self.auth() {
            self.gateway.metrics.sessions(auth.active());
        }
        answer.unwrap_or_else(|error| Answer::Refused(error.to_string()))
    }

    async fn create(&self, made: NewToken) -> Result<Answer, Error> {
        let auth = self.auth()?;
        auth.check_token(&made, self.now)?;
        let lifetime = made.lifetime.map(|lifetime| lifetime.as_secs());
        let facts = json!({
            "name": made.name, "permissions": made.permissions, "networks": made.networks,
            "rate_limit": made.rate_limit, "lifetime": lifetime,
        });
        self.durable(Event::TokenCreate, facts).await?;
        if lifetime.is_none() {
            tracing::warn!(
                name = made.name,
                "a service token that never ends has been made"
            );
        }
        let issued = auth.create_token(made, None, self.now).await?;
        Ok(Answer::Token {
            token: issued.token.reveal().to_owned(),
            expires: self.now + issued.expires_in.as_secs(),
        })
    }

    /// Ends sessions whether or not that can be recorded: a revocation must not depend on the audit
    /// log.
    async fn revoke(&self, which: SessionSelector) -> Result<Answer, Error> {
        let ended = self.auth()?.end_all(&which, self.now).await?;
        let (event, facts) = match which {
            SessionSelector::Token(name) if ended.is_empty() => return Err(Error::NoToken(name)),
            SessionSelector::Id(_) if ended.is_empty() => return Err(Error::NoSession),
            SessionSelector::Token(name) => (Event::TokenRevoke, json!({ "name": name })),
            SessionSelector::AllUsers => {
                let facts = json!({ "of": "*", "sessions": ended.len() });
                (Event::SessionRevoke, facts)
            }
            SessionSelector::User(user) => {
                let facts = json!({ "of": user, "sessions": ended.len() });
                (Event::SessionRevoke, facts)
            }
            SessionSelector::Id(id) => {
                let of = ended.first().map(|ended| ended.user.as_str());
                (Event::SessionRevoke, json!({ "of": of, "id": id }))
            }
        };
        let _ = self.durable(event, facts).await;
        Ok(Answer::Sessions(ended))
    }

    async fn passkeys(&self, user: Option<String>) -> Result<Answer, Error> {
        let passkeys = self.auth()?.passkeys(user.as_deref()).await?;
        Ok(Answer::Passkeys(passkeys))
    }

    /// As a revocation, it does not depend on the audit log.
    async fn remove_passkeys(
        &self,
        user: Option<String>,
        id: Option<String>,
    ) -> Result<Answer, Error> {
        let which = match (user, id) {
            (Some(user), None) => PasskeySelector::User(user),
            (None, Some(id)) => PasskeySelector::Id(id),
            _ => return Err(Error::NoPasskey),
        };
        let removed = self.auth()?.remove_passkeys(&which).await?;
        let facts = match &which {
            PasskeySelector::User(user) => json!({ "of": user, "passkeys": removed.len() }),
            PasskeySelector::Id(id) | PasskeySelector::UsersOwn(_, id) => {
                let removed = removed.first().ok_or(Error::NoPasskey)?;
                json!({ "of": removed.user, "id": id, "name": removed.name })
            }
        };
        let _ = self.durable(Event::PasskeyRemove, facts).await;
        Ok(Answer::Passkeys(removed))
    }

    async fn freeze(&self, seconds: u64, reason: String) -> Result<Answer, Error> {
        if !is_reason(&reason) {
            return Err(Error::Reason);
        }
        let until = self.now.saturating_add(seconds);
        let facts = json!({ "until": rfc3339(until), "reason": reason });
        let freeze = self.gateway.freeze(Some(Freeze { until, reason }));
        freeze.await?;
        // As a revocation, it must not depend on the audit log.
        let _ = self.durable(Event::Freeze, facts).await;
        Ok(Answer::Frozen { until })
    }

    async fn unfreeze(&self) -> Result<Answer, Error> {
        self.durable(Event::Unfreeze, json!({})).await?;
        self.gateway.freeze(None).await?;
        Ok(Answer::Done)
    }

    #[cfg(feature = "engine")]
    async fn profile(&self, seconds: f64) -> Result<Answer, Error> {
        let engine =
            self.gateway
                .backends
                .all()
                .iter()
                .find_map(|backend| match &backend.runtime {
                    Runtime::Own(engine) => Some(engine),
                    Runtime::Upstream(_) => None,
                });
        let duration = Duration::try_from_secs_f64(seconds).ok();
        let duration = duration
            .filter(|duration| *duration <= MAX_PROFILE)
            .ok_or(Error::Duration)?;
        let profile = engine.ok_or(Error::NoEngine)?.profile(duration).await?;
        Ok(Answer::Profile {
            profile,
            memory: resident(),
        })
    }

    fn auth(&self) -> Result<&Auth, Error> {
        self.gateway.auth.as_ref().ok_or(Error::NoAuth)
    }

    async fn durable(&self, event: Event, mut facts: Value) -> Result<(), Unavailable> {
        if let (Some(facts), Some(by)) = (facts.as_object_mut(), self.by.as_object()) {
            facts.extend(by.clone());
        }
        let program = Actor::program();
        let audit = &self.gateway.audit;
        audit.durable(event, &program, self.now, facts).await
    }
}

/// Bytes of memory that this process has; 0: the system does not say.
#[cfg(feature = "engine")]
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}
