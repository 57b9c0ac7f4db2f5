//! YAML as values, as js-yaml reads and writes it.

mod block;
mod error;
mod flow;
mod map;
mod names;
mod read;
mod scalar;
mod scan;
mod time;
mod types;
mod write;

pub use read::read;
pub use write::write;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::read;
    use testing::scaling::{assert_scales, pieces};
    use value::json;

    fn shown(text: &str) -> String {
        json::stringify(&read(text).unwrap()).unwrap_or_default()
    }

    /// The results of Node-RED 4.1.
    #[test]
    fn texts_become_the_values_that_node_red_reads() {
        for (text, expected) in [
            (
                "a: 1\nb:\n  - x\n  - \"2\"\nc: {d: true, e: null, f: ~}\n",
                r#"{"a":1,"b":["x","2"],"c":{"d":true,"e":null,"f":null}}"#,
            ),
            ("5", "5"),
            ("abc", "\"abc\""),
            ("- 1\n- 2", "[1,2]"),
            ("a: yes", r#"{"a":"yes"}"#),
            ("a: 0x1F", r#"{"a":31}"#),
            ("a: |\n  l1\n  l2\n", r#"{"a":"l1\nl2\n"}"#),
            ("a: >\n  l1\n  l2\n", r#"{"a":"l1 l2\n"}"#),
            ("a: &x {q: 1}\nb: *x", r#"{"a":{"q":1},"b":{"q":1}}"#),
            ("a: '12:30'", r#"{"a":"12:30"}"#),
            ("a:", r#"{"a":null}"#),
            ("", ""),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn broken_documents_and_bombs_are_refused() {
        assert!(read("a: [1,").is_err());
        assert!(read("a: 1\na: 2").is_err());
        assert!(read("x: *nope").is_err());
        assert!(read(&"[".repeat(100_000)).is_err());
        let bomb: Vec<String> = (1..12)
            .map(|n| {
                format!(
                    "a{n}: &a{n} [{}]",
                    vec![format!("*a{}", n - 1); 10].join(",")
                )
            })
            .collect();
        let bomb = format!("a0: &a0 [x]\n{}", bomb.join("\n"));
        assert!(read(&bomb).is_err());
    }

    #[test]
    fn many_anchors_are_read_in_linear_time() {
        let text = |n| pieces(n, |k| format!("k{k}: &a{k} v\n"));
        assert_scales(1000, text, |text| drop(read(&text).unwrap()));
    }
}
