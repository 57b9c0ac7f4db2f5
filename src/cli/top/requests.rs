//! Rates of requests: the differences between two pages of metrics.

use std::collections::BTreeMap;
use std::time::Duration;

/// The counters of one moment, by name and labels.
#[derive(Debug, Default, Clone)]
pub(super) struct Counters(BTreeMap<String, f64>);

/// The requests of a class of routes and a method.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rate {
    pub(super) route: String,
    pub(super) method: String,
    /// Requests in a second.
    pub(super) requests: f64,
    /// Responses with a status of 400 to 499 in a second.
    pub(super) refused: f64,
    /// Responses with a status of 500 or more in a second.
    pub(super) failed: f64,
    /// Their mean duration in seconds; `None`: there was none.
    pub(super) mean: Option<f64>,
    /// All since the start.
    pub(super) total: f64,
}

const REQUESTS: &str = "flowgate_requests_total";
const SECONDS: &str = "flowgate_request_duration_seconds_sum";
const COUNT: &str = "flowgate_request_duration_seconds_count";

impl Counters {
    /// Reads the text for Prometheus.
    pub(super) fn read(page: &str) -> Self {
        let series = page.lines().filter(|line| !line.starts_with('#'));
        let series = series.filter_map(|line| line.rsplit_once(' '));
        let parsed =
            series.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
        Self(parsed.collect())
    }

    /// The sum of all series of this name.
    pub(super) fn sum(&self, name: &str) -> f64 {
        // The sum of no floats is -0.
        self.of(name).fold(0.0, |sum, (_, value)| sum + value)
    }

    /// The series of a name: their labels as they stand there, and their values.
    fn of<'c>(&'c self, name: &'c str) -> impl Iterator<Item = (&'c str, f64)> {
        self.0.iter().filter_map(move |(series, value)| {
            let labels = series.strip_prefix(name)?;
            let is_whole = labels.is_empty() || labels.starts_with('{');
            is_whole.then_some((labels, *value))
        })
    }

    /// The requests of this and an earlier moment, with the time between them. A gateway that has
    /// started again in between has counted from zero.
    pub(super) fn rates(&self, before: &Self, between: Duration) -> Vec<Rate> {
        let seconds = between.as_secs_f64().max(0.001);
        let mut rates: BTreeMap<(String, String), (Rate, f64, f64)> = BTreeMap::new();
        for name in [REQUESTS, SECONDS, COUNT] {
            let earlier: BTreeMap<&str, f64> = before.of(name).collect();
            for (labels, value) in self.of(name) {
                let key = (label(labels, "route"), label(labels, "method"));
                let (rate, time, count) = rates.entry(key.clone()).or_insert_with(|| {
                    let (route, method) = key;
                    (Rate::none(route, method), 0.0, 0.0)
                });
                let old = earlier.get(labels).filter(|old| **old <= value);
                let more = value - old.unwrap_or(&0.0);
                match (name, label(labels, "status").as_str()) {
                    (SECONDS, _) => *time += more,
                    (COUNT, _) => *count += more,
                    (_, status) => rate.add(status, more / seconds, value),
                }
            }
        }
        let with_mean = |(rate, time, count): (Rate, f64, f64)| Rate {
            mean: (count > 0.0).then(|| time / count),
            ..rate
        };
        rates.into_values().map(with_mean).collect()
    }
}

impl Rate {
    fn none(route: String, method: String) -> Self {
        Self {
            route,
            method,
            requests: 0.0,
            refused: 0.0,
            failed: 0.0,
            mean: None,
            total: 0.0,
        }
    }

    fn add(&mut self, status: &str, rate: f64, total: f64) {
        self.requests += rate;
        self.total += total;
        match status {
            "4xx" => self.refused += rate,
            "5xx" => self.failed += rate,
            _ => {}
        }
    }
}

/// The value of a label; those of requests have neither commas nor quotes.
fn label(labels: &str, name: &str) -> String {
    let mut pairs = labels.trim_matches(['{', '}']).split(',');
    let value = pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix("=\""));
    value.unwrap_or_default().trim_end_matches('"').to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const EARLIER: &str = "# HELP flowgate_requests_total Requests.\n\
         flowgate_requests_total{route=\"flows\",method=\"GET\",status=\"2xx\"} 10\n\
         flowgate_request_duration_seconds_sum{route=\"flows\",method=\"GET\"} 1.5\n\
         flowgate_request_duration_seconds_count{route=\"flows\",method=\"GET\"} 10\n\
         flowgate_requests_in_flight{route=\"flows\"} 3\n\
         flowgate_requests_in_flight{route=\"auth\"} 1\n";
    const LATER: &str = "flowgate_requests_total{route=\"flows\",method=\"GET\",status=\"2xx\"} 14\n\
         flowgate_requests_total{route=\"flows\",method=\"GET\",status=\"4xx\"} 2\n\
         flowgate_requests_total{route=\"flows\",method=\"POST\",status=\"5xx\"} 1\n\
         flowgate_request_duration_seconds_sum{route=\"flows\",method=\"GET\"} 2.1\n\
         flowgate_request_duration_seconds_count{route=\"flows\",method=\"GET\"} 16\n";

    #[test]
    fn rates_are_the_differences_of_two_moments() {
        let (before, after) = (Counters::read(EARLIER), Counters::read(LATER));
        let rates = after.rates(&before, Duration::from_secs(2));
        let [get, post] = &rates[..] else {
            panic!("{rates:?}");
        };
        assert_eq!(
            (get.method.as_str(), get.requests, get.refused, get.total),
            ("GET", 3.0, 1.0, 16.0)
        );
        assert!((get.mean.unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(
            (post.method.as_str(), post.failed, post.mean),
            ("POST", 0.5, None)
        );
        assert!((before.sum("flowgate_requests_in_flight") - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_gateway_that_was_restarted_counts_from_zero() {
        let (before, after) = (Counters::read(LATER), Counters::read(EARLIER));
        let rates = after.rates(&before, Duration::from_secs(1));
        assert!((rates[0].requests - 10.0).abs() < 1e-9);
        assert!(after.rates(&before, Duration::ZERO)[0].requests.is_finite());
    }

    #[test]
    fn what_is_no_metric_is_ignored() {
        assert!(Counters::read("a\nb c\n\nflowgate_x nothing").0.is_empty());
    }
}
