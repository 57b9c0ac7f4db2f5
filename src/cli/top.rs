//! `flowgate top`: the nodes that use most of the engine's time, live.
//!
//! Each view is written over the one before it, in one piece. The terminal is never in another state between two views,
//! so there is nothing to restore, however the program ends.

use super::control;
use super::table::{aligned, printable};
use crate::config::{Config, parse_duration};
use crate::server::{Answer, Ask};
use engine::profile::{NodeUsage, Profile};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;

/// Lines of a terminal that does not tell its height.
const LINES: usize = 24;
/// Lines above the table and at the end: the summary, the head of the table, the cursor.
const OTHER_LINES: usize = 3;
/// Characters of a name; more are cut off. Our choice: type, name and flow stand beside one another on most terminals.
const CELL: usize = 40;

/// The interval between two views.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let range = Duration::from_secs(1)..=Duration::from_secs(30);
    let interval = parse_duration(text).filter(|interval| range.contains(interval));
    interval.ok_or_else(|| "expected a duration from 1s to 30s".to_owned())
}

/// Shows profiles of this duration, one after the other; one only if that is wanted, or if the output is no terminal.
pub(super) fn show(config: &Config, interval: Duration, once: bool) -> ExitCode {
    let live = !once && io::stdout().is_terminal();
    let mut screen = Screen::default();
    if live
        && screen
            .draw(&format!("measuring for {} s", interval.as_secs()))
            .is_err()
    {
        return ExitCode::FAILURE;
    }
    loop {
        let (profile, memory) = match profile(config, interval) {
            Ok(measured) => measured,
            Err(reason) => {
                eprintln!("flowgate: {reason}");
                return ExitCode::FAILURE;
            }
        };
        let rows = if live {
            height().saturating_sub(OTHER_LINES)
        } else {
            usize::MAX
        };
        let view = view(&profile, memory, rows);
        let written = if live {
            screen.draw(&view)
        } else {
            writeln!(io::stdout(), "{view}")
        };
        // The reader of a pipe may have closed it: no panic.
        match written {
            Ok(()) if live => {}
            Ok(()) => return ExitCode::SUCCESS,
            Err(_) => return ExitCode::FAILURE,
        }
    }
}

fn profile(config: &Config, interval: Duration) -> Result<(Profile, u64), String> {
    let ask = Ask::Profile {
        seconds: interval.as_secs_f64(),
    };
    match control::answer(&config.storage.directory, &ask)? {
        Answer::Profile { profile, memory } => Ok((profile, memory)),
        Answer::Refused(reason) => Err(reason),
        _ => Err("the running flowgate gives another answer: it is of another version".to_owned()),
    }
}

/// The summary and the table, with this many nodes at most.
fn view(profile: &Profile, memory: u64, rows: usize) -> String {
    let seconds = profile.seconds.max(f64::MIN_POSITIVE);
    let percent = |time: f64| format!("{:5.1} %", 100.0 * time / seconds);
    let rate = |messages: u64| format!("{:10.0}", messages as f64 / seconds);
    let mut table = vec![["   time", "messages/s", "type", "name", "flow"].map(str::to_owned)];
    table.extend(profile.nodes.iter().take(rows).map(|node| {
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

fn flow(node: &NodeUsage) -> String {
    let mut flow = node.flow_label.clone();
    for instance in &node.path {
        flow.push_str(" / ");
        flow.push_str(instance);
    }
    flow
}

/// A name as a terminal may get it, and as the table has room for.
fn shortened(name: &str) -> String {
    let mut out: String = printable(&name.chars().take(CELL).collect::<String>());
    if name.chars().nth(CELL).is_some() {
        out.push('…');
    }
    out
}

/// The views on a terminal.
#[derive(Default)]
struct Screen {
    /// Lines of the last one.
    lines: usize,
}

impl Screen {
    fn draw(&mut self, view: &str) -> io::Result<()> {
        let frame = self.frame(view);
        let mut out = io::stdout().lock();
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// A view over the last one (ECMA-48: CPL, EL, ED). Meanwhile long lines do not wrap (DECAWM), so that each takes one
    /// line of the terminal.
    fn frame(&mut self, view: &str) -> String {
        let mut frame = "\x1b[?7l".to_owned();
        if self.lines > 0 {
            let _ = write!(frame, "\x1b[{}F", self.lines);
        }
        self.lines = 0;
        for line in view.lines() {
            frame.push_str(line);
            frame.push_str("\x1b[K\n");
            self.lines += 1;
        }
        frame.push_str("\x1b[J\x1b[?7h");
        frame
    }
}

fn height() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let lines = size.map_or(0, |size| usize::from(size.ws_row));
    if lines == 0 { LINES } else { lines }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
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
        let view = view(&profile(&[("Parse", 0.5), ("", 0.1)]), 64 << 20, usize::MAX);
        let expected = "engine 50.0 % busy, 50 messages/s, 7 waiting, 64 MiB\n   \
                           time  messages/s  type      name   flow\n \
                         25.0 %          25  function  Parse  Orders / Retry\n  \
                          5.0 %          25  function  a1     Orders / Retry";
        assert_eq!(view, expected);
    }

    #[test]
    fn a_view_has_no_more_lines_than_the_terminal() {
        let view = view(&profile(&[("a", 0.5); 30]), 0, 21);
        assert_eq!(view.lines().count() + 1, 24);
    }

    #[test]
    fn a_name_cannot_control_the_terminal() {
        assert_eq!(
            printable("a\u{1b}[2J\r\n\u{202e}\u{9b}'ü\""),
            "a\\u{1b}[2J\\r\\n\\u{202e}\\u{9b}'ü\""
        );
        assert_eq!(shortened(&"x".repeat(50)), "x".repeat(40) + "…");
    }

    #[test]
    fn a_view_replaces_the_last_one_and_leaves_the_terminal_as_it_was() {
        let mut screen = Screen::default();
        assert_eq!(
            screen.frame("a\nb\nc"),
            "\x1b[?7la\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J\x1b[?7h"
        );
        assert_eq!(screen.frame("d"), "\x1b[?7l\x1b[3Fd\x1b[K\n\x1b[J\x1b[?7h");
    }

    #[test]
    fn the_interval_is_from_one_to_thirty_seconds() {
        assert_eq!(interval("2s").unwrap(), Duration::from_secs(2));
        for wrong in ["0s", "31s", "1m", "2", "soon"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
