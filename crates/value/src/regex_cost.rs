//! Computes the maximum steps of a backtracking search from the source of a regular expression.
//!
//! The steps are counted from above: every choice that a search can make is taken to be tried,
//! whether the text allows it or not. An expression whose repetitions contain choices (`(a+)+`) has
//! no bound that is worth computing.

/// The bound of one expression, as a function of the length of the text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    /// Terms that are tried along one way through the expression.
    terms: f64,
    /// Ways through the expression that do not depend on the text.
    ways: f64,
    /// Repetitions in a row: each multiplies the ways by the length of the text.
    repetitions: i32,
    /// True if it can match at the beginning of the text only.
    anchored: bool,
}

impl Cost {
    /// Reads an expression that is known to be well-formed; `sets`: it has the flag `v`, whose
    /// classes nest.
    pub(super) fn of(source: &str, sets: bool, multiline: bool) -> Self {
        let mut reader = Reader {
            rest: source,
            terms: 1.0,
            open: Vec::new(),
            level: Level::NEW,
            choice: false,
        };
        reader.run();
        let ways = reader.level.ended();
        let unbounded = sets && source.contains('[');
        Self {
            terms: reader.terms,
            ways: if unbounded { f64::INFINITY } else { ways.fixed },
            repetitions: ways.repetitions,
            anchored: source.starts_with('^') && !multiline && !reader.choice,
        }
    }

    /// The maximum number of steps of a search in a text of `length` bytes.
    pub(super) fn steps(&self, length: usize) -> f64 {
        let length = (length + 1) as f64;
        let starts = if self.anchored { 1.0 } else { length };
        let search = starts * self.terms * self.ways * length.powi(self.repetitions);
        search + length
    }
}

/// The ways through a part of an expression: a number, times a power of the length of the text.
#[derive(Debug, Clone, Copy)]
struct Ways {
    fixed: f64,
    repetitions: i32,
}

impl Ways {
    const ONE: Self = Self {
        fixed: 1.0,
        repetitions: 0,
    };

    fn times(self, other: Self) -> Self {
        Self {
            fixed: self.fixed * other.fixed,
            repetitions: self.repetitions.saturating_add(other.repetitions),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            fixed: self.fixed + other.fixed,
            repetitions: self.repetitions.max(other.repetitions),
        }
    }
}

/// A group that is being read, or the whole expression.
#[derive(Debug, Clone, Copy)]
struct Level {
    /// The alternatives that have ended; `None`: this is the first one.
    before: Option<Ways>,
    /// The terms of this alternative but the last, which may yet be repeated.
    terms: Ways,
    last: Ways,
}

impl Level {
    const NEW: Self = Self {
        before: None,
        terms: Ways::ONE,
        last: Ways::ONE,
    };

    fn term(&mut self, ways: Ways) {
        self.terms = self.terms.times(self.last);
        self.last = ways;
    }

    fn ended(&self) -> Ways {
        let this = self.terms.times(self.last);
        self.before.map_or(this, |before| before.or(this))
    }
}

struct Reader<'s> {
    rest: &'s str,
    terms: f64,
    open: Vec<Level>,
    level: Level,
    /// True if the whole expression has alternatives.
    choice: bool,
}

