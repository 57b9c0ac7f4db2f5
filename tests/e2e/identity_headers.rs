//! Header fields in which other products pass a user's identity: forged ones are removed.

use crate::client::Request;
use crate::confused_deputy::agreeable;
use crate::harness::{Gateway, flow_set, public, script};

/// What proxies that sign users in tell the program behind them.
const FIELDS: [&str; 63] = [
    "X-User",
    "X-Username",
    "X-Email",
    "X-Groups",
    "X-User-Id",
    "X-Userinfo",
    "X-ID-Token",
    "X-Consumer-Username",
    "X-Credential-Identifier",
    "CF-Access-Jwt-Assertion",
    "Cf-Access-Authenticated-User-Email",
    "CF-Connecting-IP",
    "CF-Connecting-IPv6",
    "X-Amzn-Oidc-Identity",
    "X-Amzn-Oidc-Data",
    "X-Amzn-Mtls-Clientcert",
    "X-MS-CLIENT-PRINCIPAL",
    "X-MS-CLIENT-PRINCIPAL-NAME",
    "X-MS-TOKEN-AAD-ID-TOKEN",
    "Tailscale-User-Login",
    "Tailscale-User-Name",
    "SSL-Client-Cert",
    "SSL-Client-Verify",
    "X-SSL-Client-CN",
    "X-SSL-Cert",
    "X-Client-Cert",
    "X-Client-Cert-DN",
    "Client-Cert",
    "Client-Cert-Chain",
    "X-ARR-ClientCert",
    "X-Goog-Authenticated-User-Email",
    "X-Goog-Iap-Jwt-Assertion",
    "X-Pomerium-Jwt-Assertion",
    "X-Vouch-User",
    "X-Token-Subject",
    "X-Authentik-Username",
    "Remote-User",
    "Remote-Groups",
    "Remote-Email",
    "Remote-Name",
    "X-Forwarded-User",
    "X-Auth-Request-Email",
    "X-Remote-User",
    "X-JWT-Assertion",
    "OIDC_CLAIM_email",
    "OIDC-access-token",
    "Mellon-NAME-ID",
    "Shib-Identity-Provider",
    "SM-User",
    "SM_USERGROUPS",
    "iv-user",
    "iv-creds",
    "X-Auth-User",
    "X-Auth-Username",
    "X-Auth-UserId",
    "X-Auth-User-Id",
    "X-Auth-Email",
    "X-Auth-Name",
    "X-Auth-Role",
    "X-Auth-Roles",
    "X-Auth-Group",
    "X-Auth-Groups",
    "X-Auth-Subject",
];

/// A request with all of them, in both spellings.
fn lying(mut request: Request) -> Request {
    for name in FIELDS {
        request = request
            .header(name, "root")
            .header(&name.replace('-', "_"), "root");
    }
    request
        .header("X-Kept", "1")
        .header("X-Requested-With", "XMLHttpRequest")
        .header("X-Access-Token", "the flow's own")
        .header("X-Auth-Token", "the flow's other")
}

#[tokio::test]
async fn forged_identity_headers_reach_neither_an_upstream_nor_a_flow() {
    let behind = agreeable().await;
    let gateway =
        Gateway::with(&(behind.config() + &public(&["/who"]) + "[limits]\nheaders = 200\n"));
    for path in ["/who", "/red/x.js"] {
        let request = lying(gateway.get(path));
        assert_eq!(request.send().await.status, 200);
        let received_here = behind.received().pop().unwrap().bytes;
        assert!(!received_here.contains("root"), "{received_here}");
        for kept in [
            "x-kept: 1",
            "x-requested-with: XMLHttpRequest",
            "x-access-token: the flow's own",
            "x-auth-token: the flow's other",
        ] {
            assert!(received_here.contains(kept), "{kept} in {received_here}");
        }
    }

    let gateway = Gateway::with(&(public(&["/who"]) + "[limits]\nheaders = 200\n"));
    let token = gateway.sign_in("admin").await;
    let who = script(
        "a",
        "get",
        "/who",
        "msg.payload = msg.req.headers; return msg",
    );
    gateway.deploy(&token, &flow_set(&[who])).await;
    let seen = lying(gateway.get("/who")).send().await.json();
    assert_eq!(seen["x-kept"], "1");
    assert!(!seen.to_string().contains("root"), "{seen}");
}

#[tokio::test]
async fn configured_identity_headers_pass_from_trusted_proxies_only() {
    let behind = agreeable().await;
    let lines = |proxies: &str| {
        let server = format!(
            "[server]\ntrusted_proxies = [\"{proxies}\"]\ntrusted_proxy_headers = [\"X-Authentik-Username\", \"X-Ours\"]\n"
        );
        behind.config() + &server + &public(&["/who"])
    };
    for (proxies, passes) in [("127.0.0.0/8", true), ("10.0.0.0/8", false)] {
        let gateway = Gateway::with(&lines(proxies));
        let request = gateway
            .get("/who")
            .header("X-Authentik-Username", "maria")
            .header("X-Ours", "maria")
            .header("X_Authentik_Username", "root")
            .header("X_Ours", "root")
            .header("X-Authentik-Groups", "root")
            .header("Remote-User", "root");
        assert_eq!(request.send().await.status, 200);
        let received_here = behind.received().pop().unwrap().bytes;
        assert!(!received_here.contains("root"), "{received_here}");
        for line in ["x-authentik-username: maria\r\n", "x-ours: maria\r\n"] {
            assert_eq!(
                received_here.contains(line),
                passes,
                "{proxies}: {received_here}"
            );
        }
    }
}
