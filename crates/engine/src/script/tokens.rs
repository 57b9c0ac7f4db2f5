//! The words and signs of a source, found without parsing it: comments, texts and regular
//! expressions are skipped.

/// The token of any text.
pub(super) const TEXT: &str = "\"\"";
/// The token of the rest of a template, behind a `${}`.
const TEMPLATE_REST: &str = "}\"";
/// The token of any regular expression.
pub(super) const REGEX: &str = "/ /";
/// The token before the body of a function without a name.
pub(super) const ARROW: &str = "=>";

/// The words and signs of a source.
pub(super) fn tokens(source: &str) -> Vec<&str> {
    let tokens = Tokens {
        rest: source,
        regex: true,
        braces: Vec::new(),
    };
    tokens.collect()
}

/// The words and signs of a source. Texts come out as [`TEXT`]; the content of `${}` comes out as
/// code.
struct Tokens<'a> {
    rest: &'a str,
    /// True if a `/` here would begin a regular expression rather than divide.
    regex: bool,
    /// For every open brace, whether it is the `${` of a template.
    braces: Vec<bool>,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.rest = self.rest.trim_start();
            let first = self.rest.chars().next()?;
            if self.rest.starts_with("//") {
                self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..];
            } else if self.rest.starts_with("/*") {
                self.rest = self.rest[2..]
                    .find("*/")
                    .map_or("", |end| &self.rest[end + 4..]);
            } else if first == '"' || first == '\'' {
                return Some(self.quoted(first));
            } else if first == '`' || (first == '}' && self.braces.last() == Some(&true)) {
                if first == '}' {
                    self.braces.pop();
                }
                return Some(self.template());
            } else if first == '/' && self.regex {
                return Some(self.regular_expression());
            } else if is_word(first) {
                return Some(self.word());
            } else {
                return Some(self.sign(first));
            }
        }
    }
}

impl<'a> Tokens<'a> {
    fn word(&mut self) -> &'a str {
        let (word, rest) = self
            .rest
            .split_at(self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        self.regex = matches!(
            word,
            "return"
                | "typeof"
                | "case"
                | "in"
                | "of"
                | "delete"
                | "void"
                | "throw"
                | "new"
                | "await"
                | "yield"
                | "else"
                | "do"
                | "instanceof"
        );
        word
    }

    fn sign(&mut self, first: char) -> &'a str {
        let long = ["...", "?.", ARROW];
        let long = long.iter().find(|sign| self.rest.starts_with(**sign));
        let length = long.map_or(first.len_utf8(), |sign| sign.len());
        let (sign, rest) = self.rest.split_at(length);
        match first {
            '{' => self.braces.push(false),
            '}' => {
                self.braces.pop();
            }
            _ => {}
        }
        self.rest = rest;
        self.regex = !matches!(first, ')' | ']' | '}');
        sign
    }

    fn quoted(&mut self, quote: char) -> &'a str {
        self.skip_to(|c| c == quote || c == '\n');
        self.regex = false;
        TEXT
    }

    fn template(&mut self) -> &'a str {
        let token = if self.rest.starts_with('`') {
            TEXT
        } else {
            TEMPLATE_REST
        };
        let mut chars = self.rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                chars.next();
            } else if c == '`' {
                self.rest = &self.rest[at + 1..];
                self.regex = false;
                return token;
            } else if c == '$' && chars.peek().is_some_and(|(_, next)| *next == '{') {
                self.rest = &self.rest[at + 2..];
                self.braces.push(true);
                self.regex = true;
                return token;
            }
        }
        self.rest = "";
        token
    }

    fn regular_expression(&mut self) -> &'a str {
        let mut in_class = false;
        self.skip_to(|c| {
            in_class = (in_class || c == '[') && c != ']';
            c == '\n' || (c == '/' && !in_class)
        });
        self.regex = false;
        REGEX
    }

    /// Goes behind the first character, after the opening one, that ends; escaped ones do not.
    fn skip_to(&mut self, mut ends: impl FnMut(char) -> bool) {
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                chars.next();
            } else if ends(c) {
                self.rest = &self.rest[at + c.len_utf8()..];
                return;
            }
        }
        self.rest = "";
    }
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}
