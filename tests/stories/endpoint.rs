//! An endpoint made by a flow: who may call it, and what becomes of the flow's answer.

use crate::harness::{Gateway, flow_set, page, public};

#[tokio::test]
async fn a_deployed_flow_answers_where_a_route_makes_it_public() {
    let gateway = Gateway::with(&public(&["/hello"]));
    let token = gateway.sign_in("admin").await;
    gateway
        .deploy(&token, &flow_set(&[page("a", "/hello", "hello world")]))
        .await;
    let answer = gateway.get("/hello").send().await;
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (200, "hello world")
    );
    assert_eq!(
        gateway.get("/hello").http2().send().await.text(),
        "hello world"
    );
}
