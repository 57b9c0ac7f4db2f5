//! Words errors in YAML as js-yaml does: the reason, the place, and the lines around it. Pure.

use std::fmt::Write;
use value::Failure;

/// The longest line that is shown, and how many before and after the one that is wrong.
const WIDTH: usize = 79;
const BEFORE: usize = 3;
const AFTER: usize = 2;

/// A place in a text.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub position: usize,
    pub line: usize,
    pub line_start: usize,
}

pub(super) fn failure(reason: &str, text: &[char], mark: Mark) -> Failure {
    let (line, column) = (
        mark.line + 1,
        mark.position.saturating_sub(mark.line_start) + 1,
    );
    let snippet = snippet(text, mark);
    Failure::text(format!("{reason} ({line}:{column})\n\n{snippet}"))
}

fn snippet(text: &[char], mark: Mark) -> String {
    let lines = lines(text);
    let found = lines
        .iter()
        .position(|(_, end)| mark.position <= *end)
        .unwrap_or(lines.len() - 1);
    // A text ends with a line break, and what is behind that is no line.
    let ended = lines.len() - 1;
    let digits = (mark.line + AFTER).min(ended).to_string().len();
    let width = WIDTH - (digits + 4);
    let mut out = String::new();
    for at in found.saturating_sub(BEFORE)..=(found + AFTER) {
        if at > found && at >= ended {
            break;
        }
        let (Some(&(start, end)), Some(&(found_start, _))) = (lines.get(at), lines.get(found))
        else {
            break;
        };
        // The same column of the other lines.
        let position = (mark.position + start).saturating_sub(found_start);
        let (shown, column) = shown(text, start, end, position, width);
        let number = (mark.line + 1 + at).saturating_sub(found);
        let _ = writeln!(out, " {number:>digits$} | {shown}");
        if at == found {
            let _ = writeln!(out, "{}^", "-".repeat(digits + 4 + column));
        }
    }
    out.pop();
    out
}

/// The start and end of each line.
fn lines(text: &[char]) -> Vec<(usize, usize)> {
    let mut lines = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(c) = text.get(at) {
        let length = match c {
            '\r' if text.get(at + 1) == Some(&'\n') => 2,
            '\n' | '\r' | '\0' => 1,
            _ => {
                at += 1;
                continue;
            }
        };
        lines.push((start, at));
        at += length;
        start = at;
    }
    lines.push((start, text.len()));
    lines
}

/// A line, cut around a position, and where that is in what is shown.
fn shown(
    text: &[char],
    mut start: usize,
    mut end: usize,
    position: usize,
    width: usize,
) -> (String, usize) {
    let half = width / 2 - 1;
    let (mut head, mut tail) = ("", "");
    if position.saturating_sub(start) > half {
        head = " ... ";
        start = position - half + head.len();
    }
    if end.saturating_sub(position) > half {
        tail = " ...";
        end = position + half - tail.len();
    }
    let middle: String = text.get(start..end).unwrap_or_default().iter().collect();
    let column = (position + head.len()).saturating_sub(start);
    (format!("{head}{}{tail}", middle.replace('\t', "→")), column)
}
