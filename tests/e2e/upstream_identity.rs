//! The identity that an upstream receives of the caller, and the caller's own `Authorization`.

use crate::authenticated_upstream::{field, refusal};
use crate::harness::Gateway;
use crate::mock_upstream::{Action, MockUpstream};
use crate::upstream_account::signed_in;
use serde_json::json;

#[tokio::test]
async fn identity_headers_are_sent_if_configured_and_never_forged() {
    let with_lies = |request: crate::client::Request| {
        request
            .header("X-Flowgate-User", "root")
            .header("X_Flowgate_Permissions", "*")
            .header("X-Flowgate-Anything", "1")
    };
    for identity_headers in [true, false] {
        let lines = format!(
            "identity_headers = {identity_headers}\n[[route]]\npath = \"/open\"\npublic = true\n[auth]\nanonymous = [\"settings.read\"]\n"
        );
        let (_runtime, behind, gateway) = signed_in(&lines).await;
        let token = gateway.sign_in("deployer").await;
        for (request, known) in [
            (gateway.get("/flows").token(&token), identity_headers),
            (gateway.get("/settings"), false),
            (
                gateway
                    .post("/flow")
                    .token(&token)
                    .json(&json!({ "nodes": [] })),
                identity_headers,
            ),
            (gateway.get("/open"), false),
            (
                gateway.post("/flows").token(&token).json(&json!([])),
                identity_headers,
            ),
        ] {
            let _ = with_lies(request).send().await;
            let mut received_here = behind.received();
            // The gateway reads the flows on its own behalf.
            received_here.retain(|received| received.bytes.contains("x-request-id: "));
            let received_here = received_here.pop().unwrap().bytes.to_ascii_lowercase();
            let lines: Vec<&str> = received_here
                .lines()
                .filter(|line| line.contains("flowgate"))
                .collect();
            let wanted: &[&str] = if known {
                &[
                    "x-flowgate-user: deployer",
                    "x-flowgate-permissions: flows.read flows.write",
                ]
            } else {
                &[]
            };
            assert_eq!(lines, wanted, "{received_here}");
        }
    }
}

#[tokio::test]
async fn a_clients_authorization_is_forwarded_only_on_routes_that_allow_it() {
    let lines = "[[route]]\npath = \"/open\"\npublic = true\n[[route]]\npath = \"/open/own\"\npublic = true\n\
                 pass_authorization = true\n[[route]]\npath = \"/known\"\npermission = \"read\"\n[[route]]\npath = \"/lent\"\n\
                 permission = \"read\"\naccount = true\n";
    let (_runtime, behind, gateway) = signed_in(lines).await;
    let token = gateway.sign_in("reader").await;
    let basic = "Basic dXNlcjpwYXNz";
    for (path, sent, wanted) in [
        ("/open/own", basic, Some(basic)),
        ("/open", basic, None),
        ("/open/other", basic, None),
        ("/red/x.js", basic, None),
        ("/known", &*format!("Bearer {token}"), None),
        ("/open/own", &*format!("Bearer {token}"), None),
        (
            "/lent",
            &*format!("Bearer {token}"),
            Some("Bearer theirs+1/=="),
        ),
        (
            "/flows",
            &*format!("Bearer {token}"),
            Some("Bearer theirs+1/=="),
        ),
    ] {
        let before = behind.received().len();
        let _ = gateway.get(path).header("Authorization", sent).send().await;
        let received_here = behind.received();
        let shown = received_here
            .get(before)
            .map(|received_here| field(&received_here.bytes, "authorization: "));
        let closed = path == "/open/other";
        assert_eq!(shown, (!closed).then_some(wanted), "{path}");
    }
    // Its own refusal is the client's business.
    let behind =
        MockUpstream::start(|_| Action::Respond(refusal("Basic realm=\"Authorization Required\"")))
            .await;
    let gateway = Gateway::with(&(behind.config() + lines));
    let answer = gateway.get("/open/own").send().await;
    assert_eq!(
        (answer.status, answer.header("www-authenticate")),
        (401, "Basic realm=\"Authorization Required\"")
    );
}
