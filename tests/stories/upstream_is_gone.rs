//! The runtime behind the gateway misbehaves: clients learn it soon, and never take half an answer for a whole one.

use crate::harness::{Gateway, public, until};
use crate::upstream::{Act, Behind, ok};
use std::time::Duration;

const BAD: &str = "connect = \"2s\"\nfirst_byte = \"200ms\"\nidle = \"200ms\"\nhealth = \"1h\"";

async fn in_front_of(act: impl Fn(&str) -> Act + Send + Sync + 'static) -> (Behind, Gateway) {
    let behind = Behind::start(act).await;
    let gateway = Gateway::with(&(behind.config_with(BAD) + &public(&["/x", "/well"])));
    (behind, gateway)
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_told_at_once_and_found_again_at_once() {
    let behind = Behind::start(|_| Act::Say(ok("text/plain", "a"))).await;
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
    let _behind = Behind::at(address, |_| Act::Say(ok("text/plain", "b"))).await;
    assert_eq!(gateway.get("/x").send().await.text(), "b");
    until("it is ready", async || {
        gateway.operations("/readyz").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_given_up_in_time() {
    let (behind, gateway) = in_front_of(|_| Act::Hang(String::new())).await;
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
async fn half_an_answer_is_never_passed_as_a_whole_one() {
    let known = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    for half in [known, chunked] {
        for hang in [true, false] {
            let (behind, gateway) = in_front_of(move |_| {
                let half = half.to_owned();
                if hang {
                    Act::Hang(half)
                } else {
                    Act::Close(half)
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
async fn what_makes_no_sense_is_no_answer() {
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "x".repeat(100_000));
    for said in [
        "SSH-2.0-OpenSSH_9\r\n\r\n",
        "HTTP/1.1 200 OK\r\nBad Header\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        &long,
    ] {
        let said = said.to_owned();
        let start = said.chars().take(40).collect::<String>();
        let (_behind, gateway) = in_front_of(move |_| Act::Close(said.clone())).await;
        let answer = gateway.get("/x").send().await;
        assert_eq!(answer.status, 502, "{start}");
        assert_eq!(answer.code(), "upstream_invalid_answer");
    }
}

#[tokio::test]
async fn when_as_many_are_under_way_as_may_be_others_are_told_to_come_back() {
    let behind = Behind::hanging_at("/x").await;
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
    until("both are there", async || behind.heard().len() == 2).await;
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
async fn the_time_to_answer_begins_anew_when_a_slow_upload_ends() {
    let behind = Behind::start(|_| Act::Wait(600, ok("text/plain", "done"))).await;
    let lines = behind.config_with("first_byte = \"1s\"\nhealth = \"1h\"") + &public(&["/x"]);
    let gateway = Gateway::with(&lines);
    let mut raw = gateway.raw().await;
    raw.say("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\na")
        .await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    raw.say("b").await;
    let answer = raw.hear().await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
