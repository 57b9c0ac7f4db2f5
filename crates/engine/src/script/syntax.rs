//! Translates syntax errors into V8's words: the token that is one too many, and its position.
//! `QuickJS` finds the same errors and words them differently.

use super::source;
use super::tokens;
use value::Failure;

/// Why a text is no code.
#[derive(Debug, Clone)]
pub(super) struct SyntaxError {
    error: Failure,
    /// The user's line, counted from 1.
    line: u32,
}

/// A piece of a function node's code, and how many lines Node-RED counts before it (observed on
/// 4.1).
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece(&'static str, u32);

pub(super) const BODY: Piece = Piece("body", 0);
pub(super) const SETUP: Piece = Piece("setup", 16);
pub(super) const CLEANUP: Piece = Piece("cleanup", 15);

impl SyntaxError {
    /// `whole` is the text that was read, with the error at the user's line and column.
    pub(super) fn new(mut error: Failure, whole: &str, line: u32, column: u32) -> Self {
        let text = whole
            .lines()
            .nth((line + source::LINES_BEFORE - 1) as usize)
            .unwrap_or_default();
        let at = text
            .char_indices()
            .nth((column as usize).saturating_sub(1))
            .map_or(text.len(), |(at, _)| at);
        let (before, after) = text.split_at(at);
        if let Some(message) = of_v8(&error.message, before, after) {
            error.message = message.into();
        }
        Self { error, line }
    }

    /// The error as a node reports it, with its line.
    pub(super) fn in_piece(&self, Piece(name, before): Piece) -> Failure {
        let line = self.line + before;
        Failure {
            message: format!("{} ({name}:line {line})", self.error.message).into(),
            ..self.error.clone()
        }
    }
}

/// V8's message for an error between two parts of a line.
fn of_v8(message: &str, before: &str, after: &str) -> Option<String> {
    if message.starts_with("unexpected token")
        || message.starts_with("expecting ")
        || message.ends_with(" name expected")
    {
        return Some(unexpected(after));
    }
    let known = match message {
        "unexpected end of string" | "invalid number literal" => "Invalid or unexpected token",
        "invalid assignment left-hand side" => "Invalid left-hand side in assignment",
        "missing initializer for variable" => "Missing initializer in const declaration",
        "break must be inside loop or switch" => "Illegal break statement",
        "unexpected line terminator in regexp" => "Invalid regular expression: missing /",
        "invalid redefinition of lexical identifier" => {
            let start = before.trim_end().rfind(|c| !tokens::is_word(c));
            let name = before.get(start.map_or(0, |at| at + 1)..)?.trim_end();
            return Some(format!("Identifier '{name}' has already been declared"));
        }
        _ => return None,
    };
    Some(known.to_owned())
}

/// V8's message for a misplaced token at the beginning of a text.
fn unexpected(text: &str) -> String {
    let text = text.trim_start();
    let Some(first) = text.chars().next() else {
        return "Unexpected end of input".to_owned();
    };
    let length = |part: fn(char) -> bool| text.find(|c| !part(c)).unwrap_or(text.len());
    let word = &text[..length(tokens::is_word)];
    match first {
        '0'..='9' => "Unexpected number".to_owned(),
        '"' | '\'' => "Unexpected string".to_owned(),
        '`' => "Unexpected template string".to_owned(),
        _ if KEYWORDS.contains(&word) => format!("Unexpected token '{word}'"),
        _ if !word.is_empty() => format!("Unexpected identifier '{word}'"),
        _ => {
            let sign = SIGNS.iter().find(|sign| text.starts_with(**sign));
            let sign = sign.map_or(&text[..first.len_utf8()], |sign| *sign);
            format!("Unexpected token '{sign}'")
        }
    }
}

/// Words that are no names.
const KEYWORDS: [&str; 36] = [
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "import",
    "in",
    "instanceof",
    "new",
    "null",
    "return",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Signs of several characters, longer ones first.
const SIGNS: [&str; 30] = [
    ">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??=", "=>", "==", "!=",
    "<=", ">=", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "**",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quickjs_messages_become_v8_messages() {
        for (code, column, quickjs, v8) in [
            (
                "var a = ;",
                9,
                "unexpected token in expression: ';'",
                "Unexpected token ';'",
            ),
            ("a b", 3, "expecting ';'", "Unexpected identifier 'b'"),
            (
                "const = 5",
                7,
                "variable name expected",
                "Unexpected token '='",
            ),
            ("a 'b'", 3, "expecting ';'", "Unexpected string"),
            (
                "if (",
                5,
                "unexpected token in expression: ''",
                "Unexpected end of input",
            ),
            (
                "x => => 1",
                6,
                "unexpected token in expression: '=>'",
                "Unexpected token '=>'",
            ),
            (
                "else {}",
                1,
                "unexpected token in expression: 'else'",
                "Unexpected token 'else'",
            ),
            (
                "let a; let a;",
                13,
                "invalid redefinition of lexical identifier",
                "Identifier 'a' has already been declared",
            ),
            ("x", 1, "something new", "something new"),
        ] {
            let whole = source::as_function(code);
            let found = SyntaxError::new(Failure::error(quickjs), &whole, 1, column);
            assert_eq!(found.in_piece(BODY).message, format!("{v8} (body:line 1)"));
        }
    }

    #[test]
    fn a_syntax_error_names_the_piece_and_its_line() {
        let found = SyntaxError::new(Failure::error("x"), "", 2, 1);
        assert_eq!(found.in_piece(SETUP).message, "x (setup:line 18)");
        assert_eq!(found.in_piece(CLEANUP).message, "x (cleanup:line 17)");
    }
}
