//! Small messages that would make a node work for seconds or make gigabytes: the node's budget ends
//! the work, the error is caught, and other flows go on meanwhile.

use crate::bench::{Bench, debug, inject};
use flows::DeploymentType;
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

fn placed(mut node: Json, z: &str) -> Json {
    node["z"] = z.into();
    (node["x"], node["y"]) = (1.into(), 1.into());
    node
}

/// A node that gets the message that a function makes, a debug node behind it, and a catch node for
/// its errors; next to them another flow.
fn flow(node: &Json, makes: &str) -> Json {
    let mut node = placed(node.clone(), "t");
    (node["id"], node["wires"]) = ("n".into(), json!([["out"]]));
    let function =
        json!({ "id": "f", "type": "function", "func": makes, "outputs": 1, "wires": [["n"]] });
    let text = json!({ "id": "c", "type": "catch", "scope": ["n"], "wires": [["caught"]] });
    let only = json!({ "id": "caught", "type": "change", "wires": [["error"]],
        "rules": [{ "t": "delete", "p": "payload", "pt": "msg" }] });
    let mut other = inject("other", &json!({ "payload": "alive" }), &["alive"]);
    other["z"] = "u".into();
    let shown = json!({ "id": "count", "type": "change", "wires": [["shown"]], "rules": [
        { "t": "set", "p": "payload", "pt": "msg", "to": "$count(payload)", "tot": "jsonata" }] });
    node["wires"] = json!([["count"]]);
    json!([
        { "id": "t", "type": "tab" },
        { "id": "u", "type": "tab" },
        inject("in", &json!({ "payload": 0 }), &["f"]),
        placed(function, "t"),
        node,
        placed(shown, "t"),
        placed(text, "t"),
        placed(only, "t"),
        placed(debug("shown"), "t"),
        placed(debug("error"), "t"),
        other,
        placed(debug("alive"), "u"),
    ])
}

async fn bench(node: &Json, makes: &str) -> Bench {
    let set = |settings: &mut engine::settings::Settings| {
        settings.script_memory = 64 << 20;
        settings.script_timeout = Duration::from_secs(2);
    };
    Bench::set(&flow(node, makes), set).await
}

/// The text of the error that the catch node gets.
async fn caught(bench: &mut Bench) -> String {
    loop {
        let (node, message) = bench.output().await;
        if node == "error" {
            assert_eq!(message["error"]["source"]["id"], "n");
            return message["error"]["message"].as_str().unwrap().to_owned();
        }
    }
}

/// The message is refused with this error, and the next one is served.
async fn is_refused(node: Json, makes: &str, with: &str) {
    let mut bench = bench(&node, makes).await;
    bench.inject("in").await;
    let text = caught(&mut bench).await;
    assert!(text.contains(with), "{text} of {makes}");
    bench.inject("other").await;
    assert_eq!(bench.output().await.0, "alive");
}

/// The same, and messages of another flow arrive before the error.
async fn is_refused_while_others_are_served(node: Json, makes: &str, with: &str) {
    let mut bench = bench(&node, makes).await;
    bench.inject("in").await;
    for _ in 0..5 {
        bench.inject("other").await;
        assert_eq!(bench.output().await.0, "alive", "{makes}");
    }
    let text = caught(&mut bench).await;
    assert!(text.contains(with), "{text} of {makes}");
}

const TIME: &str = "takes longer than 2s (engine.script_timeout)";
const BYTES: &str = "makes more than 16777216 bytes (a quarter of engine.script_memory)";

fn html(tag: &str, ret: &str) -> Json {
    json!({ "type": "html", "property": "payload", "tag": tag, "ret": ret, "as": "single" })
}

fn csv() -> Json {
    json!({ "type": "csv", "spec": "rfc", "sep": ",", "temp": "", "multi": "mult", "ret": "\\n",
        "hdrin": "", "hdrout": "none", "skip": "0", "strings": true })
}

#[tokio::test]
async fn html_that_moves_its_content_out_of_tables_is_refused() {
    let makes = "msg.payload = '<table>' + '<div>'.repeat(28000); return msg";
    is_refused(html("zzz", "html"), makes, "nested more than 1000 deep").await;
    let makes = "msg.payload = '<table>' + '<div>'.repeat(560000); return msg";
    is_refused(html("zzz", "html"), makes, "nested more than 1000 deep").await;
}

