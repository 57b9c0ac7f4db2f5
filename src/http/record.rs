//! The audit record of an authorized request to the admin API: the caller, the action and the
//! outcome.
//!
//! A write is recorded after it was done, with the status that was answered; while the log fails,
//! it is recorded before as well, or not done. A read of a secret is recorded before it is
//! answered, unless the answer shows nothing. A client that hangs up leaves a record without a
//! status.

use super::error::Error;
use super::path::Path;
use super::response;
use super::response_body::Body;
use crate::audit::{Actor, Audit, Event};
use hyper::body::Body as _;
use hyper::{Method, Response};
use serde_json::{Value as Json, json};

/// Characters of a path that are kept. Our choice, as for names: a longer one is none of the admin
/// API's.
const MAX_PATH: usize = 256;

/// A record to be written when the request has ended, whatever becomes of the client.
pub(super) struct Record {
    pub(super) audit: Audit,
    pub(super) event: Event,
    pub(super) actor: Actor,
    pub(super) now: u64,
    /// Taken when it is written.
    pub(super) facts: Option<Json>,
}

/// The fields of a record when its request begins.
pub(super) fn fields(method: &Method, path: &Path<'_>) -> Json {
    let path: String = path.as_str().chars().take(MAX_PATH).collect();
    json!({ "method": method.as_str(), "path": path })
}

impl Record {
    /// Begins the record. An error: it cannot be written, so the request must not be served.
    pub(super) async fn begin(mut self: Box<Self>) -> Result<Box<Self>, Error> {
        if self.event == Event::Write && self.audit.refuses() {
            // Taken meanwhile: a request that was not begun leaves no record of its end.
            let facts = self.facts.take();
            let fields = facts.clone().unwrap_or_default();
            let begun = self
                .audit
                .written(Event::WriteBegin, &self.actor, self.now, fields);
            begun.await?;
            self.facts = facts;
        }
        Ok(self)
    }

    /// Ends it with the response. A secret that cannot be recorded is not shown.
    pub(super) async fn end(mut self: Box<Self>, response: Response<Body>) -> Response<Body> {
        let Some(mut facts) = self.facts.take() else {
            return response;
        };
        if self.event == Event::SecretRead && shows_nothing(&response) {
            return response;
        }
        facts["status"] = response.status().as_u16().into();
        if self.event == Event::Write {
            let event = if response.status().is_client_error() {
                Event::WriteFail
            } else {
                Event::Write
            };
            self.audit.record(event, &self.actor, self.now, facts);
            return response;
        }
        let written = self.audit.written(self.event, &self.actor, self.now, facts);
        match Box::pin(written).await {
            Ok(()) => response,
            Err(unavailable) => response::refusal(&Error::Audit(unavailable)),
        }
    }
}

/// Returns whether an answer is a refusal, or known to be no longer than `{}`: then no secret is in
/// it.
fn shows_nothing(response: &Response<Body>) -> bool {
    let empty = response
        .body()
        .size_hint()
        .upper()
        .is_some_and(|bytes| bytes <= 2);
    empty || response.status().is_client_error()
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(mut facts) = self.facts.take() {
            facts["status"] = Json::Null;
            self.audit.record(self.event, &self.actor, self.now, facts);
        }
    }
}
