//! Translates errors of `JSONata` into the words of the reference implementation, where the
//! library's differ.

use jsonata_core::evaluator::EvaluatorError;
use smol_str::SmolStr;
use value::Failure;

/// Why a text is no expression.
pub(super) fn of_parser(text: &str, message: &str) -> Failure {
    let message = message.strip_prefix("Invalid syntax: ").unwrap_or(message);
    let (code, message) = match message.split_once(": ") {
        Some((code, rest)) if code.starts_with("S0") => (code, rest),
        _ => ("", message),
    };
    let open = match text.trim_end().as_bytes().last() {
        Some(b'(') => Some(')'),
        Some(b'[') => Some(']'),
        _ => None,
    };
    let (code, message) = match open {
        Some(closing) if code == "S0207" => (
            "S0203",
            format!("Expected \"{closing}\" before end of expression"),
        ),
        _ => (code, quoted(message)),
    };
    Failure {
        code: code.into(),
        ..Failure::error(message)
    }
}

/// Tokens stand as they are written.
fn quoted(message: &str) -> String {
    for (before, after) in [
        ("Expected ", " before end of expression"),
        ("The symbol ", " cannot be used as a unary operator"),
        ("Unknown operator: ", ""),
        ("Syntax error: ", ""),
    ] {
        if let Some(token) = message
            .strip_prefix(before)
            .and_then(|m| m.strip_suffix(after))
        {
            return format!("{before}{}{after}", written(token));
        }
    }
    match message
        .strip_prefix("Expected ")
        .and_then(|m| m.split_once(", got "))
    {
        Some((expected, got)) => format!("Expected {}, got {}", written(expected), written(got)),
        None => message.to_owned(),
    }
}

/// A token of the library's parser as it is written in an expression: numbers bare, all else in
/// quotes.
fn written(token: &str) -> String {
    let symbol = match token {
        "At" => "@",
        "Caret" => "^",
        "Colon" => ":",
        "ColonEqual" => ":=",
        "Comma" => ",",
        "Dot" => ".",
        "DotDot" => "..",
        "Hash" => "#",
        "LeftBrace" => "{",
        "LeftBracket" => "[",
        "LeftParen" => "(",
        "Pipe" => "|",
        "Question" => "?",
        "RightBrace" => "}",
        "RightBracket" => "]",
        "RightParen" => ")",
        "Semicolon" => ";",
        "TildeArrow" => "~>",
        _ => "",
    };
    if !symbol.is_empty() {
        return format!("\"{symbol}\"");
    }
    // A name, a text or a number: `Identifier("b")`, `Number(2.0)`.
    match token
        .split_once('(')
        .map(|(kind, rest)| (kind, rest.trim_end_matches(')')))
    {
        Some(("Number", number)) => number.trim_end_matches(".0").to_owned(),
        Some((_, text)) => format!("\"{}\"", text.trim_matches('"')),
        None => format!("\"{token}\""),
    }
}

/// Why an expression that calls these functions cannot be evaluated.
pub(super) fn of_evaluator(error: &EvaluatorError, calls: &[SmolStr]) -> Failure {
    let message = error.message();
    match (error.code(), message.split_once(": ")) {
        (Some(code), Some((_, rest))) => Failure {
            code: code.into(),
            ..Failure::error(reworded(code, rest, calls))
        },
        _ => Failure::error(message),
    }
}

/// The message in the words of the reference implementation, where the library's differ.
fn reworded(code: &str, message: &str, calls: &[SmolStr]) -> String {
    match code {
        "T0410" => mismatch(message, calls).unwrap_or_else(|| message.to_owned()),
        // An operator stands in quotes.
        "T2001" | "T2002" | "T2009" | "T2010" => {
            let quoted = message.split(' ').map(|word| {
                let is_operator =
                    matches!(word, "+" | "-" | "*" | "/" | "%" | "<" | ">" | "<=" | ">=");
                if is_operator {
                    format!("\"{word}\"")
                } else {
                    word.to_owned()
                }
            });
            quoted.collect::<Vec<_>>().join(" ")
        }
        "T1006" => message.split(": $").next().unwrap_or(message).to_owned(),
        "D3030" => match message
            .strip_prefix("Cannot convert '")
            .and_then(|m| m.strip_suffix("' to number"))
        {
            Some(value) => format!("Unable to cast value to a number: \"{value}\""),
            None => message.to_owned(),
        },
        _ => message.to_owned(),
    }
}

/// `Argument 1 must be String`: the library does not name the function, so each that is called may
/// be meant.
fn mismatch(message: &str, calls: &[SmolStr]) -> Option<String> {
    let (argument, _) = message.strip_prefix("Argument ")?.split_once(" must be ")?;
    let names: Vec<_> = calls.iter().map(|name| format!("\"{name}\"")).collect();
    let names = names.join(" or ");
    Some(format!(
        "Argument {argument} of function {names} does not match function signature"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_errors_have_the_wording_of_the_reference_implementation() {
        for (text, library, reference) in [
            (
                "(1",
                "S0203: Expected RightParen before end of expression",
                r#"Expected ")" before end of expression"#,
            ),
            (
                "$foo( ",
                "S0207: Unexpected end of expression",
                r#"Expected ")" before end of expression"#,
            ),
            (
                "a +",
                "S0207: Unexpected end of expression",
                "Unexpected end of expression",
            ),
            (
                "@",
                "S0211: The symbol At cannot be used as a unary operator",
                r#"The symbol "@" cannot be used as a unary operator"#,
            ),
            (
                "{a b}",
                r#"S0202: Expected Colon, got Identifier("b")"#,
                r#"Expected ":", got "b""#,
            ),
            (
                "1 2",
                "Invalid syntax: S0201: Syntax error: Number(2.0)",
                "Syntax error: 2",
            ),
            (
                "!",
                "S0204: Unknown operator: !",
                r#"Unknown operator: "!""#,
            ),
        ] {
            assert_eq!(of_parser(text, library).message, reference, "{text}");
        }
    }

    #[test]
    fn a_wrong_argument_names_the_functions_that_may_have_got_it() {
        let error = EvaluatorError::TypeError("T0410: Argument 1 must be String".into());
        let message = |calls: &[&str]| {
            let calls: Vec<SmolStr> = calls.iter().map(SmolStr::new).collect();
            of_evaluator(&error, &calls).message
        };
        assert_eq!(
            message(&["trim"]),
            r#"Argument 1 of function "trim" does not match function signature"#
        );
        assert_eq!(
            message(&["trim", "uppercase"]),
            r#"Argument 1 of function "trim" or "uppercase" does not match function signature"#
        );
    }
}
