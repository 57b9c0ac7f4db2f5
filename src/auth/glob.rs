//! Patterns in permissions: `*` is any text, `?` any character.

use wildmatch::WildMatch;

/// Returns whether a pattern fits a whole text. Takes at most the product of both lengths.
pub fn glob(pattern: &str, text: &str) -> bool {
    WildMatch::new(pattern).matches(text)
}

/// Returns whether a pattern fits every text that a narrower one fits: only a `*` covers a `*`, and
/// a `?` also covers a `?`. Takes at most the product of both lengths.
pub(super) fn glob_covers(pattern: &str, narrower: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let narrower: Vec<char> = narrower.chars().collect();
    let fits = |sign: char, symbol: char| symbol != '*' && (sign == '?' || sign == symbol);
    let (mut at, mut symbol) = (0, 0);
    // The last star, and the first symbol after those that it covers.
    let mut star = None;
    while let Some(next) = narrower.get(symbol) {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, symbol));
                at += 1;
            }
            Some(sign) if fits(*sign, *next) => {
                at += 1;
                symbol += 1;
            }
            _ => {
                let Some((last, after)) = star else {
                    return false;
                };
                star = Some((last, after + 1));
                (at, symbol) = (last + 1, after + 1);
            }
        }
    }
    pattern.iter().skip(at).all(|sign| *sign == '*')
}

/// Returns whether some text fits both patterns. Takes at most the product of both lengths.
pub(super) fn globs_overlap(one: &str, other: &str) -> bool {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    // Whether the rest of `one` and each rest of `other` overlap.
    let mut below: Vec<bool> = Vec::new();
    for at in (0..=one.len()).rev() {
        let sign = one.get(at).copied();
        let mut row = vec![false; other.len() + 1];
        for symbol in (0..=other.len()).rev() {
            let after = |row: &[bool], at: usize| row.get(at).copied().unwrap_or_default();
            row[symbol] = match (sign, other.get(symbol).copied()) {
                (None, None) => true,
                (Some('*'), _) | (_, Some('*')) if sign.is_some() => {
                    after(&below, symbol) || after(&row, symbol + 1)
                }
                (None, Some('*')) => after(&row, symbol + 1),
                (Some(a), Some(b)) if a == '?' || b == '?' || a == b => after(&below, symbol + 1),
                _ => false,
            };
        }
        below = row;
    }
    below.first().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_overlap_if_a_text_fits_both() {
        for (one, other, overlap) in [
            ("", "", true),
            ("", "*", true),
            ("", "?", false),
            ("a", "a", true),
            ("a", "b", false),
            ("Line1*", "Line*", true),
            ("Line1*", "Line2*", false),
            ("Line?", "Line*", true),
            ("*1", "2*", true),
            ("*a", "*b", false),
            ("a*b", "?", false),
            ("a*b", "??", true),
            ("*x*", "a?c", true),
            ("*x*", "abc", false),
            ("**", "a**", true),
            ("a*", "", false),
        ] {
            assert_eq!(globs_overlap(one, other), overlap, "{one} {other}");
            assert_eq!(globs_overlap(other, one), overlap, "{other} {one}");
        }
    }

    #[test]
    fn only_a_star_covers_a_star() {
        for (pattern, narrower, covers) in [
            ("*", "*", true),
            ("*", "?", true),
            ("*", "Line*", true),
            ("?", "?", true),
            ("?", "*", false),
            ("???", "*", false),
            ("???", "a*b", false),
            ("Line*", "Line 3*", true),
            ("Line*", "Line?", true),
            ("Line?", "Line*", false),
            ("Line?", "Line3", true),
            ("Line3", "Line?", false),
            ("?*", "*", false),
            ("a?c", "a*c", false),
            ("a*c", "a*b?c", true),
            ("*a*b", "xa*ab", true),
            ("*a*b", "xa*ba", false),
            ("", "*", false),
            ("**", "", true),
        ] {
            assert_eq!(
                glob_covers(pattern, narrower),
                covers,
                "{pattern} {narrower}"
            );
        }
    }

    #[test]
    fn a_star_is_any_text_and_a_question_mark_any_character() {
        for (pattern, text, fits) in [
            ("", "", true),
            ("", "a", false),
            ("line-3", "line-3", true),
            ("line-3", "line-33", false),
            ("line-*", "line-", true),
            ("line-?", "line-3", true),
            ("line-?", "line-", false),
            ("*a*b", "xxaxbxab", true),
            ("*a*b", "xxaxbxa", false),
            ("Line?é", "Line é", true),
            ("**", "", true),
            ("a", "A", false),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_time_that_grows_with_their_number() {
        let text = "a".repeat(2000);
        assert!(!glob(&("*a".repeat(200) + "b"), &text));
    }
}
