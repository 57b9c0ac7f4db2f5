//! Sends the audit log to other machines: each sink takes the records in order, in batches, and a
//! batch is sent again until the sink has taken it (at least once). Over a protocol without
//! acknowledgements records are sent, and kept until a later probe finds the server: else they are
//! sent again.
//!
//! [`syslog`], [`webhook`] and [`otlp`] know the protocols. The log itself is the queue, so that
//! memory holds one batch of each sink and a restart loses nothing. Only records that are on disk
//! are sent: a power failure cannot take back what another machine has.

mod otlp;
mod syslog;
mod webhook;

use crate::audit::{Audit, Batch, Follower, Reader, from_rfc3339};
use crate::config::{AuditSink, SinkKind};
use crate::metrics::{self, Metrics};
use crate::otlp::rejected;
use crate::upstream::{OpenError, Outbound, OutboundTls};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

/// What is waited after a record, so that the records of a moment are one batch. Our choice.
const GATHER: Duration = Duration::from_millis(200);
/// The first and the longest delay before a batch is sent again; it doubles each time. Our choice:
/// a server that restarts is found in seconds, and one that is away for long is asked twice a
/// minute.
const RETRY: Duration = Duration::from_millis(250);
const MAX_RETRY: Duration = Duration::from_secs(30);
/// How long the end of the process waits for sinks that take records. Our choice: far below
/// `server.drain`.
const LAST: Duration = Duration::from_secs(3);

/// One sink could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("audit.sink {name}: {source}")]
pub struct Error {
    name: String,
    #[source]
    source: OpenError,
}

/// A sink and the way to it.
struct Sink {
    config: AuditSink,
    server: Arc<Outbound>,
    follower: Arc<Follower>,
    metrics: metrics::AuditSink,
    /// The machine's name, for the records' receivers.
    gateway: String,
    /// The identity of the log, for them as well.
    log: String,
}

/// The origin of records.
#[derive(Debug, Clone, Copy)]
struct Origin<'o> {
    /// The machine's name.
    host: &'o str,
    /// The identity of the log.
    log: &'o str,
}

/// Records that were sent without an acknowledgement.
#[derive(Default)]
struct Unproven {
    /// The time of the first of them, seconds since 1970.
    since: Option<u64>,
    /// The number of the last one.
    last: u64,
    /// A probe that runs, for those up to this number.
    probe: Option<(u64, JoinHandle<Result<(), String>>)>,
}

/// Whether each sink can be opened; connects to none.
pub fn check(sinks: &[AuditSink]) -> Result<(), Error> {
    sinks.iter().try_for_each(|sink| server(sink).map(drop))
}

fn server(config: &AuditSink) -> Result<Outbound, Error> {
    let tls = OutboundTls {
        ca_file: config.ca_file.as_deref(),
        certificate: config.certificate.as_ref(),
    };
    let tls = config.secure.then_some(&tls);
    Outbound::open(&config.host, config.port, tls).map_err(|source| Error {
        name: config.name.clone(),
        source,
    })
}

/// Starts a task for each sink, on the runtime of the caller; it ends with the log. `clock` returns
/// the time since 1970.
pub fn start(
    sinks: &[AuditSink],
    audit: &Audit,
    metrics: &Metrics,
    clock: fn() -> Duration,
) -> Result<(), Error> {
    for (config, follower) in sinks.iter().zip(audit.followers()) {
        let sink = Sink {
            server: Arc::new(server(config)?),
            follower: Arc::clone(follower),
            metrics: metrics.audit_sink(&config.name),
            gateway: crate::audit::machine_name(),
            log: audit.id().to_owned(),
            config: config.clone(),
        };
        let reader = audit.reader(follower);
        tokio::spawn(sink.run(reader, audit.durable_lines(), clock));
    }
    Ok(())
}

