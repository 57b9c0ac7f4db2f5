//! Function nodes use what is installed in the data directory, as those of Node-RED do.

use crate::harness::{Gateway, flow_set, public, script};
use std::fs;

#[tokio::test]
async fn a_function_uses_a_module_of_the_data_directory_after_the_next_deployment() {
    let gateway = Gateway::with(&public(&["/greet"]));
    let token = gateway.sign_in("admin").await;
    let mut flow = flow_set(&[script(
        "t",
        "get",
        "/greet",
        "msg.payload = greet('Ann'); return msg",
    )]);
    for node in flow.as_array_mut().unwrap() {
        if node["type"] == "function" {
            node["libs"] = serde_json::json!([{ "var": "greet", "module": "greet" }]);
        }
    }
    let module = gateway.data("node_modules/greet/index.js");
    fs::create_dir_all(module.parent().unwrap()).unwrap();
    fs::write(module, "module.exports = name => `Hello ${name}`").unwrap();
    gateway.deploy(&token, &flow).await;
    assert_eq!(gateway.get("/greet").send().await.text(), "Hello Ann");
}
