//! Properties that hold for every path.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a check: it may panic"
)]

use crate::{Key, Path, Value, json as text};

/// The largest index that is tried: writing to it makes an array that long.
const MAX_INDEX: usize = 1 << 12;

/// A value written at a path is read there, and nothing of it is left after deletion.
pub fn expression(data: &[u8]) {
    let Ok(path) = std::str::from_utf8(data) else {
        return;
    };
    let parsed = (Path::parse(path), Path::parse_message(path));
    let (Ok(path), Ok(_)) = parsed else { return };
    let too_long = |key: &Key| matches!(key, Key::Index(index) if *index > MAX_INDEX);
    if path.is_nested() || path.keys().iter().any(too_long) {
        return;
    }
    let mut root = text::parse("{}").unwrap();
    assert!(
        path.write(&mut root, Value::from("found")).unwrap(),
        "{path}"
    );
    assert_eq!(path.read(&root).as_str(), Some("found"), "{path}");
    assert_eq!(path.try_read(&root).unwrap().as_str(), Some("found"));
    path.write(&mut root, Value::Undefined).unwrap();
    assert!(path.read(&root).is_undefined(), "{path}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn fuzz_checks_pass_on_seeds_and_random_input() {
        testing::inputs::check_all(&[("expression", super::expression)]);
    }
}
