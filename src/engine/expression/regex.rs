//! JavaScript's regular expressions: test and replace, with the replacement's `$` patterns.

use crate::engine::value::Failure;
use regress::{Flags, Match, Regex};
use smol_str::SmolStr;

/// A compiled regular expression.
#[derive(Debug)]
pub struct RegExp {
    regex: Regex,
    global: bool,
}

impl RegExp {
    /// Compiles a source with flags (`g i m s u v`, others are ignored).
    pub fn compile(source: &str, flags: &str) -> Result<Self, Failure> {
        let has = |flag: char| flags.contains(flag);
        let options = Flags {
            icase: has('i'),
            multiline: has('m'),
            dot_all: has('s'),
            unicode: has('u'),
            unicode_sets: has('v'),
            ..Flags::default()
        };
        let regex = Regex::with_flags(source, options).map_err(|e| Failure {
            name: SmolStr::new_static("SyntaxError"),
            ..Failure::text(format!(
                "Invalid regular expression: /{source}/{flags}: {}",
                worded(&e.to_string(), source)
            ))
        })?;
        Ok(Self {
            regex,
            global: has('g'),
        })
    }

    /// Whether it matches anywhere in the text.
    pub fn test(&self, text: &str) -> bool {
        self.regex.find(text).is_some()
    }

    /// `text.replace(regex, replacement)`: the first match, or all with flag `g`; `None` if there is none.
    pub fn replace(&self, text: &str, replacement: &str) -> Option<String> {
        let limit = if self.global { usize::MAX } else { 1 };
        let mut out = String::new();
        let mut done = None;
        for found in self.regex.find_iter(text).take(limit) {
            out.push_str(
                text.get(done.unwrap_or(0)..found.start())
                    .unwrap_or_default(),
            );
            substitute(&found, text, replacement, &mut out);
            done = Some(found.end());
        }
        out.push_str(text.get(done?..).unwrap_or_default());
        Some(out)
    }
}

/// What is wrong with an expression in the words of V8, as far as the two see the same.
fn worded(error: &str, source: &str) -> String {
    let error = error.rsplit(": ").next().unwrap_or(error);
    let text = match error {
        "Unbalanced parenthesis" if source.matches('(').count() > source.matches(')').count() => {
            "Unterminated group"
        }
        "Unbalanced parenthesis" => "Unmatched ')'",
        "Unbalanced bracket" => "Unterminated character class",
        "Invalid atom character" | "Quantifier not allowed here" => "Nothing to repeat",
        "Invalid character range" => "Range out of order in character class",
        "Invalid quantifier" => "numbers out of order in {} quantifier",
        "Invalid group modifier" => "Invalid group",
        "Incomplete escape" => "\\ at end of pattern",
        "Invalid named backreference syntax" => "Invalid named reference",
        "Invalid token at named capture group identifier" => "Invalid capture group name",
        other => other,
    };
    text.to_owned()
}

/// Writes the replacement for one match (`GetSubstitution`, ECMA-262 §22.1.3.19.1).
fn substitute(found: &Match, text: &str, replacement: &str, out: &mut String) {
    let mut rest = replacement;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        let next = after.bytes().next();
        let special = match next {
            Some(b'$') => Some("$"),
            Some(b'&') => text.get(found.range()),
            Some(b'`') => text.get(..found.start()),
            Some(b'\'') => text.get(found.end()..),
            _ => None,
        };
        if let Some(part) = special {
            out.push_str(part);
            rest = after.get(1..).unwrap_or_default();
        } else if let Some((group, length)) = group_number(found, after) {
            out.push_str(
                found
                    .group(group)
                    .and_then(|range| text.get(range))
                    .unwrap_or_default(),
            );
            rest = after.get(length..).unwrap_or_default();
        } else if let Some((name, after_name)) = group_name(found, after) {
            out.push_str(
                found
                    .named_group(name)
                    .and_then(|range| text.get(range))
                    .unwrap_or_default(),
            );
            rest = after_name;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
}

/// The number of an existing group, two digits if that is one, and how many digits it took.
fn group_number(found: &Match, text: &str) -> Option<(usize, usize)> {
    let exists = |digits: usize| {
        let number = text.get(..digits)?.parse::<usize>().ok()?;
        (1..=found.captures.len())
            .contains(&number)
            .then_some((number, digits))
    };
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    (1..=digits).rev().find_map(exists)
}

/// `<name>`, where the expression has named groups.
fn group_name<'t>(found: &Match, text: &'t str) -> Option<(&'t str, &'t str)> {
    found.named_groups().next()?;
    text.strip_prefix('<')?.split_once('>')
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn replaced(source: &str, flags: &str, text: &str, replacement: &str) -> Option<String> {
        RegExp::compile(source, flags)
            .unwrap()
            .replace(text, replacement)
    }

    #[test]
    fn replacement_patterns_are_those_of_javascript() {
        assert_eq!(
            replaced("(b)(a)", "g", "baba", "$2$1").as_deref(),
            Some("abab")
        );
        assert_eq!(replaced("a", "", "banana", "X").as_deref(), Some("bXnana"));
        assert_eq!(
            replaced("n", "", "ana", "[$`|$&|$'|$$|$3]").as_deref(),
            Some("a[a|n|a|$|$3]a")
        );
        assert_eq!(
            replaced("(?<x>n)", "", "ana", "<$<x>>").as_deref(),
            Some("a<n>a")
        );
        assert_eq!(replaced("", "g", "ab", "-").as_deref(), Some("-a-b-"));
        assert_eq!(replaced("z", "g", "ab", "-"), None);
    }

    #[test]
    fn flags_and_lookbehind_work() {
        assert!(RegExp::compile("^AB", "i").unwrap().test("abc"));
        assert!(!RegExp::compile("^AB", "").unwrap().test("abc"));
        assert!(RegExp::compile("(?<=a)b", "").unwrap().test("ab"));
        assert!(RegExp::compile("a.b", "s").unwrap().test("a\nb"));
    }

    #[test]
    fn a_broken_expression_is_a_syntax_error() {
        let failure = RegExp::compile("(", "").unwrap_err();
        assert_eq!(failure.name, "SyntaxError");
        assert!(
            failure
                .message
                .starts_with("Invalid regular expression: /(/"),
            "{failure}"
        );
    }
}
