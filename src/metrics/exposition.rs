//! Lines of Prometheus' text format (exposition format 0.0.4), for the series that are not the
//! recorder's.

use std::fmt::{Display, Write};

/// The values of one histogram.
pub(super) struct Buckets<'b> {
    /// `{label="value",…}`, or nothing.
    pub(super) labels: &'b str,
    /// The upper bounds of all buckets but the last, which has none.
    pub(super) bounds: &'b [f64],
    /// The number of samples in each bucket: one more than bounds.
    pub(super) counts: &'b [u64],
    /// Of all samples, in seconds.
    pub(super) sum: f64,
}

/// Begins the series of a name.
pub(super) fn describe(page: &mut String, name: &str, help: &str, kind: &str) {
    line(
        page,
        format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"),
    );
}

/// Adds the series of a histogram; each bucket includes those before it.
pub(super) fn histogram(page: &mut String, name: &str, buckets: &Buckets<'_>) {
    let labels = buckets.labels;
    let others = labels.strip_suffix('}').map(|labels| format!("{labels},"));
    let others = others.as_deref().unwrap_or("{");
    let mut samples = 0;
    let mut bucket = |bound: &dyn Display, more: u64| {
        samples += more;
        line(
            page,
            format_args!("{name}_bucket{others}le=\"{bound}\"}} {samples}"),
        );
    };
    for (bound, more) in buckets.bounds.iter().zip(buckets.counts) {
        bucket(bound, *more);
    }
    bucket(&"+Inf", buckets.counts.last().copied().unwrap_or_default());
    line(page, format_args!("{name}_sum{labels} {}", buckets.sum));
    line(page, format_args!("{name}_count{labels} {samples}"));
}

pub(super) fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    // A String takes everything.
    let _ = writeln!(page, "{text}");
}

/// Any text as the value of a label.
pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
