//! The last hour in a few numbers: a ring of samples, made of the page for Prometheus, for people
//! who look at the console.

use super::Metrics;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::time::Duration;

/// The interval between samples. Our choice: finer than a person reads from an hour's curve, and
/// rare enough that reading all series costs nothing.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// The samples of an hour: some 30 KiB.
const MAX_SAMPLES: usize = 360;

/// The numbers of one interval, or at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// When it was made, seconds since 1970.
    pub at: u64,
    /// Requests answered in the interval.
    pub requests: f64,
    /// Those of them with a status of 500 or more.
    pub errors: f64,
    /// The seconds in which half of them were answered; NaN: there were none.
    pub p50: f64,
    /// The seconds in which 99 of 100 were answered; NaN: there were none.
    pub p99: f64,
    /// Sign-ins that succeeded.
    pub sign_ins: f64,
    /// Sign-ins that failed, tokens that are no good, and permissions that were lacking.
    pub refusals: f64,
    /// Deployments that succeeded.
    pub deployments: f64,
    /// Messages that nodes of the engine received.
    pub messages: f64,
    /// Editors connected, at the end.
    pub editors: f64,
    /// Sessions alive, at the end.
    pub sessions: f64,
    /// Resident memory of the gateway in bytes, at the end.
    pub memory: f64,
}

/// The samples of the last hour.
#[derive(Debug, Default)]
pub struct LastHour(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    samples: VecDeque<Sample>,
    before: Option<Totals>,
}

/// Sums since the start, and values of now.
#[derive(Debug, Clone, Default)]
struct Totals {
    counters: Sample,
    /// Requests by the upper bound of their duration, in ascending order; each includes those
    /// before it.
    durations: Vec<(f64, f64)>,
}

impl LastHour {
    /// Adds a sample of what has happened since the last one. `memory` is in bytes.
    pub fn sample(&self, metrics: &Metrics, at: u64, memory: u64) {
        let mut totals = totals(&metrics.render());
        totals.counters.at = at;
        totals.counters.memory = memory as f64;
        let mut ring = self.lock();
        if let Some(before) = &ring.before {
            let sample = totals.since(before);
            if ring.samples.len() == MAX_SAMPLES {
                ring.samples.pop_front();
            }
            ring.samples.push_back(sample);
        }
        ring.before = Some(totals);
    }

    /// The samples, oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        self.lock().samples.iter().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.0.lock()
    }
}

impl Totals {
    fn since(&self, before: &Self) -> Sample {
        let (now, then) = (&self.counters, &before.counters);
        let was = |at: usize| before.durations.get(at).map_or(0.0, |(_, count)| *count);
        let durations = self.durations.iter().enumerate();
        let durations: Vec<_> = durations
            .map(|(at, (bound, count))| (*bound, count - was(at)))
            .collect();
        Sample {
            requests: now.requests - then.requests,
            errors: now.errors - then.errors,
            p50: quantile(&durations, 0.5),
            p99: quantile(&durations, 0.99),
            sign_ins: now.sign_ins - then.sign_ins,
            refusals: now.refusals - then.refusals,
            deployments: now.deployments - then.deployments,
            messages: now.messages - then.messages,
            ..*now
        }
    }
}

/// Adds up the series of a page.
fn totals(page: &str) -> Totals {
    let mut totals = Totals::default();
    let sums = &mut totals.counters;
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let Ok(value) = value.parse::<f64>() else {
            continue;
        };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let has = |label: &str| labels.contains(label);
        match name {
            "flowgate_requests_total" => {
                sums.requests += value;
                sums.errors += if has("status=\"5xx\"") { value } else { 0.0 };
            }
            "flowgate_request_duration_seconds_bucket" => {
                let bound = labels
                    .split("le=\"")
                    .nth(1)
                    .and_then(|le| le.split('"').next());
                let bound = bound.and_then(|bound| bound.parse::<f64>().ok());
                add(&mut totals.durations, bound.unwrap_or(f64::INFINITY), value);
            }
            "flowgate_logins_total" if has("result=\"success\"") => sums.sign_ins += value,
            // A request without a token is how a browser begins.
            "flowgate_token_checks_total"
                if ["valid", "certificate", "absent"]
                    .iter()
                    .any(|result| has(&format!("result=\"{result}\""))) => {}
            "flowgate_permission_checks_total" if has("result=\"granted\"") => {}
            "flowgate_logins_total"
            | "flowgate_token_checks_total"
            | "flowgate_permission_checks_total" => sums.refusals += value,
            "flowgate_deployments_total" if has("result=\"success\"") => sums.deployments += value,
            "flowgate_node_messages_total" => sums.messages += value,
            "flowgate_comms_connections" => sums.editors += value,
            "flowgate_sessions_active" => sums.sessions += value,
            _ => {}
        }
    }
    totals
}

