use super::*;
use crate::config::Config;
use crate::upstream::{TRACEPARENT, TRACESTATE};
use std::path::Path;

fn config(lines: &str) -> Box<config::Traces> {
    let text = format!("[traces]\nurl = \"http://127.0.0.1:9\"\n{lines}\n");
    let config = Config::parse(&text, "gateway.toml", Path::new("")).unwrap();
    config.traces.unwrap()
}

fn tracer(lines: &str) -> Tracer {
    Tracer::open(&config(lines), &Metrics::new(), "gate".to_owned()).unwrap()
}

fn named(flags: &str) -> HeaderMap {
    let text = format!("00-{}-{}-{flags}", "ab".repeat(16), "cd".repeat(8));
    let mut headers = HeaderMap::new();
    headers.insert(TRACEPARENT, text.parse().unwrap());
    headers.insert(TRACESTATE, "a=1".parse().unwrap());
    headers
}

fn begin(tracer: &Tracer, headers: &HeaderMap, trusted: bool, second: u64) -> Trace {
    tracer.begin(
        headers,
        trusted,
        Duration::from_secs(second),
        Instant::now(),
    )
}

#[tokio::test]
async fn a_trusted_parent_decides_and_no_other() {
    for (ratio, chance) in [("0.0", false), ("1.0", true)] {
        let tracer = tracer(&format!("ratio = {ratio}"));
        for (flags, sampled) in [("00", false), ("01", true)] {
            let trace = begin(&tracer, &named(flags), true, 1);
            assert_eq!(trace.is_recorded(), sampled);
            assert_eq!(trace.context.trace, [0xab; 16]);
            assert_eq!(trace.parent, Some([0xcd; 8]));
            let headers = trace.headers().unwrap();
            assert_eq!(headers.state.unwrap(), "a=1");

            let trace = begin(&tracer, &named(flags), false, 1);
            assert_eq!(trace.is_recorded(), chance);
            assert_ne!(trace.context.trace, [0xab; 16]);
            assert_eq!((trace.parent, trace.link.is_some()), (None, true));
            let headers = trace.headers().unwrap();
            assert!(headers.state.is_none());
            assert_eq!(Some(headers.parent), trace.context.header());
        }
    }
}

#[tokio::test]
async fn the_requests_recorded_in_a_second_are_limited() {
    let tracer = tracer("ratio = 1.0\nmax_per_second = 3");
    let recorded = |second| {
        let begun = (0..10).map(|_| begin(&tracer, &named("01"), true, second));
        begun.filter(Trace::is_recorded).count()
    };
    assert_eq!((recorded(7), recorded(7), recorded(8)), (3, 0, 3));
}

#[tokio::test]
async fn spans_beyond_the_queue_are_dropped_and_counted() {
    let metrics = Metrics::new();
    let tracer = Tracer::open(&config("ratio = 1.0"), &metrics, String::new()).unwrap();
    let trace = begin(&tracer, &HeaderMap::new(), false, 1);
    // The task that takes them out does not run before this ends.
    for _ in 0..QUEUE + 5 {
        trace.record(trace.request("GET", Instant::now()));
    }
    let dropped = "flowgate_trace_spans_total{result=\"dropped\"} 5";
    assert!(metrics.render().contains(dropped), "{}", metrics.render());
}

#[test]
fn a_ratio_decides_by_a_random_number() {
    let hits = |ratio: &str, random| config(&format!("ratio = {ratio}")).ratio.hits(random);
    assert!(hits("1.0", u64::MAX) && hits("1", 0));
    assert!(!hits("0.0", 0) && !hits("0", u64::MAX));
    assert!(hits("0.25", u64::MAX / 4 - (1 << 20)) && !hits("0.25", u64::MAX / 4 + (1 << 20)));
}
