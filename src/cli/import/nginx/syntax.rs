//! The syntax of nginx's configuration: directives of words, ended by a semicolon or a block. Strict, as nginx itself: what it
//! refuses is refused here, with the line. Includes are not followed, variables not replaced.

use std::iter::Peekable;
use std::str::Chars;

/// Blocks within blocks, at most: nginx has five kinds. Our choice.
const MAX_DEPTH: usize = 16;

/// A directive with what stands after its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) words: Vec<String>,
    /// What is in its block; `None`: it has none.
    pub(super) block: Option<Vec<Directive>>,
    /// The line of its name, from 1.
    pub(super) line: usize,
}

impl Directive {
    /// Its first word; empty: there is none.
    pub(super) fn word(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// What is in its block.
    pub(super) fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// A mistake and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) line: usize,
    pub(super) reason: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Semicolon,
    Open,
    Close,
}

/// Reads a whole file.
pub(super) fn parse(text: &str) -> Result<Vec<Directive>, SyntaxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut tokens = Tokens {
        chars: text.chars().peekable(),
        line: 1,
    };
    directives(&mut tokens, 0)
}

/// Reads up to the end of a block, or of the file at depth 0.
fn directives(tokens: &mut Tokens<'_>, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
    let mut found = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut begin = 1;
    loop {
        let token = tokens.next()?;
        let line = tokens.line;
        let wrong = |reason| Err(SyntaxError { line, reason });
        match token {
            Some(Token::Word(word)) => {
                if words.is_empty() {
                    begin = line;
                }
                words.push(word);
                continue;
            }
            Some(Token::Close) if depth > 0 && words.is_empty() => return Ok(found),
            Some(Token::Close) => return wrong("unexpected \"}\""),
            None if depth == 0 && words.is_empty() => return Ok(found),
            None => return wrong("unexpected end of file: a \";\" or \"}\" is missing"),
            Some(Token::Open) if depth == MAX_DEPTH => return wrong("too many blocks in blocks"),
            Some(Token::Semicolon | Token::Open) if words.is_empty() => {
                return wrong("a directive without a name");
            }
            Some(Token::Semicolon | Token::Open) => {}
        }
        let block = match token {
            Some(Token::Open) => Some(directives(tokens, depth + 1)?),
            _ => None,
        };
        let mut all = std::mem::take(&mut words).into_iter();
        found.push(Directive {
            name: all.next().unwrap_or_default(),
            words: all.collect(),
            block,
            line: begin,
        });
    }
}

struct Tokens<'t> {
    chars: Peekable<Chars<'t>>,
    line: usize,
}

impl Tokens<'_> {
    fn char(&mut self) -> Option<char> {
        let next = self.chars.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    fn next(&mut self) -> Result<Option<Token>, SyntaxError> {
        loop {
            match self.chars.peek() {
                None => return Ok(None),
                Some('#') => while !matches!(self.char(), None | Some('\n')) {},
                Some(' ' | '\t' | '\r' | '\n') => drop(self.char()),
                Some(_) => break,
            }
        }
        let token = match self.chars.peek() {
            Some(';') => Token::Semicolon,
            Some('{') => Token::Open,
            Some('}') => Token::Close,
            Some(&quote @ ('"' | '\'')) => return self.quoted(quote).map(Some),
            _ => return Ok(Some(self.bare())),
        };
        self.char();
        Ok(Some(token))
    }

    fn wrong(&self, reason: &'static str) -> SyntaxError {
        SyntaxError {
            line: self.line,
            reason,
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Token, SyntaxError> {
        self.char();
        let mut word = String::new();
        loop {
            match self.char() {
                None => return Err(self.wrong("unexpected end of file: a quote is not closed")),
                Some('\\') => self.escape(&mut word),
                Some(end) if end == quote => break,
                Some(other) => word.push(other),
            }
        }
        match self.chars.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | ';' | '{' | ')') => Ok(Token::Word(word)),
            Some(_) => Err(self.wrong("a blank, \";\" or \"{\" is missing after a quote")),
        }
    }

    fn bare(&mut self) -> Token {
        let mut word = String::new();
        while let Some(&next) = self.chars.peek() {
            match next {
                // `${name}` is a variable.
                '{' if word.ends_with('$') => {
                    while let Some(inner) = self.char() {
                        word.push(inner);
                        if inner == '}' {
                            break;
                        }
                    }
                    continue;
                }
                ' ' | '\t' | '\r' | '\n' | ';' | '{' => break,
                _ => {}
            }
            self.char();
            if next == '\\' {
                self.escape(&mut word);
            } else {
                word.push(next);
            }
        }
        Token::Word(word)
    }

    /// What stands after a backslash. Before other characters than these it stays, as regular expressions need it.
    fn escape(&mut self, word: &mut String) {
        match self.char() {
            Some(plain @ ('"' | '\'' | '\\')) => word.push(plain),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(other) => word.extend(['\\', other]),
            None => word.push('\\'),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn directives_have_words_blocks_and_lines() {
        let text = "a b\n  'c d' \"e\\\"f\";# g;\n\nserver { listen 1; location ~ \\.php$ { x \"${y}z\" ${w}{}; } }\n";
        // A bare `{` in a word begins a block, as in nginx.
        assert!(parse(text).is_err());
        let text = text.replace(" ${w}{}", "");
        let found = parse(&text).unwrap();
        assert_eq!(found[0].words, ["b", "c d", "e\"f"]);
        let server = &found[1];
        assert_eq!((server.name.as_str(), server.line), ("server", 4));
        let location = &server.inside()[1];
        assert_eq!(location.words, ["~", "\\.php$"]);
        assert_eq!(location.inside()[0].words, ["${y}z"]);
        assert_eq!(parse("").unwrap(), []);
        assert_eq!(parse("a ${b}c;").unwrap()[0].words, ["${b}c"]);
    }

    #[test]
    fn a_mistake_has_its_line() {
        for (text, line, words) in [
            ("a b", 1, "end of file"),
            ("a {\n b;\n", 3, "end of file"),
            ("a;\n}", 2, "unexpected \"}\""),
            ("a { b }", 1, "unexpected \"}\""),
            ("a;\n;", 2, "without a name"),
            ("{ a; }", 1, "without a name"),
            ("a 'b", 1, "a quote"),
            ("a \"b\"c;", 1, "after a quote"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}");
            assert!(error.reason.contains(words), "{text:?}: {error:?}");
        }
        let deep = "a {".repeat(MAX_DEPTH + 2);
        assert!(parse(&deep).unwrap_err().reason.contains("too many"));
    }
}