fn add(durations: &mut Vec<(f64, f64)>, bound: f64, value: f64) {
    let at = durations.partition_point(|(known, _)| *known < bound);
    match durations.get_mut(at) {
        Some((known, count)) if *known <= bound => *count += value,
        _ => durations.insert(at, (bound, value)),
    }
}

/// The duration below which this part of the requests is, as Prometheus' `histogram_quantile`
/// estimates it.
fn quantile(durations: &[(f64, f64)], part: f64) -> f64 {
    let all = durations.last().map_or(0.0, |(_, count)| *count);
    if all <= 0.0 {
        return f64::NAN;
    }
    let wanted = all * part;
    let at = durations.partition_point(|(_, count)| *count < wanted);
    let (below, count_below) = at
        .checked_sub(1)
        .and_then(|before| durations.get(before))
        .copied()
        .unwrap_or_default();
    match durations.get(at) {
        Some((bound, count)) if bound.is_finite() => {
            below + (bound - below) * (wanted - count_below) / (count - count_below)
        }
        _ => below,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Login, RouteClass, Traffic};
    use super::*;

    fn answer(metrics: &Metrics, status: u16, millis: u64) {
        let traffic = Traffic {
            duration: Duration::from_millis(millis),
            received: 0,
            sent: 0,
        };
        metrics.request(RouteClass::Flows, &hyper::Method::GET, status, traffic);
    }

    #[test]
    fn a_sample_has_what_happened_since_the_one_before() {
        let (metrics, hour) = (Metrics::new(), LastHour::default());
        answer(&metrics, 200, 1);
        hour.sample(&metrics, 10, 0);
        assert_eq!(hour.samples(), [], "there is none before");
        for _ in 0..99 {
            answer(&metrics, 200, 2);
        }
        answer(&metrics, 503, 900);
        metrics.login(Login::Success);
        metrics.login(Login::BadCredentials);
        metrics.permission_check(false);
        metrics.permission_check(true);
        metrics.sessions(3);
        hour.sample(&metrics, 20, 4096);
        hour.sample(&metrics, 30, 4096);
        let samples = hour.samples();
        let [first, second] = &samples[..] else {
            panic!("{samples:?}");
        };
        assert_eq!((first.at, first.requests, first.errors), (20, 100.0, 1.0));
        assert_eq!((first.sign_ins, first.refusals), (1.0, 2.0));
        assert_eq!((first.sessions, first.memory), (3.0, 4096.0));
        assert!(first.p50 > 0.001 && first.p50 <= 0.005, "{}", first.p50);
        assert!(first.p99 <= 0.005, "{}", first.p99);
        assert_eq!((second.requests, second.sessions), (0.0, 3.0));
        assert!(second.p50.is_nan());
    }

    #[test]
    fn the_ring_keeps_an_hour() {
        let (metrics, hour) = (Metrics::new(), LastHour::default());
        for at in 0..=MAX_SAMPLES as u64 + 5 {
            hour.sample(&metrics, at, 0);
        }
        let samples = hour.samples();
        assert_eq!(samples.len(), MAX_SAMPLES);
        assert_eq!(samples.first().map(|sample| sample.at), Some(6));
    }

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let durations = [(0.1, 0.0), (0.5, 10.0), (1.0, 20.0), (f64::INFINITY, 21.0)];
        assert!((quantile(&durations, 0.25) - 0.31).abs() < 1e-9);
        assert!((quantile(&durations, 0.999) - 1.0).abs() < 1e-9);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
