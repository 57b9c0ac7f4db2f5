//! Histograms of durations with fixed buckets: a sample is counted in its bucket at once.
//! metrics-exporter-prometheus would keep every sample, with the time at which it came, until the
//! next scrape: more work in each request than the rest of its metrics, and megabytes a second
//! under load.

use super::exposition::{self, Buckets, escaped};
use parking_lot::{Mutex, MutexGuard};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// One histogram.
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// One more than bounds.
    counts: Box<[AtomicU64]>,
    /// Nanoseconds of all samples.
    sum: AtomicU64,
}

/// The name of a histogram, its help, and the upper bounds of its buckets in seconds, rising.
#[derive(Clone, Copy)]
pub(super) struct Description {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) bounds: &'static [f64],
}

/// All histograms of one name.
struct Family {
    description: Description,
    /// With their labels as they are rendered.
    series: Vec<(String, Arc<Histogram>)>,
}

/// All histograms of one gateway.
#[derive(Default)]
pub(super) struct Histograms(Mutex<Vec<Family>>);

impl Histogram {
    pub(super) fn record(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = self.bounds.iter().take_while(|bound| seconds > **bound);
        if let Some(count) = self.counts.get(bucket.count()) {
            count.fetch_add(1, Relaxed);
        }
        // 64 bits are enough for 584 years.
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum.fetch_add(nanos, Relaxed);
    }
}

impl Histograms {
    /// Registers a histogram; the one that is there already if there is one with these labels.
    pub(super) fn register(
        &self,
        description: Description,
        labels: &[(&str, &str)],
    ) -> Arc<Histogram> {
        let mut families = self.lock();
        let of_name = |family: &Family| family.description.name == description.name;
        let found = families.iter().position(of_name).unwrap_or_else(|| {
            families.push(Family {
                description,
                series: Vec::new(),
            });
            families.len() - 1
        });
        let series = &mut families[found].series;
        let labels = rendered(labels);
        if let Some((_, known)) = series.iter().find(|(known, _)| *known == labels) {
            return Arc::clone(known);
        }
        let histogram = Arc::new(Histogram {
            bounds: description.bounds,
            counts: (0..=description.bounds.len())
                .map(|_| AtomicU64::new(0))
                .collect(),
            sum: AtomicU64::new(0),
        });
        series.push((labels, Arc::clone(&histogram)));
        histogram
    }

    /// Adds those with samples to the page.
    pub(super) fn render(&self, page: &mut String) {
        for Family {
            description,
            series,
        } in self.lock().iter()
        {
            exposition::describe(page, description.name, description.help, "histogram");
            for (labels, histogram) in series {
                let counts: Vec<u64> = histogram.counts.iter().map(|c| c.load(Relaxed)).collect();
                if counts.iter().all(|count| *count == 0) {
                    continue;
                }
                let buckets = Buckets {
                    labels,
                    bounds: histogram.bounds,
                    counts: &counts,
                    sum: Duration::from_nanos(histogram.sum.load(Relaxed)).as_secs_f64(),
                };
                exposition::histogram(page, description.name, &buckets);
            }
            page.push('\n');
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Family>> {
        self.0.lock()
    }
}

fn rendered(labels: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        let separator = if text.is_empty() { '{' } else { ',' };
        // A String takes everything.
        let _ = write!(text, "{separator}{name}=\"{}\"", escaped(value));
    }
    if !text.is_empty() {
        text.push('}');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Description = Description {
        name: "wait_seconds",
        help: "Waits.",
        bounds: &[0.5, 1.0],
    };

    #[test]
    fn a_sample_counts_in_its_bucket_and_all_larger_ones() {
        let histograms = Histograms::default();
        let wait = histograms.register(WAIT, &[("for", "a \"b\"")]);
        for millis in [500, 501, 2000] {
            wait.record(Duration::from_millis(millis));
        }
        let mut page = String::new();
        histograms.render(&mut page);
        let expected = "# HELP wait_seconds Waits.\n\
            # TYPE wait_seconds histogram\n\
            wait_seconds_bucket{for=\"a \\\"b\\\"\",le=\"0.5\"} 1\n\
            wait_seconds_bucket{for=\"a \\\"b\\\"\",le=\"1\"} 2\n\
            wait_seconds_bucket{for=\"a \\\"b\\\"\",le=\"+Inf\"} 3\n\
            wait_seconds_sum{for=\"a \\\"b\\\"\"} 3.001\n\
            wait_seconds_count{for=\"a \\\"b\\\"\"} 3\n\n";
        assert_eq!(page, expected);
    }

    #[test]
    fn registering_twice_gives_the_same_histogram() {
        let histograms = Histograms::default();
        histograms.register(WAIT, &[]).record(Duration::ZERO);
        histograms.register(WAIT, &[]).record(Duration::ZERO);
        let mut page = String::new();
        histograms.render(&mut page);
        assert!(page.contains("\nwait_seconds_count 2\n"), "{page}");
        assert!(
            page.contains("\nwait_seconds_bucket{le=\"0.5\"} 2\n"),
            "{page}"
        );
    }
}
