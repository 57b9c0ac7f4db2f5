//! JavaScript's regular expressions: test and replace, with the replacement's `$` patterns.
//!
//! A search backtracks, so its steps can grow beyond any limit. One whose steps are few at worst
//! ([`Cost`]) runs in `regress`, which has no limit and is fast; any other runs in a
//! [`BoundedSearch`], which stops after [`max_steps`].

use super::regex_cost::Cost;
use crate::Failure;
use regress::{Flags, Match, Regex};
use smol_str::SmolStr;
use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::OnceLock;

/// The maximum length in bytes; flowgate's own. The compiled size is proportional to it.
const MAX_LENGTH: usize = 1 << 16;

/// Steps that a search may take in `regress` at worst: some ten milliseconds.
const FEW_STEPS: f64 = 4e6;

/// Steps of any other search, at most, whatever its text: some 40 ms at worst, in which no other
/// flow runs.
const BASE_STEPS: u64 = 2_000_000;

/// Further steps for each byte of the text. Expressions for lines, words and numbers take up to 6.
const STEPS_PER_BYTE: u64 = 20;

/// Steps of a search for groups, at most: the path of a request is matched on the threads that
/// serve all clients.
const MAX_PATH_STEPS: u64 = 1_000_000;

/// An engine for searches that may take long: it counts steps and can be stopped. A search of too
/// many steps is a failure.
pub trait BoundedSearch: Debug + Sync {
    /// Whether the expression matches anywhere in the text.
    fn test(&self, source: Source<'_>, text: &str) -> Result<bool, Failure>;

    /// `text.replace(regex, replacement)`; `None` if nothing matches.
    fn replace(
        &self,
        source: Source<'_>,
        text: &str,
        replacement: &str,
    ) -> Result<Option<String>, Failure>;

    /// The groups of the first match.
    fn groups(
        &self,
        source: Source<'_>,
        text: &str,
    ) -> Result<Option<Vec<Option<String>>>, Failure>;
}

/// For use without an engine that can be stopped: a search that may take long fails.
#[derive(Debug)]
pub struct NoSearch;

impl NoSearch {
    fn refused<T>(source: Source<'_>) -> Result<T, Failure> {
        let Source { text, flags, .. } = source;
        let message = format!("Regular expression /{text}/{flags} may take too many steps");
        Err(Failure::error(message))
    }
}

impl BoundedSearch for NoSearch {
    fn test(&self, source: Source<'_>, _: &str) -> Result<bool, Failure> {
        Self::refused(source)
    }

    fn replace(&self, source: Source<'_>, _: &str, _: &str) -> Result<Option<String>, Failure> {
        Self::refused(source)
    }

    fn groups(&self, source: Source<'_>, _: &str) -> Result<Option<Vec<Option<String>>>, Failure> {
        Self::refused(source)
    }
}

/// An expression for a [`BoundedSearch`].
#[derive(Debug, Clone, Copy)]
pub struct Source<'s> {
    /// The text between the slashes.
    pub text: &'s str,
    /// The flags.
    pub flags: &'s str,
    /// Steps that a search may take.
    pub steps: u64,
}

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub struct RegExp {
    regex: Regex,
    /// The same for texts with characters beyond U+FFFF, which are two without the flags `u` and
    /// `v`. Made when the first such text comes.
    halves: OnceLock<Option<Box<Regex>>>,
    source: Box<str>,
    /// Those of `g i m s u v` that it has.
    flags: SmolStr,
    cost: Cost,
    bounded: &'static dyn BoundedSearch,
}

impl RegExp {
    /// Compiles a source with flags (`g i m s u v`, others are ignored); searches that may take
    /// long run in `bounded`.
    pub fn compile(
        source: &str,
        flags: &str,
        bounded: &'static dyn BoundedSearch,
    ) -> Result<Self, Failure> {
        let has = |flag: char| flags.contains(flag);
        Ok(Self {
            regex: regex(source, flags)?,
            halves: OnceLock::new(),
            source: source.into(),
            flags: "gimsuv".chars().filter(|flag| has(*flag)).collect(),
            cost: Cost::of(source, has('v'), has('m')),
            bounded,
        })
    }

    /// Returns whether a search in a text of `length` bytes takes few steps at worst.
    fn is_cheap(&self, length: usize) -> bool {
        self.cost.steps(length) <= FEW_STEPS
    }