#[tokio::test]
async fn html_whose_formatting_is_opened_again_in_every_block_is_refused() {
    let makes = "let t = '<p>'; for (let i = 0; i < 500; i++) t += `<b x=${i}>`;
        msg.payload = t + '</p>' + '<p>x</p>'.repeat(20000); return msg";
    is_refused(html("zzz", "html"), makes, BYTES).await;
}

#[tokio::test]
async fn the_text_of_every_one_of_nested_elements_is_refused() {
    let makes = "msg.payload = '<div>'.repeat(300) + 'x'.repeat(140000); return msg";
    for ret in ["text", "html", "compl"] {
        is_refused(html("div", ret), makes, BYTES).await;
    }
}

#[tokio::test]
async fn a_selector_that_compares_every_element_with_every_other_is_refused_while_others_are_served()
 {
    let makes = "msg.payload = '<i></i>'.repeat(60000); return msg";
    let tag = "i:has(~ zzz)";
    is_refused_while_others_are_served(html(tag, "text"), makes, TIME).await;
}

#[tokio::test]
async fn csv_of_two_million_lines_is_refused() {
    for spec in ["rfc", ""] {
        let mut node = csv();
        node["spec"] = spec.into();
        let makes = "msg.payload = 'a\\n'.repeat(2000000); return msg";
        is_refused(node, makes, BYTES).await;
    }
}

#[tokio::test]
async fn csv_of_many_columns_and_many_rows_without_them_is_refused() {
    let makes = "const first = {}; for (let i = 0; i < 3000; i++) first['k' + i] = 1;
        msg.payload = Array.from({ length: 20000 }, (_, i) => i ? { x: 1 } : first); return msg";
    for spec in ["rfc", ""] {
        let mut node = csv();
        (node["spec"], node["hdrout"]) = (spec.into(), "all".into());
        is_refused(node, makes, BYTES).await;
    }
}

#[tokio::test]
async fn yaml_that_merges_a_large_mapping_many_times_is_refused() {
    let makes = "let t = 'a: &a {'; for (let i = 0; i < 2000; i++) t += `k${i}: 1,`;
        msg.payload = t + '}\\nb:\\n' + '- {<<: *a}\\n'.repeat(2000); return msg";
    is_refused(
        json!({ "type": "yaml", "property": "payload" }),
        makes,
        BYTES,
    )
    .await;
}

#[tokio::test]
async fn xml_with_a_long_indentation_is_refused() {
    let makes = "msg.options = { renderOpts: { pretty: true, indent: ' '.repeat(100000), newline: '\\n' } };
        msg.payload = { r: { e: Array.from({ length: 2000 }, () => 'x') } }; return msg";
    is_refused(
        json!({ "type": "xml", "property": "payload" }),
        makes,
        BYTES,
    )
    .await;
}

#[tokio::test]
async fn a_template_of_sections_in_sections_is_refused() {
    let template =
        "{{#payload}}{{#payload}}{{#payload}}xxxxxxxx{{/payload}}{{/payload}}{{/payload}}";
    let node = json!({ "type": "template", "field": "payload", "syntax": "mustache", "template": template });
    let makes = "msg.payload = Array.from({ length: 500 }, () => 1); return msg";
    is_refused(node, makes, BYTES).await;
}

#[tokio::test]
async fn messages_of_a_long_sequence_leave_time_for_other_flows_and_keep_their_order() {
    let node = json!({ "type": "split", "splt": "\\n", "spltType": "str", "arraySplt": 1, "property": "payload" });
    let makes = "msg.payload = Array.from({ length: 100000 }, (_, i) => i).join('\\n'); return msg";
    let mut flows = flow(&node, makes);
    let list = flows.as_array_mut().unwrap();
    list.retain(|node| node["id"] != "count");
    let order = "const n = context.get('n') || 0; context.set('n', n + 1);
        if (Number(msg.payload) !== n || msg.parts.index !== n) throw new Error('order');
        return n + 1 === msg.parts.count ? msg : null";
    let check = json!({ "id": "count", "type": "function", "func": order, "outputs": 1, "wires": [["shown"]] });
    list.push(placed(check, "t"));
    let mut bench = Bench::with(&flows).await;
    bench.inject("in").await;
    bench.inject("other").await;
    assert_eq!(bench.output().await.0, "alive");
    let (node, message) = bench.output().await;
    assert_eq!(node, "shown", "{message}");
    assert_eq!(message["payload"], "99999");
}

