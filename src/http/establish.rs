//! Signs users in, by a password or a passkey, with the audit record and the metrics; and records
//! how that fails.

use super::error::Error;
use super::request_context::RequestContext;
use super::user_agent::user_agent;
use crate::audit::{Actor, Audit, Event, Unavailable};
use crate::auth::{Auth, Issued, PasskeyAnswer, PasskeyClient, PasskeyError, SignIn, SignInError};
use crate::metrics::Login;
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::future::Future;

/// Signs in by a password: the throttle, the password, the audit record, and the metrics.
pub(super) async fn by_password(
    ctx: &RequestContext<'_>,
    auth: Auth,
    asked: SignIn,
) -> Result<Issued, Error> {
    let asked = SignIn {
        agent: user_agent(&ctx.head.headers),
        ..asked
    };
    let actor = Actor {
        user: auth.label(&asked.user),
        by: "password".to_owned(),
        ..ctx.actor()
    };
    let record = SignInRecord::new(ctx, actor, json!({ "client": asked.client }));
    let (signing, now) = (auth.clone(), ctx.now);
    let attempt = async move {
        let user = SmolStr::new(&asked.user);
        Ok((user, signing.sign_in(asked, now).await?))
    };
    establish(ctx, auth, record, attempt).await
}

/// The same by a passkey, for a client.
pub(super) async fn by_passkey(
    ctx: &RequestContext<'_>,
    auth: Auth,
    answer: PasskeyAnswer,
    client: &str,
) -> Result<Issued, Error> {
    let client = PasskeyClient {
        client: client.to_owned(),
        agent: user_agent(&ctx.head.headers),
        address: ctx.peer.address.ip(),
    };
    let actor = Actor {
        by: "passkey".to_owned(),
        ..ctx.actor()
    };
    let record = SignInRecord::new(ctx, actor, json!({ "client": client.client }));
    let (signing, now) = (auth.clone(), ctx.now);
    let attempt = async move { signing.sign_in_with_passkey(answer, client, now).await };
    establish(ctx, auth, record, attempt).await
}

async fn establish(
    ctx: &RequestContext<'_>,
    auth: Auth,
    mut record: SignInRecord,
    attempt: impl Future<Output = Result<(SmolStr, Issued), SignInError>> + Send + 'static,
) -> Result<Issued, Error> {
    let task = async move {
        let result = attempt.await.map(|(user, issued)| {
            // Users may have been read again meanwhile, and only now a passkey's is known.
            record.actor.user = user.into();
            if issued.ended > 0 {
                record.facts["ended"] = issued.ended.into();
            }
            issued
        });
        let kept = match &result {
            Ok(_) => record.succeeded(Event::Login).await,
            Err(error) => {
                record.failed(error);
                Ok(())
            }
        };
        if let (Ok(issued), Err(_)) = (&result, &kept) {
            // The token is not handed out, so no client can revoke it.
            let ended = auth.withdraw(issued).await;
            ended.unwrap_or_else(|error| tracing::warn!(%error, "a session could not be ended"));
        }
        (result, kept)
    };
    let (result, kept) = ctx.control(task).await?;
    count(ctx, result.as_ref().map(drop));
    let issued = result.map_err(Error::SignIn)?;
    kept.map_err(Error::SignInUnrecorded)?;
    Ok(issued)
}

/// Counts a sign-in, or a password or second factor that a user gives again.
pub(super) fn count(ctx: &RequestContext<'_>, result: Result<(), &SignInError>) {
    let gateway = ctx.gateway;
    let counted = match result {
        Ok(()) => Some(Login::Success),
        Err(error) => outcome(error).0,
    };
    if let Some(counted) = counted {
        gateway.metrics.login(counted);
    }
    if let Some(auth) = &gateway.auth {
        gateway.metrics.sessions(auth.active());
        gateway.metrics.lockouts(auth.lockouts());
        gateway.metrics.guessing(auth.guessing());
    }
}

/// The audit record of a sign-in.
pub(super) struct SignInRecord {
    audit: Audit,
    actor: Actor,
    now: u64,
    facts: Json,
}

impl SignInRecord {
    pub(super) fn new(ctx: &RequestContext<'_>, actor: Actor, mut facts: Json) -> Self {
        if let Some(upstream) = ctx.upstream() {
            facts["upstream"] = upstream.into();
        }
        Self {
            audit: ctx.gateway.audit.clone(),
            actor,
            now: ctx.now,
            facts,
        }
    }

    /// Writes a success, before what it gives is handed out.
    pub(super) async fn succeeded(self, event: Event) -> Result<(), Unavailable> {
        let Self {
            audit,
            actor,
            now,
            facts,
        } = self;
        audit.written(event, &actor, now, facts).await
    }

    /// Records a failure; it may be counted instead of written, and its response waits for neither.
    pub(super) fn failed(mut self, error: &SignInError) {
        let mut events = vec![outcome(error).1];
        let (locked, guessed) = match error {
            SignInError::BadCredentials {
                locked,
                guessed,
                outside,
            } => {
                if *outside {
                    self.facts["reason"] = "network".into();
                }
                (*locked, *guessed)
            }
            SignInError::BadPasskey {
                user,
                reason,
                locked,
                guessed,
            } => {
                if let Some(user) = user {
                    self.actor.user = user.to_string();
                }
                self.facts["reason"] = reason.to_string().into();
                events.extend((*reason == PasskeyError::Counter).then_some(Event::PasskeyCounter));
                (*locked, *guessed)
            }
            SignInError::Throttled { .. } | SignInError::InvalidScope | SignInError::Store(_) => {
                (false, false)
            }
        };
        events.extend(locked.then_some(Event::Lockout));
        events.extend(guessed.then_some(Event::Guessing));
        for event in events {
            self.audit
                .record(event, &self.actor, self.now, self.facts.clone());
        }
    }
}

/// The outcome of a failed sign-in, for metrics and audit; a failing store is not the client's
/// fault.
fn outcome(error: &SignInError) -> (Option<Login>, Event) {
    match error {
        SignInError::BadCredentials { .. } | SignInError::BadPasskey { .. } => {
            (Some(Login::BadCredentials), Event::LoginCredentials)
        }
        SignInError::InvalidScope => (Some(Login::InvalidScope), Event::LoginScope),
        SignInError::Throttled { .. } => (Some(Login::Throttled), Event::LoginThrottled),
        SignInError::Store(_) => (None, Event::LoginStore),
    }
}
