//! Refused deployments: their error codes, and that nothing changes.

use crate::deploy::one_tab;
use crate::harness::Gateway;

#[tokio::test]
async fn both_dialects_are_understood_and_contradictions_refused() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("deployer").await;
    let (version, kind) = ("invalid_api_version", "invalid_deployment_type");
    for (headers, status, code) in [
        (&[][..], 204, ""),
        (&[("Service-API-Version", "")], 204, ""),
        (&[("Service-API-Version", "v1")], 204, ""),
        (&[("Node-RED-API-Version", "v1")], 204, ""),
        (
            &[("Service-API-Version", "v1"), ("Service-API-Version", "v1")],
            204,
            "",
        ),
        (
            &[
                ("Service-API-Version", "v1"),
                ("Node-RED-API-Version", "v1"),
            ],
            204,
            "",
        ),
        (
            &[("Service-API-Version", "v1"), ("Node-RED-API-Version", "")],
            204,
            "",
        ),
        (&[("Service-API-Version", "v3")], 400, version),
        (&[("Service-API-Version", "V1")], 400, version),
        (&[("Node-RED-API-Version", "1")], 400, version),
        (&[("Service-API-Version", "v1, v1")], 400, version),
        (
            &[("Service-API-Version", "v1"), ("Service-API-Version", "v2")],
            400,
            "invalid_header",
        ),
        (
            &[
                ("Service-API-Version", "v1"),
                ("Node-RED-API-Version", "v2"),
            ],
            400,
            "invalid_header",
        ),
        (&[("Service-Deployment-Type", "full")], 204, ""),
        (&[("Node-RED-Deployment-Type", "nodes")], 204, ""),
        (
            &[
                ("Service-Deployment-Type", "flows"),
                ("Node-RED-Deployment-Type", "flows"),
            ],
            204,
            "",
        ),
        (&[("Service-Deployment-Type", "reload")], 204, ""),
        (&[("Service-Deployment-Type", "")], 204, ""),
        (&[("Service-Deployment-Type", "Full")], 400, kind),
        (&[("Service-Deployment-Type", "all")], 400, kind),
        (
            &[
                ("Service-Deployment-Type", "full"),
                ("Node-RED-Deployment-Type", "nodes"),
            ],
            400,
            "invalid_header",
        ),
    ] {
        let request = gateway.post("/flows").json(&one_tab("x"));
        let request = headers
            .iter()
            .fold(request, |r, (name, value)| r.header(name, value));
        let anonymous = request.clone().send().await.status;
        let answer = request.token(&token).send().await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{headers:?}"
        );
        assert_eq!(anonymous, 401, "401 comes before 400: {headers:?}");
    }
    for (name, value, status) in [
        ("Node-RED-API-Version", "v2", 200),
        ("Service-API-Version", "v3", 400),
    ] {
        let answer = gateway
            .get("/flows")
            .token(&token)
            .header(name, value)
            .send()
            .await;
        assert_eq!(answer.status, status);
    }
}