#[tokio::test]
async fn a_deployment_ends_the_work_of_a_node_and_its_flow_goes_on() {
    let makes = "msg.payload = '<i></i>'.repeat(60000); return msg";
    let node = html("i:has(~ zzz)", "text");
    let set = |settings: &mut engine::settings::Settings| {
        settings.script_timeout = Duration::from_hours(1);
    };
    let mut bench = Bench::set(&flow(&node, makes), set).await;
    bench.inject("in").await;
    bench.inject("other").await;
    assert_eq!(bench.output().await.0, "alive");
    let next = flow(&html("i", "text"), makes);
    bench.deploy(&next, DeploymentType::Nodes).await;
    bench.inject("in").await;
    let (node, message) = bench.output().await;
    assert_eq!(
        (node.as_str(), &message["payload"]),
        ("shown", &json!(60000))
    );
}

#[tokio::test]
async fn ordinary_large_texts_are_read() {
    let makes = "let t = 'id,name,value\\n'; for (let i = 0; i < 50000; i++) t += `${i},name ${i},${i / 7}\\n`;
        msg.payload = t; return msg";
    for spec in ["rfc", ""] {
        let mut node = csv();
        (node["spec"], node["hdrin"]) = (spec.into(), true.into());
        let mut bench = Bench::with(&flow(&node, makes)).await;
        bench.inject("in").await;
        assert_eq!(bench.output().await.1["payload"], 50000);
    }
    let makes = "let t = '<html><head><title>T</title></head><body><table>';
        for (let i = 0; i < 5000; i++) t += `<tr class=r><td><a href=\"/p/${i}\">Name ${i}</a><td>${i}</tr>`;
        msg.payload = t + '</table></body></html>'; return msg";
    let node = html("table tr.r > td:first-child a[href]", "html");
    let mut bench = Bench::with(&flow(&node, makes)).await;
    bench.inject("in").await;
    assert_eq!(bench.output().await.1["payload"], 5000);
}

/// The longest wait of messages of the other flow while a node works on what a function makes.
async fn longest_wait(node: &Json, makes: &str) -> Duration {
    let mut flows = flow(node, makes);
    let list = flows.as_array_mut().unwrap();
    list.retain(|node| node["id"] != "count");
    let mut bench = Bench::with(&flows).await;
    bench.inject("in").await;
    let began = Instant::now();
    let mut longest = Duration::ZERO;
    while began.elapsed() < Duration::from_secs(2) {
        let sent = Instant::now();
        bench.inject("other").await;
        while bench.output().await.0 != "alive" {}
        longest = longest.max(sent.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    longest
}

/// The control is a node that does nothing with the same message, made by the same function. A node
/// that held others up would do so each time; a busy machine does not.
#[tokio::test]
async fn other_flows_wait_within_50_ms_for_a_node_that_works_on_a_bomb() {
    let split = json!({ "type": "split", "splt": "\\n", "spltType": "str", "arraySplt": 1, "property": "payload" });
    let nothing = json!({ "type": "change", "rules": [{ "t": "delete", "p": "x", "pt": "msg" }] });
    for (node, text) in [
        (html("zzz", "html"), "'<table>' + '<div>'.repeat(28000)"),
        (
            html("div", "text"),
            "'<div>'.repeat(300) + 'x'.repeat(140000)",
        ),
        (html("i:has(~ zzz)", "text"), "'<i></i>'.repeat(20000)"),
        (csv(), "'a\\n'.repeat(2000000)"),
        (split, "'a\\n'.repeat(200000)"),
    ] {
        let makes = format!("msg.payload = {text}; return msg");
        let mut waits = Vec::new();
        // The least of several waits is what the work takes; more is what the machine was busy
        // with.
        while waits.len() < 8 {
            let control = longest_wait(&nothing, &makes).await;
            let wait = longest_wait(&node, &makes).await;
            if wait <= control + Duration::from_millis(50) {
                break;
            }
            waits.push((wait, control));
        }
        assert!(waits.len() < 8, "{text}, and the controls: {waits:?}");
    }
}