    /// The expression for a search that may take long.
    fn source(&self, steps: u64) -> Source<'_> {
        Source {
            text: &self.source,
            flags: &self.flags,
            steps,
        }
    }

    /// Whether it matches anywhere in the text. A search of too many steps is a failure.
    pub fn test(&self, text: &str) -> Result<bool, Failure> {
        if self.is_cheap(text.len()) {
            return Ok(match self.halves(text) {
                Some(halves) => {
                    let units: Vec<u16> = text.encode_utf16().collect();
                    halves.find_from_ucs2(&units, 0).next().is_some()
                }
                None => self.regex.find(text).is_some(),
            });
        }
        self.bounded.test(self.source(max_steps(text)), text)
    }

    /// The expression for this text if its characters count as halves.
    fn halves(&self, text: &str) -> Option<&Regex> {
        if self.flags.contains(['u', 'v']) || text.chars().all(|c| c.len_utf16() == 1) {
            return None;
        }
        let compiled = self.halves.get_or_init(|| {
            let source = without_code_points(&self.source);
            let units: Vec<u32> = source.encode_utf16().map(u32::from).collect();
            Regex::from_unicode(units.into_iter(), options(&self.flags))
                .ok()
                .map(Box::new)
        });
        compiled.as_deref()
    }

    /// The steps of a search for groups in a text of `length` bytes, at worst.
    pub fn group_steps(&self, length: usize) -> f64 {
        self.cost.steps(length)
    }

    /// The groups of the first match. A search of too many steps is a failure.
    pub fn groups(&self, text: &str) -> Result<Option<Vec<Option<SmolStr>>>, Failure> {
        if self.is_cheap(text.len()) {
            let found = self.regex.find(text);
            let groups = found.map(|found| {
                let groups = found.groups().skip(1);
                groups
                    .map(|range| text.get(range?).map(SmolStr::from))
                    .collect()
            });
            return Ok(groups);
        }
        let groups = self.bounded.groups(self.source(MAX_PATH_STEPS), text)?;
        Ok(groups.map(|groups| groups.into_iter().map(|g| g.map(SmolStr::from)).collect()))
    }

    /// `text.replace(regex, replacement)`: the first match, or all with flag `g`; `None` if there
    /// is none. A search of too many steps is a failure.
    pub fn replace(&self, text: &str, replacement: &str) -> Result<Option<String>, Failure> {
        let global = self.flags.contains('g');
        // The searches for all matches begin at different places: together they take no more steps
        // than one that fails everywhere, which is what the bound counts.
        if !self.is_cheap(text.len()) {
            return self
                .bounded
                .replace(self.source(max_steps(text)), text, replacement);
        }
        let limit = if global { usize::MAX } else { 1 };
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
        let Some(done) = done else {
            return Ok(None);
        };
        out.push_str(text.get(done..).unwrap_or_default());
        Ok(Some(out))
    }
}

/// Steps that a search in this text may take where it is not known to take few.
fn max_steps(text: &str) -> u64 {
    BASE_STEPS + STEPS_PER_BYTE * text.len() as u64
}

/// Fails unless the source is a regular expression.
pub fn check(source: &str, flags: &str) -> Result<(), Failure> {
    regex(source, flags).map(drop)
}

fn regex(source: &str, flags: &str) -> Result<Regex, Failure> {
    let error = |message: String| Failure {
        name: SmolStr::new_static("SyntaxError"),
        ..Failure::text(message)
    };
    if source.len() > MAX_LENGTH {
        return Err(error(format!(
            "Regular expression is longer than {MAX_LENGTH} bytes"
        )));
    }
    let whole = flags.contains(['u', 'v']);
    let read = if whole {
        Cow::Borrowed(source)
    } else {
        without_code_points(source)
    };
    Regex::with_flags(&read, options(flags)).map_err(|e| {
        let reason = worded(&e.to_string(), source);
        error(format!(
            "Invalid regular expression: /{source}/{flags}: {reason}"
        ))
    })
}

fn options(flags: &str) -> Flags {
    let has = |flag: char| flags.contains(flag);
    Flags {
        icase: has('i'),
        multiline: has('m'),
        dot_all: has('s'),
        unicode: has('u'),
        unicode_sets: has('v'),
        ..Flags::default()
    }
}

/// A source as it reads without the flags `u` and `v`: `\u{…}` is the letter u then, so often as
/// the braces say (ECMA-262 §B.1.2). `regress` reads a code point.
fn without_code_points(source: &str) -> Cow<'_, str> {
    if !source.contains("\\u{") {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len());
    let mut characters = source.chars().peekable();
    while let Some(c) = characters.next() {
        let escaped = if c == '\\' { characters.next() } else { None };
        match escaped {
            Some('u') if characters.peek() == Some(&'{') => out.push('u'),
            _ => out.extend(std::iter::once(c).chain(escaped)),
        }
    }
    Cow::Owned(out)
}

/// The error in an expression in the words of V8, as far as the two engines agree.
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

    fn compile(source: &str, flags: &str) -> Result<RegExp, Failure> {
        RegExp::compile(source, flags, &NoSearch)
    }

    #[test]
    fn a_source_that_is_too_long_is_refused() {
        assert!(compile(&"a?".repeat(MAX_LENGTH), "").is_err());
    }

    fn replaced(source: &str, flags: &str, text: &str, replacement: &str) -> Option<String> {
        compile(source, flags)
            .unwrap()
            .replace(text, replacement)
            .unwrap()
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
        assert!(compile("^AB", "i").unwrap().test("abc").unwrap());
        assert!(!compile("^AB", "").unwrap().test("abc").unwrap());
        assert!(compile("(?<=a)b", "").unwrap().test("ab").unwrap());
        assert!(compile("a.b", "s").unwrap().test("a\nb").unwrap());
    }

    #[test]
    fn a_broken_expression_is_a_syntax_error() {
        let failure = compile("(", "").unwrap_err();
        assert_eq!(failure.name, "SyntaxError");
        assert!(
            failure
                .message
                .starts_with("Invalid regular expression: /(/"),
            "{failure}"
        );
    }

    #[test]
    fn a_potentially_slow_search_fails_without_a_script_engine() {
        let text = "a".repeat(40);
        let failure = compile("^(a+)+$", "").unwrap().test(&text).unwrap_err();
        assert!(failure.message.contains("/^(a+)+$/"), "{failure}");
    }

    #[test]
    fn without_the_flag_u_a_test_reads_halves_of_characters_and_no_code_points() {
        let test = |source: &str, flags: &str, text: &str| {
            compile(source, flags).unwrap().test(text).unwrap()
        };
        assert!(!test("^.$", "", "\u{1f600}") && test("^..$", "", "\u{1f600}"));
        assert!(test("^\u{1f600}$", "", "\u{1f600}") && test("^.$", "u", "\u{1f600}"));
        assert!(!test(r"^\u{2}$", "", "\u{2}") && test(r"^\u{2}$", "", "uu"));
        assert!(test(r"^\u{2}$", "u", "\u{2}") && test(r"^\\u\{", "", r"\u{"));
    }
}
