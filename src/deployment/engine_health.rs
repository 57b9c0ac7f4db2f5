//! What a health check and a fallback need of flowgate's own engine.

use super::current::Sights;
use super::{Active, Deployments, Error, fresh_rev};
use crate::audit::Actor;
use crate::store::FALLBACK;
use engine::Engine;
use flows::{DeploymentType, Patch};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::timeout;

impl Deployments {
    /// Makes other flows live and durable, if these are active still.
    pub(super) async fn fall_back_here(
        &self,
        bad: &str,
        healthy: &Active,
        now: u64,
    ) -> Result<Option<String>, Error> {
        let before = self.active();
        if before.rev != bad {
            return Ok(None);
        }
        let next = Active {
            flows: Arc::clone(&healthy.flows),
            credentials: Arc::clone(&healthy.credentials),
            rev: fresh_rev(),
            sights: Sights::default(),
            part: OnceLock::new(),
        };
        let counts = Patch::between(&before.flows, &next.flows).counts;
        let record = next.record(&Actor::program(), FALLBACK, Some(counts), now);
        self.store.set_aside(bad).await.map_err(Error::Store)?;
        self.store.commit(record).await.map_err(Error::Store)?;
        let full = DeploymentType::Full;
        let plan = self.plan([&before, &next], &HashSet::new(), full, HashSet::new());
        let next = Arc::new(next);
        if self.make_live(plan, &next).await.is_err() {
            let rev = &next.rev;
            tracing::error!(rev, "the flows are stored but could not be made live");
        }
        *self.set_aside.lock() = Some(bad.to_owned());
        self.metrics.fallen_back(true);
        let rev = next.rev.clone();
        self.active.send_replace(next);
        self.runtime.announce(&rev);
        Ok(Some(rev))
    }
}

/// Whether the http in node on a path answers 2xx.
pub(super) async fn endpoint(engine: &Engine, path: &str, limit: Duration) -> Result<(), String> {
    let method = hyper::Method::GET;
    let Some(endpoint) = engine.endpoint(&method, path) else {
        return Err(format!("no http in node is on {path}"));
    };
    let request = engine::http::Request {
        method,
        path: path.to_owned(),
        url: path.to_owned(),
        query: String::new(),
        params: Vec::new(),
        headers: hyper::HeaderMap::new(),
        body: bytes::Bytes::new(),
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        secure: false,
        user: None,
    };
    match timeout(limit, engine.call(endpoint, request, None)).await {
        Err(_) => Err(format!("{path} gave no answer within {limit:?}")),
        Ok(Err(error)) => Err(format!("{path} gave no answer: {error}")),
        Ok(Ok(Ok((reply, _)))) if (200..300).contains(&reply.status) => Ok(()),
        Ok(Ok(Ok((reply, _)))) => Err(format!("{path} answered {}", reply.status)),
        Ok(Ok(Err(_))) => Err(format!("the answer of {path} is too large")),
    }
}
