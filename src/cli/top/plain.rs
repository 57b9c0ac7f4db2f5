//! One view of the nodes as text, for scripts.

use crate::cli::table::{aligned, printable};
use engine::profile::{NodeUsage, Profile};

/// Characters of a name; more are cut off. Our choice: type, name and flow stand beside one another
/// on most terminals.
const CELL: usize = 40;

/// The summary and the table.
pub(super) fn view(profile: &Profile, memory: u64) -> String {
    let seconds = profile.seconds.max(f64::MIN_POSITIVE);
    let percent = |time: f64| format!("{:5.1} %", 100.0 * time / seconds);
    let rate = |messages: u64| format!("{:10.0}", messages as f64 / seconds);
    let mut table = vec![["   time", "messages/s", "type", "name", "flow"].map(str::to_owned)];
    table.extend(profile.nodes.iter().map(|node| {
        [
            percent(node.seconds),
            rate(node.messages),
            shortened(&node.kind),
            shortened(if node.name.is_empty() {
                &node.id
            } else {
                &node.name
            }),
            shortened(&flow(node)),
        ]
    }));
    let mut view = format!(
        "engine {} busy, {} messages/s, {} waiting, {} MiB\n",
        percent(profile.busy_seconds).trim_start(),
        rate(profile.messages()).trim_start(),
        profile.waiting_messages,
        memory >> 20,
    );
    view.push_str(&aligned(&table));
    view
}

/// The label of a node's tab, and the names of the subflow instances around it.
pub(super) fn flow(node: &NodeUsage) -> String {
    let mut flow = node.flow_label.clone();
    for instance in &node.path {
        flow.push_str(" / ");
        flow.push_str(instance);
    }
    flow
}

/// A name as a terminal may get it, and as the table has room for.
pub(super) fn shortened(name: &str) -> String {
    let mut out: String = printable(&name.chars().take(CELL).collect::<String>());
    if name.chars().nth(CELL).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::profile::Others;

    fn profile(nodes: &[(&str, f64)]) -> Profile {
        let node = |&(name, seconds): &(&str, f64)| NodeUsage {
            id: "a1".to_owned(),
            kind: "function".to_owned(),
            name: name.to_owned(),
            flow: "t".to_owned(),
            flow_label: "Orders".to_owned(),
            path: vec!["Retry".to_owned()],
            messages: 50,
            outputs: vec![50],
            errors: 0,
            seconds,
        };
        Profile {
            seconds: 2.0,
            busy_seconds: 1.0,
            waiting_messages: 7,
            nodes: nodes.iter().map(node).collect(),
            others: Others::default(),
        }
    }

    #[test]
    fn a_view_has_a_summary_and_the_nodes_by_time() {
        let view = view(&profile(&[("Parse", 0.5), ("", 0.1)]), 64 << 20);
        let expected = "engine 50.0 % busy, 50 messages/s, 7 waiting, 64 MiB\n   \
                           time  messages/s  type      name   flow\n \
                         25.0 %          25  function  Parse  Orders / Retry\n  \
                          5.0 %          25  function  a1     Orders / Retry";
        assert_eq!(view, expected);
    }

    #[test]
    fn a_name_cannot_control_the_terminal() {
        assert_eq!(
            printable("a\u{1b}[2J\r\n\u{202e}\u{9b}'ü\""),
            "a\\u{1b}[2J\\r\\n\\u{202e}\\u{9b}'ü\""
        );
        assert_eq!(shortened(&"x".repeat(50)), "x".repeat(40) + "…");
    }
}