/// Waits until all that is on disk was sent to the sinks, if they take it soon.
pub async fn finish(audit: &Audit) {
    let last = *audit.durable_lines().borrow();
    let behind = || {
        let mut followers = audit.followers().iter();
        followers.any(|follower| follower.sent() < last && !follower.is_failing())
    };
    let all = async {
        while behind() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let _ = timeout(LAST, all).await;
}

impl Sink {
    async fn run(
        self,
        mut reader: Reader,
        mut lines: watch::Receiver<u64>,
        clock: fn() -> Duration,
    ) {
        reader.not_after(*lines.borrow());
        let mut retry = RETRY;
        let mut unproven = Unproven::default();
        loop {
            let next = reader.next();
            let ready = async {
                let ready = lines.wait_for(|last| *last >= next).await;
                ready.map(|last| *last)
            };
            let ready = tokio::select! {
                probed = unproven.probed() => Err(probed),
                ready = ready => Ok(ready),
            };
            let last = match ready {
                Ok(Ok(last)) => last,
                Ok(Err(_)) => return,
                Err((up_to, probed)) => {
                    self.prove(&mut unproven, up_to, probed, &mut reader, clock)
                        .await;
                    continue;
                }
            };
            sleep(GATHER).await;
            let last = last.max(*lines.borrow());
            let read = spawn_blocking(move || (reader.read(last), reader)).await;
            let Ok((read, back)) = read else { return };
            reader = back;
            match read {
                Ok(batch) => {
                    self.lose(&batch);
                    self.deliver(&batch, &lines, clock).await;
                    retry = RETRY;
                    self.settle(&batch, &mut unproven).await;
                }
                Err(error) => {
                    tracing::error!(sink = self.config.name, %error, "the audit log cannot be read for a sink");
                    self.metrics.failure();
                    sleep(retry).await;
                    retry = (retry * 2).min(MAX_RETRY);
                }
            }
        }
    }

    /// Returns whether the protocol has acknowledgements.
    fn acknowledges(&self) -> bool {
        !matches!(self.config.kind, SinkKind::Syslog)
    }

    /// Keeps the position after a batch that was acknowledged; else a probe follows.
    async fn settle(&self, batch: &Batch, unproven: &mut Unproven) {
        let (Some(first), Some(last)) = (batch.records.first(), batch.records.last()) else {
            return;
        };
        self.follower.set_sent(last.seq);
        if self.acknowledges() {
            self.keep(last.seq).await;
            return;
        }
        let written = from_rfc3339(&first.time).unwrap_or_default();
        unproven.since.get_or_insert(written);
        unproven.last = last.seq;
        if unproven.probe.is_none() {
            unproven.probe = Some(self.probe(last.seq));
        }
    }

    /// Begins to look for the server, for records up to this number.
    fn probe(&self, up_to: u64) -> (u64, JoinHandle<Result<(), String>>) {
        let (server, limit) = (Arc::clone(&self.server), self.config.timeout);
        let probe = async move {
            let probed = timeout(limit + syslog::PROBE, syslog::probe(&server)).await;
            probed.unwrap_or_else(|_| Err("it accepts no connection in time".to_owned()))
        };
        (up_to, tokio::spawn(probe))
    }

    /// Keeps the position if the server was found; else looks for it until it is, and then what was
    /// sent since the last probe is sent again.
    async fn prove(
        &self,
        unproven: &mut Unproven,
        up_to: u64,
        mut probed: Result<(), String>,
        reader: &mut Reader,
        clock: fn() -> Duration,
    ) {
        let since = unproven.since.take();
        if probed.is_ok() {
            self.keep(up_to).await;
            self.recovered();
            self.metrics.lag(unproven.last.saturating_sub(up_to), 0);
            if unproven.last > up_to {
                unproven.since = Some(clock().as_secs());
                unproven.probe = Some(self.probe(unproven.last));
            }
            return;
        }
        let taken = self.follower.taken();
        let mut retry = RETRY;
        while let Err(error) = probed {
            let lag = since.map_or(0, |since| clock().as_secs().saturating_sub(since));
            self.metrics.lag(unproven.last.saturating_sub(taken), lag);
            self.failed(&error, lag);
            sleep(retry).await;
            retry = (retry * 2).min(MAX_RETRY);
            let (_, probe) = self.probe(up_to);
            probed = probe.await.unwrap_or_else(|error| Err(error.to_string()));
        }
        self.follower.set_sent(taken);
        reader.not_after(taken);
    }

    /// Reports records that rotation or an operator has removed before the sink has taken them.
    fn lose(&self, batch: &Batch) {
        if batch.missing > 0 {
            let (sink, records) = (&self.config.name, batch.missing);
            tracing::error!(
                sink,
                records,
                "audit records were removed before this sink has taken them"
            );
            self.metrics.lost(records);
        }
    }

    /// Sends a batch until the sink has taken it.
    async fn deliver(&self, batch: &Batch, lines: &watch::Receiver<u64>, clock: fn() -> Duration) {
        let (Some(first), Some(last)) = (batch.records.first(), batch.records.last()) else {
            return;
        };
        let written = from_rfc3339(&first.time).unwrap_or_default();
        let mut retry = RETRY;
        let rejected = loop {
            let age = |now: u64| now.saturating_sub(written);
            self.metrics
                .lag(*lines.borrow() + 1 - first.seq, age(clock().as_secs()));
            let sent = timeout(self.config.timeout, self.send(batch, clock().as_secs())).await;
            let error = match sent {
                Ok(Ok(rejected)) => break rejected,
                Ok(Err(error)) => error,
                Err(_) => "it does not take the records in time".to_owned(),
            };
            let lag = age(clock().as_secs());
            self.failed(&error, lag);
            sleep(retry).await;
            retry = (retry * 2).min(MAX_RETRY);
        };
        let records = batch.records.len() as u64;
        if self.acknowledges() {
            self.recovered();
            self.metrics.delivered(records - rejected);
            self.metrics.lag(lines.borrow().saturating_sub(last.seq), 0);
        } else {
            self.metrics.sent(records);
        }
    }

    /// Sends a batch once; answers the number of records that the sink has rejected for good.
    async fn send(&self, batch: &Batch, now: u64) -> Result<u64, String> {
        let from = Origin {
            host: &self.gateway,
            log: &self.log,
        };
        match &self.config.kind {
            SinkKind::Syslog => {
                syslog::send(&self.server, &from, batch).await?;
                Ok(0)
            }
            SinkKind::Webhook { secret } => {
                let request = webhook::request(&from, secret, batch, now);
                let (status, _) = self
                    .server
                    .post(&self.config.path, request.0, request.1)
                    .await?;
                accepted(status)?;
                Ok(0)
            }
            SinkKind::Otlp { token } => {
                let request = otlp::request(&from, token.as_ref(), batch)?;
                let (status, body) = self
                    .server
                    .post(&self.config.path, request.0, request.1)
                    .await?;
                accepted(status)?;
                let sent = batch.records.len() as u64;
                let Some((records, error)) = rejected(&body, "rejectedLogRecords", sent)? else {
                    return Ok(0);
                };
                let sink = &self.config.name;
                tracing::error!(
                    sink,
                    records,
                    error,
                    "the collector has rejected audit records"
                );
                self.metrics.lost(records);
                Ok(records)
            }
        }
    }

    /// The first failure is logged, and the one with which the sink lags by more than it may.
    fn failed(&self, error: &str, lag: u64) {
        self.metrics.failure();
        let sink = &self.config.name;
        if !self.follower.set_failing(true) {
            tracing::warn!(
                sink,
                error,
                "an audit sink does not take records; they wait in the audit log"
            );
        }
        if lag > self.config.max_lag.as_secs() && !self.follower.set_lagging(true) {
            tracing::error!(
                sink,
                error,
                lag,
                "an audit sink lags by more than its max_lag: see audit.on_failure"
            );
        }
    }

    fn recovered(&self) {
        let sink = &self.config.name;
        let lagged = self.follower.set_lagging(false);
        if self.follower.set_failing(false) || lagged {
            tracing::info!(sink, "the audit sink takes records again");
        }
    }

    /// Keeps the position.
    async fn keep(&self, last: u64) {
        let follower = Arc::clone(&self.follower);
        let kept = spawn_blocking(move || follower.keep(last)).await;
        if let Ok(Err(error)) = kept {
            // Then these records are sent again after a restart.
            tracing::warn!(sink = self.config.name, %error, "the position of an audit sink cannot be stored");
        }
    }
}

impl Unproven {
    /// The result of the probe that runs; never, if there is none.
    async fn probed(&mut self) -> (u64, Result<(), String>) {
        let Some((up_to, probe)) = &mut self.probe else {
            return pending().await;
        };
        let up_to = *up_to;
        let result = probe.await;
        self.probe = None;
        (up_to, result.unwrap_or_else(|error| Err(error.to_string())))
    }
}

fn accepted(status: u16) -> Result<(), String> {
    match status {
        200..=299 => Ok(()),
        status => Err(format!("the status of its response is {status}")),
    }
}
