//! Streams of bytes: which heads are found in them, and which have two readings.

use super::*;
use std::cell::Cell;
use std::convert::Infallible;

const GOOD: &str = "\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n\
    POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\nGET /\n\n#body\
    POST /c HTTP/1.1\r\nhost: x\r\ntransfer-encoding:  Chunked\t\r\n\r\n\
    3\r\na\nb\r\n00A;x=\"y\"\r\n0123456789\r\n2 \t\r\n\r\n\r\n0\r\nX-T: 1\r\n\r\n\
    POST /d HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";

/// The number of bytes that pass in pieces of `at_a_time`, and the reason for the stop.
fn stop(text: &str, at_a_time: usize) -> Option<(usize, Stop)> {
    let mut heads = Heads::default();
    for (n, piece) in text.as_bytes().chunks(at_a_time).enumerate() {
        if let Err((passed, stop)) = heads.received(piece) {
            return Some((n * at_a_time + passed, stop));
        }
    }
    None
}

#[test]
fn unambiguous_requests_pass_at_any_chunking() {
    for at_a_time in [1, 2, 3, 7, 64, 1000] {
        assert_eq!(stop(&GOOD.repeat(3), at_a_time), None, "{at_a_time}");
    }
    let mut heads = Heads::default();
    heads.received(GOOD.as_bytes()).unwrap();
    assert_eq!(heads.count, 4);
}

#[test]
fn a_malformed_head_is_reported_by_number_and_nothing_after_it_passes() {
    for (head, flaw) in [
        (
            "GET / HTTP/1.1\nHost: x\r\n\r\n",
            FramingError::BareLineFeed,
        ),
        (
            "GET / HTTP/1.1\r\nHost: x\n\r\n",
            FramingError::BareLineFeed,
        ),
        (
            "GET / HTTP/1.1\r\nHost: x\r\n\n",
            FramingError::BareLineFeed,
        ),
        (
            "GET /#x HTTP/1.1\r\nHost: x\r\n\r\n",
            FramingError::Fragment,
        ),
        (
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            FramingError::Length,
        ),
        (
            "GET / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
            FramingError::Length,
        ),
        (
            "GET / HTTP/1.1\r\nContent-Length: 01\r\n\r\n",
            FramingError::Length,
        ),
        (
            "GET / HTTP/1.1\r\nContent-Length:\r\n\r\n",
            FramingError::Length,
        ),
        (
            "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            FramingError::Length,
        ),
        (
            "GET / HTTP/1.1\r\ncontent-length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            FramingError::Length,
        ),
        (
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
            FramingError::Length,
        ),
        (
            "GET / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            FramingError::Encoding,
        ),
        (
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            FramingError::Encoding,
        ),
        (
            "GET / HTTP/1.1\r\nTransfer-Encoding:\r\n\r\n",
            FramingError::Encoding,
        ),
    ] {
        for at_a_time in [1, 5, 1000] {
            let text = format!("{GOOD}{head}GET /smuggled HTTP/1.1\r\n\r\n");
            let expected = Some((GOOD.len() + head.len(), Stop::Head(5, flaw)));
            assert_eq!(stop(&text, at_a_time), expected, "{head:?}");
        }
    }
    let blanks = " ".repeat(LOOKED_AT);
    let text = format!("GET / HTTP/1.1\r\nContent-Length:{blanks}5\r\n\r\nhello");
    assert_eq!(
        stop(&text, 9),
        Some((text.len() - 5, Stop::Head(1, FramingError::Length)))
    );
}

#[test]
fn a_malformed_body_stops_the_connection() {
    let zeros = "0".repeat(LOOKED_AT);
    for chunks in [
        "\r\n",
        "x\r\n",
        "5\nhello",
        "0x5\r\nhello",
        "+5\r\n",
        "-1\r\n",
        " 5\r\n",
        "5 5\r\n",
        "11111111111111111\r\n",
        "1\r\nab",
        "1\r\na\n",
        "0\r\nX: 1\n",
        "0\r\n\n",
        &format!("{zeros}\r\n"),
    ] {
        let text = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}\r\n\r\n");
        for at_a_time in [1, 1000] {
            let stopped = stop(&text, at_a_time);
            assert!(
                matches!(stopped, Some((_, Stop::Body))),
                "{chunks:?}: {stopped:?}"
            );
        }
    }
}

