//! Translates errors into V8's words: flows compare them, and people search for them. `QuickJS`
//! finds the same errors and words them differently. Only errors that leave a function are
//! reworded; `error.message` inside the code stays as it is.

/// V8's message for the error; `at` is the line of the user's source where it happened, and the
/// column.
pub(super) fn of_v8(message: &str, at: Option<(&str, usize)>) -> Option<String> {
    let between = |start: &str, end: &str| message.strip_prefix(start)?.strip_suffix(end);
    for nothing in ["undefined", "null"] {
        if let Some(name) = between("cannot read property '", &format!("' of {nothing}")) {
            return Some(format!(
                "Cannot read properties of {nothing} (reading '{name}')"
            ));
        }
        if let Some(name) = between("cannot set property '", &format!("' of {nothing}")) {
            return Some(format!(
                "Cannot set properties of {nothing} (setting '{name}')"
            ));
        }
    }
    if between("'", "' is read-only").is_some() {
        return Some("Assignment to constant variable.".to_owned());
    }
    if let Some(name) = message.strip_suffix(" is not initialized") {
        return Some(format!("Cannot access '{name}' before initialization"));
    }
    if let Some((json, place)) = message.rsplit_once(" (line ")
        && json.contains("JSON")
        && place.contains(" column ")
    {
        return Some(json.to_owned());
    }
    let called = || at.and_then(|(line, column)| callee(line, column));
    let known = match message {
        "not a function" | "not a constructor" => {
            let (line, column) = at?;
            let name = callee(line, column)?;
            let is_new = line
                .get(..line.find(name)?)
                .is_some_and(|b| b.trim_end().ends_with("new"));
            let kind = if is_new { "constructor" } else { "function" };
            return Some(format!("{name} is not a {kind}"));
        }
        "class constructors must be invoked with 'new'" => {
            return Some(format!(
                "Class constructor {} cannot be invoked without 'new'",
                called()?
            ));
        }
        "invalid array length" => "Invalid array length",
        "expecting hex digit" | "expecting %" | "malformed UTF-8" => "URI malformed",
        "cannot convert BigInt to number" => {
            "Cannot mix BigInt and other types, use explicit conversions"
        }
        "empty array" => "Reduce of empty array with no initial value",
        "cannot convert symbol to string" => "Cannot convert a Symbol value to a string",
        "invalid 'instanceof' right operand" => "Right-hand side of 'instanceof' is not an object",
        "toFixed() argument must be between 0 and 100" | "invalid number of digits" => {
            "toFixed() digits argument must be between 0 and 100"
        }
        _ => return None,
    };
    Some(known.to_owned())
}

/// The function called at a column, counted from 1: the names before the first parenthesis from
/// there on.
fn callee(line: &str, column: usize) -> Option<&str> {
    let from = line
        .char_indices()
        .nth(column.saturating_sub(1))
        .map_or(line.len(), |(at, _)| at);
    let ahead = line.get(from..)?.find('(').map(|at| from + at);
    let end = ahead.or_else(|| line.get(..from)?.rfind('('))?;
    let before = line.get(..end)?.trim_end();
    let start = before
        .rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.')))
        .map_or(0, |at| at + 1);
    before
        .get(start..)
        .filter(|name| !name.is_empty() && *name != "new")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quickjs_messages_become_v8_messages() {
        let at = Some(("  let x = msg.payload.foo(1)", 11));
        for (quickjs, v8) in [
            (
                "cannot read property 'b' of undefined",
                "Cannot read properties of undefined (reading 'b')",
            ),
            (
                "cannot set property 'b' of null",
                "Cannot set properties of null (setting 'b')",
            ),
            ("not a function", "msg.payload.foo is not a function"),
            ("'x' is read-only", "Assignment to constant variable."),
            (
                "a is not initialized",
                "Cannot access 'a' before initialization",
            ),
            ("invalid array length", "Invalid array length"),
            (
                "Expected property name or '}' in JSON at position 1 (line 1 column 2)",
                "Expected property name or '}' in JSON at position 1",
            ),
        ] {
            assert_eq!(of_v8(quickjs, at).as_deref(), Some(v8));
        }
        assert_eq!(of_v8("my own text", at), None);
        assert_eq!(of_v8("not a function", None), None);
    }

    #[test]
    fn the_callee_is_found_from_any_column_of_the_call() {
        for column in [1, 3, 6] {
            assert_eq!(callee("a.bcd(1)", column), Some("a.bcd"));
        }
        assert_eq!(callee("(x => x)()", 9), None);
        assert_eq!(callee("", 5), None);
    }
}
