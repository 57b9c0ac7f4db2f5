//! Scalars of YAML: plain, in quotes, and blocks of lines.

use super::scan::{Scan, is_blank, is_eol, is_flow, is_gap};
use value::Failure;

/// The part of a scalar read so far, and the range of text still to be added.
struct Capture {
    out: String,
    start: usize,
    end: usize,
}

impl Capture {
    fn at(position: usize) -> Self {
        Self {
            out: String::new(),
            start: position,
            end: position,
        }
    }

    fn again(&mut self, position: usize) {
        self.start = position;
        self.end = position;
    }

    /// Adds the stretch up to a place.
    fn take(&mut self, scan: &Scan, end: usize, quoted: bool) -> Result<(), Failure> {
        let part = scan.slice(self.start, end.max(self.start));
        let reason = if quoted {
            "expected valid JSON character"
        } else {
            "the stream contains non-printable characters"
        };
        let bad = |c: char| match c {
            '\t' => false,
            '\n' | '\r' | '\u{85}' => quoted && c < ' ',
            '\0'..='\u{1f}' => true,
            '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => !quoted,
            _ => false,
        };
        if part.contains(bad) {
            return Err(scan.wrong(reason));
        }
        self.out.push_str(&part);
        Ok(())
    }

    fn fold(&mut self, breaks: usize) {
        match breaks {
            0 => {}
            1 => self.out.push(' '),
            more => self.out.push_str(&"\n".repeat(more - 1)),
        }
    }
}

/// A plain scalar; `None` if none begins here.
pub(super) fn plain(scan: &mut Scan, indent: isize, flow: bool) -> Result<Option<String>, Failure> {
    let first = scan.here();
    let ends = |c: char| is_gap(c) || flow && is_flow(c);
    if is_gap(first) || is_flow(first) || "#&*!|>'\"%@`\0".contains(first) {
        return Ok(None);
    }
    if matches!(first, '?' | '-') && ends(scan.ahead(1)) {
        return Ok(None);
    }
    let mut capture = Capture::at(scan.position);
    // The line on which what is pending began.
    let mut pending = None;
    while scan.position < scan.len() {
        let c = scan.here();
        let stops = match c {
            ':' => ends(scan.ahead(1)),
            '#' => is_gap(scan.before()),
            c => scan.begins_line() && scan.at_separator() || flow && is_flow(c),
        };
        if stops {
            break;
        }
        if !matches!(c, ':' | '#') && is_eol(c) {
            let place = scan.place();
            scan.skip(false)?;
            if scan.indent >= indent {
                pending = Some(place.mark.line);
                continue;
            }
            scan.back_to(place);
            scan.position = capture.end;
            break;
        }
        if let Some(line) = pending.take() {
            let end = capture.end;
            capture.take(scan, end, false)?;
            capture.fold(scan.line - line);
            capture.again(scan.position);
        }
        scan.position += 1;
        if !is_blank(c) {
            capture.end = scan.position;
        }
    }
    let end = capture.end;
    capture.take(scan, end, false)?;
    Ok(Some(capture.out).filter(|text| !text.is_empty()))
}

/// A scalar in quotes; `None` if none begins here.
pub(super) fn quoted(scan: &mut Scan) -> Result<Option<String>, Failure> {
    let quote = scan.here();
    if !matches!(quote, '\'' | '"') {
        return Ok(None);
    }
    let style = if quote == '"' { "double" } else { "single" };
    scan.position += 1;
    let mut capture = Capture::at(scan.position);
    while scan.position < scan.len() {
        let c = scan.here();
        if c == quote {
            let end = scan.position;
            capture.take(scan, end, true)?;
            scan.position += 1;
            if quote == '"' || scan.here() != '\'' {
                return Ok(Some(capture.out));
            }
            capture.start = scan.position;
            scan.position += 1;
            capture.end = scan.position;
        } else if c == '\\' && quote == '"' {
            let end = scan.position;
            capture.take(scan, end, true)?;
            scan.position += 1;
            if is_eol(scan.here()) {
                scan.skip(false)?;
            } else {
                capture.out.push(escape(scan)?);
                scan.position += 1;
            }
            capture.again(scan.position);
        } else if is_eol(c) {
            let end = capture.end;
            capture.take(scan, end, true)?;
            let breaks = scan.skip(false)?;
            capture.fold(breaks);
            capture.again(scan.position);
        } else if scan.begins_line() && scan.at_separator() {
            let reason = format!("unexpected end of the document within a {style} quoted scalar");
            return Err(scan.wrong(&reason));
        } else {
            scan.position += 1;
            if !is_blank(c) {
                capture.end = scan.position;
            }
        }
    }
    let reason = format!("unexpected end of the stream within a {style} quoted scalar");
    Err(scan.wrong(&reason))
}

