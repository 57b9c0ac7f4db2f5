//! A real Node-RED with adminAuth and a package that adds paths to its admin API.

use super::{NodeRed, PROTECTED, Release, TOKEN};
use crate::confused_deputy::{signed_in, users};
use crate::harness::Gateway;
use serde_json::json;

const PACKAGE: &str = r#"module.exports = function (RED) {
    RED.nodes.registerType("plant", function (config) { RED.nodes.createNode(this, config); });
    const can = RED.auth.needsPermission;
    RED.httpAdmin.patch("/dashboard/api/v1/:id/flows", can("flows.write"), (req, res) => res.json({ deployed: req.params.id }));
    RED.httpAdmin.get("/plant/devices", can("plant.read"), (req, res) => res.json(["d1"]));
};"#;
const EDITOR: &str = r#"<script type="text/javascript">
    RED.nodes.registerType("plant", { category: "plant", defaults: {}, inputs: 0, outputs: 0 });
</script>"#;

/// Node-RED with the package, and a gateway in front of it that has an account there.
fn gateway(root: &str, lines: &str) -> (NodeRed, Gateway) {
    let directory = tempfile::tempdir().unwrap();
    let nodes = directory.path().join("nodes");
    std::fs::create_dir(&nodes).unwrap();
    std::fs::write(nodes.join("plant.js"), PACKAGE).unwrap();
    std::fs::write(nodes.join("plant.html"), EDITOR).unwrap();
    let settings = match root {
        "" => PROTECTED.to_owned(),
        root => format!("{PROTECTED} httpAdminRoot: \"{root}\","),
    };
    let port = testing::ports::free();
    let red = NodeRed::start_in(directory, port, Release::Four, &settings);
    let own = tempfile::tempdir().unwrap();
    std::fs::write(own.path().join("token"), TOKEN).unwrap();
    let upstream = format!("token_file = \"token\"\nadmin_root = \"{root}/\"");
    let users = users(&[
        ("visitor", r#"["http.read", "http.write"]"#),
        ("operator", r#"["admin.read", "admin.write", "plant.use"]"#),
    ]);
    let gateway = Gateway::open(&(red.config_with(&upstream) + &users + lines), own);
    (red, gateway)
}

#[tokio::test]
async fn its_admin_paths_need_admin_permissions_with_and_without_a_root_of_their_own() {
    let named = "[[admin_route]]\npath = \"/plant\"\nprefix = true\npermission = \"plant.use\"\n";
    for (root, lines) in [("", named), ("/admin", "")] {
        let (_red, gateway) = gateway(root, lines);
        let visitor = signed_in(&gateway, root, "visitor").await;
        let operator = signed_in(&gateway, root, "operator").await;
        for (method, path, body) in [
            (
                "PATCH",
                "/dashboard/api/v1/d1/flows",
                json!({ "deployed": "d1" }),
            ),
            ("GET", "/plant/devices", json!(["d1"])),
        ] {
            let path = format!("{root}{path}");
            let mut request = gateway.request(method, &path);
            if method == "PATCH" {
                request = request.json(&json!({}));
            }
            let refused = request.clone().token(&visitor).send().await;
            assert_eq!(refused.status, 401, "{path}");
            let challenge = refused.header("www-authenticate");
            assert!(challenge.contains("insufficient_scope"), "{challenge}");
            let answer = request.token(&operator).send().await;
            assert_eq!((answer.status, answer.json()), (200, body), "{path}");
        }
    }
}

#[tokio::test]
async fn a_package_path_that_looks_like_an_endpoint_is_forwarded_without_the_account() {
    let (_red, gateway) = gateway("", "");
    let visitor = signed_in(&gateway, "", "visitor").await;
    let answer = gateway.get("/plant/devices").token(&visitor).send().await;
    // Node-RED's own refusal: it has seen no token.
    assert_eq!(answer.status, 401);
    assert!(
        !answer
            .header("www-authenticate")
            .contains("insufficient_scope")
    );
    assert_eq!(answer.text(), "Unauthorized");
}
