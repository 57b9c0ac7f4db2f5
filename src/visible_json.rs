//! JSON text, and lines for a terminal, that look like what they are: readers of a difference, of
//! the audit log or of the program's log see each character, so that no user takes it for something
//! else.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes each character that a terminal or an editor does not show in a JSON text: controls of
/// the direction of text, line separators, spaces of no width, variation selectors, tags. The text
/// stands for the same value.
pub(crate) fn escaped(text: String) -> String {
    if !text.contains(is_invisible) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        if is_invisible(character) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                // No error: a string takes all.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Escapes each character of a line that a terminal or an editor does not show as one: line feeds
/// and other controls too.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| c < ' ' || is_invisible(c);
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        if is_hidden(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped.into()
}

/// Returns whether a character has no glyph of its own: `Default_Ignorable_Code_Point`, and `Cc`,
/// `Cf`, `Zl` and `Zp`, of the Unicode Character Database 16.0, noncharacters, and two whose glyph
/// is empty. In JSON text there are no control characters before U+007F.
fn is_invisible(character: char) -> bool {
    let is_noncharacter = u32::from(character) & 0xfffe == 0xfffe;
    is_noncharacter
        || matches!(character,
        '\u{2800}' | '\u{16fe4}' | '\u{fdd0}'..='\u{fdef}' |
        '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn an_empty_glyph_and_a_noncharacter_are_escaped() {
        for character in [
            '\u{2800}',
            '\u{16fe4}',
            '\u{fdd0}',
            '\u{ffff}',
            '\u{10fffe}',
        ] {
            assert!(is_invisible(character), "{character:?}");
        }
        assert!(!is_invisible('\u{fffd}'));
    }

    #[test]
    fn what_no_reader_sees_is_escaped_and_remains_the_same() {
        let code = json!("if (a /*\u{202e} ) // \u{200b}\u{2066}*/ == \"ü\\n\u{e0041}\u{fe0f}\")");
        let text = escaped(code.to_string());
        let seen = r#""if (a /*\u202e ) // \u200b\u2066*/ == \"ü\\n\udb40\udc41\ufe0f\")""#;
        assert_eq!(text, seen);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), code);
    }
    #[test]
    fn a_line_stays_one_line_and_shows_all_of_it() {
        assert_eq!(line("ü \\ \"a\""), "ü \\ \"a\"");
        let seen = line("a\nINFO b\r\t\u{1b}[2K\u{202e}\u{2028}\u{9b}c");
        assert_eq!(seen, r"a\nINFO b\r\t\u{1b}[2K\u{202e}\u{2028}\u{9b}c");
    }
}
