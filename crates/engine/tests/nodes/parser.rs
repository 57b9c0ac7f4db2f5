//! Tests `csv`, `html`, `xml`, `yaml` and `json` in a running engine against the results of
//! Node-RED 4.1.

use crate::bench::{Bench, around, payloads, through};
use crate::steps::merged;
use serde_json::{Value as Json, json};

fn csv(more: &Json) -> Json {
    merged(
        json!({ "type": "csv", "spec": "rfc", "sep": ",", "hdrin": "", "hdrout": "none", "multi": "one",
        "ret": "\\n", "temp": "", "skip": "0", "strings": true, "include_empty_strings": "", "include_null_values": "" }),
        more,
    )
}

#[tokio::test]
async fn csv_becomes_objects() {
    for spec in ["rfc", ""] {
        for (more, text, expected) in [
            (
                json!({ "temp": "a,b,c" }),
                "1,2,3\n",
                json!([{ "a": 1, "b": 2, "c": 3 }]),
            ),
            (
                json!({ "hdrin": true }),
                "a,b,c\n1,2,3\n4,,6\n\n7",
                json!([{ "a": 1, "b": 2, "c": 3 }, { "a": 4, "c": 6 }, { "a": 7 }]),
            ),
            (
                json!({ "hdrin": true }),
                "a,,c\n1,2,3",
                json!([{ "a": 1, "c": 3 }]),
            ),
            (
                json!({ "temp": "a,b", "include_empty_strings": true }),
                "1,\n,\n\"\",x",
                json!([{ "a": 1 }, { "a": "", "b": "x" }]),
            ),
            (
                json!({ "temp": "a,b,c", "include_null_values": true }),
                "1,,\n\"\",x,",
                json!([{ "a": 1, "b": null, "c": null }, { "b": "x", "c": null }]),
            ),
            (
                json!({ "hdrin": true, "skip": "2" }),
                "junk\njunk\na,b\n1,2",
                json!([{ "a": 1, "b": 2 }]),
            ),
            (
                json!({ "sep": "\\t", "temp": "a,b", "strings": false }),
                "1\t2",
                json!([{ "a": "1", "b": "2" }]),
            ),
            (json!({ "temp": "a,b" }), "", json!([])),
        ] {
            let mut node = csv(&more);
            node["spec"] = json!(spec);
            let came = payloads(&node, &json!({ "payload": text })).await;
            assert_eq!(Json::Array(came), expected, "{spec} {more} {text:?}");
        }
    }
}

#[tokio::test]
async fn csv_rows_are_numbered_or_gathered() {
    let came = through(&csv(&json!({})), &json!({ "payload": "1,2\n3,4,5" }), 1).await;
    let parts: Vec<_> = came
        .iter()
        .map(|(_, m)| (&m["parts"]["index"], &m["parts"]["count"]))
        .collect();
    assert_eq!(parts, [(&json!(0), &json!(2)), (&json!(1), &json!(2))]);
    assert_eq!(came[1].1["columns"], "col1,col2");
    assert_eq!(came[1].1["payload"], json!({ "col1": 3, "col2": 4 }));
    let node = csv(&json!({ "hdrin": true, "multi": "mult" }));
    let came = through(&node, &json!({ "payload": "a,b\n1,2\n3,4" }), 1).await;
    assert_eq!(
        came[0].1,
        json!({ "payload": [{ "a": 1, "b": 2 }, { "a": 3, "b": 4 }], "columns": "a,b" })
    );
}

#[tokio::test]
async fn csv_whose_nulls_would_fill_the_memory_is_an_error() {
    let node = csv(&json!({ "hdrin": true, "include_null_values": true }));
    let columns: Vec<String> = (0..6000).map(|n| format!("c{n}")).collect();
    let text = columns.join(",") + &"\n1".repeat(6000);
    let mut bench = Bench::with(&around(&node, &json!({ "payload": text }), 1)).await;
    bench.inject("in").await;
    let words = "RangeError: value has too many parts for a message: more than 32000000";
    assert_eq!(bench.error().await.1, words);
}

#[tokio::test]
async fn objects_become_csv() {
    for (more, payload, expected) in [
        (
            json!({ "temp": "a,b,c" }),
            json!({ "c": 3, "a": 1, "b": 2 }),
            "1,2,3\n",
        ),
        (
            json!({ "hdrout": "all" }),
            json!([{ "a": 1, "b": 2 }, { "a": 3, "b": 4 }]),
            "a,b\n1,2\n3,4\n",
        ),
        (
            json!({ "hdrout": "all" }),
            json!([[1, 2], [3, "x,y"]]),
            "0,1\n1,2\n3,\"x,y\"\n",
        ),
        (
            json!({ "sep": ";" }),
            json!({ "a": "1;2", "b": "1,2" }),
            "\"1;2\";1,2\n",
        ),
        (
            json!({ "ret": "\\r\\n" }),
            json!([{ "a": 1 }, { "a": 2 }]),
            "1\r\n2\r\n",
        ),
        (json!({ "temp": "a,b" }), json!([1, 2, "x y"]), "1,2\n"),
        (json!({}), json!([]), "\n"),
        (
            json!({ "hdrout": "all", "temp": "a,b" }),
            json!([]),
            "a,b\n",
        ),
        (
            json!({ "hdrout": "all", "temp": "a,b" }),
            json!({ "b": 2, "x": 9 }),
            "a,b\n,2\n",
        ),
    ] {
        let came = payloads(&csv(&more), &json!({ "payload": payload })).await;
        assert_eq!(came, [json!(expected)], "{more} {payload}");
    }
}

