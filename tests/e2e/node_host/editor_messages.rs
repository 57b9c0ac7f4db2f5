//! What packages publish for their parts of the editor (`RED.comms.publish`).

use super::{Hosted, chain, trial};
use serde_json::{Value as Json, json};

fn flows() -> Json {
    let input = "RED.comms.publish('trial/kept', { at: msg.req.query.n }, true);
        RED.comms.publish('trial/passing', [1]);
        RED.comms.publish('trial/nothing');
        const cycle = {}; cycle.cycle = cycle;
        RED.comms.publish('trial/cycle', cycle);
        RED.comms.publish(5, 'no topic');
        msg.payload = 'published'; send(msg); done()";
    json!(chain(vec![trial("a", input)]))
}

fn topic(message: &Json) -> Option<&str> {
    message["topic"]
        .as_str()
        .filter(|t| t.starts_with("trial/"))
}

#[tokio::test]
async fn what_a_package_publishes_reaches_editors_and_the_last_of_a_topic_those_that_come_later() {
    let hosted = Hosted::start().await;
    hosted.run(&flows()).await;
    let mut editor = hosted.editor(&hosted.token).await;
    for n in ["1", "2"] {
        assert_eq!(
            hosted.get(&format!("/do?n={n}")).send().await.text(),
            "published"
        );
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let next = editor.find(|m| topic(m).map(|_| m.clone())).await;
            seen.push(next);
        }
        let kept = json!({ "topic": "trial/kept", "data": { "at": n } });
        let passing = json!({ "topic": "trial/passing", "data": [1] });
        assert_eq!(seen, [kept, passing, json!({ "topic": "trial/nothing" })]);
    }
    hosted.process.wait_for_log("trial/cycle");
    let mut late = hosted.editor(&hosted.token).await;
    late.subscribe("trial/#").await;
    let retained = late.find(|m| topic(m).map(|_| m.clone())).await;
    assert_eq!(
        retained,
        json!({ "topic": "trial/kept", "data": { "at": "2" } })
    );
}
