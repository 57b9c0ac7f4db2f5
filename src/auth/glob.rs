//! Patterns in permissions: `*` is any text, `?` any character.

use wildmatch::WildMatch;

/// Whether a pattern fits a whole text. Takes at most the product of both lengths.
pub fn glob(pattern: &str, text: &str) -> bool {
    WildMatch::new(pattern).matches(text)
}

#[cfg(test)]
mod tests {
    use super::*;

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