impl Reader<'_> {
    fn run(&mut self) {
        while let Some(c) = self.rest.chars().next() {
            self.rest = &self.rest[c.len_utf8()..];
            self.terms += 1.0;
            match c {
                '\\' => self.escape(),
                '[' => self.class(),
                '(' => self.group(),
                ')' => {
                    let inner = self.level.ended();
                    self.level = self.open.pop().unwrap_or(Level::NEW);
                    self.level.term(inner);
                }
                '|' => {
                    self.choice |= self.open.is_empty();
                    self.level = Level {
                        before: Some(self.level.ended()),
                        ..Level::NEW
                    };
                }
                '*' | '+' => self.repeat(0.0, f64::INFINITY),
                '?' => self.repeat(0.0, 1.0),
                '{' => match self.braces() {
                    Some((least, most)) => self.repeat(least, most),
                    None => self.level.term(Ways::ONE),
                },
                _ => self.level.term(Ways::ONE),
            }
        }
    }

    /// Reads an escape sequence. Comparing a back-reference takes time proportional to the text's
    /// length.
    fn escape(&mut self) {
        let next = self.rest.chars().next();
        self.rest = self
            .rest
            .get(next.map_or(0, char::len_utf8)..)
            .unwrap_or_default();
        let refers = matches!(next, Some('1'..='9' | 'k'));
        self.level.term(Ways {
            fixed: 1.0,
            repetitions: i32::from(refers),
        });
    }

    /// `[…]`, up to its end.
    fn class(&mut self) {
        let mut escaped = false;
        let end = self.rest.find(|c: char| {
            let ends = c == ']' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        self.rest = end
            .and_then(|at| self.rest.get(at + 1..))
            .unwrap_or_default();
        self.level.term(Ways::ONE);
    }

    /// Reads the beginning of a group, with the `?` that introduces its kind.
    fn group(&mut self) {
        self.open.push(self.level);
        self.level = Level::NEW;
        self.rest = self.rest.strip_prefix('?').unwrap_or(self.rest);
    }

    /// `{n}`, `{n,}` or `{n,m}`, without the opening brace; `None`: the brace is literal.
    fn braces(&mut self) -> Option<(f64, f64)> {
        let (inside, after) = self.rest.split_once('}')?;
        let (least, most) = inside.split_once(',').unwrap_or((inside, inside));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| text.parse().unwrap_or(f64::INFINITY))
        };
        let least = number(least)?;
        let most = if most.is_empty() {
            f64::INFINITY
        } else {
            number(most)?
        };
        self.rest = after;
        Some((least, most))
    }

    /// The last term is repeated.
    fn repeat(&mut self, least: f64, most: f64) {
        // A lazy repetition tries the same in another order.
        self.rest = self.rest.strip_prefix('?').unwrap_or(self.rest);
        let term = &mut self.level.last;
        if most.is_infinite() {
            self.terms *= least.max(1.0);
            term.repetitions += 1;
            if term.repetitions > 1 || term.fixed > 1.0 {
                // One of several ways each time: the ways multiply.
                term.fixed = f64::INFINITY;
            }
            return;
        }
        self.terms *= most.max(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a count beyond all numbers of `i32` becomes the largest"
        )]
        let times = most as i32;
        *term = Ways {
            fixed: term.fixed.powi(times) * (most - least + 1.0).max(1.0),
            repetitions: term.repetitions.saturating_mul(times),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(source: &str, length: usize) -> f64 {
        Cost::of(source, false, false).steps(length)
    }

    #[test]
    fn repeated_choices_have_no_bound() {
        for source in [
            "^(a+)+$",
            "(a|b)*",
            "(a|a)+$",
            "(a?){30}a{30}",
            "((ab)*)*",
            "(?:x+x+)+y",
            "(a*)*b",
            "(?=(a+))*",
            "([a-z]+\\d?){2,}",
            "(a{1,9}){1,9}",
            "(.*a){20}",
        ] {
            assert!(steps(source, 10) > 1e8, "{source}");
        }
    }

    #[test]
    fn common_expressions_are_cheap() {
        for source in [
            "^[a-z]+$",
            "^\\d{4}-\\d{2}-\\d{2}$",
            "error|warning|fatal",
            "[(]+[)\\]]*",
            "\\(a\\+\\)\\+",
            "^(on|off)$",
            "^(\\d{1,3}\\.){3}\\d{1,3}$",
            "^(GET|POST) (\\S+)$",
            "a{,3}",
            "temp(erature)?",
            "(?<n>x)y",
            "é+",
        ] {
            assert!(steps(source, 50) < 1e6, "{source}: {}", steps(source, 50));
        }
    }

    #[test]
    fn the_bound_grows_with_the_text() {
        assert!(steps("a*b", 1_000) < 1e7);
        assert!(steps("a*b", 1_000_000) > 1e12);
        assert!(steps("(?:){1000000000}", 1) > 1e8);
        assert!(steps("a{1,1000000000}", 1) > 1e8);
        assert!(steps("(a)\\1", 10_000) > steps("(a)", 10_000) * 1e3);
    }
}
