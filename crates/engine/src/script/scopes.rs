//! Finds whether a source assigns names that it does not declare, which become global variables,
//! without parsing it. Where its words could mean several things, it does.

use super::tokens::{ARROW, REGEX, is_word};
use rustc_hash::FxHashMap;

/// Words before a parenthesis that is no list of parameters.
const CONTROL: [&str; 5] = ["for", "if", "switch", "while", "with"];

/// Words before an operand.
const OPERATORS: [&str; 13] = [
    "async",
    "await",
    "case",
    "delete",
    "else",
    "in",
    "instanceof",
    "new",
    "of",
    "return",
    "throw",
    "typeof",
    "void",
];

/// Where each bracket of a source ends, and begins.
pub(super) struct Brackets(FxHashMap<usize, usize>);

impl Brackets {
    /// `None` if they do not match.
    pub(super) fn of(tokens: &[&str]) -> Option<Self> {
        let mut pairs = FxHashMap::default();
        let mut open: Vec<(usize, &str)> = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            match *token {
                "(" => open.push((at, ")")),
                "[" => open.push((at, "]")),
                "{" => open.push((at, "}")),
                ")" | "]" | "}" => {
                    let (begin, expected) = open.pop()?;
                    if expected != *token {
                        return None;
                    }
                    pairs.extend([(begin, at), (at, begin)]);
                }
                _ => {}
            }
        }
        open.is_empty().then_some(Self(pairs))
    }

    /// The word before a parenthesis that is closed right before this token.
    pub(super) fn word_before<'a>(&self, tokens: &[&'a str], at: usize) -> &'a str {
        let closed = at.checked_sub(1).and_then(|at| self.0.get(&at));
        let word = closed.and_then(|begin| tokens.get(begin.checked_sub(1)?));
        word.copied().unwrap_or("")
    }

    /// The other one of a pair.
    fn pair(&self, at: usize) -> usize {
        self.0.get(&at).copied().unwrap_or(at)
    }
}

/// Returns whether an operator begins here that assigns what stands before it.
pub(super) fn is_assignment(tokens: &[&str], at: usize) -> bool {
    let token = |offset: usize| tokens.get(at + offset).copied().unwrap_or("");
    match [token(0), token(1), token(2), token(3)] {
        ["=", next, ..] => next != "=",
        ["+", "+" | "=", ..]
        | ["-", "-" | "=", ..]
        | ["*" | "/" | "%" | "&" | "|" | "^", "=", ..]
        | [">", ">", ">", "="] => true,
        [sign @ ("*" | "<" | ">" | "&" | "|" | "?"), again, "=", ..] => sign == again,
        _ => false,
    }
}

/// Returns whether the source assigns a name that is not declared there, or may do so.
pub(super) fn assigns_undeclared(tokens: &[&str], brackets: &Brackets) -> bool {
    let mut reading = Reading {
        tokens,
        brackets,
        scopes: vec![Scope {
            names: vec!["msg", "node"],
            is_function: true,
        }],
        ahead: FxHashMap::default(),
    };
    (0..tokens.len()).any(|at| reading.read(at).is_none())
}

/// A block, a function, or anything else in brackets.
#[derive(Default)]
struct Scope<'a> {
    names: Vec<&'a str>,
    is_function: bool,
}

struct Reading<'a> {
    tokens: &'a [&'a str],
    brackets: &'a Brackets,
    /// Those that are open.
    scopes: Vec<Scope<'a>>,
    /// The scopes of bodies whose names stand before them.
    ahead: FxHashMap<usize, Scope<'a>>,
}

impl<'a> Reading<'a> {
    /// Reads a token. `None`: it assigns an undeclared name, or is not understood.
    fn read(&mut self, at: usize) -> Option<()> {
        match self.tokens[at] {
            "(" => {
                let scope = self.parenthesis(at)?;
                self.scopes.push(scope);
            }
            "{" | "[" => {
                self.pattern(at)?;
                let scope = self.ahead.remove(&at).unwrap_or_default();
                self.scopes.push(scope);
            }
            ")" | "]" | "}" => drop(self.scopes.pop()),
            word if self.is_property(at) || !word.starts_with(is_word) => {}
            kind @ ("var" | "let" | "const") => {
                let names = self.declared(at + 1)?;
                self.declare(kind == "var", names);
            }
            "function" => {
                let name = self.token(at + 1);
                if name.starts_with(is_word) {
                    self.declare(false, vec![name]);
                }
            }
            name => {
                if self.token(at + 1) == ARROW && self.token(at + 2) == "{" {
                    let scope = self.ahead.entry(at + 2).or_default();
                    scope.names.push(name);
                    scope.is_function = true;
                }
                if self.is_assigned(at) && !self.is_declared(name) {
                    return None;
                }
            }
        }
        Some(())
    }