/// The number of requests that hyper reads from these bytes, and whether it reads all of them
/// without an error.
async fn parsed_by_hyper(bytes: &[u8]) -> (u32, bool) {
    use http_body_util::{BodyExt, Empty};
    use hyper::body::Incoming;
    use hyper::{Request, Response};
    use tokio::io::AsyncWriteExt;

    let (mut near, far) = tokio::io::duplex(1 << 16);
    near.write_all(bytes).await.unwrap();
    near.shutdown().await.unwrap();
    let (count, broken) = (Cell::new(0), Cell::new(false));
    let service = hyper::service::service_fn(|request: Request<Incoming>| {
        count.set(count.get() + 1);
        let broken = &broken;
        async move {
            if request.into_body().collect().await.is_err() {
                broken.set(true);
            }
            Ok::<_, Infallible>(Response::new(Empty::<&[u8]>::new()))
        }
    });
    let mut speaking = hyper::server::conn::http1::Builder::new();
    let connection = speaking
        .half_close(true)
        .serve_connection(hyper_util::rt::TokioIo::new(far), service);
    let ended = connection.await;
    (count.get(), ended.is_ok() && !broken.get())
}

#[tokio::test]
async fn hyper_finds_every_head_that_the_framing_check_finds() {
    const LINES: [&str; 4] = [
        "GET /a HTTP/1.1\r\n",
        "POST /b HTTP/1.1\r\n",
        "\r\nPUT / HTTP/1.1\r\n",
        "GET / HTTP/1.1\n",
    ];
    const FIELDS: [&str; 14] = [
        "",
        "Host: x\r\n",
        "Content-Length: 5\r\n",
        "content-length:\t0\r\n",
        "CONTENT-LENGTH: 12 \r\n",
        "Transfer-Encoding: chunked\r\n",
        "transfer-encoding:chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Content-Length: 05\r\n",
        "Content_Length: 5\r\n",
        "Content-Length: 1\n",
        "X: a\r\n",
        "Connection: keep-alive\r\n",
        "Expect: 100-continue\r\n",
    ];
    const BODIES: [&str; 14] = [
        "",
        "hello",
        "GET / HTTP/1\r\n",
        "0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "05 ;a=b\r\nhello\r\n00\r\nX: y\r\n\r\n",
        "2\r\n\r\n\r\n0\r\n\r\n",
        "0\r\nX: 1\n\r\n\r\n",
        "0\r\nX: 1\n\n\r\n",
        "0\n\n",
        "5\nhello\r\n0\r\n\r\n",
        "1;\n\r\na\r\n0\r\n\r\n",
        "FFFFFFFFFFFFFFFF\r\n",
        "\r\n",
    ];
    // Knuth's numbers, MMIX: any will do, if the same come each time.
    let mut state = 1_u64;
    let mut one_of = |many: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % many
    };
    let mut agreed = 0;
    for _ in 0..100_000 {
        let mut text = String::new();
        for _ in 0..=one_of(2) {
            text += LINES[one_of(LINES.len() + 8).saturating_sub(8)];
            for _ in 0..=one_of(3) {
                text += FIELDS[one_of(FIELDS.len())];
            }
            text += "\r\n";
            text += BODIES[one_of(BODIES.len())];
        }
        let mut heads = Heads::default();
        let stop = heads.received(text.as_bytes()).err();
        let passed = stop.map_or(text.len(), |(passed, _)| passed);
        let (count, good) = parsed_by_hyper(&text.as_bytes()[..passed]).await;
        assert!(count <= heads.count, "{text:?}");
        if good && stop.is_none() {
            assert!(matches!(heads.expects, Expects::Request), "{text:?}");
            assert_eq!(count, heads.count, "{text:?}");
            agreed += 1;
        }
    }
    assert!(agreed > 2000, "only {agreed} were good");
}