#[tokio::test]
async fn a_header_is_sent_once_until_reset() {
    let node = csv(&json!({ "hdrout": "once" }));
    let mut bench = Bench::with(&around(&node, &json!({ "payload": { "a": 1 } }), 1)).await;
    let mut texts = Vec::new();
    for _ in 0..2 {
        bench.inject("in").await;
        texts.push(bench.output().await.1["payload"].take());
    }
    assert_eq!(texts, [json!("a\n1\n"), json!("1\n")]);
}

#[tokio::test]
async fn csv_refuses_what_is_neither_text_nor_object() {
    let mut bench = Bench::with(&around(&csv(&json!({})), &json!({ "payload": 5 }), 1)).await;
    bench.inject("in").await;
    let words = "This node only handles CSV strings or js objects.";
    let status = bench.status().await.1;
    assert_eq!(
        status,
        json!({ "fill": "red", "shape": "dot", "text": words })
    );
    assert_eq!(bench.error().await.1, format!("Error: {words}"));
}

#[tokio::test]
async fn html_is_picked_as_one_array_or_as_parts() {
    let page = json!({ "payload": "<ul><li class=a>1</li><li>2</li></ul>" });
    let node = json!({ "type": "html", "tag": "li", "ret": "text", "as": "single" });
    assert_eq!(payloads(&node, &page).await, [json!(["1", "2"])]);
    let node =
        json!({ "type": "html", "tag": "li", "ret": "attr", "as": "multi", "outproperty": "out" });
    let came = through(&node, &page, 1).await;
    assert_eq!(came[0].1["out"], json!({ "class": "a" }));
    assert_eq!(came[1].1["parts"]["index"], 1);
    assert_eq!(came[1].1["parts"]["count"], 2);
    assert_eq!(came[1].1["parts"]["type"], "string");
    let chosen = json!({ "payload": "<b>x</b>", "select": "b" });
    let node = json!({ "type": "html", "tag": "", "ret": "html", "as": "single" });
    assert_eq!(payloads(&node, &chosen).await, [json!(["x"])]);
}

#[tokio::test]
async fn xml_goes_both_ways() {
    let node = json!({ "type": "xml", "property": "payload", "attr": "@", "chr": "#" });
    let text = json!({ "payload": "<r a=\"1\"><c k=\"v\">u</c></r>" });
    assert_eq!(
        payloads(&node, &text).await,
        [json!({ "r": { "@": { "a": "1" }, "c": [{ "#": "u", "@": { "k": "v" } }] } })]
    );
    let flat = json!({ "payload": "<r><c>u</c></r>", "options": { "explicitArray": false } });
    assert_eq!(payloads(&node, &flat).await, [json!({ "r": { "c": "u" } })]);
    let value = json!({ "payload": { "a": { "$": { "x": "1" }, "_": "t" } } });
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>";
    assert_eq!(
        payloads(&node, &value).await,
        [json!(format!("{head}<a x=\"1\">t</a>"))]
    );
    let mut bench = Bench::with(&around(&node, &json!({ "payload": "<a>" }), 1)).await;
    bench.inject("in").await;
    let words = "Error: Unclosed root tag\nLine: 0\nColumn: 3\nChar: ";
    assert_eq!(bench.error().await.1, words);
}

#[tokio::test]
async fn yaml_goes_both_ways() {
    let node = json!({ "type": "yaml", "property": "payload" });
    let text = json!({ "payload": "a: 1\nb: [x, '2']\n" });
    assert_eq!(
        payloads(&node, &text).await,
        [json!({ "a": 1, "b": ["x", "2"] })]
    );
    let value = json!({ "payload": { "a": 1, "b": ["x", "2"] } });
    assert_eq!(
        payloads(&node, &value).await,
        [json!("a: 1\nb:\n  - x\n  - '2'\n")]
    );
}

#[tokio::test]
async fn json_fails_on_a_property_whose_parent_is_missing() {
    let node = json!({ "type": "json", "property": "a.b", "action": "" });
    let mut bench = Bench::with(&around(&node, &json!({ "payload": 1 }), 1)).await;
    bench.inject("in").await;
    let words = "TypeError: Cannot read properties of undefined (reading 'b')";
    assert_eq!(bench.error().await.1, words);
}