    fn token(&self, at: usize) -> &'a str {
        self.tokens.get(at).copied().unwrap_or("")
    }

    fn before(&self, at: usize, offset: usize) -> &'a str {
        at.checked_sub(offset).map_or("", |at| self.tokens[at])
    }

    fn is_property(&self, at: usize) -> bool {
        matches!(self.before(at, 1), "." | "?.")
    }

    fn is_declared(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.names.contains(&name))
    }

    fn declare(&mut self, is_hoisted: bool, names: Vec<&'a str>) {
        let mut scopes = self.scopes.iter_mut().rev();
        if let Some(scope) = scopes.find(|scope| !is_hoisted || scope.is_function) {
            scope.names.extend(names);
        }
    }

    /// Returns whether the variable here is assigned.
    fn is_assigned(&self, at: usize) -> bool {
        let is_loop = matches!(self.token(at + 1), "of" | "in")
            && self.before(at, 1) == "("
            && matches!(self.before(at, 2), "for" | "await");
        let is_member = matches!(self.token(at + 1), "." | "?." | "[");
        let is_prefixed = matches!(
            (self.before(at, 2), self.before(at, 1)),
            ("+", "+") | ("-", "-")
        );
        is_loop || (is_prefixed && !is_member) || is_assignment(self.tokens, at + 1)
    }

    /// What is open in parentheses: the parameters of a function, which its body has too, or the
    /// variables of a loop.
    fn parenthesis(&mut self, at: usize) -> Option<Scope<'a>> {
        let end = self.brackets.pair(at);
        let before = self.before(at, 1);
        let is_arrow = self.token(end + 1) == ARROW;
        let body = if is_arrow { end + 2 } else { end + 1 };
        let has_body = self.token(body) == "{";
        if before == "for" || (before == "await" && self.before(at, 2) == "for") {
            let names = match self.token(at + 1) {
                "let" | "const" => self.declared(at + 2)?,
                _ => Vec::new(),
            };
            if has_body {
                self.ahead.entry(body).or_default().names.extend(names);
            }
            return Some(Scope::default());
        }
        let is_named = self.before(at, 2) == "function"
            || (self.before(at, 2) == "*" && self.before(at, 3) == "function");
        let is_function = is_arrow || is_named || matches!(before, "function" | "*");
        if !is_function && before != "catch" || CONTROL.contains(&before) {
            return Some(Scope::default());
        }
        let names = self.parameters(at, end)?;
        if has_body {
            let scope = self.ahead.entry(body).or_default();
            scope.names.extend(names.iter().copied());
            scope.is_function = is_function;
        }
        Some(Scope {
            names,
            is_function: false,
        })
    }

    /// The names of the parameters between parentheses.
    fn parameters(&self, begin: usize, end: usize) -> Option<Vec<&'a str>> {
        let mut names = Vec::new();
        let mut at = begin + 1;
        while at < end {
            let token = self.tokens[at];
            let is_first = matches!(self.before(at, 1), "(" | "," | "...");
            match token {
                "{" | "[" if is_first => {
                    names.extend(self.names_in(at)?);
                    at = self.brackets.pair(at);
                }
                "{" | "[" | "(" => at = self.brackets.pair(at),
                name if is_first && name.starts_with(is_word) => names.push(name),
                _ => {}
            }
            at += 1;
        }
        Some(names)
    }

    /// The names of a declaration that begins here, up to its end.
    fn declared(&self, mut at: usize) -> Option<Vec<&'a str>> {
        let mut names = Vec::new();
        let mut is_name = true;
        while at < self.tokens.len() {
            let token = self.tokens[at];
            let is_operand = token.starts_with(is_word) || token.starts_with('"');
            match token {
                "{" | "[" if is_name => {
                    names.extend(self.names_in(at)?);
                    at = self.brackets.pair(at);
                }
                name if is_name && name.starts_with(is_word) => names.push(name),
                _ if is_name => return None,
                ";" | ")" | "]" | "}" => break,
                "," => {
                    is_name = true;
                    at += 1;
                    continue;
                }
                // A new statement begins without a semicolon before it.
                _ if is_operand && self.ends_operand(at - 1) && !OPERATORS.contains(&token) => {
                    break;
                }
                "{" | "[" | "(" => at = self.brackets.pair(at),
                _ => {}
            }
            is_name = false;
            at += 1;
        }
        Some(names)
    }

    /// Returns whether an operand ends here.
    fn ends_operand(&self, at: usize) -> bool {
        let token = self.tokens[at];
        matches!(token, ")" | "]" | "}")
            || token.starts_with('"')
            || token == REGEX
            || (token.starts_with(is_word) && !OPERATORS.contains(&token))
    }

    /// The names that a pattern declares; `None` if it has more than names.
    fn names_in(&self, begin: usize) -> Option<Vec<&'a str>> {
        let mut names = Vec::new();
        for at in begin + 1..self.brackets.pair(begin) {
            let (before, after) = (self.before(at, 1), self.token(at + 1));
            match self.tokens[at] {
                "(" | ARROW => return None,
                // A key that is computed, or a default value that may have names.
                "[" if matches!(before, "{" | ",")
                    && after != "]"
                    && self.token(self.brackets.pair(at) + 1) == ":" =>
                {
                    return None;
                }
                "=" if matches!(after, "{" | "[" | "=") => return None,
                name if name.starts_with(is_word)
                    && matches!(before, "{" | "[" | "," | ":" | "...")
                    && matches!(after, "," | "}" | "]" | "=") =>
                {
                    names.push(name);
                }
                _ => {}
            }
        }
        Some(names)
    }

    /// `None` if a pattern begins here that assigns, rather than declares.
    fn pattern(&self, at: usize) -> Option<()> {
        let end = self.brackets.pair(at);
        let is_target = (self.token(end + 1) == "=" && is_assignment(self.tokens, end + 1))
            || matches!(self.token(end + 1), "of" | "in") && self.before(at, 1) == "(";
        let before = self.before(at, 1);
        let is_member = self.tokens[at] == "["
            && (matches!(before, ")" | "]" | "?.")
                || before.starts_with('"')
                || (before.starts_with(is_word) && !OPERATORS.contains(&before)));
        let is_declared = matches!(before, "var" | "let" | "const");
        (!is_target || is_member || is_declared).then_some(())
    }
}