#[tokio::test]
async fn a_malformed_submission_is_refused_with_its_error_code() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("deployer").await;
    let rev = gateway.deploy(&token, &one_tab("kept")).await;
    for (version, body, output) in [
        ("v1", "", "invalid JSON"),
        ("v1", "[{", "invalid JSON"),
        ("v1", "{}", "array of node objects"),
        ("v1", "[] []", "trailing"),
        ("v1", "[null]", "element 0"),
        ("v1", r#"[{"id":"a","type":"tab"},7]"#, "element 1"),
        ("v1", r#"[{"type":"tab"}]"#, r#"element 0: "id""#),
        ("v1", r#"[{"id":"","type":"tab"}]"#, r#"element 0: "id""#),
        ("v1", r#"[{"id":5,"type":"tab"}]"#, r#"element 0: "id""#),
        ("v1", r#"[{"id":"n"}]"#, r#"element 0 ("n"): "type""#),
        (
            "v1",
            r#"[{"id":"n","type":"x","z":null}]"#,
            r#"element 0 ("n"): "z""#,
        ),
        (
            "v1",
            r#"[{"id":"n","type":"x","wires":["b"]}]"#,
            r#"element 0 ("n"): "wires""#,
        ),
        (
            "v1",
            r#"[{"id":"n","type":"x","wires":{}}]"#,
            r#"element 0 ("n"): "wires""#,
        ),
        (
            "v1",
            r#"[{"id":"n","type":"x"},{"id":"n","type":"y"}]"#,
            "elements 0 and 1",
        ),
        ("v2", "[]", "\"flows\""),
        ("v2", "{}", "flows"),
        ("v2", r#"{"flows":{}}"#, "flows"),
        ("v2", r#"{"flows":[],"rev":1}"#, "\"rev\""),
        ("v2", r#"{"flows":[],"rev":null}"#, "\"rev\""),
        ("v2", r#"{"flows":[null],"rev":"stale"}"#, "element 0"),
    ] {
        let request = gateway
            .post("/flows")
            .token(&token)
            .header("Service-API-Version", version);
        let answer = request
            .header("Content-Type", "application/json")
            .body(body)
            .send()
            .await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "invalid_flows"),
            "{body}"
        );
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(output), "{body}: {message}");
    }
    assert_eq!(
        gateway.flows(&token).await["rev"],
        *rev,
        "nothing was changed"
    );
}

#[tokio::test]
async fn only_plain_json_is_taken() {
    let gateway = Gateway::start();
    let token = gateway.sign_in("deployer").await;
    for (kind, encoding, status) in [
        ("application/json", "", 204),
        ("Application/JSON; charset=UTF-8", "", 204),
        ("application/json", "identity", 204),
        ("", "", 415),
        ("text/plain", "", 415),
        ("application/x-www-form-urlencoded", "", 415),
        ("application/jsonp", "", 415),
        ("application/json; charset=latin1", "", 415),
        ("application/json", "gzip", 415),
        ("application/json", "br", 415),
    ] {
        let mut request = gateway.post("/flows").token(&token).body("[]");
        if !kind.is_empty() {
            request = request.header("Content-Type", kind);
        }
        if !encoding.is_empty() {
            request = request.header("Content-Encoding", encoding);
        }
        let answer = request.send().await;
        assert_eq!(answer.status, status, "{kind} {encoding}");
        assert!(status == 204 || answer.code() == "unsupported_media_type");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_announced_or_not() {
    let gateway = Gateway::with("[limits]\nbody = \"4KiB\"");
    let token = gateway.sign_in("deployer").await;
    let large = one_tab(&"x".repeat(5000)).to_string();
    let head = |more: &str| {
        format!(
            "POST /flows HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n{more}\r\n\r\n"
        )
    };
    // Announced: at once, before a byte of the body, and for every caller.
    let announced = gateway.raw_exchange(&head("Content-Length: 5000000")).await;
    assert!(announced.starts_with("HTTP/1.1 413 "), "{announced}");
    assert!(announced.contains("body_too_large"), "{announced}");
    // In pieces: as soon as it is too much, but only for those who may deploy.
    let pieces = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let chunked = "Transfer-Encoding: chunked";
    let anonymous = gateway.raw_exchange(&(head(chunked) + &pieces)).await;
    assert!(anonymous.starts_with("HTTP/1.1 401 "), "{anonymous}");
    let known = head(&format!("{chunked}\r\nAuthorization: Bearer {token}"));
    let answer = gateway.raw_exchange(&(known + &pieces)).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");

    let http2 = gateway.post("/flows").token(&token).http2();
    let answer = http2
        .header("Content-Type", "application/json")
        .body(large)
        .send()
        .await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (413, "body_too_large")
    );
    gateway.deploy(&token, &one_tab(&"x".repeat(3000))).await;
}