/// Reads an escape after its backslash; its last character is still to be skipped.
fn escape(scan: &mut Scan) -> Result<char, Failure> {
    Ok(match scan.here() {
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        't' | '\t' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        'e' => '\u{1b}',
        c @ (' ' | '"' | '/' | '\\') => c,
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        length @ ('x' | 'u' | 'U') => {
            let count = match length {
                'x' => 2,
                'u' => 4,
                _ => 8,
            };
            let mut code = 0u32;
            for _ in 0..count {
                let Some(digit) = scan.next().to_digit(16) else {
                    return Err(scan.wrong("expected hexadecimal character"));
                };
                code = (code << 4) | digit;
            }
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        _ => return Err(scan.wrong("unknown escape sequence")),
    })
}

/// The treatment of the line breaks at the end of a block.
#[derive(Clone, Copy, PartialEq)]
enum Chomp {
    Clip,
    Strip,
    Keep,
}

/// The header of a block: its folding, chomping and indentation.
struct Head {
    folds: bool,
    chomp: Chomp,
    indent: Option<isize>,
}

/// A block of lines; `None` if none begins here.
pub(super) fn block(scan: &mut Scan, node_indent: isize) -> Result<Option<String>, Failure> {
    if !matches!(scan.here(), '|' | '>') {
        return Ok(None);
    }
    let head = head(scan, node_indent)?;
    let (mut indent, mut known) = (head.indent.unwrap_or(node_indent), head.indent.is_some());
    let mut out = String::new();
    let (mut any, mut empty, mut more_indented) = (false, 0, false);
    while scan.position < scan.len() {
        scan.line_break()?;
        scan.indent = 0;
        while (!known || scan.indent < indent) && scan.here() == ' ' {
            scan.indent += 1;
            scan.position += 1;
        }
        if !known && scan.indent > indent {
            indent = scan.indent;
        }
        if is_eol(scan.here()) {
            empty += 1;
            continue;
        }
        if !known && indent == 0 {
            return Err(scan.wrong("missing indentation for block scalar"));
        }
        let kept = if any { 1 + empty } else { empty };
        if scan.indent < indent || scan.position >= scan.len() {
            match head.chomp {
                Chomp::Keep => out.push_str(&"\n".repeat(kept)),
                Chomp::Clip if any => out.push('\n'),
                _ => {}
            }
            break;
        }
        if !head.folds {
            out.push_str(&"\n".repeat(kept));
        } else if is_blank(scan.here()) {
            more_indented = true;
            out.push_str(&"\n".repeat(kept));
        } else if more_indented {
            more_indented = false;
            out.push_str(&"\n".repeat(empty + 1));
        } else if empty == 0 {
            out.push_str(if any { " " } else { "" });
        } else {
            out.push_str(&"\n".repeat(empty));
        }
        (any, known, empty) = (true, true, 0);
        let mut capture = Capture::at(scan.position);
        scan.skip_to_eol();
        let end = scan.position;
        capture.take(scan, end, false)?;
        out.push_str(&capture.out);
    }
    Ok(Some(out))
}

fn head(scan: &mut Scan, node_indent: isize) -> Result<Head, Failure> {
    let mut head = Head {
        folds: scan.here() == '>',
        chomp: Chomp::Clip,
        indent: None,
    };
    loop {
        match scan.next() {
            c @ ('+' | '-') => {
                if head.chomp != Chomp::Clip {
                    return Err(scan.wrong("repeat of a chomping mode identifier"));
                }
                head.chomp = if c == '+' { Chomp::Keep } else { Chomp::Strip };
            }
            '0' => {
                let reason =
                    "bad explicit indentation width of a block scalar; it cannot be less than one";
                return Err(scan.wrong(reason));
            }
            c @ '1'..='9' => {
                if head.indent.is_some() {
                    return Err(scan.wrong("repeat of an indentation width identifier"));
                }
                let width = c.to_digit(10).unwrap_or(1);
                head.indent = isize::try_from(width).ok().map(|w| node_indent + w - 1);
            }
            _ => break,
        }
    }
    if is_blank(scan.here()) {
        scan.word(|c| !is_blank(c));
        if scan.here() == '#' {
            scan.skip_to_eol();
        }
    }
    Ok(head)
}
