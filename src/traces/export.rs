//! Sends spans to a collector, in batches. Nothing waits for it: beyond a bounded queue, and after
//! a few attempts, spans are dropped and counted.

use super::Span;
use crate::config;
use crate::metrics::{SpanEnd, Traces};
use crate::otlp::{headers, rejected, resource, scope};
use crate::upstream::Outbound;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

/// Spans of one request. As `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` by default.
const BATCH: usize = 512;
/// Attempts to send a batch. Our choice: with the delays between them some 15 s, in which a
/// collector restarts.
const ATTEMPTS: u32 = 5;
/// The delay after the first attempt; it doubles each time. Our choice.
const RETRY: Duration = Duration::from_secs(1);

/// The task that sends.
pub(super) struct Exporter {
    pub(super) config: config::Traces,
    pub(super) collector: Outbound,
    pub(super) queue: mpsc::Receiver<Span>,
    /// Becomes true, or ends, when the gateway does.
    pub(super) closing: watch::Receiver<bool>,
    pub(super) metrics: Traces,
    /// The machine's name.
    pub(super) gateway: String,
}

/// Why a batch was not taken.
enum Failure {
    /// Another attempt may succeed.
    Passing(String),
    /// The specification forbids to send it again (OTLP/HTTP, "Failures").
    Final(String),
}

impl Exporter {
    pub(super) async fn run(mut self) {
        let mut failing = false;
        while !self.is_closing() {
            let batch = self.gather().await;
            if !batch.is_empty() {
                let delivered = self.deliver(&batch).await;
                report(delivered, &mut failing);
            }
        }
        self.queue.close();
        // The caller of the end limits the time.
        loop {
            let mut batch = Vec::new();
            if self.queue.recv_many(&mut batch, BATCH).await == 0 {
                return;
            }
            let delivered = self.deliver(&batch).await;
            report(delivered, &mut failing);
        }
    }

    fn is_closing(&self) -> bool {
        *self.closing.borrow() || self.closing.has_changed().is_err()
    }

    /// The spans of an interval, or the first [`BATCH`] of it.
    async fn gather(&mut self) -> Vec<Span> {
        let mut batch = Vec::new();
        let (queue, interval) = (&mut self.queue, self.config.interval);
        let filled = async {
            queue.recv_many(&mut batch, BATCH).await;
            let rest = async {
                while batch.len() < BATCH {
                    let room = BATCH - batch.len();
                    if queue.recv_many(&mut batch, room).await == 0 {
                        return;
                    }
                }
            };
            let _ = timeout(interval, rest).await;
        };
        tokio::select! {
            () = filled => {}
            _ = self.closing.wait_for(|closing| *closing) => {}
        }
        batch
    }

    /// Sends a batch, a few times if need be; an error: it is lost.
    async fn deliver(&mut self, batch: &[Span]) -> Result<(), String> {
        let count = batch.len() as u64;
        let body = Bytes::from(self.body(batch));
        let mut retry = RETRY;
        for attempt in 1.. {
            let sent = timeout(self.config.timeout, self.send(body.clone(), count)).await;
            let late = || Err(Failure::Passing("no response in time".to_owned()));
            let error = match sent.unwrap_or_else(|_| late()) {
                Ok(refused) => {
                    self.metrics.ended(SpanEnd::Rejected, refused);
                    self.metrics.ended(SpanEnd::Exported, count - refused);
                    return Ok(());
                }
                Err(Failure::Passing(_)) if attempt < ATTEMPTS && !self.is_closing() => {
                    tokio::select! {
                        () = sleep(retry) => {}
                        _ = self.closing.wait_for(|closing| *closing) => {}
                    }
                    retry *= 2;
                    continue;
                }
                Err(Failure::Passing(error) | Failure::Final(error)) => error,
            };
            self.metrics.ended(SpanEnd::Undelivered, count);
            return Err(error);
        }
        Ok(())
    }

    /// Sends a batch once; answers the number of spans that the collector has rejected.
    async fn send(&self, body: Bytes, count: u64) -> Result<u64, Failure> {
        let headers = headers(self.config.token.as_ref()).map_err(Failure::Final)?;
        let posted = self.collector.post(&self.config.path, headers, body).await;
        let (status, body) = posted.map_err(Failure::Passing)?;
        let error = format!("the status of its response is {status}");
        match status {
            200..=299 => {}
            429 | 502..=504 => return Err(Failure::Passing(error)),
            _ => return Err(Failure::Final(error)),
        }
        // Sent again, those that it has taken would be there twice.
        let rejected = rejected(&body, "rejectedSpans", count).map_err(Failure::Final)?;
        let Some((spans, error)) = rejected else {
            return Ok(0);
        };
        tracing::warn!(spans, error, "the collector has rejected spans");
        Ok(spans)
    }

    fn body(&self, batch: &[Span]) -> String {
        let spans: Vec<Json> = batch.iter().map(Span::to_json).collect();
        json!({ "resourceSpans": [{
            "resource": resource(&self.gateway),
            "scopeSpans": [{ "scope": scope("flowgate"), "spans": spans }],
        }] })
        .to_string()
    }
}

/// Logs the first failure, and the end of the failures.
fn report(delivered: Result<(), String>, failing: &mut bool) {
    let failed = delivered.is_err();
    match delivered {
        Ok(()) if *failing => tracing::info!("the collector of traces takes spans again"),
        Err(error) if !*failing => {
            tracing::warn!(
                error,
                "the collector of traces does not take spans; they are dropped"
            );
        }
        Ok(()) | Err(_) => {}
    }
    *failing = failed;
}
