//! JSON text that the fast parser does not take: V8's words for what is wrong with it, or, where it
//! is only a number out of range, its value.

use super::number;
use crate::{Failure, MAX_DEPTH, Object, Value};
use smol_str::SmolStr;

/// Reads the text again, slowly.
pub(super) fn parse(text: &str) -> Result<Value, Failure> {
    let units: Vec<char> = text.chars().collect();
    let mut reader = Reader {
        text: &units,
        at: 0,
        depth: 0,
    };
    let value = reader.value()?;
    reader.blanks();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(syntax(format!(
            "Unexpected non-whitespace character after JSON at position {}",
            reader.position()
        ))),
    }
}

struct Reader<'a> {
    text: &'a [char],
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.blanks();
        let there = self.peek() == Some(wanted);
        self.at += usize::from(there);
        there
    }

    fn value(&mut self) -> Result<Value, Failure> {
        self.blanks();
        match self.peek() {
            Some('{') => self.nested(Self::object),
            Some('[') => self.nested(Self::array),
            Some('"') => Ok(Value::from(self.string()?)),
            Some('-' | '0'..='9') => self.number(),
            Some('t') => self.word("true", Value::Bool(true)),
            Some('f') => self.word("false", Value::Bool(false)),
            Some('n') => self.word("null", Value::Null),
            _ => Err(self.unexpected()),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, Failure>) -> Result<Value, Failure> {
        if self.depth == MAX_DEPTH {
            return Err(syntax("JSON is nested too deeply".to_owned()));
        }
        self.at += 1;
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Value, Failure> {
        let mut object = Object::default();
        if self.eat('}') {
            return Ok(Value::object(object));
        }
        let mut expected = "Expected property name or '}'";
        loop {
            self.blanks();
            if self.peek() != Some('"') {
                return Err(self.at_position(expected));
            }
            let key = self.string()?;
            if !self.eat(':') {
                return Err(self.at_position("Expected ':' after property name"));
            }
            let value = self.value()?;
            object.insert(key.into(), value);
            if self.eat('}') {
                return Ok(Value::object(object));
            }
            if !self.eat(',') {
                return Err(self.at_position("Expected ',' or '}' after property value"));
            }
            expected = "Expected double-quoted property name";
        }
    }

    fn array(&mut self) -> Result<Value, Failure> {
        let mut elements = Vec::new();
        if self.eat(']') {
            return Ok(Value::array(elements));
        }
        loop {
            elements.push(self.value()?);
            if self.eat(']') {
                return Ok(Value::array(elements));
            }
            if !self.eat(',') {
                return Err(self.at_position("Expected ',' or ']' after array element"));
            }
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Failure> {
        for c in word.chars() {
            if self.peek() != Some(c) {
                return Err(self.unexpected());
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn string(&mut self) -> Result<String, Failure> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let Some(c) = self.peek() else {
                return Err(self.at_position("Unterminated string"));
            };
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(out);
                }
                '\0'..' ' => {
                    return Err(self.at_position("Bad control character in string literal"));
                }
                '\\' => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                c => out.push(c),
            }
            self.at += 1;
        }
    }

    fn escape(&mut self) -> Result<char, Failure> {
        Ok(match self.peek() {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let mut code = 0;
                for _ in 0..4 {
                    self.at += 1;
                    let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) else {
                        return Err(self.at_position("Bad Unicode escape"));
                    };
                    code = code * 16 + digit;
                }
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return Err(self.at_position("Bad escaped character")),
        })
    }

    fn digits(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        self.at > start
    }

    fn number(&mut self) -> Result<Value, Failure> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some('-'));
        let zero = self.peek() == Some('0');
        if zero {
            self.at += 1;
            if self.peek().is_some_and(|c| c.is_ascii_digit()) {
                return Err(self.unexpected());
            }
        } else if !self.digits() {
            return Err(self.at_position("No number after minus sign"));
        }
        if self.peek() == Some('.') {
            self.at += 1;
            if !self.digits() {
                return Err(self.at_position("Unterminated fractional number"));
            }
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some('+' | '-')));
            if !self.digits() {
                return Err(self.at_position("Exponent part is missing a number"));
            }
        }
        let text: String = self
            .text
            .get(start..self.at)
            .unwrap_or_default()
            .iter()
            .collect();
        Ok(Value::Number(number::text_to_number(&text)))
    }

    /// The reader's position, as JavaScript counts.
    fn position(&self) -> usize {
        let before = self.text.get(..self.at).unwrap_or_default();
        before.iter().map(|c| c.len_utf16()).sum()
    }

    fn at_position(&self, what: &str) -> Failure {
        syntax(format!("{what} in JSON at position {}", self.position()))
    }

    fn unexpected(&self) -> Failure {
        let Some(token) = self.peek() else {
            return syntax("Unexpected end of JSON input".to_owned());
        };
        let text: String = self.text.iter().collect();
        syntax(match token {
            '0'..='9' | '-' => return self.at_position("Unexpected number"),
            '"' => return self.at_position("Unexpected string"),
            // JavaScript's text of a value that is not a text.
            _ if matches!(
                text.as_str(),
                "undefined" | "NaN" | "Infinity" | "[object Object]"
            ) =>
            {
                format!("\"{text}\" is not valid JSON")
            }
            _ => format!(
                "Unexpected token '{token}', {} is not valid JSON",
                self.excerpt()
            ),
        })
    }

    /// The text around: ten characters each way, as V8 shows longer texts.
    fn excerpt(&self) -> String {
        let length = self.text.len();
        let (mut from, mut to) = (0, length);
        if length > 20 {
            if self.at >= 10 {
                from = self.at - 10;
            }
            if self.at < length - 10 {
                to = self.at + 10;
            }
        }
        let middle: String = self.text.get(from..to).unwrap_or_default().iter().collect();
        let before = if from > 0 { "..." } else { "" };
        let after = if to < length { "..." } else { "" };
        format!("{before}\"{middle}\"{after}")
    }
}

fn syntax(message: String) -> Failure {
    Failure {
        name: SmolStr::new_static("SyntaxError"),
        ..Failure::text(message)
    }
}
