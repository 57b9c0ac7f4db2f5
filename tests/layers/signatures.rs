//! The signatures of functions: values are passed one by one, or in a struct that names them.

use std::fs;
use std::path::Path;

/// Splits a list in brackets, and returns its parts and the code after it. `list` begins after the
/// bracket that opens it. `None`: it has no end.
fn split_list(list: &str) -> Option<(Vec<&str>, &str)> {
    let (mut parts, mut begin, mut depth, mut before) = (Vec::new(), 0, 0, ' ');
    for (at, c) in list.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            // The end of an arrow closes nothing.
            '>' if before == '-' => {}
            ')' | ']' | '}' | '>' if depth == 0 => {
                parts.push(&list[begin..at]);
                return Some((parts, &list[at + 1..]));
            }
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    None
}

/// Returns the type of a parameter; `None`: it is `self`.
fn find_type(parameter: &str) -> Option<&str> {
    let mut depth = 0;
    let colon = parameter.char_indices().find(|(at, c)| {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        // A double colon is of a path.
        let is_double = parameter[..*at].ends_with(':') || parameter[at + 1..].starts_with(':');
        *c == ':' && depth == 0 && !is_double
    });
    colon.map(|(at, _)| parameter[at + 1..].trim())
}

/// Returns whether a type is a tuple or a reference to one.
fn is_tuple(name: &str) -> bool {
    let mut name = name.trim_start_matches('&');
    if name.starts_with('\'') {
        name = name.split_once(' ').map_or(name, |(_, name)| name);
    }
    let name = name.strip_prefix("mut ").unwrap_or(name);
    let inside = name.strip_prefix('(').and_then(split_list);
    inside.is_some_and(|(parts, _)| parts.len() > 1)
}

/// Returns the functions of some code that have a tuple among their parameters, each with its line.
fn find_functions_with_tuples(code: &str) -> Vec<(usize, &str)> {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let rest = code[at + 3..].trim_start();
        let (name, mut rest) = rest.split_at(rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()));
        if name.is_empty() || code[..at].ends_with(is_of_name) {
            continue;
        }
        if let Some(generics) = rest.strip_prefix('<') {
            rest = split_list(generics).map_or("", |(_, rest)| rest);
        }
        let parameters = rest.strip_prefix('(').and_then(split_list);
        let mut parameters = parameters.into_iter().flat_map(|(parts, _)| parts);
        if parameters.any(|parameter| find_type(parameter).is_some_and(is_tuple)) {
            found.push((code[..at].matches('\n').count() + 1, name));
        }
    }
    found
}

#[test]
fn no_function_takes_a_tuple() {
    let mut files = Vec::new();
    for root in ["src", "crates", "tests"] {
        super::walk(Path::new(root), &mut files);
    }
    files.sort();
    let mut wrong = Vec::new();
    for path in &files {
        let text = fs::read_to_string(path).unwrap();
        // Comments in a signature may have brackets of their own.
        let code = text.lines().map(|line| match line.trim_start() {
            comment if comment.starts_with("//") => "",
            _ => line,
        });
        let code = code.collect::<Vec<_>>().join("\n");
        for (line, name) in find_functions_with_tuples(&code) {
            wrong.push(format!("{}:{line} {name}", path.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "functions with a tuple as a parameter; pass its values one by one, or a struct with names:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn tuples_are_found_in_signatures() {
    // Without `fn`: the other test reads this file too.
    let signatures = [
        "a(x: u8, (y, z): (u8, u8)) {}",
        "b<T: Fn(u8) -> u8>(f: fn(u8) -> u8, x: &'a mut (u8, T)) {}",
        "c(&self, (x, y): &(A, B)) {}",
        "d(x: &(dyn Fn(u8, u8) + Send), y: (), z: Vec<(u8, u8)>) -> (u8, u8) {}",
        "e(Piece(x, y): Piece, z: impl Fn((u8, u8)) -> u8, s: [(u8, u8); 2]) {}",
        "f(self, x: a::B<C, D>, y: <T as U<V, W>>::X) {}",
    ];
    let code: String = signatures.map(|line| format!("fn {line}\n")).concat();
    let found = find_functions_with_tuples(&code);
    assert_eq!(found, [(1, "a"), (2, "b"), (3, "c")]);
}
