//! Foreign nodes beside flows on another thread of the engine.

use super::{Hosted, chain, trial};
use crate::harness::{flow_set, restart_marker, until};
use serde_json::{Value as Json, json};

fn flows(code: &str) -> Json {
    flow_set(&[chain(vec![trial("a", code)]), restart_marker("s", "/show")])
}

const ONE: &str = "msg.payload = 1; send(msg); done()";
const TWO: &str = "msg.payload = 2; send(msg); done()";

#[tokio::test]
async fn a_deployment_of_a_foreign_node_restarts_no_node_of_another_thread() {
    let mut hosted = Hosted::with("[engine]\nthreads = 2\n").await;
    hosted.run(&flows(ONE)).await;
    assert_eq!(hosted.show("/do").await, 1);
    let marker = hosted.get("/show").send().await.text();
    hosted.run_more(&flows(TWO)).await;
    assert_eq!(hosted.show("/do").await, 2);
    assert_eq!(hosted.get("/show").send().await.text(), marker);
    // Flows start while the packages are being loaded.
    hosted.kill_and_start().await;
    hosted.until_shown("/do", &json!(2)).await;
    assert_eq!(hosted.get("/show").send().await.status, 200);
}

#[tokio::test]
async fn a_type_that_no_package_has_stops_the_flows_of_all_threads() {
    let hosted = Hosted::with("[engine]\nthreads = 2\n").await;
    let mut missing = flows(ONE);
    missing[2]["type"] = "no such type".into();
    for _ in 0..2 {
        hosted.run(&flows(ONE)).await;
        assert_eq!(hosted.show("/do").await, 1);
        hosted.run_more(&missing).await;
        for path in ["/do", "/show"] {
            until("the endpoint is gone", async || {
                hosted.get(path).send().await.status == 404
            })
            .await;
        }
    }
}
