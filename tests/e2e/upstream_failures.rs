//! Failing upstreams: clients get an error soon, and an incomplete response never looks complete.

use crate::harness::{Gateway, public, until};
use crate::mock_upstream::{Action, MockUpstream, ok};
use std::time::Duration;

const BAD: &str = "connect = \"2s\"\nfirst_byte = \"200ms\"\nidle = \"200ms\"\nhealth = \"1h\"";

async fn in_front_of(
    act: impl Fn(&str) -> Action + Send + Sync + 'static,
) -> (MockUpstream, Gateway) {
    let behind = MockUpstream::start(act).await;
    let gateway = Gateway::with(&(behind.config_with(BAD) + &public(&["/x", "/well"])));
    (behind, gateway)
}

#[tokio::test]
async fn an_unavailable_upstream_is_reported_and_its_recovery_noticed_at_once() {
    let behind = MockUpstream::start(|_| Action::Respond(ok("text/plain", "a"))).await;
    let lines = behind.config_with("health = \"10ms\"") + &public(&["/x"]);
    let gateway = Gateway::with(&lines);
    until("it is ready", async || {
        gateway.operations("/readyz").await.status == 200
    })
    .await;
    assert_eq!(gateway.get("/x").send().await.status, 200);
    let healthy = behind.series("healthy", "");
    let address = behind.stop().await;
    let answer = gateway.get("/x").send().await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (502, "upstream_unreachable")
    );
    until("it is not ready", async || {
        gateway.operations("/readyz").await.status == 503
    })
    .await;
    assert_eq!(gateway.metric(&healthy).await, Some(0.0));
    let _behind = MockUpstream::at(address, |_| Action::Respond(ok("text/plain", "b"))).await;
    assert_eq!(gateway.get("/x").send().await.text(), "b");
    until("it is ready", async || {
        gateway.operations("/readyz").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn a_silent_upstream_times_out() {
    let (behind, gateway) = in_front_of(|_| Action::Hang(String::new())).await;
    for request in [
        gateway.get("/x"),
        gateway.post("/x").body("y"),
        gateway.get("/x").http2(),
    ] {
        let answer = request.send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (504, "upstream_timeout")
        );
    }
    let under_way = behind.series("requests_in_flight", "");
    until("nothing is left", async || {
        gateway.metric(&under_way).await == Some(0.0)
    })
    .await;
}

#[tokio::test]
async fn an_incomplete_response_is_never_passed_as_complete() {
    let known = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    for half in [known, chunked] {
        for hang in [true, false] {
            let (behind, gateway) = in_front_of(move |_| {
                let half = half.to_owned();
                if hang {
                    Action::Hang(half)
                } else {
                    Action::RespondAndClose(half)
                }
            })
            .await;
            assert!(gateway.get("/x").try_send().await.is_err(), "{half} {hang}");
            assert!(
                gateway.get("/x").http2().try_send().await.is_err(),
                "{half} {hang}"
            );
            let kind = behind.series("errors_total", "kind=\"incomplete\"");
            assert!(gateway.metric(&kind).await >= Some(2.0));
        }
    }
}

#[tokio::test]
async fn an_invalid_upstream_response_is_a_502() {
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "x".repeat(100_000));
    for output in [
        "SSH-2.0-OpenSSH_9\r\n\r\n",
        "HTTP/1.1 200 OK\r\nBad Header\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        &long,
    ] {
        let output = output.to_owned();
        let start = output.chars().take(40).collect::<String>();
        let (_behind, gateway) =
            in_front_of(move |_| Action::RespondAndClose(output.clone())).await;
        let answer = gateway.get("/x").send().await;
        assert_eq!(answer.status, 502, "{start}");
        assert_eq!(answer.code(), "upstream_invalid_answer");
    }
}

#[tokio::test]
async fn requests_over_the_limit_of_the_upstream_get_503_with_retry_after() {
    let behind = MockUpstream::hanging_at("/x").await;
    let two = "max_in_flight = 2\nmax_in_flight_per_address = 2\nhealth = \"1h\"";
    let lines = behind.config_with(two) + &public(&["/x", "/well"]);
    let gateway = Gateway::with(&lines);
    until("the health check is over", async || {
        gateway.operations("/readyz").await.status == 200
    })
    .await;
    let slow: Vec<_> = (0..2)
        .map(|_| tokio::spawn(gateway.get("/x").try_send()))
        .collect();
    until("both are there", async || behind.received().len() == 2).await;
    let answer = gateway.get("/well").send().await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (503, "upstream_busy")
    );
    assert_eq!(answer.headers["retry-after"], "1");
    for request in slow {
        request.abort();
    }
    until("clients that leave make room", async || {
        gateway.get("/well").send().await.status == 200
    })
    .await;
}

#[tokio::test]
async fn the_response_time_out_starts_when_a_slow_upload_ends() {
    let behind = MockUpstream::start(|_| Action::Delay(600, ok("text/plain", "done"))).await;
    let lines = behind.config_with("first_byte = \"1s\"\nhealth = \"1h\"") + &public(&["/x"]);
    let gateway = Gateway::with(&lines);
    let mut raw = gateway.raw().await;
    raw.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\na")
        .await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    raw.send("b").await;
    let answer = raw.receive().await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
