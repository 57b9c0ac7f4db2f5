//! `delay` in a running engine: results observed on Node-RED 4.1.15.

use crate::steps::{SOON, all, bench, merged, messages, next, outputs, payloads, send};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

fn delay(extra: &Json) -> Json {
    merged(
        json!({ "type": "delay", "pauseType": "delay", "timeout": "200", "timeoutUnits": "milliseconds",
        "rate": "1", "nbRateUnits": "1", "rateUnits": "second", "randomFirst": "1", "randomLast": "5",
        "randomUnits": "seconds", "drop": false, "allowrate": false, "outputs": 1 }),
        extra,
    )
}

#[tokio::test]
async fn each_message_waits_its_time() {
    let mut bench = bench(&delay(&json!({})), 1).await;
    let begin = Instant::now();
    send(&bench, &json!({ "payload": 1 })).await;
    send(&bench, &json!({ "payload": 2 })).await;
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(next(&mut bench).await);
    }
    for id in ["out0", "complete"] {
        let mut payloads = seen
            .iter()
            .filter(|(of, _)| of == id)
            .map(|(_, m)| &m["payload"]);
        assert!(
            payloads.by_ref().eq([&json!(1), &json!(2)]),
            "{id}: {seen:?}"
        );
    }
    assert!(begin.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn a_message_may_bring_its_own_time() {
    let node = delay(&json!({ "pauseType": "delayv", "timeout": "100000" }));
    let list = [
        json!({ "payload": 1, "delay": 150 }),
        json!({ "payload": 2 }),
        json!({ "payload": 3, "delay": "50" }),
        json!({ "payload": 4, "delay": -5 }),
    ];
    assert_eq!(
        payloads(&node, &list, Duration::from_millis(400)).await,
        json!([4, 3, 1])
    );
}

#[tokio::test]
async fn queued_messages_can_be_flushed_or_reset() {
    let long = delay(&json!({ "timeout": "100000" }));
    let with = |last: Json| {
        let mut list = messages(&[1, 2, 3]);
        list.push(last);
        list
    };
    assert_eq!(
        payloads(&long, &with(json!({ "flush": true })), SOON).await,
        json!([1, 2, 3])
    );
    assert_eq!(
        payloads(&long, &with(json!({ "flush": 2 })), SOON).await,
        json!([1, 2])
    );
    assert_eq!(
        payloads(&long, &with(json!({ "flush": true, "payload": 4 })), SOON).await,
        json!([1, 2, 3, 4])
    );
    let seen = all(&long, &with(json!({ "reset": true })), SOON).await;
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen.iter().all(|(id, _)| id == "complete"));
}

#[tokio::test]
async fn the_status_counts_queued_messages() {
    let node = delay(&json!({ "pauseType": "delayv", "timeout": "100" }));
    let mut bench = bench(&node, 1).await;
    send(&bench, &json!({ "payload": 1 })).await;
    let count = |count| json!({ "fill": "blue", "shape": "dot", "text": count });
    for expected in [count("1"), Json::Null, count("0")] {
        assert_eq!(bench.status().await, ("node".to_owned(), expected));
    }
    send(&bench, &json!({ "reset": true })).await;
    assert_eq!(
        bench.status().await.1,
        json!({ "fill": "blue", "shape": "ring", "text": "0" })
    );
}

#[tokio::test]
async fn a_rate_lets_the_first_pass_and_the_others_in_turn() {
    let node = delay(&json!({ "pauseType": "rate", "rate": "10" }));
    let mut bench = bench(&node, 1).await;
    let begin = Instant::now();
    for message in messages(&[1, 2, 3]) {
        send(&bench, &message).await;
    }
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let (id, message) = next(&mut bench).await;
        if id == "out0" {
            seen.push((message["payload"].clone(), begin.elapsed()));
        }
    }
    assert_eq!(seen.iter().map(|(p, _)| p).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(seen[1].1 >= Duration::from_millis(100) && seen[2].1 >= Duration::from_millis(200));
    assert_eq!(
        bench.status().await.1,
        json!({ "fill": "blue", "shape": "dot", "text": "0" })
    );
}

#[tokio::test]
async fn a_rate_drops_obeys_messages_and_is_flushed() {
    let soon = Duration::from_millis(50);
    // Golden result: three at once, one passes.
    let node = delay(&json!({ "pauseType": "rate", "rate": "1", "drop": true }));
    assert_eq!(
        payloads(&node, &messages(&[1, 2, 3]), soon).await,
        json!([1])
    );
    let node = delay(&json!({ "pauseType": "rate", "rate": "1", "drop": true, "outputs": 2 }));
    let out = |id: &str, n: i32| (id.to_owned(), json!({ "payload": n }));
    assert_eq!(
        outputs(&node, &messages(&[1, 2]), soon).await,
        [out("out0", 1), out("out1", 2)]
    );
    let node = delay(&json!({ "pauseType": "rate", "rate": "1", "rateUnits": "hour" }));
    let mut list = messages(&[1, 2, 3]);
    list.push(json!({ "payload": 4, "toFront": true }));
    list.push(json!({ "flush": 2 }));
    assert_eq!(payloads(&node, &list, soon).await, json!([1, 4, 2]));
    list.push(json!({ "reset": true }));
    list.push(json!({ "payload": 5 }));
    assert_eq!(payloads(&node, &list, soon).await, json!([1, 4, 2, 5]));
    let node =
        delay(&json!({ "pauseType": "rate", "rate": "1", "rateUnits": "hour", "allowrate": true }));
    let mut list = messages(&[1, 2]);
    list.push(json!({ "payload": 3, "rate": 20 }));
    assert_eq!(
        payloads(&node, &list, Duration::from_millis(300)).await,
        json!([1, 2, 3])
    );
}

#[tokio::test]
async fn each_topic_is_released_in_turn_with_its_newest_message() {
    let of = |payload: i32, topic: &str| json!({ "payload": payload, "topic": topic });
    let list = [of(1, "a"), of(2, "b"), of(3, "a"), json!({ "payload": 4 })];
    let node = delay(&json!({ "pauseType": "queue", "rate": "1" }));
    let seen = outputs(&node, &list, Duration::from_secs(4)).await;
    let out = |payload: i32, topic: &str| {
        (
            "out0".to_owned(),
            json!({ "payload": payload, "topic": topic }),
        )
    };
    assert_eq!(seen, [out(3, "a"), out(2, "b"), out(4, "_none_")]);
    let node = delay(&json!({ "pauseType": "timed", "rate": "1" }));
    let seen = outputs(&node, &list, Duration::from_millis(1800)).await;
    assert_eq!(seen, [out(3, "a"), out(2, "b"), out(4, "_none_")]);
    let node = delay(&json!({ "pauseType": "queue", "rate": "1", "rateUnits": "hour" }));
    let mut flushed = list.to_vec();
    flushed.push(json!({ "flush": 1 }));
    assert_eq!(outputs(&node, &flushed, SOON).await, [out(3, "a")]);
}
